//! Room in the log, and the requests that wait for it.
//!
//! ```text
//!   commit, grant --room now--> master         Later: write-back is at work, or the log grows
//!        |                         ^           Never: neither can help; what waits is refused
//!        +--Later--> waiting ------+
//! ```
//! 1. Commits and grants wait in the order in which they came. So a full log slows them down and fails none.
//! 2. The room of a commit is kept for it until it is logged or refused.
//! 3. A store without any room refuses at once what it is asked for. A home without room makes none for new pages.
//! 4. A change that makes the store larger leaves some room, so that a store whose disk is full still takes those that
//!    do not.
//! 5. The waiting requests are bounded: commits by the coordinator, in bytes; grants by their number for a session.

use crate::work::commit_bytes_bound;
use crate::{Record, SessionId, Store};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{CommitRequest, Grant};
use types::limits::GRANTS_PER_SESSION_MAX;
use types::{Map, Refusal, Time, TxnId};

/// Room in the log that new pages may not take, in bytes at most; an eighth of it if that is less.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// A request that waits for room.
#[derive(Debug)]
enum Waiting {
    Commit(SessionId, Arc<CommitRequest>),
    Grant(SessionId, Grant),
}

/// Room that is kept, and the requests that wait for some, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: VecDeque<Waiting>,
    /// Grants that wait until it is known which shards this node has.
    without_shards: Vec<(SessionId, Grant)>,
    /// The room of commits that are not logged, in bytes.
    kept: Map<TxnId, u64>,
    kept_bytes: u64,
}

/// The room that a request needs in the log.
#[derive(Clone, Copy, Debug)]
struct Need {
    bytes: u64,
    /// Whether it is for pages that nothing is in.
    is_new: bool,
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Now,
    /// Write-back, or the disk, is about to make some.
    Later,
    /// None can be made.
    Never,
}

impl Room {
    /// Gives back the room that is kept for a commit, or ends its wait for room.
    pub(crate) fn give_back(&mut self, txn: TxnId) {
        match self.kept.remove(&txn) {
            Some(bytes) => self.kept_bytes -= bytes,
            None => self.waiting.retain(|of| !matches!(of, Waiting::Commit(_, request) if request.txn == txn)),
        }
    }

    /// The commits that wait and came on this session.
    pub(crate) fn waiting_of(&self, session: SessionId) -> impl Iterator<Item = &CommitRequest> {
        self.waiting.iter().filter_map(move |waiting| match waiting {
            Waiting::Commit(from, request) if *from == session => Some(&**request),
            Waiting::Commit(..) | Waiting::Grant(..) => None,
        })
    }

    /// Whether any request waits.
    pub(crate) fn is_short(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn grants(&self, of: SessionId) -> usize {
        let waits = |waiting: &&Waiting| matches!(waiting, Waiting::Grant(session, _) if *session == of);
        let without_shards = self.without_shards.iter().filter(|(session, _)| *session == of);
        self.waiting.iter().filter(waits).count() + without_shards.count()
    }

    fn keep(&mut self, txn: TxnId, bytes: u64) {
        self.kept_bytes += bytes;
        self.kept.insert(txn, bytes);
    }
}

impl Store {
    /// A transaction wants room for its record, before any master judges it.
    pub(crate) fn reserve(&mut self, from: SessionId, request: Arc<CommitRequest>) {
        let need = self.need_of(&request);
        match self.room_for(need) {
            Found::Now if !self.room.is_short() => self.keep(request.txn, need),
            Found::Never => self.coordinator.not_reserved(request.txn, Refusal::StoreFull),
            Found::Now | Found::Later => self.room.waiting.push_back(Waiting::Commit(from, request)),
        }
    }

