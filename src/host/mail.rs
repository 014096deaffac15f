//! Sends a message to people by electronic mail: to one server, once, encrypted unless the user says otherwise.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use proofmill_schedule::alerts::{Encryption, Mail};

use crate::host::post::{Guard, public_addresses};
use proofmill_base::error::{Error, ErrorKind, Result};

/// How long an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a text to the receivers of `mail`, with the user and the password that the server wants, if it wants any.
///
/// # Errors
///
/// If an address is none, the name of the server leads to an address that may not be reached, or the server does not take it.
pub async fn send(
    mail: &Mail,
    login: Option<(String, String)>,
    subject: &str,
    text: String,
) -> Result<()> {
    let message = message(mail, subject, text)?;
    let guard = if mail.allow_private { Guard::None } else { Guard::PublicOnly };
    let port = mail.port.unwrap_or(mail.encryption.port());
    let failed = |reason: String| {
        let message = format!("`{}` did not take the message: {reason}", mail.server);
        Error::new(ErrorKind::Resources, message).with_hint("sending it again does no harm")
    };
    // Looked up once: the certificate is that of the name, whatever the address.
    let addresses = public_addresses(&mail.server, port, guard).await?;
    let parameters =
        || TlsParameters::new(mail.server.clone()).map_err(|error| failed(error.to_string()));
    let mut last = failed("its name leads nowhere".to_owned());
    for address in addresses {
        let tls = match mail.encryption {
            Encryption::Starttls => Tls::Required(parameters()?),
            Encryption::Tls => Tls::Wrapper(parameters()?),
            Encryption::None => Tls::None,
        };
        let server = address.ip().to_string();
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server)
            .port(port)
            .tls(tls)
            .timeout(Some(TIMEOUT))
            .hello_name(ClientId::Domain("proofmill.invalid".to_owned()));
        if let Some((user, password)) = &login {
            transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
        }
        match transport.build::<Tokio1Executor>().send(message.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) => {
                // What a server said is final; one that cannot be reached may be at another address.
                let is_final = error.status().is_some();
                last = failed(chain(&error));
                if is_final {
                    break;
                }
            }
        }
    }
    Err(last)
}

fn message(mail: &Mail, subject: &str, text: String) -> Result<Message> {
    let mailbox = |address: &str| {
        address.parse::<Mailbox>().map_err(|error| {
            let message = format!("`{address}` is no address of electronic mail: {error}");
            Error::new(ErrorKind::Usage, message)
        })
    };
    let mut message = Message::builder()
        .from(mailbox(&mail.from)?)
        .subject(subject)
        .header(ContentType::TEXT_PLAIN);
    for address in &mail.to {
        message = message.to(mailbox(address)?);
    }
    message.body(text).map_err(|error| {
        Error::new(ErrorKind::Usage, format!("the message cannot be written: {error}"))
    })
}

/// An error with what it came from, without the text of a password.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
