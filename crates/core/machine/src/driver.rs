//! The requests of the application's side to the driver, whichever it is: the network's drive loop or the simulator;
//! and those of the drive loop to a disk, so that neither of the two crates needs to know the other.

use crate::hosted::Hosted;
use crate::machine::Waiter;
use crate::work::Done;
use alloc::boxed::Box;
use core::fmt::Debug;
use core::task::Waker;
use types::Time;

/// The driver of a machine, as its front end sees it. The machine itself is beside it under a mutex, which a front end
/// may lock to look at it. A panic under that lock poisons it, and the next caller, which finds it poisoned, calls
/// [`Driver::settle`] first, which ends the machine.
pub trait Driver: Send + Sync {
    /// The time.
    fn now(&self) -> Time;

    /// Calls the machine once under its lock, and carries out the results when the lock is free. `call` returns whether
    /// there may be any. A panic of `call` ends the machine, and unwinds the caller's thread.
    fn call(&self, call: &mut dyn FnMut(&mut Hosted, Time) -> bool);

    /// Carries out what the machine wants done. The caller does not hold its lock.
    fn settle(&self);

    /// Wakes `waker` at the next [`crate::Said::Wake`] under this number. One that came since the caller's last call of
    /// the machine counts: it is not lost between that and this one. A later waker takes the place of an earlier.
    fn wake_on(&self, waiter: Waiter, waker: &Waker);

    /// Nobody waits under this number now: the task that waited was dropped, or what it waited for has ended. A wake
    /// that came for it is not kept. The next [`Driver::wake_on`] is of a task that has asked since.
    fn forget(&self, waiter: Waiter);

    /// Wakes `waker` at `time`.
    fn wake_at(&self, time: Time, waker: &Waker);

    /// The caller's thread has nothing to do until `woken` says that a waker of its own was woken: until then it may do
    /// the driver's work, which saves the waking of a thread. Returns at once if there is nothing that the thread could
    /// do; whether it was woken is for the caller to see.
    fn assist(&self, woken: &dyn Fn() -> bool) {
        let _ = woken;
    }
}

/// A machine's disk, as the drive loop sees it.
///
/// Appends queue up until a thread flushes them; the thread that leads a flush writes everything that has queued up
/// with one sync (group commit). So a lone committer's own thread does its sync, without a hand-over, and what comes
/// in in the meantime goes together with the next one. All other work is done by threads of the disk's own.
pub trait Disk: Send + Sync + 'static {
    /// The work that its machine gives it.
    type Work: Debug + Send + 'static;

    /// The outcome that it reports.
    type Done: Done;

    /// Queues work, and returns at once. Returns whether [`Disk::flush`] should be called for it.
    fn submit(&self, work: Self::Work) -> bool;

    /// If appends are queued and no thread is flushing, this one becomes the leader: it writes everything that is
    /// queued, waits until it is durable, calls `done` with that they are, and leads no longer. A disk without threads
    /// of its own does all other work that is queued here, too.
    ///
    /// Returns whether, at the moment the leadership ended, more was queued: then the caller sees to it that somebody
    /// calls again. A call that finds another leader, or nothing to do, returns `false` at once; records queued by then
    /// are seen by that leader. `done` may call [`Disk::submit`], but not [`Disk::flush`].
    fn flush(&self, done: &mut dyn FnMut(Self::Done)) -> bool;

    /// Whether a flush waits for anything. If not, a thread may lead it that must not wait.
    fn waits(&self) -> bool {
        true
    }

    /// Registers who learns of the work that the disk's own threads have done. Called once, before any work.
    fn on_done(&self, done: Box<dyn Fn(Self::Done) + Send + Sync>);

    /// Registers a callback for a failed write or sync, with a line for a person ([`crate::Machine::disk_failed`]). The
    /// disk does no more work that was given to it before; one that works again later, if its machine has lived on,
    /// reports that by an outcome of its own. Called once, before any work.
    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>);
}
