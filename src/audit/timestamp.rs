//! Timestamps of RFC 3161: an authority says that a file existed by a certain time.
//!
//! The authority to trust is always given, never taken from the response. Chains and signatures are checked by `webpki`, as
//! for TLS; what a response says about the file is compared here.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use cms::cert::CertificateChoices;
use cms::content_info::ContentInfo;
use cms::signed_data::{SignedData, SignerIdentifier, SignerInfo};
use der::asn1::{ObjectIdentifier, OctetString};
use der::{Any, Decode, Encode, Reader, SliceReader, Tag, Tagged};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};
use sha2::Digest as _;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring};

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const TST_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
/// `id-kp-timeStamping` (1.3.6.1.5.5.7.3.8), the value of its DER.
const TIME_STAMPING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08];
/// Signatures that an authority may have made; none of them uses SHA-1.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    ring::ECDSA_P256_SHA256,
    ring::ECDSA_P256_SHA384,
    ring::ECDSA_P384_SHA256,
    ring::ECDSA_P384_SHA384,
    ring::ED25519,
    ring::RSA_PKCS1_2048_8192_SHA256,
    ring::RSA_PKCS1_2048_8192_SHA384,
    ring::RSA_PKCS1_2048_8192_SHA512,
];

/// Why a response attests nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    #[error("it is not a response of a timestamp authority: {0}")]
    Malformed(String),
    #[error("the authority refused (status {0})")]
    Refused(u8),
    #[error("it is a timestamp of another file")]
    OtherFile,
    #[error("its digest is not SHA-256, SHA-384 or SHA-512")]
    Digest,
    #[error("its signature is not valid")]
    Signature,
    #[error("the certificate of its signer is not one of the given authority for timestamps: {0}")]
    Authority(String),
    #[error("the file of the authority has no certificate in PEM form")]
    NoAuthority,
}

/// A response that was checked: what an authority attests.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The file existed by then.
    pub time: DateTime<Utc>,
    /// The DER of the `TimeStampResp`.
    pub response: Vec<u8>,
}

impl From<der::Error> for TimestampError {
    fn from(error: der::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn malformed(reason: &str) -> TimestampError {
    TimestampError::Malformed(reason.to_owned())
}

impl Stamp {
    /// Checks `response`, the DER of a `TimeStampResp`, against the bytes of the file and the certificates (PEM) of the
    /// authority that is trusted.
    ///
    /// # Errors
    ///
    /// If it is not a response about this file that the authority signed.
    pub fn verified(
        response: Vec<u8>,
        file: &[u8],
        authority: &[u8],
    ) -> Result<Self, TimestampError> {
        let time = time_of(&response, file, authority)?;
        Ok(Self { time, response })
    }
}

/// The time that the authority attests for the file.
fn time_of(
    response: &[u8],
    file: &[u8],
    authority: &[u8],
) -> Result<DateTime<Utc>, TimestampError> {
    let signed = signed_data(response)?;
    let content = &signed.encap_content_info;
    let info = content.econtent.as_ref().filter(|_| content.econtent_type == TST_INFO);
    let info = info.ok_or(malformed("it has no `TSTInfo`"))?.decode_as::<OctetString>()?;
    let info = info.as_bytes();
    let [signer] = signed.signer_infos.0.as_slice() else {
        return Err(malformed("it does not have one signer"));
    };
    let stated = stated(info)?;
    if digest(stated.algorithm, file)? != stated.digest {
        return Err(TimestampError::OtherFile);
    }
    let attributes = signed_attributes(signer, info)?;
    let certificates = certificates(&signed)?;
    let own = certificates.iter().find(|(_, certificate)| is_of(signer, certificate));
    let (der, _) = own.ok_or(malformed("the certificate of its signer is missing"))?;
    let own = EndEntityCert::try_from(der)
        .map_err(|error| TimestampError::Authority(error.to_string()))?;
    let is_valid = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
        own.verify_signature(**algorithm, &attributes, signer.signature.as_bytes()).is_ok()
    };
    if !ALGORITHMS.iter().any(|algorithm| is_valid(&algorithm)) {
        return Err(TimestampError::Signature);
    }
    let others: Vec<CertificateDer<'_>> =
        certificates.iter().map(|(der, _)| der.clone()).filter(|other| other != der).collect();
    chain(&own, &others, authority, stated.time)?;
    Ok(stated.time)
}

/// The token of a response that was granted.
fn signed_data(response: &[u8]) -> Result<SignedData, TimestampError> {
    let mut reader = SliceReader::new(response)?;
    let (status, token) = reader.sequence(|reader| {
        let status = reader.sequence(|status| {
            let number = u8::decode(status)?;
            skip_rest(status)?;
            Ok(number)
        })?;
        let token = match reader.is_finished() {
            true => None,
            false => Some(ContentInfo::decode(reader)?),
        };
        Ok((status, token))
    })?;
    reader.finish(())?;
    // `granted`, and `grantedWithMods`.
    if status > 1 {
        return Err(TimestampError::Refused(status));
    }
    let token = token.filter(|token| token.content_type == SIGNED_DATA);
    Ok(token.ok_or(malformed("it has no signed token"))?.content.decode_as::<SignedData>()?)
}

/// Passes over the values that are left in a sequence.
fn skip_rest<'r>(reader: &mut impl Reader<'r>) -> der::Result<()> {
    while !reader.is_finished() {
        Any::decode(reader)?;
    }
    Ok(())
}

