//! A master: one store node's worth of pages and counts.
//!
//! 1. It tells each member of every change to what the member holds, in the order of its counts, with a `through`;
//! 2. but it may leave a change to another master's stream, whose transaction it was. Then its `through` to that member
//!    stays below that change until the member has said that it has learned of it (`HoldThrough`). Otherwise the member
//!    would take for current what it has not heard is stale.

use super::{MASTERS, MemberNo};
use crate::ledger::Ledger;
use crate::violation::Violation;
use core::time::Duration;
use directory::{Acks, Directory, Recent, Streams, Urgency, stale_slots};
use messages::{Advance, Fetch, Help, Invalidation, Invalidations, Page, PageReads, Resume, Resumed, ToClient};
use std::collections::{BTreeMap, BTreeSet};
use store::CommitRecord;
use types::{
    Broken, ClientId, Delta, Limits, ObjectPage, PageId, PeerKey, Rule, Shard, Sharding, SlotSet, Time, TxnId, Vector,
    Version,
};

/// Stands in an invalidation that sums up the changes of several transactions.
const SEVERAL: TxnId = TxnId { client: ClientId(0), number: 0 };

/// A peer was asked for a page.
#[derive(Clone, Copy, Debug)]
struct Asked {
    helper: MemberNo,
    requester: MemberNo,
    page: PageId,
    number: u64,
}

#[derive(Debug)]
pub(crate) struct Master {
    applied: Version,
    pages: BTreeMap<PageId, (Version, ObjectPage)>,
    recent: Recent,
    directory: Directory<MemberNo>,
    streams: Streams<MemberNo>,
    acks: Acks<MemberNo>,
    /// For each member the changes that it has yet to learn of by another master's stream.
    left: Vec<BTreeSet<Version>>,
    asked: Vec<Asked>,
    /// The state of its pages at every count.
    pub(crate) ledger: Ledger,
    broken: Broken,
}

impl Master {
    pub(crate) fn new(members: usize, recent_limit: usize, delay: Duration, broken: Broken) -> Self {
        Self {
            applied: Version::ZERO,
            pages: BTreeMap::new(),
            recent: Recent::new(recent_limit),
            directory: Directory::default(),
            streams: Streams::new(delay, Limits::SHIPPED),
            acks: Acks::default(),
            left: vec![BTreeSet::new(); members],
            asked: Vec::new(),
            ledger: Ledger::new(Sharding::ONE),
            broken,
        }
    }

    /// A member comes with an empty cache; gives its horizon.
    pub(crate) fn welcome(&mut self, member: MemberNo) -> Version {
        self.streams.open(member);
        self.streams.resume(member, &self.applied.into());
        self.acks.join(member, self.applied.into());
        self.applied
    }

    pub(crate) fn applied(&self) -> Version {
        self.applied
    }

    pub(crate) fn version(&self, page: PageId) -> Version {
        self.pages.get(&page).map_or(Version::ZERO, |(version, _)| *version)
    }

    pub(crate) fn holds(&self, page: PageId, member: MemberNo) -> bool {
        self.directory.holds(page, member)
    }

    /// The slots that were read and have changed since.
    pub(crate) fn stale(&self, reads: &PageReads) -> SlotSet {
        let pruned = if self.broken.is(Rule::PruneCheck) { Version::ZERO } else { self.pruned() };
        stale_slots(reads, self.version(reads.page), &self.recent, pruned)
    }

    /// The count through which changes are forgotten.
    fn pruned(&self) -> Version {
        self.recent.pruned().of(Shard::ONLY)
    }

    /// Applies a transaction's part at the next count.
    pub(crate) fn apply(&mut self, txn: TxnId, deltas: Vec<Delta>) -> Result<Vec<Advance>, Violation> {
        self.applied = self.applied.next();
        let version = self.applied;
        let mut advances = Vec::new();
        for delta in &deltas {
            let (at, image) = self.pages.entry(delta.page).or_default();
            advances.push(Advance { page: delta.page, prev: *at, version });
            *image = image.with(&delta.changes).expect("the values here are small");
            *at = version;
            self.recent.note(delta.page, Shard::ONLY, version, delta.changes.iter().map(|change| change.slot));
        }
        self.ledger.commit(&CommitRecord { txn, counts: version.into(), answered: 1, deltas })?;
        Ok(advances)
    }

    /// The member learns of the change with the next batch of this master's own stream.
    pub(crate) fn tell(&mut self, now: Time, member: MemberNo, invalidation: &Invalidation) {
        self.streams.push(now, member, Invalidation { data: None, ..invalidation.clone() });
    }

    /// The member learns of the change by another master's stream alone.
    pub(crate) fn leave(&mut self, member: MemberNo, version: Version) {
        self.left[member].insert(version);
    }

    /// The member has learned of a change by another master's stream.
    pub(crate) fn heard(&mut self, member: MemberNo, version: Version) {
        self.left[member].remove(&version);
    }

