//! Why there is no TLS to a database.

use std::fmt;
use std::path::PathBuf;
use tokio_rustls::rustls::{CertificateError, Error};

/// Why there is no TLS to a database.
#[derive(Debug)]
pub enum TlsError {
    /// The server has none.
    NotThere,
    /// A file of authorities that cannot be used.
    Authorities(PathBuf, String),
    /// The system trusts nobody.
    NoAuthorities,
    /// The host's name cannot are in a certificate.
    Host(String),
    /// The certificate is refused, or something else goes wrong.
    Handshake(Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str(
                "the server speaks no TLS: set ssl = on there, or use sslmode=disable on a network that you trust",
            ),
            Self::Authorities(file, why) => {
                write!(f, "{}: {why}: expected PEM with the certificates of authorities", file.display())
            }
            Self::NoAuthorities => f.write_str(
                "this system trusts no authorities: install its ca-certificates, or name a file with sslrootcert",
            ),
            Self::Host(host) => write!(f, "no certificate is for '{host}': name a host, or use sslmode=verify-ca"),
            Self::Handshake(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => f.write_str(
                "its certificate is from no authority that is trusted: name the authority's file with sslrootcert",
            ),
            Self::Handshake(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for TlsError {}
