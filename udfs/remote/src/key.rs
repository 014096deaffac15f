//! The secret of an endpoint: leaves this type only as a header that hides itself.

use std::fmt;

use reqwest::header::HeaderValue;

/// A secret that neither `Debug` nor an error shows.
#[derive(Clone)]
pub struct Key {
    secret: String,
    header: HeaderValue,
}

impl Key {
    /// None if the text is empty or cannot stand in a header.
    pub fn parse(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let mut header = HeaderValue::from_str(&format!("Bearer {secret}")).ok()?;
        header.set_sensitive(true);
        (!secret.is_empty()).then(|| Self { secret: secret.to_owned(), header })
    }

    /// The value of `Authorization`.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// A text of the server's with the secret blacked out, should it repeat it.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.secret, "***")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_secret() {
        let key = Key::parse(" sk-secret\n").unwrap();
        assert_eq!(key.header().to_str().unwrap(), "Bearer sk-secret");
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        assert_eq!(key.redact("bad key sk-secret!"), "bad key ***!");
    }

    #[test]
    fn texts_that_are_no_key() {
        for text in ["", "  ", "a\nb", "a\0b"] {
            assert!(Key::parse(text).is_none(), "{text:?}");
        }
    }
}
