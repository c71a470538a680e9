//! The tables of a home's, a hub's and an updater's status: columns, units and meanings.

use machine::metrics::{Column, Described, Metrics};

/// The home.
pub const HOME: Metrics<5> = Metrics {
    name: "home",
    what: "the home of the process",
    columns: [
        Column::new("life", "text", "the number of this run of the home"),
        Column::new("joined", "flag", "1 while it has a session with its hub, and knows of all outstanding marks"),
        Column::new("responses", "now", "stored responses whose version it keeps"),
        Column::new("updates_marked", "now", "updates that are marked and not visible yet"),
        Column::new("caches", "now", "caches of other processes that share it"),
    ],
};

/// The hub.
pub const HUB: Metrics<5> = Metrics {
    name: "hub",
    what: "the hub of the process",
    columns: [
        Column::new("homes", "now", "homes that are connected"),
        Column::new("updaters", "now", "updaters of other processes"),
        Column::new("sources_away", "now", "sources that are away or catching up: nothing is stored"),
        Column::new("updates_under_way", "now", "updates that are not visible yet"),
        Column::new("updates_released", "total", "updates that were released"),
    ],
};

/// The connection of an updater to a hub in another process.
pub const UPDATER: Metrics<2> = Metrics {
    name: "updater",
    what: "the updater of the process, whose hub is elsewhere",
    columns: [
        Column::new("life", "text", "the number of this run of the updater"),
        Column::new("updates_under_way", "now", "updates that are not visible yet"),
    ],
};

/// The tables of a status.
pub const TABLES: &[Described<'static>] = &[HOME.described(), HUB.described(), UPDATER.described()];
