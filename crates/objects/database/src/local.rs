//! A store in this process, from its directory's recovery to its close: the same for a database that is opened and for
//! a server.
//!
//! ```text
//!   directory --recover--> Recovered --start--> LocalStore --close--> directory in order, and free
//! ```

use crate::database::Local;
use crate::wait::block_on;
use crate::{Error, Result};
use client::Client;
use disk::{DiskError, Progress, RealDisk};
use machine::{Disk, Driver, Port, RoleId};
use net::{Beside, Host, HostEnd, Machines, Runtime, Shared};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{DiskDone, DiskWork, Store};
use types::limits::NODES_MAX;
use types::{ClientId, Time};

/// How long the machine of another node may be unheard of.
const SILENCE: Duration = Duration::from_secs(6);

/// A store as its directory has it, which does not run yet.
pub struct Recovered {
    store: Store,
    disk: RealDisk,
    /// The extent of what was read.
    pub progress: Progress,
}

impl Recovered {
    /// Reads a directory; `on_progress` hears how far that is before each record.
    pub fn read(
        dir: &Path,
        disk: &disk::Config,
        store: store::Config,
        mut on_progress: impl FnMut(&Progress),
    ) -> Result<Self, DiskError> {
        let mut opening = disk::open(dir, disk)?;
        let mut store = Store::new(store, opening.opened().clone());
        on_progress(&opening.progress());
        while let Some((position, record)) = opening.next_record()? {
            store.recover(position, record);
            on_progress(&opening.progress());
        }
        let progress = opening.progress();
        Ok(Self { store, disk: opening.finish()?, progress })
    }

    /// Starts the store on these threads, with a client for this process itself, which its status does not show.
    pub fn start_beside(mut self, client: Client, runtime: &Runtime) -> LocalStore {
        self.store.set_own_client(client.id());
        self.start(Some(client), runtime)
    }

    /// Starts the store on these threads, with a client beside it or without one.
    pub fn start(self, client: Option<Client>, runtime: &Runtime) -> LocalStore {
        self.start_with(client, runtime, |_, _| ())
    }

    /// Starts the store on these threads, for a client in an adjoining host, which its status does not show.
    pub(crate) fn start_adjoining(mut self, client: ClientId, at: RoleId, runtime: &Runtime) -> LocalStore {
        self.store.set_own_client(client);
        self.start_with(None, runtime, |machines, store| machines.link_adjoining_client(store, at))
    }

    fn start_with(
        self,
        client: Option<Client>,
        runtime: &Runtime,
        link: impl FnOnce(&mut Machines, RoleId),
    ) -> LocalStore {
        let disk = Arc::new(Lent { disk: Mutex::new(Some(Arc::new(self.disk))), returned: Condvar::new() });
        let mut machines = Machines::new();
        let (role, store) = machines.add_with_disk(self.store, disk.clone());
        let client = client.map(|client| {
            let (client, shared) = machines.add(client);
            machines.link(client, role);
            (client, shared)
        });
        link(&mut machines, role);
        let host = Host::start(machines, runtime);
        LocalStore { host, role, store, client, disk }
    }
}

/// A store that runs in this process. Dropped, it stops at once, as a kill does, and its directory is free: the next
/// start recovers it.
#[derive(Debug)]
pub struct LocalStore {
    host: Arc<Host>,
    role: RoleId,
    store: Shared<Store>,
    /// The client beside it.
    client: Option<(RoleId, Shared<Client>)>,
    disk: Arc<Lent>,
}

impl LocalStore {
    /// The host that runs it.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Its number there.
    pub fn role(&self) -> RoleId {
        self.role
    }

