//! The settings of a proxy.

use crate::limits::Limits;
use crate::operate::access_log::AccessLogConfig;
use crate::operate::notes::Note;
use crate::origin::url::OriginUrl;
use crate::request::target::Scheme;
use coherence::{HomeAddress, SiteConfig};
use ops::Reload;
use responses::Policy;
use serving::CertificateFiles;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

/// Where stored responses are kept that do not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// A directory of its own.
    pub dir: PathBuf,
    /// The most that it takes there, in bytes.
    pub bytes: u64,
}

/// For how long clients, and caches between them and the proxy, use a response that the proxy may store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserCache {
    /// They ask before each use: no update reaches them.
    NoCache,
    /// For as long as the origin says, also when the proxy has learned of an update.
    AsIs,
}

/// The configuration of a proxy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// How clients reach it where it has no certificates. `Https` if something in front of it ends TLS.
    pub scheme: Scheme,
    /// The certificates by which clients reach it over TLS; without any, they do not. A client is shown the first that
    /// is for the name it asks for.
    pub certificates: Vec<CertificateFiles>,
    /// Where requests go that no stored response answers.
    pub origin: OriginUrl,
    /// Whether the origin speaks HTTP/2, by prior knowledge or over TLS.
    pub origin_http2: bool,
    /// PEM: the authorities that an origin's certificate may come from. `None` is those that the system trusts.
    pub origin_ca: Option<PathBuf>,
    /// The proxy's own name in `Via`: no other proxy on the way to the origin may have the same.
    pub name: String,
    /// Threads that serve clients.
    pub threads: usize,
    /// Where operators connect; `None` is nowhere.
    pub admin: Option<SocketAddr>,
    /// The token that each of their requests has to bring. Without one `admin` has to be on loopback.
    pub admin_token: Option<String>,
    /// Reads the settings again when operators ask for it, and has the proxy take them ([`crate::Proxy::reload`]).
    pub reload: Option<Reload>,
    /// Where it tells what an operator should know.
    pub notes: Option<Sender<Note>>,
    /// Its home, and where its hub is, if it has a home of its own.
    pub site: SiteConfig,
    /// Where its homes are, if they are processes of their own: each response has one of them, by its key. They have
    /// one hub.
    pub homes: Vec<HomeAddress>,
    /// The provider of libfabric by which those homes' tables are read, if they are on other machines.
    pub fabric: Option<String>,
    /// Where responses are kept that do not fit into memory; `None` is nowhere.
    pub disk: Option<DiskConfig>,
    /// Where requests are logged; `None` is nowhere.
    pub access_log: Option<AccessLogConfig>,
    /// For how long others than the proxy use what it may store.
    pub browser_cache: BrowserCache,
    /// Where bodies of requests are collected that do not fit into memory, in files without a name; `None` is the
    /// system's directory for temporary files.
    pub upload_dir: Option<PathBuf>,
    /// Requests whose path begins with one of these have their bodies passed on as they arrive, and hold a place at
    /// the origin for as long as that takes.
    pub stream_uploads: Vec<String>,
    /// Whether request fields with underscores in their names are passed on, although many applications read them as if
    /// they had hyphens.
    pub keep_underscores: bool,
    /// The decisions about what is stored, and for how long.
    pub policy: Policy,
    /// Limits on what clients and origin may make grow, and on how long they may take.
    pub limits: Limits,
}

impl Config {
    /// These settings, with those of a running proxy where they cannot change while it runs; and the names of those
    /// that should have.
    pub(crate) fn in_place_of(mut self, running: &Self) -> (Self, Vec<&'static str>) {
        let mut left = Vec::new();
        let mut keep = |name, is_same: bool| {
            if !is_same {
                left.push(name);
            }
        };
        let (site, other) = (&self.site, &running.site);
        keep("listen", self.listen == running.listen);
        keep("tls-cert", self.certificates.is_empty() == running.certificates.is_empty());
        keep("behind-tls", self.scheme == running.scheme);
        keep("threads", self.threads == running.threads);
        keep("admin", self.admin == running.admin);
        keep("cache", self.limits.stored_bytes == running.limits.stored_bytes);
        keep("disk", self.disk.as_ref().map(|disk| &disk.dir) == running.disk.as_ref().map(|disk| &disk.dir));
        keep("disk-size", self.disk_bytes() == running.disk_bytes());
        keep("long-lived", self.limits.long_lived == running.limits.long_lived);
        keep("hub", site.hub == other.hub);
        keep("hub-listen", site.listen == other.listen);
        keep("home", self.homes == running.homes);
        keep("fabric", self.fabric == running.fabric);
        keep("source", site.sources == other.sources);
        keep("insecure", site.insecure == other.insecure);
        keep("access-log", self.access_log == running.access_log);
        if self.certificates.is_empty() != running.certificates.is_empty() {
            self.certificates.clone_from(&running.certificates);
        }
        let Limits { connections, origin_requests, origin_waiting, long_lived, stored_bytes, .. } = running.limits;
        self.limits = Limits { connections, origin_requests, origin_waiting, long_lived, stored_bytes, ..self.limits };
        let Self { listen, scheme, name, threads, admin, notes, site, homes, fabric, disk, access_log, .. } =
            running.clone();
        (Self { listen, scheme, name, threads, admin, notes, site, homes, fabric, disk, access_log, ..self }, left)
    }

    /// The directory for bodies of requests.
    pub(crate) fn upload_dir(&self) -> PathBuf {
        self.upload_dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Whether the body of a request for this path is passed on as it arrives.
    pub(crate) fn streams_upload(&self, path: &str) -> bool {
        self.stream_uploads.iter().any(|prefix| path.starts_with(prefix))
    }

    /// The disk for stored responses, in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.bytes)
    }

    /// How clients reach it.
    pub(crate) fn client_scheme(&self) -> Scheme {
        if self.certificates.is_empty() { self.scheme } else { Scheme::Https }
    }

    /// A proxy with a name of its own and default limits, on as many threads as there are processors.
    pub fn new(listen: SocketAddr, origin: OriginUrl) -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard library's hasher is the nearest randomness: each is keyed again.
        let name = format!("thorp-{:08x}", RandomState::new().hash_one(()) as u32);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen,
            scheme: Scheme::Http,
            certificates: Vec::new(),
            origin,
            origin_http2: false,
            origin_ca: None,
            name,
            threads,
            admin: None,
            admin_token: None,
            reload: None,
            notes: None,
            site: SiteConfig::default(),
            homes: Vec::new(),
            fabric: None,
            disk: None,
            access_log: None,
            browser_cache: BrowserCache::NoCache,
            upload_dir: None,
            stream_uploads: Vec::new(),
            keep_underscores: false,
            policy: Policy::default(),
            limits: Limits::default(),
        }
    }
}