    /// A client wants pages to create objects in. It waits for room like a commit: an answer without pages says that
    /// the store is full.
    pub(crate) fn grant(&mut self, from: SessionId, grant: Grant) -> Result<(), Goodbye> {
        let is_between = self.config.has_peers() && self.is_between_shards();
        match self.room_for(NEED_OF_GRANT) {
            // The session is about to end, and the client asks again in its next one.
            _ if self.closing => {}
            Found::Now if !self.room.is_short() && !is_between => return self.master.grant(from, grant),
            Found::Never => self.master.grant_nothing(from),
            Found::Now | Found::Later if self.room.grants(from) >= GRANTS_PER_SESSION_MAX => {
                return Err(Goodbye::too_much(format!("expected at most {GRANTS_PER_SESSION_MAX} grants at a time")));
            }
            Found::Now if is_between => self.room.without_shards.push((from, grant)),
            Found::Now | Found::Later => self.room.waiting.push_back(Waiting::Grant(from, grant)),
        }
        Ok(())
    }

    /// Grants what waited until it was known which shards this node has.
    pub(crate) fn grant_between(&mut self, now: Time) {
        if self.room.without_shards.is_empty() || self.is_between_shards() {
            return;
        }
        for (session, grant) in core::mem::take(&mut self.room.without_shards) {
            if let Err(why) = self.grant(session, grant) {
                self.end(now, session, why);
            }
        }
        self.carry_on(now);
    }

    /// Continues with requests for which there is room now. Returns whether there was one.
    pub(crate) fn admit_waiting(&mut self, now: Time) -> bool {
        let mut is_any = false;
        while let Some(first) = self.room.waiting.front() {
            let need = match first {
                Waiting::Commit(_, request) => self.need_of(request),
                Waiting::Grant(..) => NEED_OF_GRANT,
            };
            let found = self.room_for(need);
            if found == Found::Later && !self.closing {
                break;
            }
            is_any = true;
            match self.room.waiting.pop_front().expect("just seen") {
                Waiting::Commit(_, request) if self.closing => {
                    self.coordinator.not_reserved(request.txn, Refusal::Closing);
                }
                Waiting::Commit(_, request) if found == Found::Never => {
                    self.coordinator.not_reserved(request.txn, Refusal::StoreFull);
                }
                Waiting::Commit(_, request) => self.keep(request.txn, need),
                Waiting::Grant(..) if self.closing => {}
                Waiting::Grant(from, _) if found == Found::Never => self.master.grant_nothing(from),
                Waiting::Grant(from, grant) => {
                    if let Err(why) = self.master.grant(from, grant) {
                        self.end(now, from, why);
                    }
                }
            }
            self.carry_on(now);
        }
        is_any
    }

    fn keep(&mut self, txn: TxnId, need: Need) {
        self.room.keep(txn, need.bytes);
        self.coordinator.reserved(txn);
    }

    fn need_of(&self, request: &CommitRequest) -> Need {
        let others = request.writes.len().min(usize::from(self.config.sharding.shards().get()) - 1);
        Need { bytes: commit_bytes_bound(&request.writes, others), is_new: self.master.fills_new_pages(request) }
    }

    /// Whether there is room. Has the disk asked for some if nothing else can make any.
    fn room_for(&mut self, need: Need) -> Found {
        let bytes = self.room.kept_bytes + need.bytes;
        let spared = if need.is_new { (self.log.capacity_bytes() / 8).min(KEPT_BYTES_MAX) } else { 0 };
        if self.log.has_room(bytes + spared) {
            return Found::Now;
        }
        if self.master.is_home_full() {
            return Found::Never;
        }
        if self.can_make_room() || self.log.make_room(bytes + spared, &mut self.out) {
            return Found::Later;
        }
        // The whole log is there for it: it is small, and nothing else is in it.
        if self.log.has_room(bytes) { Found::Now } else { Found::Never }
    }

    /// Whether something is on its way that leaves more room than there is. Records that other nodes need go when these
    /// have written them back, however long that takes.
    fn can_make_room(&self) -> bool {
        let is_busy = !self.room.kept.is_empty() || !self.master.is_at_rest();
        is_busy || self.log.is_freeing() || self.is_ahead() || self.kept.oldest().is_some()
    }
}

/// The record of a grant.
const NEED_OF_GRANT: Need = Need { bytes: Record::GRANT_BYTES, is_new: true };
