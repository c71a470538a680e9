//! The machines of the web front end in this process, as a cache and an updater call them.
//!
//! ```text
//!   alone                              several processes
//!
//!   +------- Site -------+             +-- Site --+     +------ Site ------+     +-- Updates --+
//!   | Cache -- Home      |             | Cache -- Home ------> Hub <-------------- Updater     |
//!   |           |        |             +----------+ TCP | (and a Home)     | TCP +-------------+
//!   | Updates - Hub      |                              +------------------+
//!   +--------------------+
//! ```
//! Caches of several processes share a home by a [`HomeServer`]; each has it as an [`AttachedHome`].
//!
//! A [`Cache`] takes a ticket before it asks the origin, stores what it has got, and looks at each hit; an [`Updates`]
//! announces what is about to change, and waits until it may. `docs/coherence.md` has the rules.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use coherence::{Dependency, Site, SiteConfig};
//!
//! let site = Site::start(&SiteConfig::default(), &net::Runtime::start()?)?;
//! let cache = site.cache();
//! let item = Dependency::new("item:42").unwrap();
//!
//! // The origin is asked when the ticket is there, and its response is stored under what it depends on.
//! if let Some(ticket) = cache.ticket() {
//!     let stored = cache.store(ticket, std::slice::from_ref(&item)).await?;
//!     assert!(stored.is_current());
//!     let update = site.updates().announce(vec![item]).await?;
//!     // Now the change is made. No cache answers without it any more.
//!     assert!(!stored.is_current());
//!     update.visible();
//! }
//! # Ok(())
//! # }
//! ```

mod announced;
mod ask;
mod attached_home;
mod cache;
mod changes;
mod error;
mod far;
mod finding;
mod mapping;
mod one_sided;
mod probe;
mod shared_home;
mod site;
mod thread_tables;
mod updates;
mod version_table;

pub use announced::Announced;
pub use attached_home::{AttachedHome, HomeAddress};
pub use cache::{Cache, Claim};
pub use changes::Changes;
pub use error::SiteError;
pub use fabric::FabricError;
pub use finding::{Finding, Severity};
pub use homes::{Dependency, Fence, Matches, NotStored, Proof, SourceName, Ticket};
pub use probe::OneHub;
pub use shared_home::{HomeServer, ShareConfig};
pub use site::{Site, SiteConfig, SourceLease};
pub use thread_tables::ThreadTables;
pub use updates::{Ended, Update, Updates};
