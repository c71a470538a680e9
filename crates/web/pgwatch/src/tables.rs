//! The figures of a watcher: names, units and meanings.

use machine::metrics::{Column, Metrics};

/// A watcher of PostgreSQL.
pub const WATCH_DATABASE: Metrics<7> = Metrics {
    name: "watch_database",
    what: "the watcher of PostgreSQL of the process (docs/watch.md)",
    columns: [
        Column::new("state", "state", "`apart`, `not_awaited`, `catching_up`, `watching` or `leaving`"),
        Column::new("confirmed", "text", "the position in the database's log that is confirmed"),
        Column::new("commits", "total", "commits that change something of the publication"),
        Column::new("unheld", "total", "commits that were visible before they were confirmed"),
        Column::new("unconfirmed", "now", "commits that are not confirmed"),
        Column::new("unseen", "now", "confirmed commits that were not visible at the last look"),
        Column::new("connections", "total", "connections that were made to the database"),
    ],
};
