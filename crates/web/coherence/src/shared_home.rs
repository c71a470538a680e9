//! A home that is a process of its own, as it is hosted.
//!
//! ```text
//!   +--- HomeServer ---+                       +-- AttachedHome, of this machine --+
//!   |  Hub (or the way |  <-- a Unix socket -- | Attached                          |  tickets' stores, slots, changes
//!   |  |     to it)    |                       |                                   |
//!   |  Home -- Table ==|== a mapped file ======| Table                             |  lookups and tickets, read in place
//!   |   ^        |     |                       +-----------------------------------+
//!   |   |   Responder  |                       +-- AttachedHome, of another one ---+
//!   |   |        ^     |  <-- TCP, next port - | LookUps                           |  lookups and tickets, in batches
//!   |   +--------|-----|  <-- TCP ------------ | Attached                          |  tickets' stores, slots, changes
//!   +------------------+                       +-----------------------------------+
//! ```
//! The responder has threads of its own, which do nothing else: a home that is busy does not slow lookups.
//!
//! A home that is started again is another one: it passes another file, and what was stored under the earlier one is
//! not current by it. That file stays as long as anything is stored under it, and its lease ends by itself.

use crate::error::SiteError;
use crate::far::drawn;
use crate::mapping::Mapping;
use crate::site::{Parts, Site, SiteConfig};
use crate::updates::Updates;
use fabric::{Shared, Shim, Window as Memory};
use homes::{CHANGES, Change, Dependency, Fence, Home, HomeConfig, Responder, Table, Window};
use machine::RoleId;
use net::Handle;
use net::{
    Host, HostEnd, ListenConfig, ListenError, Listener, Machines, Runtime, UnixListenConfig, refuse_open_network,
};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};
use tokio::sync::oneshot;
use types::limits::{CACHES_MAX, DEPENDENCIES_PER_UPDATE_MAX, LOOK_UP_SESSIONS_MAX};

/// How often a pair of ports is looked for, where any will do.
const PAIR_TRIES_MAX: u32 = 32;

/// How long the machine of a cache may be unheard of. Its slots are free then.
const SILENCE: Duration = Duration::from_secs(30);

/// How a home is shared.
#[derive(Clone, Debug, Default)]
pub struct ShareConfig {
    /// The home, and its hub or the way to it.
    pub site: SiteConfig,
    /// The socket of caches of this machine.
    pub socket: Option<PathBuf>,
    /// Where caches of other machines come, and at the next port their lookups.
    pub listen: Option<SocketAddr>,
    /// The provider of libfabric by which they may read the table, at the address where they come.
    pub fabric: Option<String>,
}

/// A home, with its hub or the way to it, which caches share.
pub struct HomeServer {
    host: Arc<Host>,
    role: RoleId,
    /// Where caches of other machines come, and who answers their lookups.
    open: Option<(SocketAddr, Arc<Host>)>,
    /// Its table, as those read it that need no answer.
    _shared: Option<Shared>,
    updates: Updates,
    address: Option<SocketAddr>,
    /// Ends the thread that announces changes.
    stop: Option<oneshot::Sender<()>>,
    announcer: Option<JoinHandle<()>>,
}

impl HomeServer {
    /// Starts it, and takes caches.
    ///
    /// # Errors
    /// An address that is none, or that cannot be listened on; no memory for the table.
    pub fn start(config: &ShareConfig, runtime: &Runtime) -> Result<Self, SiteError> {
        let ShareConfig { site: config, socket, listen, fabric } = config;
        // Before there is a lease that should be given back: signals are not the program's while the library is being
        // loaded.
        let shim = fabric.as_ref().map(|_| Shim::load()).transpose().map_err(SiteError::Fabric)?;
        let (memory, file) = Mapping::create(Table::words(config.responses_max)).map_err(SiteError::System)?;
        let home = Home::over(
            HomeConfig { slots: config.responses_max, is_read_apart: fabric.is_some(), ..HomeConfig::new(drawn()) },
            memory,
        );
        // Its table outlives it with those that read it: a hub that follows waits for their leases.
        let succeeds = config.earlier_lease.or(Some(config.lease));
        let parts = Site::start_with(&SiteConfig { earlier_lease: succeeds, ..config.clone() }, home, runtime)?;
        if config.hub.is_none() && config.listen.is_none() && config.earlier_lease.is_none() {
            // The updaters of an earlier hub were its caches, which report what is visible already.
            parts.updates.caught_up(Fence::NONE);
        }
        if let Some(socket) = socket {
            let config = UnixListenConfig {
                sessions_max: CACHES_MAX,
                passes: Some(Arc::new(file)),
                ..UnixListenConfig::new(socket.clone(), homes::messages::caches::HOME)
            };
            parts.host.listen_unix(parts.role, config).map_err(SiteError::Listen)?;
        }
        let shared = match (shim, fabric, listen) {
            (Some(shim), Some(provider), Some(address)) if refuse_open_network(*address, config.insecure).is_ok() => {
                let table = parts.home.look(|home| home.table());
                Some(shim.share(provider, address.ip(), table).map_err(SiteError::Fabric)?)
            }
            _ => None,
        };
        let open = listen.map(|address| open(&parts, address, config.insecure, shared.as_ref())).transpose()?;
        let (stop, stopped) = oneshot::channel();
        let (home, updates) = (parts.home.clone(), parts.updates.clone());
        let announcer = thread::Builder::new()
            .name("thorp-changes".to_owned())
            .spawn(move || announce_all(&home, &updates, stopped))
            .map_err(SiteError::System)?;
        let Parts { host, role, updates, address, .. } = parts;
        Ok(Self { host, role, open, _shared: shared, updates, address, stop: Some(stop), announcer: Some(announcer) })
    }

