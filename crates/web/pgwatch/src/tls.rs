//! TLS to a database, as `sslmode` asks for it.
//!
//! | mode | what is checked |
//! |---|---|
//! | `require` | nothing: nobody on the way can read along, but somebody on the way can be the server |
//! | `verify-ca`, and `require` with a file of authorities | the certificate is from one of the authorities |
//! | `verify-full` | and it is for the host that was asked for |
//!
//! The files are read for each connection, so new ones need no new start.

use crate::error::WatchError;
use crate::tls_error::TlsError;
use postgres_protocol::message::frontend;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// A connection to a database.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How connections are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: TlsMode,
    /// A PEM file of the authorities that are trusted; `None` is those that the system trusts.
    pub(crate) authorities: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    None,
    /// Encrypted, whoever the server is.
    Unchecked,
    /// The certificate is from a trusted authority.
    Authority,
    /// And for this host.
    Full,
}

impl Tls {
    pub(crate) const NONE: Self = Self { mode: TlsMode::None, authorities: None };

    /// The connection behind TLS, if there should be any.
    pub(crate) async fn protect(&self, mut stream: TcpStream, host: &str) -> Result<Box<dyn Stream>, WatchError> {
        if self.mode == TlsMode::None {
            return Ok(Box::new(stream));
        }
        let config = self.client()?;
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            Err(_) if self.mode == TlsMode::Full => return Err(TlsError::Host(host.to_owned()).into()),
            // Nobody looks at it, and the server gets none.
            Err(_) => ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()),
        };
        let mut wants_tls = bytes::BytesMut::new();
        frontend::ssl_request(&mut wants_tls);
        stream.write_all(&wants_tls).await?;
        // No byte more than this one is believed before there is TLS.
        if stream.read_u8().await? != b'S' {
            return Err(TlsError::NotThere.into());
        }
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
                Some(error) => TlsError::Handshake(error.clone()).into(),
                None => WatchError::Io(error),
            }
        })?;
        Ok(Box::new(stream))
    }

    fn client(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Handshake)?;
        let config = match self.mode {
            TlsMode::Full => config.with_root_certificates(self.roots()?),
            TlsMode::Authority => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Lenient { provider, roots: Some(self.roots()?) })),
            TlsMode::Unchecked | TlsMode::None => {
                config.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { provider, roots: None }))
            }
        };
        Ok(config.with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        if let Some(file) = &self.authorities {
            return roots_of(file).map_err(|why| TlsError::Authorities(file.clone(), why));
        }
        let mut roots = RootCertStore::empty();
        // The system's bundle may have some that nobody can read.
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 { Err(TlsError::NoAuthorities) } else { Ok(roots) }
    }
}

/// Only these authorities are trusted.
fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("it has no certificate".to_owned()) } else { Ok(roots) }
}

/// Looks at less of a certificate than there is. That the server has its key is proved in any case.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// The authorities that a certificate has to be from, whatever host it is for; `None` takes any.
    roots: Option<RootCertStore>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