    /// Looks at the store.
    pub fn look<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        look(self.store.lock().unwrap_or_else(PoisonError::into_inner).look())
    }

    /// Tells the store something that no message says.
    pub fn tell(&self, tell: impl FnOnce(&mut Store, Time)) {
        let driver = self.host.driver(self.role);
        tell(self.store.lock().unwrap_or_else(PoisonError::into_inner).machine(), driver.now());
        driver.settle();
    }

    /// The time by which the store's events are dated.
    pub fn now(&self) -> Time {
        self.host.driver(self.role).now()
    }

    /// The links of other nodes, for the listener at whose address the store takes its sessions.
    pub fn links(&self) -> Beside {
        let (host, codec) = (self.host.clone(), messages::nodes::CODEC);
        Beside { host, role: self.role, codec, port: Port::FromNode, sessions_max: NODES_MAX, silence: Some(SILENCE) }
    }

    /// The client beside it, and what drives that.
    pub fn client(&self) -> Option<(Shared<Client>, Arc<dyn Driver>)> {
        self.client.as_ref().map(|(role, client)| (client.clone(), self.host.driver(*role)))
    }

    /// Refuses new commits, writes everything home, and sets the directory free, also while others still hold the host.
    pub fn close(self) -> Result<()> {
        self.host.close(self.role);
        let ended = match block_on(self.host.ended()) {
            HostEnd::Closed => Ok(()),
            HostEnd::Failed(why) => Err(Error::Open(format!("{why}; what was committed is safe: open it again"))),
        };
        // Those who still have the host need not keep what the store has in memory.
        self.store.lock().unwrap_or_else(PoisonError::into_inner).stop("it was closed");
        let Some(disk) = self.disk.take() else { return ended };
        ended.and(disk.close().map_err(|error| Error::Open(error.to_string())))
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // Sessions and timers hold the host for a while. Meanwhile no peer may take it for alive, and the next thing
        // may be to open the directory again.
        self.store.lock().unwrap_or_else(PoisonError::into_inner).stop("it was dropped");
        self.host.abandon();
        drop(self.disk.take());
    }
}

impl Local for LocalStore {
    fn close(self: Box<Self>) -> Result<()> {
        Self::close(*self)
    }
}

/// The disk, lent to the host for as long as the store is open. A holder of the host then must not keep the directory,
/// and neither must a thread that is in a call: the next thing may be to open the directory again.
#[derive(Debug)]
struct Lent {
    disk: Mutex<Option<Arc<RealDisk>>>,
    /// A thread that had the disk has it no longer.
    returned: Condvar,
}

impl Lent {
    /// Calls the disk, if it is still there.
    fn with<R>(&self, call: impl FnOnce(&RealDisk) -> R) -> Option<R> {
        let disk = self.lock().clone();
        let in_use = InUse { of: self, disk };
        in_use.disk.as_deref().map(call)
    }

    /// Takes the disk back, when nobody is in a call any more.
    fn take(&self) -> Option<RealDisk> {
        let mut lent = self.lock();
        let mut disk = lent.take()?;
        loop {
            match Arc::try_unwrap(disk) {
                Ok(disk) => return Some(disk),
                Err(in_use) => disk = in_use,
            }
            lent = self.returned.wait(lent).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<RealDisk>>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of the disk.
struct InUse<'a> {
    of: &'a Lent,
    disk: Option<Arc<RealDisk>>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.disk = None;
        // Under the lock: the thread that takes the disk back has seen that it was in use, and waits already, or sees
        // it now.
        let lent = self.of.lock();
        if lent.is_none() {
            self.of.returned.notify_all();
        }
    }
}

impl Disk for Lent {
    type Work = DiskWork;
    type Done = DiskDone;

    fn submit(&self, work: DiskWork) -> bool {
        self.with(|disk| disk.submit(work)).unwrap_or(false)
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        self.with(|disk| disk.flush(done)).unwrap_or(false)
    }

    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>) {
        self.with(|disk| disk.on_done(done));
    }

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        self.with(|disk| disk.on_failed(failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_close_waits_for_the_last_call_of_the_disk_and_for_no_handle() {
        let dir = std::env::temp_dir().join(format!("thorp-test-close-{}", std::process::id()));
        let recover = || Recovered::read(&dir, &disk::Config::default(), store::Config::default(), |_| {});
        let runtime = Runtime::start().unwrap();
        let store = recover().unwrap().start(None, &runtime);
        let (host, disk) = (store.host().clone(), store.disk.clone());
        let (called, is_called) = channel();
        let (go_on, may_return) = channel();
        let call = thread::spawn(move || {
            disk.with(|_| {
                called.send(()).unwrap();
                may_return.recv().unwrap();
            })
        });
        is_called.recv().unwrap();
        let close = thread::spawn(move || store.close());
        assert_eq!(host.wait_end(), HostEnd::Closed);
        assert!(!close.is_finished(), "the disk is in use");
        assert!(recover().is_err(), "and so is the directory");
        go_on.send(()).unwrap();
        assert_eq!(call.join().unwrap(), Some(()));
        close.join().unwrap().unwrap();
        // The host is still held, and has no disk any more.
        drop(recover().unwrap());
        drop(host);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
