//! The base URL, taken apart once.

use reqwest::Url;

use crate::error::OpenError;

/// The addresses of an endpoint's interfaces.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without a slash at its end.
    base: String,
}

impl Place {
    /// Errors: not http or https, no host, or with credentials, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let refused = |reason: &str| Err(OpenError::BaseUrl { reason: reason.to_owned() });
        let url = match Url::parse(text.trim()) {
            Ok(url) => url,
            Err(error) => return refused(&format!("is no URL ({error})")),
        };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return refused("is not `http://…` or `https://…`");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("has credentials in it; put the key into a variable (`key_env`)");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refused("has a query or a fragment");
        }
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned() })
    }

    /// The address of an interface, for example `chat/completions`.
    pub fn url(&self, interface: &str) -> String {
        format!("{}/{interface}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for base in ["http://h:8000/v1", "http://h:8000/v1/", " http://h:8000/v1//"] {
            assert_eq!(
                Place::parse(base).unwrap().url("embeddings"),
                "http://h:8000/v1/embeddings"
            );
        }
        assert_eq!(Place::parse("https://h").unwrap().url("x/y"), "https://h/x/y");
    }

    #[test]
    fn refused_and_no_secret_repeated() {
        for base in [
            "",
            "h:8000",
            "ftp://h/",
            "http://",
            "http://u:hush@h/v1",
            "http://h/?k=hush",
            "http://h/#a",
        ] {
            let error = Place::parse(base).unwrap_err().to_string();
            assert!(error.contains("`url`") && !error.contains("hush"), "{error}");
        }
    }
}
