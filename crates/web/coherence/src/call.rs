//! A call of a machine in this process.

use machine::{Driver, Machine};
use net::Shared;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// A machine, and its driver.
pub(crate) struct Called<M> {
    machine: Shared<M>,
    driver: Arc<dyn Driver>,
}

impl<M: Machine> Called<M> {
    pub(crate) fn new(machine: Shared<M>, driver: Arc<dyn Driver>) -> Self {
        Self { machine, driver }
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Calls the machine, and lets its driver carry out what comes of that.
    pub(crate) fn call<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        let answer = self.look(call);
        self.driver.settle();
        answer
    }

    /// Calls the machine for what it knows: nothing comes of that.
    pub(crate) fn look<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        let mut machine = self.machine.lock().unwrap_or_else(|poisoned| {
            // A call has panicked: the driver finds the lock poisoned, and stops the machine.
            drop(poisoned);
            self.driver.settle();
            self.machine.lock().unwrap_or_else(PoisonError::into_inner)
        });
        call(machine.machine())
    }
}

impl<M> Clone for Called<M> {
    fn clone(&self) -> Self {
        Self { machine: self.machine.clone(), driver: self.driver.clone() }
    }
}

impl<M> fmt::Debug for Called<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Called").finish_non_exhaustive()
    }
}
