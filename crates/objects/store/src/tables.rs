//! The tables of a store's status: columns, units, meanings and rows.

use crate::{SessionStatus, SpaceStatus, Store};
use alloc::format;
use machine::metrics::{Column, Described, Metrics, lag, name};
use machine::{Cell, Table};
use messages::Leader;
use types::Vector;
use types::limits::{GRANTED_SPACES_MAX, LEASED_SPACES_MAX, SESSIONS_MAX, STATUS_CELLS_MAX};

/// The store.
pub const STORE: Metrics<15> = Metrics {
    name: "store",
    what: "the store of the process",
    columns: [
        Column::new("applied", "count", "the last update that is applied: what the horizon of a cache can be at most"),
        Column::new(
            "pruned",
            "count",
            "what changed after this count is known slot by slot; a cache behind it drops pages",
        ),
        Column::new("sessions", "now", "sessions past their hello, of clients and redirectors"),
        Column::new("commits", "total", "commits that became durable"),
        Column::new("read_only", "total", "commits that wrote nothing and were validated"),
        Column::new("refused", "total", "commits that were refused; table `refusals` says why"),
        Column::new("pages_sent", "total", "pages sent in answer to fetches"),
        Column::new("pages", "now", "pages that exist: those that were ever granted"),
        Column::new("pages_granted", "now", "of these, those that clients have to create objects in, and have not yet"),
        Column::new(
            "pages_spare",
            "now",
            "of these, those that were emptied or given back, and are granted again first",
        ),
        Column::new("mob_bytes", "bytes", "committed changes that are not home"),
        Column::new("cache_bytes", "bytes", "images of pages kept in memory"),
        Column::new("recovered_commits", "total", "commits found in the log when the store was opened"),
        Column::new(
            "commits_gone",
            "now",
            "commits that clients had heard of before the store was restored to an older state",
        ),
        Column::new(
            "pages_damaged",
            "total",
            "pages that could not be read since the start; `damaged_pages` lists them",
        ),
    ],
};

/// Its spaces.
pub const SPACES: Metrics<3> = Metrics {
    name: "spaces",
    what: "a space in which pages were granted, or that is leased",
    columns: [
        Column::new(
            "space",
            "number",
            "the space's number; `thorp spaces` says its name, and 4294967295 is the catalog's",
        ),
        Column::new("pages", "now", "pages that exist in it: those that were ever granted"),
        Column::new("leased", "flag", "`yes` if groups have leases on it"),
    ],
};

/// Its sessions.
pub const SESSIONS: Metrics<13> = Metrics {
    name: "sessions",
    what: "a session of the store",
    columns: [
        Column::new("session", "number", "the session, numbered by the store's process"),
        Column::new("client", "name", "whose it is: a client's, or a redirector's"),
        Column::new("group", "name", "the group that it leads"),
        Column::new("epoch", "now", "the number of that claim"),
        Column::new("address", "address", "where the leader takes members"),
        Column::new("members", "now", "clients that it speaks for"),
        Column::new("acked", "count", "the horizon that it has acknowledged; nothing before it has joined"),
        Column::new("lag", "counts", "how far that is behind the store"),
        Column::new("pages", "now", "pages that it is listed for"),
        Column::new("fetches", "now", "pages that it waits for"),
        Column::new("commits", "now", "commits whose outcome it waits for"),
        Column::new("invalidations", "now", "invalidations that wait for its next batch"),
        Column::new("watches", "flag", "`yes` if it is a watcher's: commits of leased spaces wait for it"),
    ],
};

/// Why commits were refused.
pub const REFUSALS: Metrics<2> = Metrics {
    name: "refusals",
    what: "a reason for which commits were refused (docs/refusals.md)",
    columns: [Column::new("reason", "name", "the reason"), Column::new("count", "total", "commits refused for it")],
};

/// Pages that cannot be read.
pub const DAMAGED_PAGES: Metrics<2> = Metrics {
    name: "damaged_pages",
    what: "a page that could not be read since the start, one of the first 100 (docs/formats.md, *Damage*)",
    columns: [
        Column::new("page", "name", "the space and the number of the page"),
        Column::new("why", "text", "the damage"),
    ],
};

/// The tables of a store's status.
pub const TABLES: &[Described<'static>] =
    &[STORE.described(), SPACES.described(), SESSIONS.described(), REFUSALS.described(), DAMAGED_PAGES.described()];

// There is room for the tables with one row beside the sessions and spaces.
const _: () = assert!(
    SESSIONS.columns.len() * SESSIONS_MAX + SPACES.columns.len() * (GRANTED_SPACES_MAX + LEASED_SPACES_MAX) + 1024
        < STATUS_CELLS_MAX
);

/// The damaged pages that a status lists: more of them say no more of the disk.
const DAMAGED_PAGES_TOLD_MAX: usize = 100;

/// How a store stands.
pub(crate) fn store(store: &Store) -> [Table; 5] {
    let (status, stats) = (store.status(), store.stats());
    let facts = [
        ("applied", status.applied.total().into()),
        ("pruned", status.pruned.total().into()),
        ("sessions", stats.sessions.into()),
        ("commits", stats.commits.into()),
        ("read_only", stats.read_only.into()),
        ("refused", stats.refused.into()),
        ("pages_sent", stats.pages_sent.into()),
        ("pages", stats.pages.into()),
        ("pages_granted", stats.pages_granted.into()),
        ("pages_spare", stats.pages_spare.into()),
        ("mob_bytes", stats.mob_bytes.into()),
        ("cache_bytes", stats.cache_bytes.into()),
        ("recovered_commits", stats.recovered_commits.into()),
        ("commits_gone", stats.commits_gone.into()),
        ("pages_damaged", stats.pages_damaged.into()),
    ];
    let sessions = status.sessions.into_iter().map(|session| session_row(&status.applied, session));
    let refusals = status.refusals.iter().map(|(&reason, &count)| [reason.into(), count.into()]);
    let spaces = status.spaces.into_iter().map(space_row);
    let damaged = status.damaged.into_iter().take(DAMAGED_PAGES_TOLD_MAX);
    let damaged = DAMAGED_PAGES.table(damaged.map(|(page, why)| [format!("{page}").into(), why.into()]));
    [STORE.one(facts), SPACES.table(spaces), SESSIONS.table(sessions), REFUSALS.table(refusals), damaged]
}

fn space_row(SpaceStatus { space, pages, is_leased }: SpaceStatus) -> [Cell; SPACES.columns.len()] {
    [u64::from(space).into(), u64::from(pages).into(), if is_leased { "yes".into() } else { Cell::Nothing }]
}

fn session_row(applied: &Vector, session: SessionStatus) -> [Cell; SESSIONS.columns.len()] {
    let SessionStatus { session, client, leads, is_watcher, vouched, acked, pages, fetches, commits, invalidations } =
        session;
    let (group, epoch, address) = match leads {
        Some(Leader { group, epoch, address }) => (group.into(), epoch.into(), address.into()),
        None => (Cell::Nothing, Cell::Nothing, Cell::Nothing),
    };
    [
        session.0.into(),
        name(client),
        group,
        epoch,
        address,
        vouched.into(),
        acked.as_ref().map(Vector::total).into(),
        acked.as_ref().map(|acked| lag(applied, acked)).into(),
        pages.into(),
        fetches.into(),
        commits.into(),
        invalidations.into(),
        if is_watcher { "yes".into() } else { Cell::Nothing },
    ]
}
