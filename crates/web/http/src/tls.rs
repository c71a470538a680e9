//! The parts that both sides of TLS share: the cryptography, and reading PEM files that an operator names.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};

/// The largest PEM file that is read, in bytes. A system's bundle of all authorities has some 200 KiB.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// The cryptography of both sides.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Why a file cannot be used for TLS.
#[derive(Debug)]
pub struct TlsFileError {
    file: PathBuf,
    reason: TlsFileReason,
}

/// The reason, which has a name.
#[derive(Debug)]
pub enum TlsFileReason {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is larger than any such file.
    TooLarge,
    /// The file is broken PEM.
    NotPem(pem::Error),
    /// The file has no certificate.
    NoCertificate,
    /// A certificate in the file cannot be parsed.
    BadCertificate(String),
    /// The file has no private key, or one under a passphrase.
    NoKey,
    /// The private key is of a kind that is not supported.
    UnusableKey(String),
    /// The private key is not that of the certificate.
    WrongKey,
    /// The system trusts no authority.
    NoAuthorities,
}

impl TlsFileError {
    /// A file, and what is wrong with it.
    pub fn new(file: &Path, reason: TlsFileReason) -> Self {
        Self { file: file.to_owned(), reason }
    }

    /// The name of the reason.
    pub fn name(&self) -> &'static str {
        match self.reason {
            TlsFileReason::Unreadable(_) => "unreadable",
            TlsFileReason::TooLarge => "too-large",
            TlsFileReason::NotPem(_) => "not-pem",
            TlsFileReason::NoCertificate => "no-certificate",
            TlsFileReason::BadCertificate(_) => "bad-certificate",
            TlsFileReason::NoKey => "no-key",
            TlsFileReason::UnusableKey(_) => "unusable-key",
            TlsFileReason::WrongKey => "wrong-key",
            TlsFileReason::NoAuthorities => "no-authorities",
        }
    }
}

impl fmt::Display for TlsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.file.display(), self.name())?;
        match &self.reason {
            TlsFileReason::Unreadable(error) => write!(f, "{error}"),
            TlsFileReason::TooLarge => write!(f, "expected a PEM file of at most {PEM_BYTES_MAX} bytes"),
            TlsFileReason::NotPem(error) => write!(f, "expected PEM: {error}"),
            TlsFileReason::NoCertificate => f.write_str("expected PEM with '-----BEGIN CERTIFICATE-----'"),
            TlsFileReason::BadCertificate(why) => write!(f, "a certificate in it cannot be read: {why}"),
            TlsFileReason::NoKey => {
                f.write_str("expected PEM with '-----BEGIN PRIVATE KEY-----', without a passphrase")
            }
            TlsFileReason::UnusableKey(why) => {
                write!(f, "expected a key for RSA (2048 bits or more), ECDSA (P-256, P-384) or Ed25519: {why}")
            }
            TlsFileReason::WrongKey => f.write_str(
                "it is not the key of the certificate: expected that of the first certificate in the other file",
            ),
            TlsFileReason::NoAuthorities => f.write_str(
                "this system trusts no authorities: install its ca-certificates, or name a file with --origin-ca",
            ),
        }
    }
}

impl std::error::Error for TlsFileError {}

/// Reads a file whole, if it is of a size that such a file has.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsFileError> {
    let unreadable = |error| TlsFileError::new(file, TlsFileReason::Unreadable(error));
    let mut bytes = Vec::new();
    File::open(file).map_err(unreadable)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(TlsFileError::new(file, TlsFileReason::TooLarge));
    }
    Ok(bytes)
}

/// All certificates in a file, of which there is at least one.
///
/// # Errors
/// A file that cannot be read, and one without certificates.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let bytes = read(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| TlsFileError::new(file, TlsFileReason::NotPem(error)))?;
    if certificates.is_empty() {
        return Err(TlsFileError::new(file, TlsFileReason::NoCertificate));
    }
    Ok(certificates)
}
