//! Sends JSON to an address that a user named: one message, once, without following redirects.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, ClientBuilder, Url, redirect};

use proofmill_base::error::{Error, ErrorKind, Result};

/// How long an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest part of a refusal that is shown, in characters.
const SHOWN_MAX: usize = 200;
/// Bytes of a refusal that are read.
const READ_MAX: usize = 4 << 10;

/// A client for one address.
#[derive(Debug)]
pub struct Post {
    client: Client,
    url: Url,
    token: Option<String>,
}

impl Post {
    /// A client that sends to `url`, with a bearer token if there is one. Connects to nothing.
    ///
    /// # Errors
    ///
    /// If it is not an address of HTTP, or has a password in it.
    pub fn to(url: &str, token: Option<String>) -> Result<Self> {
        let url = address(url)?;
        let client = client(|builder| builder)?;
        Ok(Self { client, url, token })
    }

    /// A client for an address that not everybody who may write it is trusted with: its name is looked up once, and what is not
    /// reached by that name then is not reached at all. No proxy is used: it would look the name up again.
    ///
    /// # Errors
    ///
    /// As [`Self::to`]; if the name leads to no address, or to one that the guard does not let pass.
    pub async fn guarded(url: &str, guard: Guard) -> Result<Self> {
        let url = address(url)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let found = public_addresses(&host, port, guard).await?;
        let client = client(|builder| builder.no_proxy().resolve_to_addrs(&host, &found))?;
        Ok(Self { client, url, token: None })
    }

    /// Sends one JSON document.
    ///
    /// # Errors
    ///
    /// If the other side does not answer, or not with success.
    pub async fn send(&self, json: String) -> Result<()> {
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let place = self.url.host_str().unwrap_or_default();
        let failed = |reason: String| {
            Error::new(
                ErrorKind::Resources,
                format!("`{place}` did not take what was sent: {reason}"),
            )
            .with_hint("sending all of it again does no harm")
        };
        let mut response = request.body(json).send().await.map_err(|error| {
            // The address itself may hold a secret in its query.
            failed(error.without_url().to_string())
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        // No more is read than is shown, whatever the other side sends.
        let mut bytes = Vec::new();
        while let (true, Ok(Some(piece))) = (bytes.len() < READ_MAX, response.chunk().await) {
            bytes.extend_from_slice(&piece);
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(token) = &self.token {
            text = text.replace(token.as_str(), "…");
        }
        let text: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect();
        Err(failed(format!("{status} {text}")))
    }
}

/// Which addresses a message may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Any.
    None,
    /// Those of the public internet.
    PublicOnly,
}

/// The addresses that the name of a host leads to, all of which the guard lets pass.
///
/// # Errors
///
/// If there is none, or one that may not be reached.
pub async fn public_addresses(host: &str, port: u16, guard: Guard) -> Result<Vec<SocketAddr>> {
    let unknown =
        |why: String| Error::new(ErrorKind::Resources, format!("`{host}` has no address: {why}"));
    // Brackets of IPv6 are not part of the name.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((name, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| unknown(error.to_string()))?.collect();
    if found.is_empty() {
        return Err(unknown("its name leads nowhere".to_owned()));
    }
    let private = found.iter().find(|address| !is_public(address.ip()));
    if let (Guard::PublicOnly, Some(private)) = (guard, private) {
        let message = format!("`{host}` leads to {}, which is no public address", private.ip());
        let hint = "`allow_private: true` lets a receiver be this machine or in its networks";
        return Err(Error::new(ErrorKind::Usage, message).with_hint(hint));
    }
    Ok(found)
}

/// An address of HTTP without a password.
fn address(url: &str) -> Result<Url> {
    let usage = |message: &str| Error::new(ErrorKind::Usage, message.to_owned());
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = parsed.ok_or_else(|| {
        usage("the address to send to is not a URL that begins with `http://` or `https://`")
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(usage("the address to send to has a user or a password in it")
            .with_hint("put the token into the environment variable that the help names"));
    }
    Ok(url)
}

fn client(more: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("proofmill/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .referer(false)
        .timeout(TIMEOUT);
    more(builder).build().map_err(|error| {
        Error::new(ErrorKind::Usage, format!("no client for HTTP can be made: {error}"))
    })
}

/// Whether an address is one of the public internet: not of this machine, a private network, a provider's metadata, or a reserved range.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            let [first, second, third, ..] = address.segments();
            // Addresses that lead to one of IPv4: mapped, compatible, translated, 6to4.
            let inner = match (first, second) {
                (0, 0) | (0x64, 0xff9b) => {
                    let [.., a, b, c, d] = address.octets();
                    Some(Ipv4Addr::new(a, b, c, d))
                }
                (0x2002, _) => {
                    let [a, b] = second.to_be_bytes();
                    let [c, d] = third.to_be_bytes();
                    Some(Ipv4Addr::new(a, b, c, d))
                }
                _ => None,
            };
            // The range from which public addresses are given out, less those for documents, tunnels and tests.
            let is_given_out = first & 0xe000 == 0x2000
                && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
                && first != 0x3fff;
            inner.map_or(is_given_out, is_public_v4)
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    // RFC 6890: this network, private, shared, local, tests and documents, multicast, reserved.
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "64:ff9b:1::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_the_address_that_is_then_used() {
        let refused = Post::guarded("http://localhost:9/x", Guard::PublicOnly).await.unwrap_err();
        assert!(refused.message.contains("no public address"), "{refused}");
        for url in [
            "http://169.254.169.254/latest",
            "http://[::1]/",
            "http://0x7f.1/",
            "http://2130706433/",
        ] {
            let refused = Post::guarded(url, Guard::PublicOnly).await.unwrap_err();
            assert!(refused.message.contains("no public address"), "{url}: {refused}");
        }
        Post::guarded("http://127.0.0.1:9/", Guard::None).await.unwrap();
    }
}
