//! A store in memory, for tests and trials: its disk keeps pages in a map, and no log.

use crate::open::{new_client, runtime};
use crate::{Config, Database, Result};
use bytes::Bytes;
use client::Client;
use machine::{Disk, RoleId};
use net::{Host, Machines};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Checkpoint, DiskDone, DiskWork, Opened, Store};
use types::{ClusterId, Incarnation, Life, PageId, Version};

/// Room that the log claims to have: nothing is kept in it.
const LOG_BYTES: u64 = 1 << 40;

impl Database {
    /// A store in memory, gone with the last handle to it.
    ///
    /// # Errors
    /// [`crate::Error::Open`] if the system has no threads left.
    pub fn in_memory() -> Result<Arc<Self>> {
        Ok(in_memory()?.2)
    }
}

/// A store in memory: its host, and there its client, as a database.
fn in_memory() -> Result<(Arc<Host>, RoleId, Arc<Database>)> {
    let random = || RandomState::new().hash_one(());
    let opened = Opened {
        cluster: ClusterId(random()),
        incarnation: Incarnation(1),
        life: Life(random()),
        checkpoint: Checkpoint::default(),
        pages: Vec::new(),
        log_bytes_free: LOG_BYTES,
    };
    let config = Config::default();
    let mut machines = Machines::new();
    let store = Store::new(config.store.clone(), opened);
    let (store, _) = machines.add_with_disk(store, Arc::new(MemoryDisk::default()));
    let (client, shared) = machines.add(Client::new(config.client.clone(), new_client()));
    machines.link(client, store);
    let host = Host::start(machines, runtime()?);
    let database = Database::over(shared, host.driver(client), config.client.patience);
    Ok((host, client, database))
}

/// The disk of a store in memory.
#[derive(Debug, Default)]
struct MemoryDisk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    queued: VecDeque<DiskWork>,
    home: BTreeMap<PageId, (Version, Bytes)>,
    /// A thread does what was queued, and reports it.
    is_led: bool,
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn perform(&mut self, work: DiskWork) -> DiskDone {
        match work {
            DiskWork::Append(through, _) => DiskDone::Durable { through, log_bytes_free: LOG_BYTES },
            // A store of one node never asks.
            DiskWork::ReadLog => DiskDone::Log { records: Vec::new(), is_last: true },
            DiskWork::Free(_) | DiskWork::MakeRoom(_) => DiskDone::Freed { log_bytes_free: LOG_BYTES },
            DiskWork::Read(pages) => {
                DiskDone::Pages(pages.into_iter().map(|page| (page, self.home.get(&page).cloned())).collect())
            }
            DiskWork::Install(images, _) => {
                self.home.extend(images.into_iter().map(|image| (image.page, (image.version, image.image))));
                DiskDone::Installed
            }
        }
    }
}

impl Disk for MemoryDisk {
    type Work = DiskWork;
    type Done = DiskDone;

    fn submit(&self, work: DiskWork) -> bool {
        self.lock().queued.push_back(work);
        true
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        let performed: Vec<_> = {
            let mut state = self.lock();
            if state.is_led {
                return false;
            }
            state.is_led = true;
            let queued = mem::take(&mut state.queued);
            queued.into_iter().map(|work| state.perform(work)).collect()
        };
        performed.into_iter().for_each(done);
        let mut state = self.lock();
        state.is_led = false;
        !state.queued.is_empty()
    }

    fn waits(&self) -> bool {
        false
    }

    fn on_done(&self, _: Box<dyn Fn(DiskDone) + Send + Sync>) {}

    fn on_failed(&self, _: Box<dyn Fn(&str) + Send + Sync>) {}
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Result, Transaction, block_on};
    use client::{Created, Read, TxnError, Write};
    use std::task::Poll;
    use types::{ObjectId, Time};

    /// Calls the client for one operation of a transaction.
    fn call<R>(
        database: &Database,
        transaction: &Transaction,
        call: impl FnMut(&mut Client, Time) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let (txn, mut call) = (transaction.handle(), call);
        block_on(database.wait(txn, |client, now| call(client, now)))
    }

    /// Commits an object with these bytes.
    pub(crate) fn create(database: &Arc<Database>, bytes: &'static [u8]) -> ObjectId {
        let transaction = Transaction::begin(database).unwrap();
        let txn = transaction.handle();
        let created = call(database, &transaction, |client, now| {
            Ok(match client.create(now, txn, 0, None, Bytes::from_static(bytes))? {
                Created::Object(object) => Poll::Ready(object),
                Created::Wait => Poll::Pending,
            })
        });
        let object = created.unwrap();
        assert!(block_on(transaction.commit(None)).unwrap().version.is_some());
        object
    }

    /// The bytes of an object, in a transaction that commits.
    pub(crate) fn read(database: &Arc<Database>, object: ObjectId) -> Vec<u8> {
        let transaction = Transaction::begin(database).unwrap();
        let txn = transaction.handle();
        let bytes = call(database, &transaction, |client, now| {
            Ok(match client.read(now, txn, object)? {
                Read::Value(bytes) => Poll::Ready(bytes.to_vec()),
                Read::Absent => panic!("{object} is gone"),
                Read::Wait => Poll::Pending,
            })
        });
        let bytes = bytes.unwrap();
        assert_eq!(block_on(transaction.commit(None)).unwrap().version, None);
        bytes
    }

    /// Writes an object in a transaction, and leaves it at that.
    fn write(database: &Database, transaction: &Transaction, object: ObjectId) {
        let txn = transaction.handle();
        let written = call(database, transaction, |client, now| {
            Ok(match client.write(now, txn, object, Bytes::from_static(b"written"))? {
                Write::Done => Poll::Ready(()),
                Write::Full => panic!("{object} has no room"),
                Write::Wait => Poll::Pending,
            })
        });
        written.unwrap();
    }

    #[test]
    fn nothing_stays_behind_of_transactions_that_have_ended() {
        let (host, client, database) = in_memory().unwrap();
        let object = create(&database, b"created");
        for _ in 0..100 {
            read(&database, object);
            block_on(Transaction::begin(&database).unwrap().commit(None)).unwrap();
            for commits in [true, false] {
                let transaction = Transaction::begin(&database).unwrap();
                write(&database, &transaction, object);
                if commits {
                    block_on(transaction.commit(None)).unwrap();
                } else {
                    transaction.abort();
                }
            }
        }
        assert_eq!(host.waiting(client), (0, 0));
    }
}
