//! All limits of the protocol and of what a peer can make grow, in one place, with checks of how they add up.
//!
//! The constants are agreed between both ends of a wire, or laid down in a format: a receiver of more ends the session.
//! A role stays within them by its [`Limits`], which are part of its configuration. The settings that a user may tune
//! besides (cache sizes, MOB, timeouts) are in the configuration of each role.

/// The size that allocation fills an object page to, in bytes. Matches the unit of transfer of the BuddyCache paper.
pub const PAGE_BYTES_TARGET: usize = 8 * 1024;

/// The size that an object page can never pass, in bytes: offsets in a page are 16 bits wide.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 - 1;

/// The size past which a page grows no more in place: a value that would grow it further moves out, and leaves a short
/// reference behind. Half of the hard limit, so that concurrent writers who cannot see each other's growth fit too.
pub const PAGE_BYTES_GROWTH: usize = 32 * 1024;

/// Slots of one page.
pub const SLOTS_MAX: usize = 1024;

/// The largest value of one slot, in bytes: alone in its page it must fit.
pub const SLOT_BYTES_MAX: usize = PAGE_BYTES_MAX - 8;

/// The largest object that a front end stores, in bytes (a chain of pages behind one slot).
pub const OBJECT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The longest byte value, in bytes.
pub const BYTE_VALUE_BYTES_MAX: u64 = 512 << 30;

/// The bytes of a byte value that are read into a new buffer at a time.
pub const BYTES_PER_READ_MAX: u64 = 1 << 30;

/// The largest message, in bytes, header included.
pub const MESSAGE_BYTES_MAX: usize = TXN_BYTES_MAX + 1024 * 1024;

/// The bytes of a large message that one piece carries: another message may have to wait as long as a piece takes.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The largest frame, in bytes: a largest page is one, and so is a piece. A larger message travels in pieces.
pub const FRAME_BYTES_MAX: usize = PIECE_BYTES_MAX + 256;

/// Large messages that may be under way on one connection at a time, in one direction.
pub const PIECED_MESSAGES_MAX: usize = 16;

/// The bytes of all of them together, as their headers announce them.
pub const PIECED_BYTES_MAX: usize = 3 * MESSAGE_BYTES_MAX;

/// The written bytes of one transaction: one largest object, and room beside it.
pub const TXN_BYTES_MAX: usize = 80 * 1024 * 1024;

/// The pages that one transaction may have read or written.
pub const TXN_PAGES_MAX: usize = 1 << 20;

/// The objects that one transaction may put or delete: beside its value each counts for 16 bytes of the transaction.
pub const TXN_CHANGES_MAX: usize = TXN_BYTES_MAX / 16;

/// The text of a goodbye, in bytes; a longer one is cut.
pub const GOODBYE_TEXT_BYTES_MAX: usize = 1024;

/// Shards of one store.
pub const SHARDS_MAX: usize = 1024;

/// Nodes of a store.
pub const NODES_MAX: usize = 256;

/// Pages that follow one that was fetched.
pub const PAGES_BEHIND_MAX: usize = 24;

/// Pages named by one fetch, release, resume or grant message.
pub const PAGES_PER_MESSAGE_MAX: usize = 4096;

/// Changed slots that a shard takes along when it moves.
pub const RECENT_CHANGES_MAX: usize = 16 * 1024;

/// Notices in one batch.
pub const NOTICES_PER_MESSAGE_MAX: usize = 16 * 1024;

/// Sessions that one store node takes at a time.
pub const SESSIONS_MAX: usize = 4096;

/// Watchers among them: each commit of a leased space waits for all of them.
pub const WATCHERS_MAX: usize = 16;

/// Fetches that one session may have outstanding.
pub const FETCHES_PER_SESSION_MAX: usize = 1024;

/// Commit requests that one session may have outstanding.
pub const COMMITS_PER_SESSION_MAX: usize = 1024;

