//! The tables of a redirector's status: columns, units, meanings and rows.

use crate::{MemberStatus, Redirector, Stats};
use machine::metrics::{Column, Described, Metrics, lag, name};
use machine::{Cell, Table};
use types::Vector;
use types::limits::{MEMBERS_MAX, STATUS_CELLS_MAX};

/// The redirector.
pub const REDIRECTOR: Metrics<14> = Metrics {
    name: "redirector",
    what: "the redirector of the process",
    columns: [
        Column::new("group", "name", "the group that it serves or may serve"),
        Column::new("address", "address", "where it takes members"),
        Column::new("state", "state", "`leads`, `stands_by`, `without_store` or `over`"),
        Column::new("epoch", "now", "the number of its claim, if it leads"),
        Column::new("other_leader", "address", "who leads, if it does not"),
        Column::new("why_over", "text", "why there will be no session with the store any more"),
        Column::new("horizon", "count", "it has received every change through here to what its group holds"),
        Column::new("members", "now", "clients that are members or about to be"),
        Column::new("fetches", "now", "fetches from the store that are outstanding"),
        Column::new("helps", "now", "pages on their way between members"),
        Column::new("commits", "now", "commits on their way to the store"),
        Column::new("retained_bytes", "bytes", "what those write, kept until the reply"),
        Column::new("standby_pages", "now", "pages in the standby cache"),
        Column::new("standby_bytes", "bytes", "what they take"),
    ],
};

/// Its members.
pub const MEMBERS: Metrics<8> = Metrics {
    name: "members",
    what: "a member of the group",
    columns: [
        Column::new("client", "name", "the client"),
        Column::new("state", "state", "`member`, or `joins` while what it holds is compared"),
        Column::new("acked", "count", "the horizon that it has acknowledged"),
        Column::new("lag", "counts", "how far that is behind the redirector"),
        Column::new("pages", "now", "pages that it holds, or may soon install"),
        Column::new("whole", "now", "those that it has without holes, and can give to others"),
        Column::new("asked", "now", "pages that it was asked to give and has not given yet"),
        Column::new("eligible", "address", "where it would lead the group"),
    ],
};

/// The redirector's counts.
pub const COUNTS: Metrics<15> = Metrics {
    name: "counts",
    what: "what the redirector has done",
    columns: [
        Column::new("upstream_sessions", "total", "sessions with the store"),
        Column::new("wanted", "total", "pages that members asked for"),
        Column::new("from_standby", "total", "pages given from the standby cache"),
        Column::new("from_peers", "total", "pages given by peers"),
        Column::new("from_store", "total", "pages given by the store"),
        Column::new("coalesced", "total", "pages that were wanted while a fetch of them was under way"),
        Column::new("fetches", "total", "fetch messages sent to the store, each a round trip"),
        Column::new("helps", "total", "pages that members were asked to give to others"),
        Column::new("refused_help", "total", "pages that a member was asked for and did not have whole"),
        Column::new("late_help", "total", "pages that a member was asked for and did not give in time"),
        Column::new("relayed", "total", "pages between members that came by way of the redirector"),
        Column::new("commits", "total", "commit requests of members"),
        Column::new("validated", "total", "commits that only read, decided under a lease"),
        Column::new("updates", "total", "changes passed on with their new values"),
        Column::new("invalidations", "total", "changes passed on without"),
    ],
};

/// The tables of a redirector's status.
pub const TABLES: &[Described<'static>] = &[REDIRECTOR.described(), MEMBERS.described(), COUNTS.described()];

// There is room for the tables with one row beside the members.
const _: () = assert!(MEMBERS.columns.len() * MEMBERS_MAX + 1024 < STATUS_CELLS_MAX);

/// How a redirector stands.
pub(crate) fn redirector(redirector: &Redirector) -> [Table; 3] {
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
        ("horizon", status.horizon.total().into()),
        ("members", status.members.len().into()),
        ("fetches", status.fetches.into()),
        ("helps", status.helps.into()),
        ("commits", status.commits.0.into()),
        ("retained_bytes", status.commits.1.into()),
        ("standby_pages", status.standby.0.into()),
        ("standby_bytes", status.standby.1.into()),
    ];
    let members = status.members.into_iter().map(|member| member_row(&status.horizon, member));
    [REDIRECTOR.one(facts), MEMBERS.table(members), counts(&status.stats)]
}

fn member_row(horizon: &Vector, member: MemberStatus) -> [Cell; MEMBERS.columns.len()] {
    let MemberStatus { client, eligible, is_joined, acked, held, whole, asked } = member;
    let acked = is_joined.then_some(acked);
    [
        client.map_or(Cell::Nothing, name),
        if is_joined { "member" } else { "joins" }.into(),
        acked.as_ref().map(Vector::total).into(),
        acked.as_ref().map(|acked| lag(horizon, acked)).into(),
        held.into(),
        whole.into(),
        asked.into(),
        Some(eligible).filter(|address| !address.is_empty()).into(),
    ]
}

fn counts(stats: &Stats) -> Table {
    let Stats {
        upstream_sessions,
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
        ("upstream_sessions", upstream_sessions),
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
