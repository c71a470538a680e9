//! The settings of a watcher.

use crate::database::Database;
use crate::map::Map;
use std::time::Duration;

/// The settings of a watcher.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// Where the database is, and who asks.
    pub database: Database,
    /// The name of the publication.
    pub publication: String,
    /// The name of the slot, by which the server also knows the watcher in `synchronous_standby_names`.
    pub slot: String,
    /// The rules from rows to dependencies.
    pub map: Map,
    /// How often the server is asked whether this watcher has the slot.
    pub ping: Duration,
    /// How long its answer stands, counted from the question. The leases of homes at a hub of this process end within
    /// that; and then everything is marked, and another connection is tried.
    pub lease: Duration,
    /// The pause before another connection is tried.
    pub retry: Duration,
    /// The longest lease that a hub of another watcher, which may have had the slot, can have given its homes: for as
    /// long this one confirms nothing when it has got the slot. Zero where all watchers have one hub.
    pub others_lease: Duration,
}

impl WatchConfig {
    /// The usual settings.
    pub fn new(database: impl Into<Database>, publication: impl Into<String>, map: Map) -> Self {
        Self {
            database: database.into(),
            publication: publication.into(),
            slot: "thorp_watch".to_owned(),
            map,
            ping: Duration::from_millis(100),
            lease: Duration::from_secs(2),
            retry: Duration::from_millis(200),
            others_lease: Duration::ZERO,
        }
    }
}
