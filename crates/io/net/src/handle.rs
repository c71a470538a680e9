//! A machine of a host, as its front end calls it.

use crate::host::role::Shared;
use machine::{Driver, Hosted, Machine};
use std::fmt;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};
use types::Time;

/// A machine under its lock, and the driver beside it. A call that panics unwinds its thread, and ends the machine before
/// anybody else calls it.
pub struct Handle<M> {
    machine: Shared<M>,
    driver: Arc<dyn Driver>,
}

impl<M: Machine> Handle<M> {
    /// A machine, and the driver that hosts it.
    pub fn new(machine: Shared<M>, driver: Arc<dyn Driver>) -> Self {
        Self { machine, driver }
    }

    /// The machine's driver.
    #[inline]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Calls the machine, and carries out the results.
    pub fn call<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        self.call_if(|machine, _| (call(machine), true))
    }

    /// Calls the machine at the time of its driver. `call` returns its answer, and whether there may be results to carry
    /// out.
    pub fn call_if<R>(&self, call: impl FnOnce(&mut M, Time) -> (R, bool)) -> R {
        let (mut call, mut answer) = (Some(call), None);
        self.driver.call(&mut |hosted, now| {
            let machine = hosted.find_mut().expect("a handle has the machine's own driver");
            let call = call.take().expect("a driver calls once");
            let (answered, has_results) = call(machine, now);
            answer = Some(answered);
            has_results
        });
        answer.expect("a driver calls its machine, or unwinds")
    }

    /// Looks at the machine, or calls it for something that has no results to carry out.
    #[inline]
    pub fn look<R>(&self, look: impl FnOnce(&mut M) -> R) -> R {
        let unwinding = Unwinding(&*self.driver);
        let answer = look(self.lock().machine());
        mem::forget(unwinding);
        answer
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Hosted<M>> {
        self.machine.lock().unwrap_or_else(|poisoned| self.lock_again(poisoned))
    }

    /// A call that panicked has left the machine half changed: the driver finds the lock poisoned, and ends the machine.
    #[cold]
    fn lock_again(&self, poisoned: PoisonError<MutexGuard<'_, Hosted<M>>>) -> MutexGuard<'_, Hosted<M>> {
        drop(poisoned);
        self.driver.settle();
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look at the machine. If it panics, the driver learns of it at once, and so does everybody who waits.
struct Unwinding<'a>(&'a dyn Driver);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { machine: self.machine.clone(), driver: self.driver.clone() }
    }
}

impl<M> fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