    /// Its hub, for updaters.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
    }

    /// Where caches of other machines come.
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.as_ref().map(|(address, _)| *address)
    }

    /// Where its hub listens for other homes and for updaters.
    pub fn hub_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Has it end in good order: nothing is answered under its table any more.
    pub fn stopper(&self) -> impl FnOnce() + Send + Sync + Clone + 'static {
        let (host, role) = (Arc::downgrade(&self.host), self.role);
        move || {
            if let Some(host) = host.upgrade() {
                host.close(role);
            }
        }
    }

    /// The sessions that were refused, by the names of the reasons.
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        let mut refusals = self.host.tally().refusals;
        for (name, count) in self.open.iter().flat_map(|(_, responder)| responder.tally().refusals) {
            *refusals.entry(name).or_default() += count;
        }
        refusals
    }

    /// Waits until it has ended: in good order, or as one of its machines has failed. A home without its responder is
    /// of no use to caches of other machines.
    ///
    /// # Errors
    /// The system gives no executor.
    pub fn wait_end(&self) -> io::Result<HostEnd> {
        let Some((_, responder)) = &self.open else { return Ok(self.host.wait_end()) };
        let tasks = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(tasks.block_on(async {
            tokio::select! {
                end = self.host.ended() => end,
                end = responder.ended() => end,
            }
        }))
    }

    /// The host of its machines.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }
}

impl Drop for HomeServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(announcer) = self.announcer.take() {
            // It has no word to say: a panic of its own ends with it.
            let _ = announcer.join();
        }
    }
}

impl fmt::Debug for HomeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomeServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Takes caches of other machines at an address, and their lookups at the next port.
fn open(
    parts: &Parts<Mapping>,
    address: SocketAddr,
    insecure: bool,
    shared: Option<&Shared>,
) -> Result<(SocketAddr, Arc<Host>), SiteError> {
    let (sessions, look_ups) = listeners(address, insecure).map_err(SiteError::Listen)?;
    let address = sessions.address();
    let (table, driver) = (parts.home.look(|home| home.table()), parts.host.driver(parts.role));
    let mut machines = Machines::new();
    let slots = table.slots();
    let responder = Responder::new(table, Box::new(move || driver.now()));
    let responder = match shared.map(Shared::window).cloned() {
        Some(Memory { name, base, key }) => responder.with_window(Window { name, base, key, slots }),
        None => responder,
    };
    let (role, _) = machines.add(responder);
    let responder = Host::start(machines, &Runtime::start_apart().map_err(SiteError::System)?);
    responder.listen_at(role, look_ups).map_err(SiteError::Listen)?;
    parts.host.listen_at(parts.role, sessions).map_err(SiteError::Listen)?;
    Ok((address, responder))
}

/// An address for sessions, and the next port for lookups.
fn listeners(address: SocketAddr, insecure: bool) -> Result<(Listener, Listener), ListenError> {
    let listen = |address, codec, sessions_max| {
        let config = ListenConfig { insecure, ..ListenConfig::new(codec, address) };
        Listener::bind(ListenConfig { sessions_max, silence: Some(SILENCE), ..config })
    };
    let mut tries = 1;
    loop {
        let sessions = listen(address, homes::messages::caches::HOME, CACHES_MAX)?;
        let taken = sessions.address();
        let none = || io::Error::new(io::ErrorKind::InvalidInput, "lookups have the next port, and there is none");
        let next = taken.port().checked_add(1).ok_or_else(|| ListenError::Bind(taken, none()));
        let listen_next =
            |port| listen(SocketAddr::new(taken.ip(), port), homes::messages::look_ups::TABLE, LOOK_UP_SESSIONS_MAX);
        match next.and_then(listen_next) {
            Ok(look_ups) => return Ok((sessions, look_ups)),
            // The system has chosen a port before one that is taken.
            Err(_) if address.port() == 0 && tries < PAIR_TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Announces the changes that caches report: those that come while some are under way go together, as one update.
fn announce_all(home: &Handle<Home<Mapping>>, updates: &Updates, stopped: oneshot::Receiver<()>) {
    let announce = async {
        while let Some(changes) = poll_fn(|cx| poll_changes(home, cx)).await {
            let mut changed: Vec<Dependency> =
                changes.iter().flat_map(|change| change.dependencies.iter().cloned()).collect();
            changed.sort_unstable();
            changed.dedup();
            if changed.len() > DEPENDENCIES_PER_UPDATE_MAX {
                changed = vec![Dependency::ALL];
            }
            // A hub that has ended answers for nothing: the process ends with it.
            let Ok(update) = updates.announce(changed).await else { return };
            update.visible();
            home.call(|home| changes.iter().for_each(|change| home.released(change.id)));
        }
    };
    let Ok(tasks) = tokio::runtime::Builder::new_current_thread().build() else { return };
    tasks.block_on(async {
        tokio::select! {
            () = announce => {}
            _ = stopped => {}
        }
    });
}

fn poll_changes(home: &Handle<Home<Mapping>>, cx: &mut Context<'_>) -> Poll<Option<Vec<Change>>> {
    let (changes, is_over) = home.look(|home| (home.take_changes(), home.is_over()));
    if is_over {
        return Poll::Ready(None);
    }
    if !changes.is_empty() {
        return Poll::Ready(Some(changes));
    }
    home.driver().wake_on(CHANGES, cx.waker());
    Poll::Pending
}
