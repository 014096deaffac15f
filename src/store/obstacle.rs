//! What keeps a store from being used as it is named, as determined by the answer of its service;
//! and that answer in one line. `object_store` sorts answers by status only and quotes the
//! service's XML in each cause.

use proofmill_base::styled::printable;

/// Why a place that was named cannot be a store. Asking again gives the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// There is no such bucket or container.
    Absent,
    /// The environment has no credentials, and neither has the machine.
    NoCredentials,
    /// The credentials are not those of anybody.
    Credentials,
    /// The credentials are somebody's who may not do this.
    Permission,
    /// The bucket is in another region, or at another endpoint.
    Region,
    /// The service takes the request for wrong in another way.
    Request,
}

impl Obstacle {
    /// What stands in the way, if the answer will be the same next time. `error` is the answer to the
    /// writing of an object if `writes`: nothing but the bucket can be missing then.
    pub fn of(error: &object_store::Error, writes: bool) -> Option<Self> {
        use object_store::Error as E;
        let text = chain(error);
        let answer = Answer::of(&text);
        match answer.code.as_deref().and_then(Self::of_code) {
            Some(obstacle) => return Some(obstacle),
            None if answer.redirects => return Some(Self::Region),
            None => {}
        }
        match error {
            E::Unauthenticated { .. } => Some(Self::Credentials),
            E::PermissionDenied { .. } => Some(Self::Permission),
            E::NotFound { .. } if writes => Some(Self::Absent),
            E::Generic { .. } if answer.is_request() && asks_the_machine(&text) => {
                Some(Self::NoCredentials)
            }
            E::Generic { .. } if answer.is_request() => Some(Self::Request),
            _ => None,
        }
    }

    /// The same of a first request, which credentials of the machine would have been fetched for.
    pub fn at_opening(error: &object_store::Error, writes: bool) -> Option<Self> {
        let machine = || asks_the_machine(&chain(error)).then_some(Self::NoCredentials);
        Self::of(error, writes).or_else(machine)
    }

    /// The codes of S3, Google Cloud Storage (whose API of XML this is) and Azure.
    fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted" => Self::Absent,
            "AuthenticationFailed"
            | "ExpiredToken"
            | "InvalidAccessKeyId"
            | "InvalidSecurity"
            | "InvalidToken"
            | "SignatureDoesNotMatch"
            | "TokenRefreshRequired" => Self::Credentials,
            "AccessDenied"
            | "AccountProblem"
            | "AuthorizationFailure"
            | "AuthorizationPermissionMismatch" => Self::Permission,
            "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "PermanentRedirect"
            | "TemporaryRedirect" => Self::Region,
            _ => return None,
        })
    }

    /// What is wrong with the place `bucket`.
    pub fn reason(self, bucket: &str) -> String {
        match self {
            Self::Absent => format!("there is no bucket or container `{bucket}`"),
            Self::NoCredentials => format!("there are no credentials for `{bucket}`"),
            Self::Credentials => format!("the credentials are not accepted for `{bucket}`"),
            Self::Permission => format!("the credentials may not read and write `{bucket}`"),
            Self::Region => format!("`{bucket}` is in another region or at another endpoint"),
            Self::Request => format!("the service does not accept the request for `{bucket}`"),
        }
    }

    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::Absent => {
                "create it first, or correct the name in `--store` or the endpoint in the environment"
            }
            Self::NoCredentials => {
                "set a key in the environment: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, \
                 `GOOGLE_SERVICE_ACCOUNT` or `AZURE_STORAGE_ACCOUNT_KEY`; this machine has none of its own"
            }
            Self::Credentials => {
                "check the key in the environment: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, \
                 `GOOGLE_SERVICE_ACCOUNT` or `AZURE_STORAGE_ACCOUNT_KEY`"
            }
            Self::Permission => {
                "a store needs the permission to read, write, delete and list objects below its prefix"
            }
            Self::Region => {
                "set `AWS_REGION` to the region of the bucket, and `AWS_ENDPOINT_URL` only for a service \
                 of your own"
            }
            Self::Request => {
                "check the name of the bucket and the region and endpoint in the environment"
            }
        }
    }
}

/// Whether a request went to where machines of a cloud find their credentials: clients ask there when the
/// environment has none.
fn asks_the_machine(text: &str) -> bool {
    ["//169.254.169.254", "//metadata", "//169.254.170.2"].iter().any(|place| text.contains(place))
}

