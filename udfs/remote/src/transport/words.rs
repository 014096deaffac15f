//! What a server says about a failure, made fit for a message.

use serde_json::Value;

use crate::key::Key;

/// Most characters that are quoted.
const QUOTED_MAX: usize = 300;

/// The server's words about an error: its message where the body has one, otherwise the body.
pub fn of_body(body: &[u8], key: Option<&Key>) -> String {
    let text = String::from_utf8_lossy(body);
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|value| message(&value));
    quote(message.as_deref().unwrap_or(&text), key)
}

/// The machine-readable code of an error (`error.code`, or `error.type` without one).
pub fn code(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let text = |name| error.get(name).and_then(Value::as_str).map(str::to_owned);
    text("code").or_else(|| text("type"))
}

/// One line, without the key, at most 300 characters.
pub fn quote(text: &str, key: Option<&Key>) -> String {
    let text = key.map_or_else(|| text.to_owned(), |key| key.redact(text));
    let line = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = line.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no explanation".to_owned(),
        None => line,
    }
}

/// `error.message`, `error`, `message` or `detail`, whichever servers use.
fn message(value: &Value) -> Option<String> {
    let error = value.get("error");
    let places = [error.and_then(|error| error.get("message")), error];
    let places = places.into_iter().chain(["message", "detail"].map(|name| value.get(name)));
    places.flatten().find(|place| !place.is_null()).map(|place| match place {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_found_wherever_servers_put_it() {
        for (body, said) in [
            (r#"{"error": {"message": "too\nlong", "code": 7}}"#, "too long"),
            (r#"{"error": "nope"}"#, "nope"),
            (r#"{"detail": "Unexpected fields"}"#, "Unexpected fields"),
            (r#"{"message": "hm"}"#, "hm"),
            (r#"{"error": null, "message": "hm"}"#, "hm"),
            (r#"{"detail": [{"loc": 1}]}"#, r#"[{"loc":1}]"#),
            ("<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
            ("", "no explanation"),
        ] {
            assert_eq!(of_body(body.as_bytes(), None), said);
        }
    }

    #[test]
    fn long_words_are_cut_and_the_key_is_hidden() {
        let key = Key::parse("sk-1").unwrap();
        let said = quote(&format!("key sk-1 {}", "é".repeat(400)), Some(&key));
        assert!(said.starts_with("key *** é") && said.ends_with('…'));
        assert_eq!(said.chars().count(), QUOTED_MAX + 1);
    }

    #[test]
    fn codes() {
        assert_eq!(
            code(br#"{"error": {"code": "insufficient_quota"}}"#).unwrap(),
            "insufficient_quota"
        );
        assert_eq!(code(br#"{"error": {"code": null, "type": "t"}}"#).unwrap(), "t");
        assert_eq!(code(b"no json"), None);
    }
}
