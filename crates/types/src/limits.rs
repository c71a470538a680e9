//! All limits of the protocol and of what a peer can make grow, in one place, with checks of how they add up.
//!
//! What a user may tune (cache sizes, MOB, time-outs) is configuration of the roles; what stands here is agreed
//! between both ends of a wire or laid down in a format.

/// The size that allocation fills an object page to, in bytes. Matches the unit of transfer of the BuddyCache paper.
pub const PAGE_BYTES_TARGET: usize = 8 * 1024;

/// The size that an object page can never pass, in bytes: offsets in a page are 16 bits wide.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 - 1;

/// The size past which a page grows no more in place: what would grow it further moves out, and leaves a short
/// reference behind. Half of the hard limit, so that concurrent writers who cannot see each other's growth fit too.
pub const PAGE_BYTES_GROWTH: usize = 32 * 1024;

/// Slots of one page.
pub const SLOTS_MAX: usize = 1024;

/// The largest value of one slot, in bytes: alone in its page it must fit.
pub const SLOT_BYTES_MAX: usize = PAGE_BYTES_MAX - 8;

/// The largest object that a front door stores, in bytes (a chain of pages behind one slot).
pub const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest message, in bytes, header included.
pub const MESSAGE_BYTES_MAX: usize = TXN_BYTES_MAX + 1024 * 1024;

/// The written bytes of one transaction: one largest object, and room beside it.
pub const TXN_BYTES_MAX: usize = 80 * 1024 * 1024;

/// The pages that one transaction may have read or written.
pub const TXN_PAGES_MAX: usize = 1 << 20;

/// The objects that one transaction may put or delete: beside its value each counts for 16 bytes of the transaction.
pub const TXN_CHANGES_MAX: usize = TXN_BYTES_MAX / 16;

/// The text of a goodbye, in bytes; what is longer is cut.
pub const GOODBYE_TEXT_BYTES_MAX: usize = 1024;

/// Pages named by one fetch, release, rejoin or grant message.
pub const PAGES_PER_MESSAGE_MAX: usize = 4096;

/// Notices in one batch.
pub const NOTICES_PER_MESSAGE_MAX: usize = 16 * 1024;

/// Sessions that one store node takes at a time.
pub const SESSIONS_MAX: usize = 4096;

/// Fetches that one session may have outstanding.
pub const FETCHES_PER_SESSION_MAX: usize = 1024;

/// Commit requests that one session may have outstanding.
pub const COMMITS_PER_SESSION_MAX: usize = 1024;

/// Outcomes that a store remembers for one client. A client names in every request below which number it has all of
/// its outcomes, so an honest one never comes near.
pub const OUTCOMES_PER_CLIENT_MAX: usize = 2 * COMMITS_PER_SESSION_MAX;

/// Bytes that may wait to be sent to one peer before the connection is given up as too slow.
pub const SEND_QUEUE_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// Pages that one client may hold granted and unused.
pub const GRANTED_PAGES_MAX: usize = 64 * 1024;

/// Pages that one session may hold beyond as many as were ever granted to anyone: such as it has made up.
pub const ABSENT_PAGES_MAX: usize = 64 * 1024;

/// The name of a group, in bytes.
pub const GROUP_NAME_BYTES_MAX: usize = 64;

/// The address of a member or a redirector, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 256;

/// Neighbours that one member takes connections of at a time. The others send it pages by way of the redirector.
pub const PEERS_MAX: usize = 256;

/// Members that one group takes at a time.
pub const MEMBERS_MAX: usize = 1024;

/// Clients that one group's session vouches for: members that are there, and generations of those that left without a
/// word. Beyond, whom it has not named for the longest time counts as gone.
pub const VOUCHED_PER_SESSION_MAX: usize = 4 * MEMBERS_MAX;

/// Clients that a store remembers after they are gone. Room for several groups that vanish at once.
pub const GONE_CLIENTS_MAX: usize = 16 * VOUCHED_PER_SESSION_MAX;

/// Groups whose leaders a store remembers, those included that have none just now.
pub const GROUPS_MAX: usize = SESSIONS_MAX;

/// Volumes of one store that groups may have leases on.
pub const LEASED_VOLUMES_MAX: usize = 4096;

/// How differently fast the clocks of a store and of a redirector may run for leases to hold, in thousandths.
pub const LEASE_DRIFT_PERMILLE: u32 = 20;

/// Addresses of a store that a group's members are told.
pub const STORE_ADDRESSES_MAX: usize = 16;

/// Tables of a status.
pub const STATUS_TABLES_MAX: usize = 16;

/// Columns of one of its tables.
pub const STATUS_COLUMNS_MAX: usize = 32;

/// Cells of all its tables together.
pub const STATUS_CELLS_MAX: usize = 64 * 1024;

/// A text in a status, in bytes; what is longer is cut.
pub const STATUS_TEXT_BYTES_MAX: usize = 256;

const _: () = {
    assert!(PAGE_BYTES_TARGET <= PAGE_BYTES_GROWTH && PAGE_BYTES_GROWTH < PAGE_BYTES_MAX);
    assert!(PAGE_BYTES_MAX <= u16::MAX as usize);
    assert!(SLOTS_MAX * 4 + 4 < PAGE_BYTES_MAX);
    // Every slot of a page at its growth limit can still be turned into a reference of 24 bytes.
    assert!(SLOTS_MAX * (4 + 24) + 4 < PAGE_BYTES_GROWTH);
    assert!(OBJECT_BYTES_MAX + OBJECT_BYTES_MAX / 8 < TXN_BYTES_MAX);
    assert!(MESSAGE_BYTES_MAX < u32::MAX as usize);
    assert!(OUTCOMES_PER_CLIENT_MAX >= COMMITS_PER_SESSION_MAX);
    assert!(VOUCHED_PER_SESSION_MAX > MEMBERS_MAX);
    assert!(GONE_CLIENTS_MAX >= 4 * SESSIONS_MAX && GONE_CLIENTS_MAX >= 4 * VOUCHED_PER_SESSION_MAX);
    // A session leads one group at most: where all places are taken and one more session comes, one of them is free of
    // a leader.
    assert!(GROUPS_MAX >= SESSIONS_MAX);
    // The largest status is a message.
    assert!(STATUS_CELLS_MAX * (STATUS_TEXT_BYTES_MAX + 3) < MESSAGE_BYTES_MAX / 2);
    assert!(STATUS_TEXT_BYTES_MAX >= ADDRESS_BYTES_MAX && STATUS_TEXT_BYTES_MAX >= GROUP_NAME_BYTES_MAX);
};