/// Commits that wait at a store for others that they meet, and places that are kept among them. Beyond, they are
/// refused as busy.
pub const COMMITS_IN_TURN_MAX: usize = 256;

/// Outcomes that a store remembers for one client. A client names in every request below which number it has all of
/// its outcomes, and waits with those that are so far ahead of it: a large commit on a slow line may hold that number
/// back while thousands of small ones pass it.
pub const OUTCOMES_PER_CLIENT_MAX: usize = 16 * COMMITS_PER_SESSION_MAX;

/// Commit requests in pieces that one end has outstanding, in bytes: a largest one, or several that come to no more.
/// Others wait for them where they are, and not once more in front of the line.
pub const LARGE_COMMITS_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// Bytes that may wait to be sent to one peer before the connection is given up as too slow.
pub const SEND_QUEUE_BYTES_MAX: usize = 3 * MESSAGE_BYTES_MAX;

/// Pages that one client may hold granted and unused.
pub const GRANTED_PAGES_MAX: usize = 64 * 1024;

/// Grants that one session may wait for: one for each space that pages are granted in.
pub const GRANTS_PER_SESSION_MAX: usize = GRANTED_SPACES_MAX;

/// Pages that one session may hold beyond as many as were ever granted to anyone: such as it has made up.
pub const ABSENT_PAGES_MAX: usize = 64 * 1024;

/// The name of a group, in bytes.
pub const GROUP_NAME_BYTES_MAX: usize = 64;

/// The address of a member or a redirector, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 256;

/// Peers that one member takes connections of at a time. The others send it pages by way of the redirector.
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

/// The highest epoch that a group can be claimed with: each takeover adds one, so none comes near in earnest.
pub const GROUP_EPOCH_MAX: u64 = 1 << 62;

/// How many lives of its process a store remembers, and tells. A client that learned of it in an earlier one begins
/// again.
pub const LIVES_KEPT: usize = 32;

/// Spaces of one store that have names, the main one among them.
pub const SPACES_MAX: usize = 256;

/// The name of a space, in bytes.
pub const SPACE_NAME_BYTES_MAX: usize = 64;

/// Spaces of one store in which pages are granted: a bound on what a peer can make grow, names or not.
pub const GRANTED_SPACES_MAX: usize = 4096;

/// Spaces of one store that groups may have leases on.
pub const LEASED_SPACES_MAX: usize = 4096;

/// How differently fast the clocks of a store and of a redirector may run for leases to hold, in thousandths.
pub const LEASE_DRIFT_PERMILLE: u32 = 20;

/// The name of a dependency of a web response, in bytes.
pub const DEPENDENCY_BYTES_MAX: usize = 256;

/// The dependencies that a response may name; one that names more is not stored.
pub const DEPENDENCIES_PER_RESPONSE_MAX: usize = 1024;

/// The dependencies that a home keeps of a response: those that it names, and its key, under which the caches of an
/// origin tell each other that it has changed.
pub const DEPENDENCIES_KEPT_MAX: usize = DEPENDENCIES_PER_RESPONSE_MAX + 1;

/// The dependencies that one update names; one of more is an update of everything.
pub const DEPENDENCIES_PER_UPDATE_MAX: usize = 1024;

/// The updates that an updater may have under way at its hub; further ones wait for them.
pub const UPDATES_PER_UPDATER_MAX: usize = 4096;

/// The names of all updates under way at a hub, in bytes: a home that joins is notified of all of them. Beyond, an
/// update is one of everything.
pub const MARKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The name of a source of updates, in bytes.
pub const SOURCE_NAME_BYTES_MAX: usize = 64;

/// The homes of one hub.
pub const HOMES_MAX: usize = 1024;

/// The caches of one home.
pub const CACHES_MAX: usize = 256;

/// The sessions for lookups at one home: each thread of a cache that serves clients has one, and all others share one.
pub const LOOK_UP_SESSIONS_MAX: usize = 4 * CACHES_MAX;

