//! The table of a client's status: columns, units, meanings and its row.

use crate::Client;
use machine::Table;
use machine::metrics::{Column, Metrics};

/// The client.
pub const CLIENT: Metrics<9> = Metrics {
    name: "client",
    what: "the client of the process",
    columns: [
        Column::new("hits", "total", "reads of what the cache had"),
        Column::new("misses", "total", "reads that had to wait for a page"),
        Column::new("pages_fetched", "total", "pages that came"),
        Column::new("pages_from_peers", "total", "those that a peer gave"),
        Column::new("pages_given", "total", "pages given to peers"),
        Column::new("commits", "total", "transactions that committed"),
        Column::new("commits_fresh", "total", "those that only read, and did not have to ask"),
        Column::new("cache_pages", "now", "pages in the cache"),
        Column::new("cache_bytes", "bytes", "what they take"),
    ],
};

/// How a client stands.
pub(crate) fn client(client: &Client) -> Table {
    let stats = client.stats();
    let counts = [
        ("hits", stats.hits),
        ("misses", stats.misses),
        ("pages_fetched", stats.pages_fetched),
        ("pages_from_peers", stats.pages_from_peers),
        ("pages_given", stats.pages_given),
        ("commits", stats.commits),
        ("commits_fresh", stats.commits_fresh),
        ("cache_pages", stats.cache_pages),
        ("cache_bytes", stats.cache_bytes),
    ];
    CLIENT.one(counts.map(|(name, count)| (name, count.into())))
}
