//! A home, as the caches of its process use it.

use crate::call::Called;
use homes::{Dependency, Home, NotStored, Proof, Table, Ticket};
use std::sync::Arc;

/// A cache's side of its home. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache {
    home: Called<Home>,
    table: Arc<Table>,
}

impl Cache {
    pub(crate) fn new(home: Called<Home>) -> Self {
        let table = home.look(|home| home.table());
        Self { home, table }
    }

    /// A ticket for a response that is about to be asked for. Without one it must not be stored: the home has no lease.
    pub fn ticket(&self) -> Option<Ticket> {
        self.home.look(|home| home.ticket(self.home.driver().now()))
    }

    /// Stores a response that was asked for after the ticket was given, with all that it depends on:
    /// [`Dependency::ALL`] alone if nothing is known of that.
    ///
    /// # Errors
    /// Why it must not be stored. It is given to the request that has fetched it, and to no other.
    pub fn store(&self, ticket: Ticket, dependencies: &[Dependency]) -> Result<Proof, NotStored> {
        // The clock is read under the home's lock: a caller may have waited for that until the lease was over.
        self.home.look(|home| home.store(self.home.driver().now(), ticket, dependencies))
    }

    /// Whether a stored response answers a request that has come before this call.
    #[inline]
    pub fn is_current(&self, proof: &Proof) -> bool {
        self.table.is_current(proof, || self.home.driver().now())
    }

    /// Nothing that was stored before is current any more.
    pub fn lapse_all(&self) {
        self.home.look(Home::lapse_all);
    }

    /// A response is not kept any longer.
    pub fn free(&self, proof: Proof) {
        self.home.look(|home| home.free(proof));
    }

    /// The dependencies of a stored response; none if it is not current.
    pub fn dependencies(&self, proof: Proof) -> Vec<Dependency> {
        self.home.look(|home| home.dependencies(proof))
    }

    /// The slots of the stored responses that depend on it, as their proofs have them.
    pub fn slots_of<C: FromIterator<u32>>(&self, dependency: &Dependency) -> C {
        self.home.look(|home| home.slots_of(dependency).collect())
    }

    /// The place of a stored response as it is now: another proof than its own when it is not current.
    pub fn proof_now(&self, proof: Proof) -> Proof {
        self.home.look(|home| home.proof_now(proof))
    }

    /// The number of stored responses that depend on it.
    pub fn dependents(&self, dependency: &Dependency) -> usize {
        self.home.look(|home| home.dependents(dependency))
    }
}
