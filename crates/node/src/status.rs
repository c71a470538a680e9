//! The status of a node for an operator: its roles' own words, as tables that name their columns.

use crate::metrics::{CLIENT, COUNTS, DAMAGED_PAGES, MEMBERS, REDIRECTOR, REFUSALS, SESSIONS, SPACES, STORE};
use alloc::format;
use client::Client;
use protocol::{Cell, Leader, Table};
use redirector::{MemberStatus, Redirector};
use store::{SessionStatus, SpaceStatus, Store};
use types::limits::{GRANTED_SPACES_MAX, LEASED_SPACES_MAX, MEMBERS_MAX, SESSIONS_MAX, STATUS_CELLS_MAX};
use types::{ClientId, Version};

// Beside the sessions and the spaces, or the members, there is room for all that has one row.
const _: () = assert!(
    SESSIONS.columns.len() * SESSIONS_MAX + SPACES.columns.len() * (GRANTED_SPACES_MAX + LEASED_SPACES_MAX) + 1024
        < STATUS_CELLS_MAX
);
const _: () = assert!(MEMBERS.columns.len() * MEMBERS_MAX + 1024 < STATUS_CELLS_MAX);

/// The damaged pages that a status lists: more of them say no more of the disk.
const DAMAGED_PAGES_TOLD_MAX: usize = 100;

/// How a store stands.
pub(crate) fn store_tables(store: &Store) -> [Table; 5] {
    let (status, stats) = (store.status(), store.stats());
    let facts = [
        ("applied", status.applied.0.into()),
        ("pruned", status.pruned.0.into()),
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
    let sessions = status.sessions.into_iter().map(|session| session_row(status.applied, session));
    let refusals = status.refusals.iter().map(|(&reason, &count)| [reason.into(), count.into()]);
    let spaces = status.spaces.into_iter().map(space_row);
    let damaged = status.damaged.into_iter().take(DAMAGED_PAGES_TOLD_MAX);
    let damaged = DAMAGED_PAGES.table(damaged.map(|(page, why)| [format!("{page}").into(), why.into()]));
    [STORE.one(facts), SPACES.table(spaces), SESSIONS.table(sessions), REFUSALS.table(refusals), damaged]
}

fn space_row(SpaceStatus { space, pages, is_leased }: SpaceStatus) -> [Cell; SPACES.columns.len()] {
    [u64::from(space).into(), u64::from(pages).into(), if is_leased { "yes".into() } else { Cell::Nothing }]
}

fn session_row(applied: Version, session: SessionStatus) -> [Cell; SESSIONS.columns.len()] {
    let SessionStatus { session, client, leads, is_watcher, vouched, acked, pages, fetches, commits, notices } =
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
        acked.map(|acked| acked.0).into(),
        acked.map(|acked| lag(applied, acked)).into(),
        pages.into(),
        fetches.into(),
        commits.into(),
        notices.into(),
        if is_watcher { "yes".into() } else { Cell::Nothing },
    ]
}

/// How a redirector stands.
pub(crate) fn redirector_tables(redirector: &Redirector) -> [Table; 3] {
    let status = redirector.status();
    let state = match (&status.over, status.is_live, status.epoch) {
        (Some(_), ..) => "over",
        (None, false, _) => "without_store",
        (None, true, Some(_)) => "leads",
        (None, true, None) => "stands_by",
    };
    let leader = status.leader.map(|leader| leader.address).filter(|address| !address.is_empty());
    let facts = [
        ("group", status.group.into()),
        ("address", status.address.into()),
        ("state", state.into()),
        ("epoch", status.epoch.into()),
        ("other_leader", leader.into()),
        ("why_over", status.over.into()),
        ("horizon", status.horizon.0.into()),
        ("members", status.members.len().into()),
        ("fetches", status.fetches.into()),
        ("helps", status.helps.into()),
        ("commits", status.commits.0.into()),
        ("retained_bytes", status.commits.1.into()),
        ("standby_pages", status.standby.0.into()),
        ("standby_bytes", status.standby.1.into()),
    ];
    let members = status.members.into_iter().map(|member| member_row(status.horizon, member));
    [REDIRECTOR.one(facts), MEMBERS.table(members), counts(&status.stats)]
}

fn member_row(horizon: Version, member: MemberStatus) -> [Cell; MEMBERS.columns.len()] {
    let MemberStatus { client, eligible, is_joined, acked, held, whole, asked } = member;
    let acked = is_joined.then_some(acked);
    [
        client.map_or(Cell::Nothing, name),
        if is_joined { "member" } else { "joins" }.into(),
        acked.map(|acked| acked.0).into(),
        acked.map(|acked| lag(horizon, acked)).into(),
        held.into(),
        whole.into(),
        asked.into(),
        Some(eligible).filter(|address| !address.is_empty()).into(),
    ]
}

fn counts(stats: &redirector::Stats) -> Table {
    let redirector::Stats {
        trunk_sessions,
        wanted,
        from_standby,
        from_peers,
        from_store,
        coalesced,
        fetches,
        helps,
        refused_help,
        late_help,
        relayed,
        commits,
        validated,
        updates,
        invalidations,
    } = *stats;
    let counts = [
        ("trunk_sessions", trunk_sessions),
        ("wanted", wanted),
        ("from_standby", from_standby),
        ("from_peers", from_peers),
        ("from_store", from_store),
        ("coalesced", coalesced),
        ("fetches", fetches),
        ("helps", helps),
        ("refused_help", refused_help),
        ("late_help", late_help),
        ("relayed", relayed),
        ("commits", commits),
        ("validated", validated),
        ("updates", updates),
        ("invalidations", invalidations),
    ];
    COUNTS.one(counts.map(|(name, count)| (name, count.into())))
}

/// How a client stands.
pub(crate) fn client_table(client: &Client) -> Table {
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

/// How much there is that one has not heard of.
fn lag(there_is: Version, heard: Version) -> u64 {
    there_is.0.saturating_sub(heard.0)
}

/// A client by its name.
fn name(client: ClientId) -> Cell {
    format!("{client:?}").into()
}
