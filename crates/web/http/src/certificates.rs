//! The certificates by which a server shows clients who it is, and their files, which may change while it runs.
//!
//! New files take the place of the old ones all at once, and only when all of them can be used. Connections that are
//! there keep what they began with.

use crate::tls::{TlsFileError, TlsFileReason, certificates, provider, read};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring::Ticketer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig};

/// How often the files are looked at.
const LOOK_AT_FILES_EVERY: Duration = Duration::from_secs(1);

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the certificate of the server first, then those that lead to an authority.
    pub chain: PathBuf,
    /// PEM: the private key of the first.
    pub key: PathBuf,
}

/// Certificates as they were read from their files.
#[derive(Debug)]
pub struct LoadedCertificates {
    files: Vec<CertificateFiles>,
    keys: Vec<Arc<CertifiedKey>>,
}

impl LoadedCertificates {
    /// Reads all of them.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, TlsFileError> {
        let keys = files.iter().map(|files| certified_key(files).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Self { files: files.to_vec(), keys })
    }
}

/// The certificates of now.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<LoadedCertificates>>);

impl Certificates {
    /// The first.
    pub fn new(loaded: LoadedCertificates) -> Self {
        Self(RwLock::new(Arc::new(loaded)))
    }

    fn now(&self) -> Arc<LoadedCertificates> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows these from now on.
    pub fn set(&self, loaded: LoadedCertificates) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
    }

    /// Takes those that the files have now. If one of them cannot be used, all stay as they were.
    fn reload(&self) -> Result<(), TlsFileError> {
        let before = self.now();
        self.replace(&before, LoadedCertificates::read(&before.files)?);
        Ok(())
    }

    /// Shows these in place of others, unless those have been replaced in the meantime: new settings may name other
    /// files.
    fn replace(&self, before: &Arc<LoadedCertificates>, loaded: LoadedCertificates) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&now, before) {
            *now = Arc::new(loaded);
        }
    }

    /// Starts a thread, named `thread`, that reloads the certificates whenever their files have changed and reports each
    /// outcome, until `stop` is true. Returns its handle; the thread ends with an error if it cannot have a runtime.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn follow(
        self: Arc<Self>,
        thread: &str,
        mut stop: watch::Receiver<bool>,
        report: impl Fn(Result<(), TlsFileError>) + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        thread::Builder::new().name(thread.to_owned()).spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
                tokio::select! {
                    () = self.follow_files(report) => {}
                    _ = stop.wait_for(|is_stopped| *is_stopped) => {}
                }
            });
            Ok(())
        })
    }

    /// Reloads whenever the files have changed, and reports each outcome. Never returns.
    async fn follow_files(&self, report: impl Fn(Result<(), TlsFileError>)) {
        let mut loaded = self.stamps();
        loop {
            sleep(LOOK_AT_FILES_EVERY).await;
            let seen = self.stamps();
            if seen == loaded {
                continue;
            }
            // A certificate is two files: both may be written.
            sleep(LOOK_AT_FILES_EVERY).await;
            if self.stamps() == seen {
                loaded = seen;
                report(self.reload());
            }
        }
    }

    /// TLS as a server, by these certificates, for HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// A protocol version or ticket key that the cryptography does not provide.
    pub fn acceptor(self: Arc<Self>) -> Result<TlsAcceptor, Error> {
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(self);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Ticketer::new()?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The state of the files, by which a change shows.
    fn stamps(&self) -> Stamps {
        let of_pair = |files: &CertificateFiles| [stamp(&files.chain), stamp(&files.key)];
        Stamps(self.now().files.iter().flat_map(of_pair).collect())
    }
}

impl ResolvesServerCert for Certificates {
    /// The first certificate for the name that the client asks for. If there is none, the client gets the first of all
    /// and decides for itself.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = self.now();
        let keys = &now.keys;
        let first = keys.first()?;
        let named = match hello.server_name() {
            Some(name) if keys.len() > 1 => {
                let name = ServerName::try_from(name).ok()?;
                keys.iter().find(|key| is_for(key, &name))
            }
            _ => None,
        };
        Some(named.unwrap_or(first).clone())
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    certificate.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

fn certified_key(files: &CertificateFiles) -> Result<CertifiedKey, TlsFileError> {
    let CertificateFiles { chain, key: key_file } = files;
    let of_key = |reason| TlsFileError::new(key_file, reason);
    let of_chain = |why: &Error| TlsFileError::new(chain, TlsFileReason::BadCertificate(why.to_string()));
    let certificates = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key_file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => of_key(TlsFileReason::NoKey),
        error => of_key(TlsFileReason::NotPem(error)),
    })?;
    let key = provider().key_provider.load_private_key(key);
    let key = key.map_err(|error| of_key(TlsFileReason::UnusableKey(error.to_string())))?;
    let certified = CertifiedKey::new(certificates, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(of_key(TlsFileReason::WrongKey)),
        Err(error) => Err(of_chain(&error)),
    }
}

/// The places, sizes and times of files; none for one that is not there.
#[derive(Debug, PartialEq, Eq)]
struct Stamps(Vec<Option<Stamp>>);

type Stamp = (u64, u64, i64, i64);

fn stamp(file: &Path) -> Option<Stamp> {
    let state = fs::metadata(file).ok()?;
    Some((state.ino(), state.size(), state.mtime(), state.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_read_again_do_not_undo_new_settings() {
        let of = |name: &str| {
            let files = vec![CertificateFiles { chain: name.into(), key: name.into() }];
            LoadedCertificates { files, keys: Vec::new() }
        };
        let certificates = Certificates::new(of("old"));
        let before = certificates.now();
        certificates.set(of("new"));
        certificates.replace(&before, of("old"));
        assert_eq!(certificates.now().files, of("new").files);
        certificates.replace(&certificates.now(), of("newest"));
        assert_eq!(certificates.now().files, of("newest").files);
    }
}
