//! The figures of a node for an operator, table by table: names, units, meanings. The one list of them: the tables of
//! `thorp status` take their columns from it, and docs/metrics.md is made from it.

use alloc::string::String;
use alloc::vec::Vec;
use protocol::{Cell, Table};

/// One thing that is told.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The unit that it is counted in: `total` since the process started, `now` at the moment, `count` a number of the
    /// store's updates.
    pub unit: &'static str,
    /// The meaning.
    pub what: &'static str,
}

/// A table of them.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<const N: usize> {
    /// Its name.
    pub name: &'static str,
    /// The meaning of a row.
    pub what: &'static str,
    /// The columns and their meanings.
    pub columns: [Column; N],
}

const fn column(name: &'static str, unit: &'static str, what: &'static str) -> Column {
    Column { name, unit, what }
}

impl<const N: usize> Metrics<N> {
    /// The table with these rows.
    pub fn table(&self, rows: impl Iterator<Item = [Cell; N]>) -> Table {
        let columns = self.columns.iter().map(|column| String::from(column.name)).collect();
        Table { name: self.name.into(), columns, rows: rows.map(Vec::from).collect() }
    }

    /// The table with one row, each fact of which says its name again.
    pub fn one(&self, facts: [(&str, Cell); N]) -> Table {
        let named = facts.iter().map(|(name, _)| *name).eq(self.columns.iter().map(|column| column.name));
        debug_assert!(named, "the facts of table {} are not called as its columns", self.name);
        let row = facts.map(|(_, fact)| fact);
        self.table(core::iter::once(row))
    }

    fn described(&self) -> Described<'_> {
        (self.name, self.what, &self.columns)
    }
}

/// A table's name, what a row of it is, and its columns.
pub type Described<'a> = (&'a str, &'a str, &'a [Column]);

/// All tables, in the order in which they are told.
pub fn all() -> [Described<'static>; 11] {
    [
        STORE.described(),
        SPACES.described(),
        SESSIONS.described(),
        REFUSALS.described(),
        DAMAGED_PAGES.described(),
        REDIRECTOR.described(),
        MEMBERS.described(),
        COUNTS.described(),
        CLIENT.described(),
        VOLUME_HOMES.described(),
        LINKS.described(),
    ]
}

/// The store.
pub const STORE: Metrics<15> = Metrics {
    name: "store",
    what: "the store of the process",
    columns: [
        column("applied", "count", "the last update that is applied: what the horizon of a cache can be at most"),
        column("pruned", "count", "what changed after this count is known slot by slot; a cache behind it drops pages"),
        column("sessions", "now", "sessions past their hello, of clients and redirectors"),
        column("commits", "total", "commits that became durable"),
        column("read_only", "total", "commits that wrote nothing and were validated"),
        column("refused", "total", "commits that were refused; table `refusals` says why"),
        column("pages_sent", "total", "pages sent in answer to fetches"),
        column("pages", "now", "pages that exist: those that were ever granted"),
        column("pages_granted", "now", "of these, those that clients have to create objects in, and have not yet"),
        column("pages_spare", "now", "of these, those that were emptied or given back, and are granted again first"),
        column("mob_bytes", "bytes", "committed changes that are not home"),
        column("cache_bytes", "bytes", "images of pages kept in memory"),
        column("recovered_commits", "total", "commits found in the log when the store was opened"),
        column(
            "commits_gone",
            "now",
            "commits that clients had heard of before the store was restored to an older state",
        ),
        column("pages_damaged", "total", "pages that could not be read since the start; `damaged_pages` lists them"),
    ],
};

/// Its spaces.
pub const SPACES: Metrics<3> = Metrics {
    name: "spaces",
    what: "a space in which pages were granted, or that is leased",
    columns: [
        column("space", "number", "the space's number; `thorp spaces` says its name, and 4294967295 is the catalog's"),
        column("pages", "now", "pages that exist in it: those that were ever granted"),
        column("leased", "name", "`yes` if groups have leases on it"),
    ],
};

/// Its sessions.
pub const SESSIONS: Metrics<13> = Metrics {
    name: "sessions",
    what: "a session of the store",
    columns: [
        column("session", "number", "the session, numbered by the store's process"),
        column("client", "name", "whose it is: a client's, or a redirector's"),
        column("group", "name", "the group that it leads"),
        column("epoch", "number", "the number of that claim"),
        column("address", "address", "where the leader takes members"),
        column("members", "now", "clients that it speaks for"),
        column("acked", "count", "the horizon that it has acknowledged; nothing before it has joined"),
        column("lag", "counts", "how far that is behind the store"),
        column("pages", "now", "pages that it is listed for"),
        column("fetches", "now", "pages that it waits for"),
        column("commits", "now", "commits whose outcome it waits for"),
        column("notices", "now", "notices that wait for its next batch"),
        column("watches", "name", "`yes` if it is a watcher's: commits of leased spaces wait for it"),
    ],
};

