//! A running proxy: its acceptor and its threads, from start to stop.

use crate::admin;
use crate::certificates::{self, Certificates, Loaded};
use crate::coherence::Coherence;
use crate::config::Config;
use crate::connector::OriginTls;
use crate::counters::Tally;
use crate::notes::Note;
use crate::shared::Shared;
use crate::threads::{self, Arrival, WorkerHandle};
use crate::tls::TlsFileError;
use http::HeaderValue;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// How long the acceptor waits when the process can have no more sockets.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How often the files of the certificates are looked at.
const LOOK_AT_FILES_EVERY: Duration = Duration::from_secs(1);

/// Why a proxy does not start.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: io::Error,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A running proxy. Dropping it stops it and waits for its threads.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    certificates: Option<Arc<Certificates>>,
    stop: Stopper,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Proxy {
    /// Listens, and serves from now on.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let listen = config.listen;
        let via = via(&config.name).ok_or_else(|| StartError {
            what: format!("'{}' is no name for Via: letters, digits, '-', '.' and '_'", config.name),
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let certificates = match &config.certificates[..] {
            [] => None,
            files => Some(Arc::new(Certificates::new(Loaded::read(files).map_err(cannot_speak_tls)?))),
        };
        let tls = certificates
            .clone()
            .map(certificates::server)
            .transpose()
            .map_err(|error| StartError { what: "cannot speak TLS".to_owned(), source: io::Error::other(error) })?;
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let origin_tls = OriginTls::of(&config).map_err(cannot_speak_tls)?;
        let (listener, address) = listen_on(listen)?;
        if let Some(admin) = config.admin.filter(|admin| !admin.ip().is_loopback() && config.admin_token.is_none()) {
            return Err(StartError {
                what: format!("operators at {admin} need a token: others than this machine's can connect there"),
                source: io::ErrorKind::PermissionDenied.into(),
            });
        }
        let admin = config.admin.map(listen_on).transpose()?;
        let (stop, stopped) = watch::channel(false);
        let stop = Stopper(stop);
        let runtime = net::Runtime::start().map_err(cannot_start)?;
        let coherence = Coherence::start(&config.site, &runtime).map_err(|error| StartError {
            what: "cannot start the home".to_owned(),
            source: io::Error::other(error),
        })?;
        let mut proxy = Self {
            shared: Arc::new(Shared::new(config, via, origin_tls, coherence)),
            address,
            admin: admin.as_ref().map(|(_, address)| *address),
            certificates,
            stop,
            threads: Vec::new(),
        };
        let mut handles = Vec::new();
        for number in 0..proxy.shared.config.threads.max(1) {
            let (handle, seat) = threads::worker();
            let (shared, tls, stopped) = (proxy.shared.clone(), tls.clone(), stopped.clone());
            proxy.spawn(format!("proxy-{number}"), move || threads::run(shared, tls, seat, stopped))?;
            handles.push(handle);
        }
        if let Some((listener, _)) = admin {
            let (shared, stopped) = (proxy.shared.clone(), stopped.clone());
            proxy.spawn("proxy-admin".to_owned(), move || admin::run(&shared, listener, stopped))?;
        }
        if let Some(certificates) = proxy.certificates.clone() {
            let (shared, stopped) = (proxy.shared.clone(), stopped.clone());
            proxy.spawn("proxy-files".to_owned(), move || look_at_files(&shared, &certificates, stopped))?;
        }
        let connections = proxy.shared.config.limits.connections;
        proxy.spawn("proxy-accept".to_owned(), move || accept(listener, &handles, connections, stopped))?;
        Ok(proxy)
    }

    fn spawn<F>(&mut self, name: String, run: F) -> Result<(), StartError>
    where
        F: FnOnce() -> io::Result<()> + Send + 'static,
    {
        self.threads.push(thread::Builder::new().name(name).spawn(run).map_err(cannot_start)?);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for operators.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Where its hub listens for the homes of other proxies.
    pub fn hub_address(&self) -> Option<SocketAddr> {
        self.shared.coherence.hub_address()
    }

    /// Its counts since its start.
    pub fn tally(&self) -> Tally {
        self.shared.counters.read()
    }

    /// How many responses are stored, and the bytes that they take.
    pub fn stored(&self) -> (usize, usize) {
        self.shared.entries.size()
    }

    /// Reads the files of the certificates again. A connection that comes after this gets the new ones; if they cannot be
    /// used, the old ones stay. It happens of itself within some seconds of a change, too.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub fn reload_certificates(&self) -> Result<(), TlsFileError> {
        self.certificates.as_ref().map_or(Ok(()), |certificates| certificates.reload())
    }

    /// Has it stop: it accepts nothing any more, and ends when the requests that are under way have, or had the time to.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// A handle that stops it from elsewhere, while somebody waits for it.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Waits until it has stopped.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the proxy panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
        // Nobody is left to be told of an error.
        let _ = self.wait();
    }
}

fn listen_on(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let cannot_listen = |source| StartError { what: format!("cannot listen on {address}"), source };
    let listener = std::net::TcpListener::bind(address).map_err(cannot_listen)?;
    listener.set_nonblocking(true).map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, bound))
}

fn cannot_speak_tls(error: TlsFileError) -> StartError {
    StartError { what: "cannot speak TLS".to_owned(), source: io::Error::other(error) }
}

fn cannot_start(source: io::Error) -> StartError {
    StartError { what: "cannot start a thread".to_owned(), source }
}

/// `Via` of an answer from here.
fn via(name: &str) -> Option<HeaderValue> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    HeaderValue::try_from(format!("1.1 {name}")).ok().filter(|_| is_name)
}

/// Has a proxy stop.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Likewise [`Proxy::stop`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Takes certificates whose files have changed, until the proxy stops.
fn look_at_files(shared: &Shared, certificates: &Certificates, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let look = async {
        let mut loaded = certificates.stamps();
        loop {
            sleep(LOOK_AT_FILES_EVERY).await;
            let seen = certificates.stamps();
            if seen == loaded {
                continue;
            }
            // Somebody who writes two files is given the time for both.
            sleep(LOOK_AT_FILES_EVERY).await;
            if certificates.stamps() == seen {
                loaded = seen;
                let reloaded = certificates.reload();
                shared.notes.say(reloaded.map_or_else(Note::CertificatesRefused, |()| Note::CertificatesChanged));
            }
        }
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            () = look => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
    });
    Ok(())
}

/// Accepts connections and gives each to the worker that has the fewest, until the proxy stops.
fn accept(
    listener: std::net::TcpListener,
    workers: &[WorkerHandle],
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener)?;
        let permits = Arc::new(Semaphore::new(connections_max));
        let accept_all = async {
            loop {
                // Nobody closes the semaphore.
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                match listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
                    Ok((stream, peer)) => {
                        // Small responses leave at once. An error means that the connection is gone already.
                        let _ = stream.set_nodelay(true);
                        if let Some(worker) = workers.iter().min_by_key(|worker| worker.connections()) {
                            worker.give(Arrival { stream, peer, permit });
                        }
                    }
                    Err(_) => sleep(ACCEPT_AGAIN).await,
                }
            }
        };
        tokio::select! {
            () = accept_all => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
        Ok(())
    })
}
