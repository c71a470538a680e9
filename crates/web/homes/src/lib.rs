//! The machines that make cached web responses coherent: a hub, which orders the updates of an origin, and homes, which
//! keep a version for each cached response.
//!
//! ```text
//!   updater ---- update, visible ----> Hub ---- marks, unmarks, leases ----> Home ---- writes ----> Table
//!                                                                             ^                       ^
//!                                                     ticket, store, free ----+                       |  reads, at every hit
//!                                                                             +------- cache ---------+
//! ```
//! A request that arrives after a writer was told that its update is done is never answered with a stored response that
//! lacks it. The writer is told when the hub has *released* the update, and the hub releases it when every home has let
//! go of the responses that it changes. After that the update is *marked* until it is visible, and what is fetched
//! in the meantime is not stored: it is unknown whether it is from before.
//!
//! The rules are those of [`Rule`]; `docs/coherence.md` says how they belong together. The ActiveCache paper (section
//! 3) has the version table, and invalidation before an update reaches the database, but neither marks nor leases.
//!
//! | module | duty |
//! |---|---|
//! | `hub` | orders updates, and releases them; gives homes their leases |
//! | `updater` | announces updates to a hub elsewhere |
//! | `home` | marks, tickets, slots |
//! | `table` | the versions, and the lookup at every hit |
//! | `caches`, `attached` | the caches of other processes at a home; a home, as such a cache has it |
//! | `look_ups` | lookups in the table of a home on another machine: who answers them, and who asks |
//! | `messages` | the three families that these machines speak |
//! | `marks` | the dependencies that are marked, or were since a ticket |
//! | `dependents` | the slots of a dependency, and the dependencies of a slot |
//! | `tables` | the figures of a status |
//! | `rule` | the rules by name |
#![no_std]

extern crate alloc;

mod attached;
mod caches;
mod dependents;
mod home;
mod hub;
mod look_ups;
mod marks;
pub mod messages;
mod rule;
mod table;
pub mod tables;
mod updater;

pub use crate::messages::caches::{NotStored, Proof, Ticket};
pub use crate::messages::hub::{Dependency, Fence, SourceName, UpdateId};
pub use crate::messages::look_ups::Window;
pub use attached::{Answer, Attached, Question};
pub use caches::{CHANGES, Change, ChangeId};
pub use home::{Home, HomeConfig, Matches};
pub use hub::{Hub, HubConfig};
pub use look_ups::{Clock, Found, LookUps, Responder, Wanted};
pub use rule::Rule;
pub use table::{Memory, NoTable, Table};
pub use updater::Updater;