/// What a service answered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: Option<u16>,
    code: Option<String>,
    message: Option<String>,
    redirects: bool,
}

impl Answer {
    /// The answer that the text of an error quotes.
    fn of(text: &str) -> Self {
        let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
        let element = |name: &str| {
            let inside = after(&format!("<{name}>"))?.split_once("</")?.0;
            Some(printable(inside, false)).filter(|text| !text.is_empty())
        };
        let digits = after("status code: ").and_then(|rest| rest.get(..3));
        let status: Option<u16> = digits.and_then(|digits| digits.parse().ok());
        let redirects = text.contains("redirect without LOCATION")
            || matches!(status, Some(300..=303 | 305..=399));
        Self { status, code: element("Code"), message: element("Message"), redirects }
    }

    /// Whether the request is to blame, and would be again.
    fn is_request(&self) -> bool {
        matches!(self.status, Some(400..=499))
            && !matches!(self.status, Some(408 | 409 | 425 | 429))
    }
}

/// The answer in one line: status, code and message where the service gave them, and otherwise what the
/// client says.
pub fn service_answer(error: &object_store::Error) -> String {
    let text = chain(error);
    let Answer { status, code, message, .. } = Answer::of(&text);
    let Some(code) = code else { return text };
    let status = status.map(|status| format!("{status} ")).unwrap_or_default();
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    format!("the service answered {status}{code}{message}")
}

/// What an error and its causes say, each once: most repeat the one below.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use object_store::Error as E;

    use super::*;

    fn answer(status: &str, code: &str) -> String {
        format!(
            "Error performing GET http://127.0.0.1/b/format.json in 1ms - Server returned non-2xx status \
             code: {status}: <?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>It\nis \
             \u{1b}so.</Message><HostId>x</HostId></Error>"
        )
    }

    fn generic(text: String) -> E {
        E::Generic { store: "S3", source: text.into() }
    }

    fn at(text: String) -> (String, Box<dyn std::error::Error + Send + Sync>) {
        ("format.json".to_owned(), text.into())
    }

    #[test]
    fn answers_that_do_not_change_are_distinguished_from_others() {
        let missing = |code| {
            let (path, source) = at(answer("404 Not Found", code));
            E::NotFound { path, source }
        };
        let denied = |code| {
            let (path, source) = at(answer("403 Forbidden", code));
            E::PermissionDenied { path, source }
        };
        for (error, writes, expected) in [
            (missing("NoSuchBucket"), false, Some(Obstacle::Absent)),
            (missing("NoSuchKey"), false, None),
            (missing("NoSuchKey"), true, Some(Obstacle::Absent)),
            (denied("AccessDenied"), false, Some(Obstacle::Permission)),
            (denied("InvalidAccessKeyId"), false, Some(Obstacle::Credentials)),
            (denied("Unheard"), true, Some(Obstacle::Permission)),
            (
                generic(answer("400 Bad Request", "AuthorizationHeaderMalformed")),
                false,
                Some(Obstacle::Region),
            ),
            (
                generic(answer("400 Bad Request", "InvalidBucketName")),
                false,
                Some(Obstacle::Request),
            ),
            (
                generic("Server returned non-2xx status code: 301 Moved: ".into()),
                false,
                Some(Obstacle::Region),
            ),
            (
                generic("Received redirect without LOCATION, this normally".into()),
                true,
                Some(Obstacle::Region),
            ),
            (generic(answer("503 Service Unavailable", "SlowDown")), true, None),
            (generic(answer("429 Too Many Requests", "SlowDown")), true, None),
            (generic("connection refused".into()), true, None),
            (
                generic(
                    "PUT http://169.254.169.254/latest - status code: 403 Forbidden: no".into(),
                ),
                true,
                Some(Obstacle::NoCredentials),
            ),
            // It may answer later; a store that is open had credentials once.
            (generic("PUT http://169.254.169.254/latest - timed out".into()), true, None),
        ] {
            assert_eq!(Obstacle::of(&error, writes), expected, "{error}");
        }
    }

    #[test]
    fn an_answer_is_reported_once_and_in_one_line() {
        let error = generic(answer("503 Service Unavailable", "SlowDown"));
        assert_eq!(service_answer(&error), "the service answered 503 SlowDown: It⏎is \\u{1b}so.");
        let error = generic("reset by peer".to_owned());
        assert_eq!(service_answer(&error).matches("reset by peer").count(), 1);
    }
}
