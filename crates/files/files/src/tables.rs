//! The figures of a site's server: names, units and meanings.

use machine::metrics::{Column, Described, Metrics};
pub use spread::tables::{FILE_SERVER, MEMBER, RELAY};

/// The server of a site.
pub const SITE: Metrics<7> = Metrics {
    name: "site",
    what: "a site that is served (docs/files.md)",
    columns: [
        Column::new("site", "name", "its name"),
        Column::new("revision", "now", "the number of its newest revision"),
        Column::new("connections", "total", "connections of clients"),
        Column::new("requests", "total", "requests of clients"),
        Column::new("refused", "total", "requests that were refused"),
        Column::new("chunks", "now", "chunks in the store"),
        Column::new("chunk_bytes", "bytes", "the bytes of these chunks"),
    ],
};

/// The tables of the status of a site's server.
pub const TABLES: &[Described<'static>] = &[SITE.described(), MEMBER.described()];