/// The homes of one cache.
pub const HOMES_PER_CACHE_MAX: usize = 16;

/// The changes that a cache may have under way at its home; further ones wait for them.
pub const CHANGES_PER_CACHE_MAX: usize = 256;

/// The lookups of one message.
pub const LOOK_UPS_PER_MESSAGE_MAX: usize = 1024;

/// The name of an endpoint of libfabric, in bytes.
pub const ENDPOINT_NAME_BYTES_MAX: usize = 256;

/// The messages of lookups that a table owes a cache the answers to, at most.
pub const READS_PER_CACHE_MAX: usize = 16;

/// The lookups of a cache that wait until there is a message for them. Beyond, a request goes to the origin.
pub const LOOK_UPS_WAITING_MAX: usize = 4 * LOOK_UPS_PER_MESSAGE_MAX;

/// The words of a version table, of which each stored response has one: eight gibibytes of them.
pub const TABLE_SLOTS_MAX: u32 = 1 << 30;

/// How far one epoch of a volume may be beyond the one before that its home has learned of: attachments of which home
/// heard nothing are fewer, and a peer that says more would leave no numbers for those to come.
pub const VOLUME_EPOCHS_AHEAD_MAX: u64 = 1 << 32;

/// The copies of a write of a volume, its owner's own among them.
pub const VOLUME_COPIES_MAX: u8 = 8;

/// The contents of one write of a volume, in bytes.
pub const VOLUME_WRITE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The room that a copy of a write is counted to take at its holder besides its contents, in bytes. It bounds their
/// number, too.
pub const VOLUME_COPY_BYTES: u64 = 512;

/// Copies in one message of a holder's list.
pub const COPIES_PER_LIST_MAX: usize = 1024;

/// The volumes that one holder keeps copies of.
pub const VOLUMES_PER_HOLDER_MAX: usize = 1024;

/// Volumes in one answer of a holder to an operator.
pub const VOLUMES_PER_ANSWER_MAX: usize = 256;

/// The copies that a takeover takes from all lists together: more than there is room for at any holder.
pub const COPIES_PER_VOLUME_MAX: usize = 1 << 26;

/// The contents of one part of a volume's write-back, and of one read at its home, in bytes: with its header it is one
/// frame.
pub const VOLUME_PART_BYTES_MAX: usize = PIECE_BYTES_MAX;

/// The parts of write-backs of one session that are on their way home, and not written there, in bytes.
pub const VOLUME_WINDOW_BYTES: u64 = 8 * 1024 * 1024;

/// The reads, and questions for holes, that one session of a volume's home may have outstanding.
pub const VOLUME_READS_PER_SESSION_MAX: usize = 256;

/// The runs of one answer about holes.
pub const VOLUME_RUNS_PER_ANSWER_MAX: usize = 1024;

/// The blocks of a volume whose checksums home compares for one question.
pub const VOLUME_SUMS_PER_ANSWER_MAX: usize = 1024;

/// The homes of volumes in one answer about all of them.
pub const VOLUME_HOMES_PER_ANSWER_MAX: usize = 256;

/// The homes of volumes in all answers together.
pub const VOLUME_HOMES_MAX: usize = 1 << 16;

/// The registry's entry of a volume, as its home keeps it, in bytes.
pub const VOLUME_ENTRY_BYTES_MAX: usize = 12 * 1024;

/// The runs of blocks in a journal of a volume's home: each takes some bytes of memory while it is written.
pub const VOLUME_JOURNAL_RUNS_MAX: usize = 1 << 20;

/// Sessions that the homes of one process take at a time.
pub const VOLUME_SESSIONS_MAX: usize = 1024;

/// The name of a published site, in bytes.
pub const SITE_NAME_BYTES_MAX: usize = 64;

/// The note of a revision of a site, in bytes.
pub const NOTE_BYTES_MAX: usize = 1024;

/// The reason why a request of a publisher was refused, for people, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 1024;