/// Why commits were refused.
pub const REFUSALS: Metrics<2> = Metrics {
    name: "refusals",
    what: "a reason for which commits were refused (docs/refusals.md)",
    columns: [column("reason", "name", "the reason"), column("count", "total", "commits refused for it")],
};

/// Pages that cannot be read.
pub const DAMAGED_PAGES: Metrics<2> = Metrics {
    name: "damaged_pages",
    what: "a page that could not be read since the start, one of the first 100 (docs/formats.md, *Damage*)",
    columns: [column("page", "name", "the space and the number of the page"), column("why", "text", "the damage")],
};

/// The redirector.
pub const REDIRECTOR: Metrics<14> = Metrics {
    name: "redirector",
    what: "the redirector of the process",
    columns: [
        column("group", "name", "the group that it serves or may serve"),
        column("address", "address", "where it takes members"),
        column("state", "name", "`leads`, `stands_by`, `without_store` or `over`"),
        column("epoch", "number", "the number of its claim, if it leads"),
        column("other_leader", "address", "who leads, if it does not"),
        column("why_over", "text", "why there will be no session with the store any more"),
        column("horizon", "count", "it has heard of every change through here to what its group holds"),
        column("members", "now", "clients that are members or about to be"),
        column("fetches", "now", "fetches from the store that are outstanding"),
        column("helps", "now", "pages on their way between members"),
        column("commits", "now", "commits on their way to the store"),
        column("retained_bytes", "bytes", "what those write, kept until the reply"),
        column("standby_pages", "now", "pages in the stand-by cache"),
        column("standby_bytes", "bytes", "what they take"),
    ],
};

/// Its members.
pub const MEMBERS: Metrics<8> = Metrics {
    name: "members",
    what: "a member of the group",
    columns: [
        column("client", "name", "the client"),
        column("state", "name", "`member`, or `joins` while what it holds is compared"),
        column("acked", "count", "the horizon that it has acknowledged"),
        column("lag", "counts", "how far that is behind the redirector"),
        column("pages", "now", "pages that it holds, or may soon install"),
        column("whole", "now", "those that it has without holes, and can give to others"),
        column("asked", "now", "pages that it was asked to give and has not given yet"),
        column("eligible", "address", "where it would lead the group"),
    ],
};

/// The redirector's counts.
pub const COUNTS: Metrics<15> = Metrics {
    name: "counts",
    what: "what the redirector has done",
    columns: [
        column("trunk_sessions", "total", "sessions with the store"),
        column("wanted", "total", "pages that members asked for"),
        column("from_standby", "total", "pages given from the stand-by cache"),
        column("from_peers", "total", "pages given by neighbours"),
        column("from_store", "total", "pages given by the store"),
        column("coalesced", "total", "pages that were wanted while a fetch of them was under way"),
        column("fetches", "total", "fetch messages sent to the store, each a round trip"),
        column("helps", "total", "pages that members were asked to give to others"),
        column("refused_help", "total", "pages that a member was asked for and did not have whole"),
        column("late_help", "total", "pages that a member was asked for and did not give in time"),
        column("relayed", "total", "pages between members that came by way of the redirector"),
        column("commits", "total", "commit requests of members"),
        column("validated", "total", "commits that only read, decided under a lease"),
        column("updates", "total", "changes passed on with their new values"),
        column("invalidations", "total", "changes passed on without"),
    ],
};

/// The client.
pub const CLIENT: Metrics<9> = Metrics {
    name: "client",
    what: "the client of the process",
    columns: [
        column("hits", "total", "reads of what the cache had"),
        column("misses", "total", "reads that had to wait for a page"),
        column("pages_fetched", "total", "pages that came"),
        column("pages_from_peers", "total", "those that a neighbour gave"),
        column("pages_given", "total", "pages given to neighbours"),
        column("commits", "total", "transactions that committed"),
        column("commits_fresh", "total", "those that only read, and did not have to ask"),
        column("cache_pages", "now", "pages in the cache"),
        column("cache_bytes", "bytes", "what they take"),
    ],
};

/// The homes of volumes.
pub const VOLUME_HOMES: Metrics<3> = Metrics {
    name: "volume_homes",
    what: "the homes of volumes of the process (docs/volumes.md)",
    columns: [
        column("volumes", "now", "volumes that somebody has open"),
        column("sessions", "now", "sessions that have one open"),
        column("damaged_blocks", "total", "blocks that were not what was written there, at each read and each scrub"),
    ],
};

/// The connections.
pub const LINKS: Metrics<8> = Metrics {
    name: "links",
    what: "the connections of the process",
    columns: [
        column("bytes_in", "bytes", "received"),
        column("bytes_out", "bytes", "sent"),
        column("messages_in", "total", "messages received"),
        column("messages_out", "total", "messages sent"),
        column("sessions", "total", "sessions that were opened, on either end"),
        column("peers", "total", "connections with neighbours that were opened, on either end"),
        column("flushes", "total", "flushes of the log that threads of the network led"),
        column("refused", "total", "connections that were refused or ended here"),
    ],
};
