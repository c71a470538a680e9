//! Why there is no TLS with the origin.

use std::fmt;
use std::mem::{Discriminant, discriminant};
use tokio_rustls::rustls::{CertificateError, Error};

/// Why there is no TLS with the origin.
#[derive(Debug)]
pub(crate) enum OriginTlsError {
    Tls(Error),
    /// It has not chosen HTTP/2, which alone it should be asked in.
    NoHttp2,
}

/// The kind of such an error. The texts of errors of one kind may differ in times and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginTlsKind {
    NoHttp2,
    Certificate(Discriminant<CertificateError>),
    Tls(Discriminant<Error>),
}

impl OriginTlsError {
    pub(crate) fn kind(&self) -> OriginTlsKind {
        match self {
            Self::NoHttp2 => OriginTlsKind::NoHttp2,
            Self::Tls(Error::InvalidCertificate(error)) => OriginTlsKind::Certificate(discriminant(error)),
            Self::Tls(error) => OriginTlsKind::Tls(discriminant(error)),
        }
    }

    /// Whether it is the origin's certificate that is refused.
    pub(crate) fn is_certificate(&self) -> bool {
        matches!(self, Self::Tls(Error::InvalidCertificate(_)))
    }
}

impl fmt::Display for OriginTlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                f.write_str("its certificate is from no authority that is trusted: name the authority with --origin-ca")
            }
            // The kind of certificate that `openssl req -x509` makes unless it is told otherwise.
            Self::Tls(Error::InvalidCertificate(error)) if error.to_string().contains("CaUsedAsEndEntity") => f
                .write_str(
                    "its certificate is an authority's own: issue one for the host, with basicConstraints=CA:FALSE",
                ),
            Self::Tls(error) => write!(f, "{error}"),
            Self::NoHttp2 => f.write_str("the origin does not speak HTTP/2 over TLS: leave --origin-http2 out"),
        }
    }
}

impl std::error::Error for OriginTlsError {}
