//! Connections to the origin: TCP, and TLS over it where the origin's URL says so.

use crate::config::Config;
use crate::operate::notes::Notes;
use crate::origin::origin_tls_error::OriginTlsError;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use serving::tls::{TlsFileError, TlsFileReason, certificates, provider};
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// TLS towards the origin.
#[derive(Clone)]
pub(crate) struct OriginTls {
    connector: TlsConnector,
    /// The name that its certificate has to be for.
    name: ServerName<'static>,
    is_http2: bool,
}

impl fmt::Debug for OriginTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginTls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OriginTls {
    /// As the configuration says; none for an origin without TLS.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, TlsFileError> {
        let Some(name) = config.origin.server_name() else { return Ok(None) };
        let roots = match &config.origin_ca {
            Some(file) => roots_of(file)?,
            None => roots_of_system()?,
        };
        let client = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let mut client =
            client.expect("the versions are those of the provider").with_root_certificates(roots).with_no_client_auth();
        let protocol: &[u8] = if config.origin_http2 { b"h2" } else { b"http/1.1" };
        client.alpn_protocols = vec![protocol.to_vec()];
        Ok(Some(Self { connector: TlsConnector::from(Arc::new(client)), name, is_http2: config.origin_http2 }))
    }

    async fn connect(self, stream: TcpStream) -> Result<Box<TlsStream<TcpStream>>, BoxError> {
        let stream = self.connector.connect(self.name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
                Some(error) => OriginTlsError::Tls(error.clone()).into(),
                None => BoxError::from(error),
            }
        })?;
        if self.is_http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(OriginTlsError::NoHttp2.into());
        }
        Ok(Box::new(stream))
    }
}

/// Only these authorities are trusted.
fn roots_of(file: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let bad = |error: Error| TlsFileError::new(file, TlsFileReason::BadCertificate(error.to_string()));
        roots.add(certificate).map_err(bad)?;
    }
    Ok(roots)
}

/// Those that the system trusts. Its bundle may have some that nobody can read.
fn roots_of_system() -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(TlsFileError::new(Path::new("--origin"), TlsFileReason::NoAuthorities));
    }
    Ok(roots)
}

/// Opens connections to the origin.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<OriginTls>,
    /// How long TCP, and then TLS, may take.
    within: Duration,
    notes: Arc<Notes>,
}

impl Connector {
    pub(crate) fn new(tls: Option<OriginTls>, within: Duration, notes: Arc<Notes>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(within));
        Self { tcp, tls, within, notes }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { tls, within, notes, .. } = self.clone();
        let connecting = self.tcp.call(uri);
        Box::pin(async move {
            let tcp = connecting.await?.into_inner();
            let Some(tls) = tls else { return Ok(TokioIo::new(Stream::Tcp(tcp))) };
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            let stream = timeout(within, tls.connect(tcp)).await.map_err(late)??;
            notes.origin_tls_again();
            Ok(TokioIo::new(Stream::Tls(stream)))
        })
    }
}

/// A connection to the origin.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
