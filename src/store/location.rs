//! Where a store is, as people write it. Credentials come from the environment only.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use url::Url;

use crate::error::Result;
use crate::{DurableLocal, StoreError};
use proofmill_base::rng::Rng;
use proofmill_base::secret;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A local folder, made when absent.
    Local(PathBuf),
    /// The memory of this process.
    Memory,
    /// A prefix in a bucket of S3 or a compatible service.
    S3 {
        bucket: String,
        /// The prefix, empty for the whole bucket.
        prefix: Path,
    },
    /// A prefix in a bucket of Google Cloud Storage.
    Gcs {
        bucket: String,
        /// The prefix, empty for the whole bucket.
        prefix: Path,
    },
    /// A prefix in a container of Azure Blob Storage.
    Azure {
        container: String,
        /// The prefix, empty for the whole container.
        prefix: Path,
    },
}

/// A store that was opened.
pub(crate) struct Opened {
    /// The objects, rooted at the prefix.
    pub objects: Arc<dyn ObjectStore>,
    /// The same objects, when they are local files.
    pub local: Option<Arc<DurableLocal>>,
    /// Where they are, for people.
    pub url: Url,
}

impl FromStr for Location {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |text: &str, reason: &str| StoreError::Location {
            text: secret::covered(text).into_owned(),
            reason: reason.to_owned(),
        };
        let Some((scheme, _)) = text.split_once("://") else {
            let scheme = |name: &str| text.strip_prefix(name).is_some_and(|t| t.starts_with(':'));
            return match text.trim() {
                "" => Err(wrong(text, "it is empty")),
                _ if ["file", "memory", "s3", "gs", "az"].iter().any(|name| scheme(name)) => {
                    Err(wrong(text, "a scheme must be followed by `://`"))
                }
                _ => Ok(Self::Local(text.into())),
            };
        };
        let url = Url::parse(text).map_err(|error| wrong(text, &error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            let shown = format!("{scheme}://…");
            return Err(wrong(&shown, "credentials and options belong in the environment"));
        }
        let prefix = || {
            let prefix = Path::from_url_path(url.path());
            prefix.map_err(|error| wrong(text, &error.to_string()))
        };
        let host = || match url.host_str() {
            Some(host) if !host.is_empty() => Ok(host.to_owned()),
            _ => Err(wrong(text, "it names no bucket or container")),
        };
        match scheme {
            "file" => match url.to_file_path() {
                Ok(path) => Ok(Self::Local(path)),
                Err(()) => Err(wrong(text, "write `file:///` and an absolute path")),
            },
            "memory" => Ok(Self::Memory),
            "s3" => Ok(Self::S3 { bucket: host()?, prefix: prefix()? }),
            "gs" => Ok(Self::Gcs { bucket: host()?, prefix: prefix()? }),
            "az" => Ok(Self::Azure { container: host()?, prefix: prefix()? }),
            _ => Err(wrong(text, "its scheme is not one of file, memory, s3, gs, az")),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Memory => f.write_str("memory:///"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Gcs { bucket, prefix } => write!(f, "gs://{bucket}/{prefix}"),
            Self::Azure { container, prefix } => write!(f, "az://{container}/{prefix}"),
        }
    }
}

impl Location {
    /// The location as a URL. A relative folder is relative to the current one.
    ///
    /// # Errors
    ///
    /// When the folder is not a path that a URL can hold.
    pub fn url(&self) -> Result<Url> {
        let wrong = |reason: String| StoreError::Location { text: self.to_string(), reason };
        match self {
            Self::Local(path) => {
                let path = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
                Url::from_directory_path(path).map_err(|()| wrong("it is not a usable path".into()))
            }
            _ => Url::parse(&self.to_string()).map_err(|error| wrong(error.to_string())),
        }
    }

    /// The bucket or container, where there is one.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Self::Local(_) | Self::Memory => None,
            Self::S3 { bucket, .. } | Self::Gcs { bucket, .. } => Some(bucket),
            Self::Azure { container, .. } => Some(container),
        }
    }

    pub(crate) fn open(&self, rng: &Arc<dyn Rng>) -> Result<Opened> {
        let failed = |source| StoreError::Open { url: self.to_string(), source };
        let objects: Arc<dyn ObjectStore> = match self {
            Self::Local(path) => {
                let local = Arc::new(DurableLocal::open(path, rng.clone())?);
                let url = Self::Local(local.root().to_owned()).url()?;
                return Ok(Opened { objects: local.clone(), local: Some(local), url });
            }
            Self::Memory => Arc::new(InMemory::new()),
            Self::S3 { bucket, prefix } => {
                let builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_checksum_algorithm(Checksum::SHA256);
                let plain_http = is_http_endpoint(|name| std::env::var(name).ok());
                let builder = if plain_http { builder.with_allow_http(true) } else { builder };
                below(prefix, Arc::new(builder.build().map_err(failed)?))
            }
            Self::Gcs { bucket, prefix } => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
                below(prefix, Arc::new(builder.build().map_err(failed)?))
            }
            Self::Azure { container, prefix } => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
                below(prefix, Arc::new(builder.build().map_err(failed)?))
            }
        };
        Ok(Opened { objects, local: None, url: self.url()? })
    }
}

fn below(prefix: &Path, objects: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    match prefix.as_ref() {
        "" => objects,
        _ => Arc::new(PrefixStore::new(objects, prefix.clone())),
    }
}

/// True when the environment itself names an endpoint without TLS, as for a server on this machine.
fn is_http_endpoint(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .iter()
        .find_map(|name| variable(name))
        .is_some_and(|endpoint| endpoint.starts_with("http://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_locations() {
        let cases = [
            ("store", Location::Local("store".into())),
            ("/a/b c", Location::Local("/a/b c".into())),
            ("file:///a/b%20c", Location::Local("/a/b c".into())),
            ("memory://", Location::Memory),
            ("s3://bucket/a/b/", Location::S3 { bucket: "bucket".into(), prefix: "a/b".into() }),
            ("gs://bucket", Location::Gcs { bucket: "bucket".into(), prefix: "".into() }),
            ("az://box/p", Location::Azure { container: "box".into(), prefix: "p".into() }),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Location>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_accepted_is_said() {
        for text in ["", " ", "ftp://a/b", "s3://", "s3:///a", "file://host/a", "http://a"] {
            let error = text.parse::<Location>().unwrap_err();
            let hint = proofmill_base::error::Error::from(error).hint.unwrap();
            assert!(hint.contains("s3://bucket/prefix"), "{text}: {hint}");
        }
    }

    #[test]
    fn credentials_in_a_location_are_refused_and_not_repeated() {
        for text in ["s3://key:hunter2@bucket/p", "az://box/p?sig=hunter2"] {
            let error = text.parse::<Location>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn plain_http_needs_an_endpoint_that_says_so() {
        let only = |name: &'static str, value: &'static str| {
            move |requested: &str| (requested == name).then(|| value.to_owned())
        };
        assert!(is_http_endpoint(only("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")));
        assert!(!is_http_endpoint(only("AWS_ENDPOINT_URL", "https://s3.example")));
        assert!(!is_http_endpoint(|_| None));
    }
}
