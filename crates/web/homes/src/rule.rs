//! The rules of the web front end, each of which a test can take out to see that the checkers notice.
//!
//! One more is not of the machines: **RenewInOrder**, that a renewal of a lease keeps its place behind the marks, is
//! the pace of the messages (`crate::messages::hub`).

/// A rule of coherent responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// An update is released only when each home has marked it, or answers for its table no more.
    ReleaseAfterAll,
    /// A home that is silent is waited for until its lease is over by the hub's clock: that it is dead is not enough,
    /// as its table can still be read.
    WaitForLease,
    /// A home that ends says so to its hub when it has taken back the lease of its table, and not before: the hub waits
    /// for it no longer.
    LeaveWhenRevoked,
    /// A dependency stays marked until every new reader sees the update.
    MarkUntilVisible,
    /// Marks are counted, one for each update.
    CountMarks,
    /// A response is stored only if none of its dependencies is marked.
    StoreIfUnmarked,
    /// A response is stored only if none of its dependencies was unmarked since it was asked for.
    StoreIfUntouched,
    /// A ticket that is older than what is remembered of unmarked dependencies is void.
    VoidForgotten,
    /// A request that came after the origin was asked for a response is given that only if it was stored.
    JoinersNeedStored,
    /// A response that was not stored is given to the requests that had come before the origin was asked for it, and to
    /// no other.
    AskAfterJoining,
    /// A stored response is used only if its word is read after the request came.
    LookAtHit,
    /// A response whose body is arriving is read along by a request that came after the origin was asked only if its
    /// home has stored it, and its word is read after the request came.
    LookAlong,
    /// A lookup in the table of a home elsewhere is answered by a message that leaves after it was asked for.
    ReadAfterAsking,
    /// A slot's word changes when its response is freed, and so before another response gets the slot: from then on no
    /// update of what the response depends on would change it.
    BumpOnReuse,
    /// A table is believed within the lease of its home.
    LeaseOfHome,
    /// The lease is read before the word, and the clock after it: the word was read within the lease.
    ClockAfterWord,
    /// A table is believed for what was stored in the generation that it is in.
    GenerationOfHome,
    /// A home that joins has learned of every outstanding mark before it gives a ticket or stores anything.
    JoinWithMarks,
    /// A home that joins drops everything that it has stored: of what was released without it, it may never hear.
    FlushAtJoin,
    /// A lease counts from when its holder has asked for it.
    LeaseFromAsking,
    /// The hub counts a lease longer than its holder does, by how much its clock may be the faster one.
    AllowDrift,
    /// A release stands within the lease of its updater: the hub unmarks the updates of one that is gone when the lease
    /// is over.
    ReleaseWithinLease,
    /// A new hub releases nothing until the leases that an earlier one has given are over.
    HubWaits,
    /// A new hub keeps everything marked until everything that an earlier one may have released is visible.
    StarUntilVisible,
    /// A home's lease ends within that of its hub's source, where the source gives one: it lets updates become visible
    /// that nobody has announced when that is over.
    LeaseWithinSource,
    /// A home that joins gives no ticket and stores nothing until the lease from this hub reaches the end of the one
    /// that its table has: within that of another hub, it would answer for what this hub has never promised for so
    /// long.
    OutlastEarlierLease,
    /// Everything is marked while a source is away, from the end of its session until it has caught up in another one:
    /// of what changes there in the meantime, nobody tells.
    StarWithoutSource,
    /// A home answers for nothing once its session with its hub has ended: a database that has died with the hub shows
    /// what nobody has released when it is up again, which may be within the home's lease.
    SilentWithoutHub,
    /// A source has a number that is greater each time that somebody gets hold of it: an updater with a smaller number
    /// than one that has spoken for it does not speak for it again. It may have been stopped for a while, and not know.
    FenceSources,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::ReleaseAfterAll,
        Self::WaitForLease,
        Self::LeaveWhenRevoked,
        Self::MarkUntilVisible,
        Self::CountMarks,
        Self::StoreIfUnmarked,
        Self::StoreIfUntouched,
        Self::VoidForgotten,
        Self::JoinersNeedStored,
        Self::AskAfterJoining,
        Self::LookAtHit,
        Self::LookAlong,
        Self::ReadAfterAsking,
        Self::BumpOnReuse,
        Self::LeaseOfHome,
        Self::ClockAfterWord,
        Self::GenerationOfHome,
        Self::JoinWithMarks,
        Self::FlushAtJoin,
        Self::LeaseFromAsking,
        Self::AllowDrift,
        Self::ReleaseWithinLease,
        Self::HubWaits,
        Self::StarUntilVisible,
        Self::LeaseWithinSource,
        Self::OutlastEarlierLease,
        Self::StarWithoutSource,
        Self::SilentWithoutHub,
        Self::FenceSources,
    ];
}
