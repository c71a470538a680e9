//! A home that is a process of its own: as it is hosted, and as the caches of its machine have it.
//!
//! ```text
//!   +--- HomeServer ---+                       +-- NearHome --+
//!   |  Hub (or the way |  <-- a Unix socket -- | Attached     |  tickets' stores, slots, changes
//!   |  |     to it)    |                       |              |
//!   |  Home -- Table ==|== a mapped file ======| Table        |  look-ups and tickets, read in place
//!   +------------------+                       +--------------+
//! ```
//! A home that is started again is another one: it passes another file, and what was stored under the earlier one is not
//! current by it. That file stays as long as anything is stored under it, and its lease ends by itself.

use crate::cache::{Cache, Current};
use crate::call::Called;
use crate::changes::Changes;
use crate::error::SiteError;
use crate::far::{drawn, trouble};
use crate::mapping::Mapping;
use crate::site::{Parts, Site, SiteConfig};
use crate::updates::Updates;
use homes::{Attached, CHANGES, Change, Dependency, Home, HomeConfig, Table};
use net::{ConnectError, Host, Machines, Runtime, TakeDescriptor, UnixListenConfig, UplinkConfig};
use node::RoleId;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;
use types::limits::{CACHES_MAX, DEPENDENCIES_PER_UPDATE_MAX};

/// A home, with its hub or the way to it, which caches of this machine share.
pub struct HomeServer {
    host: Arc<Host>,
    role: RoleId,
    updates: Updates,
    address: Option<SocketAddr>,
    /// Ends the thread that announces changes.
    stop: Option<oneshot::Sender<()>>,
    announcer: Option<JoinHandle<()>>,
}

impl HomeServer {
    /// Starts it, and takes caches at a socket.
    ///
    /// # Errors
    /// An address that is none, or that cannot be listened on; no memory for the table.
    pub fn start(config: &SiteConfig, socket: &Path, runtime: &Runtime) -> Result<Self, SiteError> {
        let (memory, file) = Mapping::create(Table::words(config.responses_max)).map_err(SiteError::System)?;
        let home = Home::over(HomeConfig { slots: config.responses_max, ..HomeConfig::new(drawn()) }, memory);
        // Its table outlives it with those that read it: a hub that follows waits for their leases.
        let succeeds = config.earlier_lease.or(Some(config.lease));
        let parts = Site::start_with(&SiteConfig { earlier_lease: succeeds, ..config.clone() }, home, runtime)?;
        let listen = UnixListenConfig {
            sessions_max: CACHES_MAX,
            passes: Some(Arc::new(file)),
            ..UnixListenConfig::new(socket.to_owned(), wire::caches::HOME)
        };
        if config.hub.is_none() && config.listen.is_none() && config.earlier_lease.is_none() {
            // The updaters of an earlier hub were its caches, which tell of what is visible already.
            parts.updates.caught_up();
        }
        parts.host.listen_unix(parts.role, listen).map_err(SiteError::Listen)?;
        let (stop, stopped) = oneshot::channel();
        let (home, updates) = (parts.home.clone(), parts.updates.clone());
        let announcer = thread::Builder::new()
            .name("thorp-changes".to_owned())
            .spawn(move || announce_all(&home, &updates, stopped))
            .map_err(SiteError::System)?;
        let Parts { host, role, updates, address, .. } = parts;
        Ok(Self { host, role, updates, address, stop: Some(stop), announcer: Some(announcer) })
    }

    /// Its hub, for updaters.
    pub fn updates(&self) -> Updates {
        self.updates.clone()
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

/// Announces the changes that caches tell of: those that come while some are under way go together, as one update.
fn announce_all(home: &Called<Home<Mapping>>, updates: &Updates, stopped: oneshot::Receiver<()>) {
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

fn poll_changes(home: &Called<Home<Mapping>>, cx: &mut Context<'_>) -> Poll<Option<Vec<Change>>> {
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

/// A home of another process of this machine, as a cache has it. It is looked for again whenever it is gone.
pub struct NearHome {
    cache: Cache,
    changes: Changes,
    host: Arc<Host>,
    role: RoleId,
}

impl NearHome {
    /// The home at a socket, which need not be there yet: nothing is stored until it is.
    ///
    /// # Errors
    /// A path that is no socket's.
    pub fn attach(socket: &Path, runtime: &Runtime) -> Result<Self, SiteError> {
        let no_path = || SiteError::System(io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"));
        let path = socket.to_str().ok_or_else(no_path)?;
        let mut machines = Machines::new();
        let (role, machine) = machines.add(Attached::new());
        let host = Host::start(machines, runtime);
        let home = Called::new(machine, host.driver(role));
        let current = Arc::new(Current::default());
        let takes = TakeDescriptor::new({
            let current = current.clone();
            move |file| {
                let table = Table::of_another(Mapping::open(&file)?).map_err(|why| why.to_string())?;
                *current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
                Ok(())
            }
        });
        host.connect(role, UplinkConfig { codec: wire::caches::CACHE, takes: Some(takes), ..UplinkConfig::unix(path) });
        Ok(Self { cache: Cache::near(home.clone(), current), changes: Changes::of(home), host, role })
    }

    /// The home, for a cache.
    pub fn cache(&self) -> Cache {
        self.cache.clone()
    }

    /// The way of changes to all caches.
    pub fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// Why the home is not reached, if it is not.
    pub fn trouble(&self) -> Option<ConnectError> {
        trouble(&self.host, self.role)
    }
}

impl fmt::Debug for NearHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearHome").field("cache", &self.cache).finish_non_exhaustive()
    }
}