/// Names of chunks in one message, and subscribers in one answer.
pub const HASHES_PER_MESSAGE_MAX: usize = 2048;

/// Chunks that one message of a publisher carries.
pub const CHUNKS_PER_PUT_MAX: usize = 1024;

/// The bytes of all of them: the largest chunk, or several that come to no more.
pub const PUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Revisions of a site that one subscriber holds at a time.
pub const HOLDS_PER_SUBSCRIBER_MAX: usize = 1024;

/// Subscribers of one site at one file server or relay.
pub const SUBSCRIBERS_MAX: usize = 1024;

/// Sites that one session subscribes to.
pub const SITES_PER_SESSION_MAX: usize = 1024;

/// Chunks that one session may have asked for and not received.
pub const WANTS_PER_SESSION_MAX: usize = 4 * HASHES_PER_MESSAGE_MAX;

/// Requests of one publisher that were not answered.
pub const PUBLISHER_REQUESTS_MAX: usize = 64;

/// The spaces whose sites members of a group follow at a time.
pub const SPACES_RELAYED_MAX: usize = 256;

/// Chunks that one publisher may have named in a session: those of some millions of files.
pub const UPLOAD_CHUNKS_MAX: usize = 8 << 20;

/// Publishes whose outcome a site remembers: one that is asked for again is not made again.
pub const PUBLISHES_REMEMBERED: usize = 64;

/// Locks of one publisher, those it waits for included.
pub const LOCKS_PER_PUBLISHER_MAX: usize = 1024;

/// Locks of all paths of one site, those that are waited for included.
pub const LOCKS_PER_SITE_MAX: usize = 4096;

/// The path of a lock, in bytes: as long as one that Linux opens.
pub const LOCK_PATH_BYTES_MAX: usize = 4096;

/// The content of a publish that comes with an offer, in bytes; of more, subscribers are told as it is uploaded.
pub const OFFER_CONTENT_BYTES_MAX: usize = 1024 * 1024;

/// The edits of an offer and that content with its lengths, in bytes.
pub const EDITS_BYTES_MAX: usize = OFFER_CONTENT_BYTES_MAX + 256 * 1024;

/// Addresses of a store that a group's members are told.
pub const STORE_ADDRESSES_MAX: usize = 16;

/// Tables of a status.
pub const STATUS_TABLES_MAX: usize = 16;

/// Columns of one of its tables.
pub const STATUS_COLUMNS_MAX: usize = 32;

/// Cells of all its tables together.
pub const STATUS_CELLS_MAX: usize = 80 * 1024;

/// A text in a status, in bytes; a longer one is cut.
pub const STATUS_TEXT_BYTES_MAX: usize = 256;

