//! What the application's side asks of the driver, whichever it is: the network's drive loop or the simulator; and
//! what the drive loop asks of the disk, so that neither of the two crates needs to know the other.

use alloc::boxed::Box;
use client::TxnHandle;
use core::task::Waker;
use store::{DiskDone, DiskWork};
use types::Time;

/// The driver of a node, as a front door sees them. The node itself stands beside them under one mutex; a front door
/// locks it, calls its client, unlocks it, and lets the driver settle what came of it. A panic of such a call poisons the
/// lock, and whoever finds it poisoned calls [`Driver::settle`] first, which ends the node.
pub trait Driver: Send + Sync {
    /// The time.
    fn now(&self) -> Time;

    /// Carries out what the node wants done. The caller does not hold the node's lock.
    fn settle(&self);

    /// Wakes `waker` at the next [`crate::Output::Wake`] of this transaction. One that came since the transaction's
    /// last call counts: it is not lost between the call and this one. A later waker takes the place of an earlier.
    fn wake_on(&self, txn: TxnHandle, waker: &Waker);

    /// Nobody waits for this transaction now: what waited was dropped, or the transaction has ended. A wake that came
    /// for it is not kept. The next [`Driver::wake_on`] is of whoever has asked since.
    fn forget(&self, txn: TxnHandle);

    /// Wakes `waker` at `time`.
    fn wake_at(&self, time: Time, waker: &Waker);

    /// The caller's thread has nothing to do until `woken` says that a waker of its own was woken: until then it may do
    /// the driver's work, which spares whoever does it else the waking of a thread. Returns at once if there is nothing
    /// that the thread could do; whether it was woken is for the caller to see.
    fn assist(&self, woken: &dyn Fn() -> bool) {
        let _ = woken;
    }
}

/// A store's disk, as the drive loop sees it.
///
/// Appends queue up until a thread flushes them; the thread that leads a flush writes everything that has queued up
/// with one sync (group commit). So a lone committer's own thread does its sync, without a hand-over, and what comes
/// in meanwhile goes together with the next one. All other work is done by threads of the disk's own.
pub trait Disk: Send + Sync {
    /// Queues work. Returns at once.
    fn submit(&self, work: DiskWork);

    /// If appends are queued and no thread is flushing, this one becomes the leader: it writes all that is queued,
    /// waits until it is durable, calls `done` with [`DiskDone::Durable`], and leads no longer.
    ///
    /// Returns whether, at the moment the leadership ended, more was queued: then the caller sees to it that
    /// somebody calls again. A call that finds another leader, or nothing to do, returns `false` at once; what was
    /// queued by then is seen by that leader. `done` may call [`Disk::submit`], but not [`Disk::flush`].
    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool;

    /// Registers who hears of the work that the disk's own threads have done. Called once, before any work.
    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>);

    /// Registers who hears that a write or sync has failed, with a line for a person. Nothing is done after that:
    /// the node ends, and recovery decides from what is on the disk. Called once, before any work.
    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>);
}
