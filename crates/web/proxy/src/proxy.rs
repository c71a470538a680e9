//! A running proxy, from start to stop.

use crate::config::Config;
use crate::front::Front;
use crate::operate::admin::Operated;
use crate::operate::counters::Tally;
use crate::operate::notes::{Note, Notes};
use crate::operate::observer::observe;
use crate::origin::url::OriginUrl;
use crate::settings::{self, StartError};
use crate::shared::{Shared, Snapshots};
use crate::stored::coherence::Coherence;
use crate::stored::disk_content::Disk;
use crate::stored::entries::Entries;
use crate::stored::homes_together::compare_always;
use diskcache::Trouble;
use serving::{Certificates, Server};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tokio::sync::watch;
use vfs::Directory;

/// A running proxy. Dropping it stops it and waits for its threads.
#[derive(Debug)]
pub struct Proxy {
    snapshots: Arc<Snapshots>,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    operators: Option<ops::Server>,
    certificates: Option<Arc<Certificates>>,
    stop: Stopper,
    /// The one that serves clients.
    server: Option<Server>,
    /// Those that look around.
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// The one that writes to the disk.
    writer: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens, and serves from now on.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let (settings, certificates) = settings::check(config)?;
        let config = &settings.config;
        let certificates = certificates.map(|loaded| Arc::new(Certificates::new(loaded)));
        let tls = certificates.clone().map(Certificates::acceptor).transpose();
        let tls = tls.map_err(|error| StartError::new("cannot speak TLS", io::Error::other(error)))?;
        let (listener, address) = listen_on(config.listen)?;
        let cannot_listen = |error| StartError::new("cannot listen for operators", error);
        let admin = config.admin.map(|address| ops::Listener::bind(address, config.admin_token.clone()));
        let admin = admin.transpose().map_err(cannot_listen)?;
        let reload = config.reload.clone();
        let (stop, stopped) = watch::channel(false);
        let stop = Stopper(stop);
        let runtime = net::Runtime::start().map_err(cannot_start)?;
        let coherence = Coherence::start(config, &runtime).map_err(StartError::site)?;
        let entries = open_entries(config)?;
        let serving =
            serving::Settings { name: "proxy", threads: config.threads, connections: config.limits.connections, tls };
        let shared = Shared::new(settings, coherence, entries);
        let shared = shared.map_err(|why| StartError::new("cannot write the access log", why))?;
        let mut proxy = Self {
            snapshots: Arc::new(Snapshots::new(shared)),
            address,
            admin: admin.as_ref().and_then(ops::Listener::address),
            operators: None,
            certificates,
            stop,
            server: None,
            threads: Vec::new(),
            writer: None,
        };
        if let Some(disk) = proxy.snapshots.now().entries.disk().cloned() {
            let writer = thread::Builder::new().name("proxy-disk".to_owned()).spawn(move || disk.run());
            proxy.writer = Some(writer.map_err(cannot_start)?);
        }
        if let Some(listener) = admin {
            let service = Arc::new(Operated { snapshots: proxy.snapshots.clone(), reload });
            let operators = ops::Server::start("proxy-admin", vec![listener], ops::Limits::OPERATORS, service);
            proxy.operators = Some(operators.map_err(cannot_start)?);
        }
        let (shared, stopped_too) = (proxy.snapshots.now(), stopped.clone());
        proxy.spawn("proxy-observer".to_owned(), move || look_around(&shared, stopped_too))?;
        if let Some(certificates) = proxy.certificates.clone() {
            let shared = proxy.snapshots.now();
            let report = move |loaded: Result<(), _>| {
                shared.notes.say(loaded.map_or_else(Note::CertificatesRefused, |()| Note::CertificatesChanged));
            };
            let followed = certificates.follow("proxy-files", stopped.clone(), report);
            proxy.threads.push(followed.map_err(cannot_start)?);
        }
        let front = Arc::new(Front(proxy.snapshots.clone()));
        proxy.server = Some(Server::start(listener, serving, &front, &stopped).map_err(cannot_start)?);
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

    /// Where its requests go now.
    pub fn origin(&self) -> OriginUrl {
        self.snapshots.now().config.origin.clone()
    }

