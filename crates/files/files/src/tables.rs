//! The figures of a site's server: names, units and meanings.

use machine::metrics::{Column, Described, Metrics};
pub use spread::tables::{FILE_SERVER, MEMBER, RELAY};

/// The server of a site.
pub const SITE: Metrics<8> = Metrics {
    name: "site",
    what: "a site that is served (docs/files.md)",
    columns: [
        Column::new("site", "name", "its name"),
        Column::new("revision", "now", "the number of its newest revision"),
        Column::new("connections", "total", "connections of clients"),
        Column::new("requests", "total", "requests of clients"),
        Column::new("refused", "total", "requests that were refused"),
        Column::new("skipped_rules", "total", "lines of `_redirects` and `_headers` that were skipped"),
        Column::new("chunks", "now", "chunks in the store"),
        Column::new("chunk_bytes", "bytes", "the bytes of these chunks"),
    ],
};

/// A site that is mounted.
pub const MOUNT: Metrics<11> = Metrics {
    name: "mount",
    what: "a site that is mounted (docs/files.md)",
    columns: [
        Column::new("site", "name", "its name"),
        Column::new("revision", "now", "the number of its newest revision"),
        Column::new("open", "now", "open files and directories"),
        Column::new("inodes", "now", "inodes that the kernel knows"),
        Column::new("opens", "total", "files that were opened"),
        Column::new("reads", "total", "reads that the kernel could not do from its own memory"),
        Column::new("chunks", "now", "chunks in the store"),
        Column::new("chunk_bytes", "bytes", "the bytes of these chunks"),
        Column::new("passthrough_opens", "total", "files that were opened with passthrough"),
        Column::new("assembled", "now", "files that are assembled for passthrough"),
        Column::new("assembled_bytes", "bytes", "the bytes of these files"),
    ],
};

/// The tables of the status of a site's server.
pub const TABLES: &[Described<'static>] = &[SITE.described(), MEMBER.described()];

/// The tables of the status of a mount.
pub const MOUNT_TABLES: &[Described<'static>] = &[MOUNT.described(), MEMBER.described()];