/// The limits that a role keeps to in what it sends, takes and remembers. As shipped they are as large as the constants
/// allow; smaller ones make the same things happen to less data, and are what tests draw. Both ends of a wire may
/// differ in them: none is more than the constant of its name, and what an end demands of the other is told at the
/// welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages that one message names.
    pub pages_per_message: usize,
    /// Notices in one batch.
    pub invalidations_per_message: usize,
    /// The bytes of invalidations in one batch; it may be more by one invalidation.
    pub invalidation_bytes_per_message: usize,
    /// Pages of one fetch that a store sends at once, in bytes: a prefetch beyond that is left out.
    pub answer_bytes: usize,
    /// Pages that no request waits for yet which a store reads, or has in a line's queue, for one session, in bytes.
    /// The last of them may exceed it.
    pub ahead_bytes: usize,
    /// Page images that a store writes back in one batch, in bytes: large enough to pay for its sync, small enough to
    /// be done soon.
    pub write_back_bytes: usize,
    /// Home images that are read for one commit to see whether it fits. A commit that fills so many pages to their
    /// limit at once is told that the next one is full.
    pub reads_per_commit: u8,
    /// Sessions that a store takes at a time.
    pub sessions: usize,
    /// Members that a group takes at a time.
    pub members: usize,
    /// Fetches that one session may have outstanding.
    pub fetches_per_session: usize,
    /// Commit requests that one session may have outstanding.
    pub commits_per_session: usize,
    /// Commits of all members together that wait for their outcome at their redirector, and outcomes that were asked
    /// for.
    pub commits_per_group: usize,
    /// Commits that wait at a store for others that they meet, and places that are kept among them.
    pub commits_in_turn: usize,
    /// Clients of which a store remembers how often in a row they have lost to others.
    pub losers: usize,
    /// Outcomes that a store remembers for one client.
    pub outcomes_per_client: usize,
    /// Pages of remembered outcomes of one client, in all.
    pub outcome_pages_per_client: usize,
    /// Pages that one client may hold granted and unused.
    pub granted_pages: usize,
    /// Pages that one session may hold beyond as many as were ever granted to anyone.
    pub absent_pages: usize,
    /// Clients that one group's session vouches for.
    pub vouched_per_session: usize,
    /// Clients that a store remembers after they are gone.
    pub gone_clients: usize,
    /// Members that a redirector knows although they are gone.
    pub gone_members: usize,
    /// Groups whose leaders a store remembers.
    pub groups: usize,
    /// Peers that a member connects to at a time.
    pub peers: usize,
    /// Changes that a redirector remembers slot by slot under its lease.
    pub leased_changes: usize,
    /// Notices that a client keeps for pages under way. An honest store answers long before; one that does not loses
    /// the session, and with it what was kept.
    pub kept_invalidations: usize,
    /// The most pages that one grant of a client asks for.
    pub grant_pages: u32,
}

impl Limits {
    /// As large as the constants allow.
    pub const SHIPPED: Self = Self {
        pages_per_message: PAGES_PER_MESSAGE_MAX,
        invalidations_per_message: NOTICES_PER_MESSAGE_MAX,
        invalidation_bytes_per_message: 4 * 1024 * 1024,
        answer_bytes: 4 * 1024 * 1024,
        // With the page that exceeds it, about a quantum.
        ahead_bytes: PIECE_BYTES_MAX / 2,
        write_back_bytes: 4 * 1024 * 1024,
        reads_per_commit: 16,
        sessions: SESSIONS_MAX,
        members: MEMBERS_MAX,
        fetches_per_session: FETCHES_PER_SESSION_MAX,
        commits_per_session: COMMITS_PER_SESSION_MAX,
        commits_per_group: 64 * COMMITS_PER_SESSION_MAX,
        commits_in_turn: COMMITS_IN_TURN_MAX,
        losers: 1024,
        outcomes_per_client: OUTCOMES_PER_CLIENT_MAX,
        outcome_pages_per_client: 1 << 21,
        granted_pages: GRANTED_PAGES_MAX,
        absent_pages: ABSENT_PAGES_MAX,
        vouched_per_session: VOUCHED_PER_SESSION_MAX,
        gone_clients: GONE_CLIENTS_MAX,
        gone_members: 4 * MEMBERS_MAX,
        groups: GROUPS_MAX,
        peers: PEERS_MAX,
        leased_changes: 1_000_000,
        kept_invalidations: 4 * NOTICES_PER_MESSAGE_MAX,
        grant_pages: 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::SHIPPED
    }
}

