//! Panics: they end the host, as a failed disk does.
//!
//! A panic is a bug, and it is unknown what it has left half done. So nobody continues with that: every acknowledged
//! commit is in the log, and a new start recovers it.
//!
//! 1. No thread and no task of a host's vanishes unheard. Everything that works for a host does so inside of
//!    [`Core::contain`], or, if it is a task, of `tasks.rs`; whatever thread it is on, an application's too. A panic of
//!    what works for all hosts, the reactor, ends all of them.
//! 2. A panic under a machine's lock ends the machine before the lock is free ([`Core::with_role`]), and then all
//!    others of the host: nobody ever sees the machine that it has left. A front end has the lock, too, and calls its
//!    machine under it. Its panic is the application's thread's to unwind; the lock is poisoned by it, which happens
//!    before it is free, and the next thread that comes ends the machine first.
//! 3. So a machine that has had a panic says nothing more but that it ends. Everything that its host has said, until it
//!    has ended too, was said by machines that were whole.
//! 4. Code of the application's does not count: what it runs under the lock a front end catches there, and its wakers
//!    are caught here.

use crate::host::core::{Core, HostEnd};
use crate::host::role::Role;
use crate::lock::{Held, Rank};
use machine::{Goodbye, Hosted};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::task::Waker;
use types::{GoodbyeReason, said};

/// The reason's name, as the host counts it.
pub(crate) const PANICKED: &str = "panicked";

/// The text for a panic that has unwound a thread of the application's.
const ELSEWHERE: &str = "what it said is among the errors of the thread that called";

impl Core {
    /// Runs a part of the host's work. A panic ends the host; there is no answer then.
    pub(crate) fn contain<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| self.fail(PANICKED, &reason(&*panic))).ok()
    }

    /// Calls a machine under its lock. A panic, this one or one before, ends it before the lock is free, and then the
    /// others of the host; there is no answer then.
    pub(crate) fn with_role<R>(&self, role: &Role, call: impl FnOnce(&mut Hosted) -> R) -> Option<R> {
        let mut why = None;
        let mut answer = None;
        {
            let _held = Held::in_order(Rank::Machine);
            let mut hosted = role.hosted.lock().unwrap_or_else(|poisoned| {
                let mut hosted = poisoned.into_inner();
                self.end_machine(&mut hosted, why.insert(panicked(ELSEWHERE)));
                role.hosted.clear_poison();
                hosted
            });
            match catch_unwind(AssertUnwindSafe(|| call(&mut hosted))) {
                Ok(answered) => answer = Some(answered),
                Err(panic) => self.end_machine(&mut hosted, why.insert(reason(&*panic))),
            }
        }
        if let Some(why) = why {
            self.fail(PANICKED, &why);
        }
        answer
    }

    /// Ends the host, as if its process had died: no one hears from its machines again but that they end, and why.
    pub(crate) fn fail(&self, name: &'static str, why: &str) {
        // At once: nothing more is given to a disk.
        self.note_failure(name, why);
        for role in self.roles() {
            let _held = Held::in_order(Rank::Machine);
            self.end_machine(&mut role.hosted.lock().unwrap_or_else(PoisonError::into_inner), why);
        }
        self.say_end(why);
    }

    /// Ends a machine. Its lock is held.
    fn end_machine(&self, hosted: &mut Hosted, why: &str) {
        self.note_failure(PANICKED, why);
        // A machine that has panicked may panic again: nothing is expected of it any more.
        let _ = catch_unwind(AssertUnwindSafe(|| hosted.stop(why)));
    }

    /// Counts the first reason of a failure: the others come of it.
    pub(super) fn note_failure(&self, name: &'static str, why: &str) {
        if self.set_failure(why) {
            self.counters().refused(name);
        }
    }

    /// Tells everybody who waits for the host: other processes, the transactions of this one, and last the threads that
    /// wait for the host's end, since the process may be gone with that.
    fn say_end(&self, why: &str) {
        for connection in self.take_links() {
            let goodbye = Goodbye { reason: GoodbyeReason::Done, text: format!("it has stopped: {why}") };
            if catch_unwind(AssertUnwindSafe(|| connection.sender().end(goodbye))).is_err() {
                connection.sender().abandon();
            }
        }
        self.wake_all();
        self.finish(HostEnd::Failed(self.failure().unwrap_or(why).to_owned()));
    }

    /// Wakes all that wait for a transaction, and lets nobody wait any more.
    fn wake_all(&self) {
        for role in self.roles() {
            let waiting = role.wakers().end();
            waiting.into_iter().for_each(wake);
            role.wake_caller();
        }
    }
}

/// Wakes a task of the application's. Its waker is its own code: a panic there is none of ours, and has been said.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// The client at whose name in a message a host panics under its machine's lock, as it would at an error of a role's.
#[cfg(feature = "panics")]
pub const PANICS_AT: types::ClientId = types::ClientId(0xDEFE_C7ED);

/// Panics if a test wants it.
#[cfg(feature = "panics")]
pub(crate) fn panic_if_wanted(message: &machine::Parcel) {
    use std::fmt::Write;
    // A message of any family shows the client that it names.
    let mut shown = Beginning(String::new());
    let _ = write!(shown, "{message:?}");
    assert!(!shown.0.contains(&format!("{PANICS_AT:?}")), "as it was asked to");
}

/// The beginning of a text: a message may have megabytes.
#[cfg(feature = "panics")]
struct Beginning(String);

#[cfg(feature = "panics")]
impl std::fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if self.0.len() < 1024 { Ok(()) } else { Err(std::fmt::Error) }
    }
}

/// Why a host has ended after a panic, and what to do about it.
pub(crate) fn reason(panic: &(dyn Any + Send)) -> String {
    panicked(&format!("'{}'", said(panic)))
}

fn panicked(said: &str) -> String {
    format!("a part of it panicked ({said}), which is an error of Thorp's own: please report it")
}
