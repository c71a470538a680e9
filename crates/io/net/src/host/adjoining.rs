//! Two hosts of one process, of which one has a client and the other its server.
//!
//! ```text
//!   host of the client   ---------------- one host, until the application closes the database ---------------->
//!                          There |      | Gone          There |
//!   hosts of the server    ---- one term ----              ---- the next term ----
//! ```
//! Machines that live and end together share a host. A store that is made again from its directory while its client
//! lives has a host for each term. So a late report of the disk, an answer or a connection of one term cannot reach
//! the next.
//!
//! The thread that carries out what one machine has said tells the other one, as within one host. It does not hold a
//! lock of the first host by then.

use crate::host::core::Core;
use crate::host::flush::Flush;
use machine::{Event, Local, RoleId};
use std::sync::Arc;

impl Core {
    /// From now on machines of each are the other's for [`machine::Said::TellAdjoining`]. A host that adjoined one of
    /// them before does so no more.
    pub(crate) fn adjoin(&self, other: &Self) {
        *self.adjoining.lock() = other.weak();
        *other.adjoining.lock() = self.weak();
    }

    /// The adjoining host, if there is one.
    pub(crate) fn adjoining(&self) -> Option<Arc<Self>> {
        self.adjoining.lock().upgrade()
    }

    /// The adjoining host's part of a flush, as that host has it.
    pub(super) fn adjoining_part(&self, flush: Flush) -> Option<(Arc<Self>, Flush)> {
        let part = flush.adjoining_part();
        if part.is_nothing() { None } else { Some((self.adjoining()?, part)) }
    }

    /// Tells a machine, the client of one in the adjoining host, that this is there or gone.
    pub(crate) fn tell_of_adjoining(&self, role: RoleId, local: Local) {
        self.lead_as_application(self.drive(role, [Event::Local(local)]));
    }
}
