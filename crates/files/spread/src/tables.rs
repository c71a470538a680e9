//! The tables of the status of a file server, a relay and a member: columns, units and meanings.

use machine::metrics::{Column, Described, Metrics};

/// The file server.
pub const FILE_SERVER: Metrics<3> = Metrics {
    name: "file_server",
    what: "the file server of the store (docs/files.md)",
    columns: [
        Column::new("sites", "now", "its sites"),
        Column::new("subscribers", "now", "members and relays that are connected"),
        Column::new("published", "total", "revisions that were published"),
    ],
};

/// The relay.
pub const RELAY: Metrics<5> = Metrics {
    name: "relay",
    what: "the relay of published files of the group (docs/files.md)",
    columns: [
        Column::new("sites", "now", "sites that a member follows"),
        Column::new("members", "now", "members that are connected"),
        Column::new("chunks", "now", "chunks in its cache"),
        Column::new("chunk_bytes", "bytes", "the bytes of these chunks"),
        Column::new("fetched", "total", "chunks that it fetched from its store"),
    ],
};

/// The member.
pub const MEMBER: Metrics<12> = Metrics {
    name: "member",
    what: "the member that follows a site (docs/files.md)",
    columns: [
        Column::new("revision", "now", "the number of the revision that it serves"),
        Column::new("newest", "now", "the number of the newest revision that it was offered"),
        Column::new("is_stale", "flag", "1 while it says that its revision may not be the newest"),
        Column::new("missing", "now", "chunks of the next revision that it is known to lack"),
        Column::new("ahead", "now", "chunks that it fetched of uploads, before they are part of a revision"),
        Column::new("held", "now", "revisions that visitors read, or may come back to"),
        Column::new("fetched", "total", "chunks that it fetched"),
        Column::new("fetched_bytes", "total", "the bytes of these chunks"),
        Column::new("content_bytes", "bytes", "content that it keeps, where it keeps a part"),
        Column::new("content_bytes_max", "bytes", "the most that it keeps of it; 0 where it keeps all"),
        Column::new("waiting", "now", "chunks of content that are fetched for readers"),
        Column::new("removed", "total", "chunks of content that were removed to make room"),
    ],
};

/// The tables of a status.
pub const TABLES: &[Described<'static>] = &[FILE_SERVER.described(), RELAY.described(), MEMBER.described()];