/// What the token says.
struct Stated {
    algorithm: ObjectIdentifier,
    digest: Vec<u8>,
    time: DateTime<Utc>,
}

/// Reads a `TSTInfo` as far as its time.
fn stated(info: &[u8]) -> Result<Stated, TimestampError> {
    let mut reader = SliceReader::new(info)?;
    let (algorithm, digest, time) = reader.sequence(|reader| {
        // Version and policy.
        u8::decode(reader)?;
        ObjectIdentifier::decode(reader)?;
        let (algorithm, digest) = reader.sequence(|imprint| {
            let algorithm = imprint.sequence(|algorithm| {
                let identifier = ObjectIdentifier::decode(algorithm)?;
                skip_rest(algorithm)?;
                Ok(identifier)
            })?;
            Ok((algorithm, OctetString::decode(imprint)?))
        })?;
        // Serial number.
        Any::decode(reader)?;
        let time = Any::decode(reader)?;
        skip_rest(reader)?;
        Ok((algorithm, digest, time))
    })?;
    let is_time = time.tag() == Tag::GeneralizedTime;
    let text = std::str::from_utf8(time.value()).ok().filter(|_| is_time);
    // With fractions of a second, which other uses of this type exclude.
    let time = text.and_then(|text| NaiveDateTime::parse_from_str(text, "%Y%m%d%H%M%S%.fZ").ok());
    let time = time.ok_or(malformed("it names no time"))?.and_utc();
    Ok(Stated { algorithm, digest: digest.into_bytes(), time })
}

/// What the signer signed: attributes, which name the digest of the content.
fn signed_attributes(signer: &SignerInfo, content: &[u8]) -> Result<Vec<u8>, TimestampError> {
    let attributes = signer.signed_attrs.as_ref();
    let attributes = attributes.ok_or(malformed("it has no signed attributes"))?;
    let one = |oid| {
        let found = attributes.iter().find(|attribute| attribute.oid == oid);
        found.and_then(|attribute| attribute.values.get(0))
    };
    let kind = one(CONTENT_TYPE).and_then(|kind| kind.decode_as::<ObjectIdentifier>().ok());
    let named = one(MESSAGE_DIGEST).and_then(|named| named.decode_as::<OctetString>().ok());
    let own = digest(signer.digest_alg.oid, content)?;
    if kind != Some(TST_INFO) || named.is_none_or(|named| named.as_bytes() != own) {
        return Err(TimestampError::Signature);
    }
    Ok(attributes.to_der()?)
}

fn digest(algorithm: ObjectIdentifier, bytes: &[u8]) -> Result<Vec<u8>, TimestampError> {
    match algorithm {
        SHA256 => Ok(sha2::Sha256::digest(bytes).to_vec()),
        SHA384 => Ok(sha2::Sha384::digest(bytes).to_vec()),
        SHA512 => Ok(sha2::Sha512::digest(bytes).to_vec()),
        _ => Err(TimestampError::Digest),
    }
}

/// The certificates of a response, each with its bytes.
fn certificates(
    signed: &SignedData,
) -> Result<Vec<(CertificateDer<'static>, x509_cert::Certificate)>, TimestampError> {
    let all = signed.certificates.iter().flat_map(|all| all.0.iter());
    let usual = all.filter_map(|choice| match choice {
        CertificateChoices::Certificate(certificate) => Some(certificate),
        CertificateChoices::Other(_) => None,
    });
    let with_bytes = |certificate: &x509_cert::Certificate| {
        Ok((CertificateDer::from(certificate.to_der()?), certificate.clone()))
    };
    usual.map(with_bytes).collect()
}

/// Whether a certificate is that of the signer.
fn is_of(signer: &SignerInfo, certificate: &x509_cert::Certificate) -> bool {
    let certificate = &certificate.tbs_certificate;
    match &signer.sid {
        SignerIdentifier::IssuerAndSerialNumber(named) => {
            named.issuer == certificate.issuer && named.serial_number == certificate.serial_number
        }
        SignerIdentifier::SubjectKeyIdentifier(named) => {
            let own = certificate.get::<x509_cert::ext::pkix::SubjectKeyIdentifier>();
            own.is_ok_and(|own| own.is_some_and(|(_, own)| own == *named))
        }
    }
}

/// Checks that the certificate leads to one of the authority, was valid at `time`, and is one for timestamps.
fn chain(
    own: &EndEntityCert<'_>,
    others: &[CertificateDer<'_>],
    authority: &[u8],
    time: DateTime<Utc>,
) -> Result<(), TimestampError> {
    let roots: Vec<CertificateDer<'_>> =
        CertificateDer::pem_slice_iter(authority).filter_map(Result::ok).collect();
    let anchors: Vec<_> =
        roots.iter().filter_map(|root| anchor_from_trusted_cert(root).ok()).collect();
    if anchors.is_empty() {
        return Err(TimestampError::NoAuthority);
    }
    let seconds =
        u64::try_from(time.timestamp()).map_err(|_| malformed("its time is before 1970"))?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let usage = KeyUsage::required(TIME_STAMPING);
    own.verify_for_usage(ALGORITHMS, &anchors, others, time, usage, None, None)
        .map_err(|error| TimestampError::Authority(error.to_string()))?;
    Ok(())
}
