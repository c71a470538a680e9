//! A driver without a disk: a store in memory, for tests and trials.
//!
//! Disk work is done at once, under the node's lock. One thread keeps the clock: it sleeps until the node or a pausing
//! transaction has something due, and ends with the database.

use crate::{Database, Result};
use bytes::Bytes;
use client::{Client, TxnHandle};
use node::{Driver, Node, Output};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Instant;
use store::{Checkpoint, DiskDone, DiskWork, Opened, Store};
use types::{ClientId, ClusterId, Incarnation, Life, PageId, Time, Version};

/// Room that the log claims to have: nothing is kept in it.
const LOG_BYTES: u64 = 1 << 40;

impl Database {
    /// A store in memory, gone with the last handle to it.
    pub fn in_memory() -> Result<Arc<Self>> {
        Ok(Memory::open().1)
    }
}

struct Memory {
    node: Arc<Mutex<Node>>,
    home: Mutex<BTreeMap<PageId, (Version, Bytes)>>,
    waits: Mutex<Waits>,
    clock: Arc<Clock>,
}

/// Transactions that wait, and those that were woken before they came to wait.
#[derive(Default)]
struct Waits {
    wakers: BTreeMap<TxnHandle, Waker>,
    woken: BTreeSet<TxnHandle>,
    /// The node has ended: there is nothing to wait for.
    ended: bool,
}

struct Clock {
    start: Instant,
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    node: Option<Time>,
    alarms: Vec<(Time, Waker)>,
    ended: bool,
}

impl Memory {
    fn open() -> (Arc<Self>, Arc<Database>) {
        let random = || RandomState::new().hash_one(());
        let opened = Opened {
            cluster: ClusterId(random()),
            incarnation: Incarnation(1),
            life: Life(random()),
            checkpoint: Checkpoint::default(),
            pages: Vec::new(),
            log_bytes_free: LOG_BYTES,
        };
        let config = client::Config::default();
        let patience = config.patience;
        let client = Client::new(config, ClientId(random()));
        let node = Node::with_store(Store::new(store::Config::default(), opened), Some(client));
        let memory = Memory::start(node);
        let database = Database::over(memory.node.clone(), memory.clone(), patience);
        (memory, database)
    }

    fn start(mut node: Node) -> Arc<Self> {
        let clock = Arc::new(Clock { start: Instant::now(), due: Mutex::default(), changed: Condvar::new() });
        node.start(clock.now());
        let (home, waits) = Default::default();
        let memory = Arc::new(Self { node: Arc::new(Mutex::new(node)), home, waits, clock: clock.clone() });
        memory.settle();
        let weak = Arc::downgrade(&memory);
        std::thread::spawn(move || clock.run(&weak));
        memory
    }

    /// Does the node's work until it has none; gives the transactions to wake and when the node is next due.
    fn work(&self, node: &mut Node) -> (Vec<TxnHandle>, Option<Time>) {
        let mut woken = Vec::new();
        loop {
            node.settle(self.now());
            match node.poll_output() {
                Some(Output::Disk(work)) => node.disk(self.now(), self.disk(work)),
                Some(Output::Wake(txn)) => woken.push(txn),
                // There is no other process, and a store that has closed has nothing to do.
                Some(Output::Send(..) | Output::AwaitRoom(_) | Output::End(..) | Output::Dial(..) | Output::Closed) => {
                }
                None => return (woken, node.poll_timeout()),
            }
        }
    }

    fn disk(&self, work: DiskWork) -> DiskDone {
        let mut home = lock(&self.home);
        match work {
            DiskWork::Append(through, _) => DiskDone::Durable { through, log_bytes_free: LOG_BYTES },
            DiskWork::Free(_) | DiskWork::MakeRoom(_) => DiskDone::Freed { log_bytes_free: LOG_BYTES },
            DiskWork::Read(pages) => {
                DiskDone::Pages(pages.into_iter().map(|page| (page, home.get(&page).cloned())).collect())
            }
            DiskWork::Install(images, _) => {
                home.extend(images.into_iter().map(|image| (image.page, (image.version, image.image))));
                DiskDone::Installed
            }
        }
    }

    /// A panic has left the node half changed: nobody goes on with that.
    fn end_node(&self) {
        {
            let mut node = lock(&self.node);
            node.broken("it panicked, which is an error of Thorp's own: please report it");
            self.node.clear_poison();
        }
        let waiting = {
            let mut waits = lock(&self.waits);
            waits.ended = true;
            std::mem::take(&mut waits.wakers)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    fn wake(&self, woken: Vec<TxnHandle>) {
        for txn in woken {
            let waker = {
                let mut waits = lock(&self.waits);
                let waker = waits.wakers.remove(&txn);
                if waker.is_none() {
                    waits.woken.insert(txn);
                }
                waker
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Driver for Memory {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn settle(&self) {
        let work = || self.node.lock().ok().map(|mut node| self.work(&mut node));
        let Ok(Some((woken, due))) = catch_unwind(AssertUnwindSafe(work)) else { return self.end_node() };
        self.wake(woken);
        self.clock.node_due(due);
    }

    fn wake_on(&self, txn: TxnHandle, waker: &Waker) {
        let mut waits = lock(&self.waits);
        if waits.woken.remove(&txn) || waits.ended {
            waker.wake_by_ref();
        } else {
            waits.wakers.insert(txn, waker.clone());
        }
    }

    fn forget(&self, txn: TxnHandle) {
        let mut waits = lock(&self.waits);
        waits.wakers.remove(&txn);
        waits.woken.remove(&txn);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        lock(&self.clock.due).alarms.push((time, waker.clone()));
        self.clock.changed.notify_one();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        lock(&self.clock.due).ended = true;
        self.clock.changed.notify_one();
    }
}

impl Clock {
    fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    fn node_due(&self, time: Option<Time>) {
        let mut due = lock(&self.due);
        if due.node != time {
            due.node = time;
            self.changed.notify_one();
        }
    }

    fn run(&self, memory: &Weak<Memory>) {
        let mut due = lock(&self.due);
        while !due.ended {
            let now = self.now();
            let next = due.alarms.iter().map(|(time, _)| *time).chain(due.node).min();
            due = match next {
                None => self.changed.wait(due).unwrap_or_else(PoisonError::into_inner),
                Some(time) if time > now => {
                    self.changed.wait_timeout(due, time - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let rung = due.take_rung(now);
                    drop(due);
                    rung.into_iter().for_each(Waker::wake);
                    let Some(memory) = memory.upgrade() else { return };
                    // What panics here, the node's end finds.
                    let _ = catch_unwind(AssertUnwindSafe(|| lock(&memory.node).handle_timeout(now)));
                    memory.settle();
                    lock(&self.due)
                }
            };
        }
    }
}

impl Due {
    fn take_rung(&mut self, now: Time) -> Vec<Waker> {
        self.node = self.node.filter(|time| *time > now);
        let (rung, alarms) = std::mem::take(&mut self.alarms).into_iter().partition(|(time, _)| *time <= now);
        self.alarms = alarms;
        let rung: Vec<(Time, Waker)> = rung;
        rung.into_iter().map(|(_, waker)| waker).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Result, Transaction, block_on};
    use client::{Created, Read, TxnError, Write};
    use std::task::Poll;
    use types::ObjectId;

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
        let (memory, database) = Memory::open();
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
        let waits = lock(&memory.waits);
        assert_eq!((waits.woken.len(), waits.wakers.len()), (0, 0));
    }
}
