//! The figures of a watcher: names, units and meanings.

use machine::metrics::{Column, Metrics};

/// A watcher of a store.
pub const WATCH_STORE: Metrics<3> = Metrics {
    name: "watch_store",
    what: "the watcher of a store of the process (docs/watch.md)",
    columns: [
        Column::new("state", "state", "`apart`, `waiting`, `not_leased`, `catching_up` or `watching`"),
        Column::new("spaces", "now", "spaces whose changes it learns of"),
        Column::new("changes", "total", "changes of pages that became visible"),
    ],
};