    /// Where it listens for operators.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Where its hub listens for the homes of other proxies.
    pub fn hub_address(&self) -> Option<SocketAddr> {
        self.snapshots.now().coherence.hub_address()
    }

    /// Its counts since its start.
    pub fn tally(&self) -> Tally {
        self.snapshots.now().counters.read()
    }

    /// How many responses are stored, and the bytes that they take.
    pub fn stored(&self) -> (usize, usize) {
        self.snapshots.now().entries.size()
    }

    /// The bytes of request bodies that are being collected or sent, in memory and in files.
    pub fn uploads(&self) -> (u64, u64) {
        self.snapshots.now().uploads.read()
    }

    /// How many responses are on disk, and the bytes that they take there.
    pub fn on_disk(&self) -> (usize, u64) {
        self.snapshots.now().entries.disk().map_or((0, 0), |disk| (disk.size().records, disk.size().bytes))
    }

    /// Looks whether a proxy could start with these settings, as far as that shows without starting it: the files that
    /// they name are read.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check(config: Config) -> Result<(), StartError> {
        settings::check(config).map(drop)
    }

    /// Takes new settings: requests that come after this go by them, those that are under way by the old ones. All
    /// files that they name are read again. If the responses of now might not have been stored under the new settings,
    /// because the origin is another one or something is decided differently, each is validated at its next use.
    ///
    /// Some settings stay until the proxy is started again; gives the names of those that should have changed.
    ///
    /// # Errors
    /// Why the new settings cannot be used. Everything is as it was then.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, StartError> {
        let (config, left) = config.in_place_of(&self.snapshots.now().config);
        let (settings, loaded) = settings::check(config)?;
        if let (Some(certificates), Some(loaded)) = (&self.certificates, loaded) {
            certificates.set(loaded);
        }
        self.snapshots.advance(settings);
        let shared = self.snapshots.now();
        self.operators.iter().for_each(|it| it.set_token(shared.config.admin_token.as_deref()));
        shared.notes.origin_tls_again();
        shared.access_log.iter().for_each(|log| log.reopen());
        Ok(left)
    }

    /// Has it stop: it accepts nothing any more, and ends when the requests that are under way have, or had the time
    /// to.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// A handle that stops it from elsewhere, while somebody waits for it.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Waits until it has stopped.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut outcome = self.server.take().map_or(Ok(()), Server::wait);
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the proxy panicked")));
            outcome = outcome.and(ended);
        }
        drop(self.operators.take());
        // Before the disk is waited for: a database's commits would wait, too.
        self.snapshots.now().coherence.leave();
        if let Some(writer) = self.writer.take() {
            let shared = self.snapshots.now();
            shared.entries.save(Instant::now() + shared.config.limits.stop);
            shared.entries.disk().into_iter().for_each(|disk| disk.stop());
            let ended = writer.join();
            outcome = outcome.and(ended.map_err(|_| io::Error::other("the writer of the disk panicked")));
        }
        outcome
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
        // Nobody is left to be notified of an error.
        let _ = self.wait();
    }
}

/// The stored responses: none, or those that are on disk.
fn open_entries(config: &Config) -> Result<Entries, StartError> {
    Entries::new(config.limits.stored_bytes, |hash| {
        let Some(disk) = &config.disk else { return Ok(None) };
        let (notes, files) = (Notes::to(config.notes.clone()), Arc::new(Directory::new(&disk.dir)));
        let report = move |trouble: Trouble| notes.say(Note::Disk(trouble.to_string()));
        Disk::open(files, &settings::disk_settings(disk, config), hash, report).map(Some).map_err(StartError::disk)
    })
}

fn listen_on(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), StartError> {
    let cannot_listen = |source: io::Error| StartError::new(format!("cannot listen on {address}"), source);
    let listener = std::net::TcpListener::bind(address).map_err(cannot_listen)?;
    let bound = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, bound))
}

fn cannot_start(source: io::Error) -> StartError {
    StartError::new("cannot start a thread", source)
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

/// Looks at the homes and the hub, until the proxy stops.
fn look_around(shared: &Shared, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    let (coherence, notes) = (&shared.coherence, &shared.notes);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            () = compare_always(coherence.shared(), notes), if coherence.shared().len() > 1 => {}
            () = observe(coherence, notes) => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
    });
    Ok(())
}
