//! Secrets in addresses: found, so that they can be refused, and covered, so that nothing prints them.

use std::borrow::Cow;

use url::Url;

/// What stands for a secret.
const COVER: u8 = b'*';
/// What the names of keys in a query have in them.
const KEYS: [&str; 10] =
    ["key", "token", "secret", "password", "passwd", "pwd", "credential", "auth", "sig", "access"];

/// Why `text`, an address, has something secret in it; never the secret itself.
pub fn of_address(text: &str) -> Option<&'static str> {
    let url = Url::parse(text.trim()).ok();
    let signed_on = |url: &Url| !url.username().is_empty() || url.password().is_some();
    // What cannot be read as an address may still have been meant as one.
    let seems_so = || spans(text).iter().any(|it| it.is_user);
    if url.as_ref().map_or_else(seems_so, signed_on) {
        return Some("has credentials in it");
    }
    spans(text).iter().any(|it| !it.is_user).then_some("has a key in its query")
}

/// `text` with every secret of every address in it covered; as many bytes as before, so that places in
/// it stay what they are.
pub fn covered(text: &str) -> Cow<'_, str> {
    let mut covered = Cow::Borrowed(text);
    loop {
        let mut bytes = covered.as_bytes().to_vec();
        for span in spans(&covered) {
            bytes[span.start..span.end].fill(COVER);
        }
        if bytes == covered.as_bytes() {
            return covered;
        }
        // What was covered may have had a `?` in it that hid where the password really ends. Every turn
        // covers more bytes, so there is a last one.
        covered = Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
    }
}

/// A secret's place.
struct Span {
    start: usize,
    end: usize,
    /// Before the host, not in the query.
    is_user: bool,
}

/// The secrets of all addresses in a text: whatever stands between `//` and `@`, and values in a query
/// under names that tell.
fn spans(text: &str) -> Vec<Span> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = next_address(text, at) {
        // An address ends where a white space is: other marks may be part of a password.
        let end = text[start..].find(char::is_whitespace).map_or(text.len(), |end| start + end);
        let address = &text[start..end];
        let query = address.find('?').unwrap_or(address.len());
        let before = address[..query].rfind('@').or_else(|| {
            // A password may have a `?` too, where it is not percent-encoded as an address must be.
            let host_end = address.find('/').unwrap_or(address.len());
            address[..host_end].rfind('@')
        });
        if let Some(user) = before.filter(|user| *user > 0) {
            found.push(Span { start, end: start + user, is_user: true });
        }
        let pairs = address.get(query + 1..).unwrap_or_default();
        let mut pair_start = start + query + 1;
        for pair in pairs.split('&') {
            if let Some((name, value)) = pair.split_once('=') {
                let name_end = pair_start + name.len() + 1;
                let closing = |c| matches!(c, '"' | '\'' | '`' | '}' | ')' | ',' | '#');
                let length = value.find(closing).unwrap_or(value.len());
                let name = name.to_lowercase();
                if length > 0 && KEYS.iter().any(|key| name.contains(key)) {
                    let (start, end) = (name_end, name_end + length);
                    found.push(Span { start, end, is_user: false });
                }
            }
            pair_start += pair.len() + 1;
        }
        at = end;
    }
    found
}

/// Where the next address goes on behind its scheme, also with the slashes escaped as JSON has them.
fn next_address(text: &str, from: usize) -> Option<usize> {
    let marks = ["://", ":\\/\\/"];
    let places = marks.iter().filter_map(|mark| {
        let at = text.get(from..)?.find(mark)?;
        Some(from + at + mark.len())
    });
    places.min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_found_and_covered_wherever_they_stand() {
        let cases = [
            ("http://user:hush@host/v1", "http://*********@host/v1"),
            ("http://hush@host", "http://****@host"),
            (r#"{"url": "http:\/\/u:hush@h"}"#, r#"{"url": "http:\/\/******@h"}"#),
            ("url: http://u:hu@sh@h, b", "url: http://*******@h, b"),
            ("http://h/v1?key=hush", "http://h/v1?key=****"),
            ("`http://h/?a=1&api_key=hush&b=2` is", "`http://h/?a=1&api_key=****&b=2` is"),
            ("s3://b?X-Amz-Signature=hush", "s3://b?X-Amz-Signature=****"),
            ("http://a b http://u:hush@h", "http://a b http://******@h"),
            ("http://u:hush?x@h/v1", "http://********@h/v1"),
            ("http://?@http://@", "http://*********@"),
        ];
        for (text, expected) in cases {
            assert_eq!(covered(text), expected);
        }
        for address in ["http://u:hush@h", "https://u@h/v1", "http://h?token=x"] {
            let why = of_address(address).unwrap();
            assert!(!why.contains("hush"), "{why}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in ["", "http://h:80/v1", "a@b", "http://h/a?page=2", "x ? y : z // @w", "a: //b"]
        {
            assert_eq!(covered(text), text);
            assert_eq!(of_address(text), None, "{text}");
        }
        for address in ["http://h/v1", "https://h/@scope/package", "s3://b/x?versionId=1"] {
            assert_eq!(of_address(address), None, "{address}");
        }
        assert!(of_address("http://u:pass/word@h").is_some());
    }

    proptest! {
        #[test]
        fn covering_never_moves_anything(text in "(http://|[a-z:@?=&/\u{e4}\u{1f600} ]){0,12}") {
            let once = covered(&text).into_owned();
            prop_assert_eq!(once.len(), text.len());
            prop_assert_eq!(covered(&once), once.as_str());
        }
    }
}
