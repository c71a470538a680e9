//! The answers that the application gets.

use alloc::string::String;
use core::iter::Sum;
use core::ops::Add;
use core::time::Duration;
use types::{GoodbyeReason, ObjectId, PageId};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The object's value.
    Value(&'a [u8]),
    /// There is no such object.
    Absent,
    /// Not in the cache: call again when woken.
    Wait,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is in the transaction's workspace.
    Done,
    /// The page is not in the cache: call again when woken.
    Wait,
    /// The page has no room for a value of this size: store it elsewhere and write a short reference here.
    Full,
}

/// The result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The new object, in the transaction's workspace.
    Object(ObjectId),
    /// No page to create it in yet: call again when woken.
    Wait,
}

/// Why a transaction cannot continue. It has no effect; abort it and begin again, or give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnError {
    /// It has read values that others have changed since. Begin again.
    Doomed,
    /// It writes more than one transaction may. Split it.
    TooLarge,
    /// The handle is of a transaction that has ended.
    Ended,
    /// The store could not be reached, or has not answered, for as long as the client is patient.
    Unreachable,
    /// The store has ended the session for good.
    Refused(GoodbyeReason, String),
    /// The store of this process has stopped, and why. Open it again.
    Stopped(String),
    /// The store has no room for new objects.
    StoreFull,
    /// The store was opened to be read only.
    ReadOnly,
    /// The store cannot read a page that the transaction needs, and why. Only this operation has failed. The
    /// transaction can use other pages.
    Damaged(PageId, String),
}

/// The client's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Reads answered from the cache. Reads that a transaction finds in [`crate::Seen`] are not counted.
    pub hits: u64,
    /// Reads that had to wait for a page.
    pub misses: u64,
    /// Fetch messages sent: each is one round trip.
    pub fetches: u64,
    /// Pages that arrived.
    pub pages_fetched: u64,
    /// Of these, pages that were here already, with holes: an object that was to be read had changed.
    pub pages_renewed: u64,
    /// Pages that arrived by prefetch, and of those the ones that were read later.
    pub pages_prefetched: u64,
    /// Prefetched pages that were read.
    pub prefetch_hits: u64,
    /// Commits acknowledged, read-only ones included.
    pub commits: u64,
    /// Of these, transactions that had only read, and had heard from the store since they began: they did not ask.
    pub commits_fresh: u64,
    /// Commit requests refused.
    pub refused: u64,
    /// Transactions doomed before they asked to commit.
    pub doomed: u64,
    /// Commit requests sent, read-only ones included.
    pub commit_requests: u64,
    /// Bytes of page images in the cache.
    pub cache_bytes: u64,
    /// Pages in the cache.
    pub cache_pages: u64,
    /// Sessions that were opened.
    pub sessions: u64,
    /// Pages that came from peers' caches.
    pub pages_from_peers: u64,
    /// Pages that were sent to peers.
    pub pages_given: u64,
    /// How long pages that transactions wanted took to come, all in all.
    pub fetch_time: Duration,
    /// Of that, pages that came from peers' caches.
    pub peer_time: Duration,
}

/// Of several clients together.
impl Add for Stats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            fetches: self.fetches + other.fetches,
            pages_fetched: self.pages_fetched + other.pages_fetched,
            pages_renewed: self.pages_renewed + other.pages_renewed,
            pages_prefetched: self.pages_prefetched + other.pages_prefetched,
            prefetch_hits: self.prefetch_hits + other.prefetch_hits,
            commits: self.commits + other.commits,
            commits_fresh: self.commits_fresh + other.commits_fresh,
            refused: self.refused + other.refused,
            doomed: self.doomed + other.doomed,
            commit_requests: self.commit_requests + other.commit_requests,
            cache_bytes: self.cache_bytes + other.cache_bytes,
            cache_pages: self.cache_pages + other.cache_pages,
            sessions: self.sessions + other.sessions,
            pages_from_peers: self.pages_from_peers + other.pages_from_peers,
            pages_given: self.pages_given + other.pages_given,
            fetch_time: self.fetch_time + other.fetch_time,
            peer_time: self.peer_time + other.peer_time,
        }
    }
}

impl Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(stats: I) -> Self {
        stats.fold(Self::default(), Add::add)
    }
}