    pub(crate) fn has_left_something(&self) -> bool {
        self.left.iter().any(|left| !left.is_empty())
    }

    /// The count through which everything has been told to the member, once what this stream has for it is delivered.
    pub(crate) fn through(&self, member: MemberNo) -> Version {
        match self.left[member].first() {
            Some(untold) if !self.broken.is(Rule::HoldThrough) => Version(untold.0 - 1),
            _ => self.applied,
        }
    }

    /// The invalidations that the member should be told before a reply.
    pub(crate) fn flush(&mut self, member: MemberNo) -> Vec<Invalidations> {
        self.streams.take(member, &self.through(member).into(), Urgency::All)
    }

    /// A member whose batch has waited long enough.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<MemberNo> {
        self.streams.pop_due(now)
    }

    pub(crate) fn ack(&mut self, member: MemberNo, through: &Vector) {
        self.acks.ack(member, through);
        if let Some(least) = self.acks.least() {
            self.recent.prune(&least);
        }
    }

    /// The page as it is now.
    pub(crate) fn page(&self, page: PageId, number: u64) -> ToClient {
        let (version, image) = &self.pages[&page];
        ToClient::Page(Page {
            page,
            version: *version,
            number,
            fresh: true,
            behind: Vec::new(),
            image: image.image().clone(),
        })
    }

    /// The member is listed as a holder, and then the page may go out; gives who else has it.
    pub(crate) fn list(&mut self, page: PageId, member: MemberNo) -> Vec<MemberNo> {
        self.directory.list(page, member);
        let mut others: Vec<_> =
            self.directory.holders(page).iter().copied().filter(|&other| other != member).collect();
        others.sort_unstable();
        others
    }

    pub(crate) fn release(&mut self, page: PageId, member: MemberNo) {
        self.directory.release(page, member);
    }

    /// Asks `helper` for the page. The request goes behind everything that the helper should be told, and names what
    /// the page must reflect: everything that was applied before the requester was listed.
    pub(crate) fn ask(&mut self, helper: MemberNo, requester: MemberNo, fetch: &Fetch) -> ToClient {
        let (page, number) = (fetch.pages[0], fetch.number);
        self.asked.push(Asked { helper, requester, page, number });
        ToClient::Help(Help {
            requester: client_of(requester),
            number,
            through: self.applied.into(),
            address: String::new(),
            key: PeerKey::default(),
            pages: vec![page],
        })
    }

    /// A helper does not have the page as it is wanted: the page itself goes out.
    pub(crate) fn no_help(&mut self, requester: MemberNo, page: PageId, number: u64) -> ToClient {
        self.asked.retain(|asked| (asked.requester, asked.page, asked.number) != (requester, page, number));
        self.page(page, number)
    }

    /// The member's session is lost. Returns the pages that should go out because it will not help.
    pub(crate) fn lose(&mut self, member: MemberNo) -> Vec<(MemberNo, ToClient)> {
        self.streams.close(member);
        self.acks.leave(member);
        self.directory.forget_holder(member);
        self.asked.retain(|asked| asked.requester != member);
        let unanswered: Vec<_> = self.asked.extract_if(.., |asked| asked.helper == member).collect();
        unanswered.into_iter().map(|asked| (asked.requester, self.page(asked.page, asked.number))).collect()
    }

    /// The member is back with what it held: all of it is listed, then compared as a store does. Nothing that was left
    /// to others to tell is of account any more.
    pub(crate) fn resume(&mut self, now: Time, member: MemberNo, resume: &Resume) -> Vec<ToClient> {
        self.streams.open(member);
        self.left[member].clear();
        let mut dropped = Vec::new();
        for held in &resume.pages {
            self.directory.list(held.page, member);
            let (version, known) = (self.version(held.page), held.version.max(resume.horizon.of(Shard::ONLY)));
            if version <= known {
                continue;
            }
            if known < self.pruned() {
                self.directory.release(held.page, member);
                dropped.push(held.page);
                continue;
            }
            let slots = self.recent.changed_after(held.page, known);
            let invalidation =
                Invalidation { page: held.page, prev: held.version, version, slots, txn: SEVERAL, data: None };
            self.streams.push(now, member, invalidation);
        }
        let mut messages: Vec<_> = self.flush(member).into_iter().map(ToClient::Invalidations).collect();
        self.acks.join(member, resume.horizon.clone());
        messages.push(ToClient::Resumed(Resumed { through: self.applied.into(), dropped }));
        messages
    }
}

/// The identity of a member.
pub(crate) fn client_of(member: MemberNo) -> ClientId {
    ClientId(member as u64 + 1)
}

/// The member with this identity.
pub(crate) fn member_of(client: ClientId) -> MemberNo {
    client.0 as MemberNo - 1
}

/// The parts of a transaction, master by master.
pub(crate) fn parts(deltas: &[Delta]) -> [Vec<Delta>; MASTERS] {
    core::array::from_fn(|master| {
        deltas.iter().filter(|delta| super::master_of(delta.page) == master).cloned().collect()
    })
}
