//! The server of a site: its start and stop, and its limits.

use crate::error::FilesError;
use crate::http::answers::Answers;
use crate::http::rules::{KnownRules, SkippedRule};
use crate::http::served::{Served, Tally};
use crate::http::visitor::Visitors;
use crate::member::MemberService;
use crate::origin::{Origin, OwnSite};
use crate::record::SiteName;
use crate::sites::Sites;
use crate::tables::TABLES;
use ops::Observed;
use serving::{
    Certificates, ConnectionEvent, LoadedCertificates, Server, Service, Settings, ThreadEnd, limits::HEAD_BYTES_MAX,
};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The settings of a site's server.
#[derive(Debug)]
pub struct SiteConfig {
    /// The name of the site's space.
    pub space: String,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Threads that serve clients.
    pub threads: usize,
    /// Connections at a time.
    pub connections: usize,
    /// The certificates of HTTPS; without them it is HTTP.
    pub certificates: Option<LoadedCertificates>,
    /// The bytes of memory for directories and content that were read lately, about.
    pub memory: usize,
    /// Whether a revision that may not be the newest is refused. It is served otherwise, and the answer says so.
    pub refuses_stale: bool,
    /// Reports a line of the site's `_redirects` or `_headers` that is skipped, when the file is read.
    pub report: fn(&SkippedRule),
}

struct Front(Arc<Served>);

impl Service for Front {
    type Answer = Answers;
    type Local = ();

    fn open(&self, _end: ThreadEnd) -> (Answers, ()) {
        (Answers(self.0.clone()), ())
    }

    fn limits(&self) -> serving::Limits {
        const { assert!(HEAD_BYTES_MAX >= 4096, "a path of PATH_MAX fits") }
        serving::Limits::default()
    }

    fn record(&self, event: ConnectionEvent) {
        if event == ConnectionEvent::Begun {
            self.0.connections.fetch_add(1, Relaxed);
        }
    }
}

/// A running server of a site.
#[derive(Debug)]
pub struct SiteServer {
    served: Arc<Served>,
    address: SocketAddr,
    server: Option<Server>,
    /// The thread that takes certificates whose files have changed.
    files: Option<JoinHandle<io::Result<()>>>,
    stop: watch::Sender<bool>,
}

/// Stops a server from elsewhere.
#[derive(Clone, Debug)]
pub struct SiteStopper(watch::Sender<bool>);

impl SiteStopper {
    /// Stops accepting, and gives requests that are under way the time to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl SiteServer {
    /// Serves a site that is there, from the store that this process has open.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], an address that is in use, and the store's.
    pub fn start(sites: Arc<Sites>, site: SiteName, config: SiteConfig) -> Result<Self, FilesError> {
        sites.visitor_key(&site)?;
        Self::of(Arc::new(OwnSite::new(sites, site)), config)
    }

    /// Serves the site that a member follows, from its directory.
    ///
    /// # Errors
    /// An address that is in use.
    pub fn follow(member: Arc<MemberService>, config: SiteConfig) -> Result<Self, FilesError> {
        Self::of(member, config)
    }

    fn of(origin: Arc<dyn Origin>, config: SiteConfig) -> Result<Self, FilesError> {
        let cannot_listen = |error: io::Error| FilesError::Listen(config.listen, error);
        let listener = TcpListener::bind(config.listen).map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let certificates = config.certificates.map(|loaded| Arc::new(Certificates::new(loaded)));
        let tls = certificates.clone().map(Certificates::acceptor).transpose();
        let tls = tls.map_err(|error| cannot_listen(io::Error::other(error)))?;
        let (stop, stopped) = watch::channel(false);
        let visitors = Visitors::new(&config.space, origin.site().clone(), tls.is_some());
        let rules = KnownRules::new(config.report);
        let served = Served::new(origin, visitors, config.memory, rules, config.refuses_stale);
        let served = Arc::new(served);
        let settings = Settings { name: "site", threads: config.threads, connections: config.connections, tls };
        let server = Server::start(listener, settings, &Arc::new(Front(served.clone())), &stopped);
        let server = server.map_err(cannot_listen)?;
        let files = certificates.map(|certificates| {
            let served = served.clone();
            certificates.follow("site-files", stopped.clone(), move |loaded| {
                if let Err(error) = loaded {
                    served.trouble(format!("the certificates stay as they are: {error}"));
                }
            })
        });
        let files = files.transpose().map_err(cannot_listen)?;
        Ok(Self { served, address, server: Some(server), files, stop })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle that stops it.
    pub fn stopper(&self) -> SiteStopper {
        SiteStopper(self.stop.clone())
    }

    /// The server as its operators see it.
    pub fn observed(&self) -> Arc<dyn ops::Service> {
        let (one, other) = (self.served.clone(), self.served.clone());
        Arc::new(Observed { tables: move || (TABLES.to_vec(), one.tables()), troubles: move || other.troubles() })
    }

    /// Its counts.
    pub fn tally(&self) -> Tally {
        self.served.tally()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// A thread that could not run.
    pub fn wait(&mut self) -> io::Result<()> {
        let ended = self.server.take().map_or(Ok(()), Server::wait);
        if let Some(files) = self.files.take() {
            let files =
                files.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the certificates panicked")));
            return ended.and(files);
        }
        ended
    }
}

impl Drop for SiteServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // An error has no reader any longer.
        let _ = self.wait();
    }
}