const _: () = {
    assert!(PAGE_BYTES_TARGET <= PAGE_BYTES_GROWTH && PAGE_BYTES_GROWTH < PAGE_BYTES_MAX);
    assert!(PAGE_BYTES_MAX <= u16::MAX as usize);
    assert!(SLOTS_MAX * 4 + 4 < PAGE_BYTES_MAX);
    // Every slot of a page at its growth limit can still be turned into a reference of 24 bytes.
    assert!(SLOTS_MAX * (4 + 24) + 4 < PAGE_BYTES_GROWTH);
    assert!(OBJECT_BYTES_MAX + OBJECT_BYTES_MAX / 8 < TXN_BYTES_MAX);
    assert!(MESSAGE_BYTES_MAX < u32::MAX as usize);
    // A batch of invalidations is a message.
    assert!(Limits::SHIPPED.invalidation_bytes_per_message + SLOTS_MAX * (4 + SLOT_BYTES_MAX) < MESSAGE_BYTES_MAX);
    assert!(Limits::SHIPPED.invalidation_bytes_per_message / 4 + SLOTS_MAX < TXN_CHANGES_MAX);
    // A page from a peer, with its header and its meta of 44 bytes, is one frame in a store of one shard.
    assert!(PAGE_BYTES_MAX + 16 + 44 <= FRAME_BYTES_MAX);
    assert!(PAGE_BYTES_MAX + 16 + 28 + 8 * PAGES_BEHIND_MAX <= FRAME_BYTES_MAX);
    // The commits that one end may have outstanding find room in its queue: large ones, one whose values its redirector
    // does not keep, and small ones.
    assert!(
        LARGE_COMMITS_BYTES_MAX + MESSAGE_BYTES_MAX + COMMITS_PER_SESSION_MAX * FRAME_BYTES_MAX < SEND_QUEUE_BYTES_MAX
    );
    // One that keeps its order and one of those that take turns are always taken.
    assert!(PIECED_MESSAGES_MAX >= 2 && PIECED_BYTES_MAX >= 2 * MESSAGE_BYTES_MAX);
    assert!(OUTCOMES_PER_CLIENT_MAX >= COMMITS_PER_SESSION_MAX);
    assert!(VOUCHED_PER_SESSION_MAX > MEMBERS_MAX);
    assert!(GONE_CLIENTS_MAX >= 4 * SESSIONS_MAX && GONE_CLIENTS_MAX >= 4 * VOUCHED_PER_SESSION_MAX);
    // A session leads one group at most: where all places are taken and one more session comes, one of them is free of
    // a leader.
    assert!(GROUPS_MAX >= SESSIONS_MAX);
    // The catalog has all names in one slot, which grows in place, with 5 bytes for each besides. Its own space is one
    // more than it names.
    assert!(1 + SPACES_MAX * (5 + SPACE_NAME_BYTES_MAX) + 8 < PAGE_BYTES_GROWTH);
    assert!(SPACE_NAME_BYTES_MAX <= u8::MAX as usize && SPACES_MAX < GRANTED_SPACES_MAX);
    // The largest write of a volume is a message, and so is the largest part of a list.
    assert!(VOLUME_WRITE_BYTES_MAX + 1024 < MESSAGE_BYTES_MAX && COPIES_PER_LIST_MAX * 64 < MESSAGE_BYTES_MAX);
    // A part of a write-back is one frame, and all that are on their way find room in the queue to their home; so do
    // the reads in the queue back.
    assert!(VOLUME_PART_BYTES_MAX + 192 <= FRAME_BYTES_MAX);
    assert!((VOLUME_WINDOW_BYTES as usize) < SEND_QUEUE_BYTES_MAX / 2);
    assert!(VOLUME_READS_PER_SESSION_MAX * (VOLUME_PART_BYTES_MAX + 64) < SEND_QUEUE_BYTES_MAX / 2);
    assert!(VOLUME_SUMS_PER_ANSWER_MAX * 8 + 64 < FRAME_BYTES_MAX);
    assert!(VOLUME_RUNS_PER_ANSWER_MAX * 12 < FRAME_BYTES_MAX && VOLUME_HOMES_PER_ANSWER_MAX * 36 < FRAME_BYTES_MAX);
    // The largest status is a message.
    assert!(STATUS_CELLS_MAX * (STATUS_TEXT_BYTES_MAX + 3) < MESSAGE_BYTES_MAX / 2);
    assert!(STATUS_TEXT_BYTES_MAX >= ADDRESS_BYTES_MAX && STATUS_TEXT_BYTES_MAX >= GROUP_NAME_BYTES_MAX);
};
