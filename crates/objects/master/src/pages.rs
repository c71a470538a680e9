//! The pages: what each is now, who holds it, and who is about to change it.
//!
//! 1. A page is its home image with the MOB laid over it.
//! 2. Deltas are applied in the order of their counts (`early`), each once: one at or below the page's home version is
//!    there already.
//! 3. A page whose home image cannot be read takes no more changes. Its earlier changes are set aside (see `damage`).
//! 4. No page passes its size limit: what a delta may add is bounded before it is logged, and computed where the bound
//!    is not enough, so that applying it cannot fail.

use crate::early::Early;
use crate::images::{Images, Waiter};
use crate::mob::Mob;
use crate::outputs::Outputs;
use crate::ticket::Ticket;
use crate::validate::{Locks, Stale, Verdict, image_bytes_bound};
use crate::writeback::Installed;
use crate::{Config, HomeImage, HomePage, SetAside};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use directory::{Directory, Recent, stale_slots};
use messages::{Advance, CommitRequest, Held, PageReads, RecentChanges};
use smallvec::SmallVec;
use types::limits::{PAGE_BYTES_MAX, RECENT_CHANGES_MAX};
use types::{
    Broken, Delta, Map, NodeId, ObjectPage, PageId, Position, Refusal, Rule, SessionId, Shard, Sharding, SlotSet,
    TxnId, Vector, Version,
};

/// A page that was ever written to. The others are at version zero and take no memory.
#[derive(Clone, Copy, Debug)]
struct PageState {
    version: Version,
    /// The version of its home image, zero if it has none.
    home: Version,
    home_bytes: u32,
}

impl Default for PageState {
    fn default() -> Self {
        Self { version: Version::ZERO, home: Version::ZERO, home_bytes: ObjectPage::empty().len() as u32 }
    }
}

/// A transaction that was found valid and is not applied.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its parts, which a coordinator that prepares in the order of shards may send one by one.
    pub(crate) parts: SmallVec<[Arc<CommitRequest>; 1]>,
    /// The node that coordinates it.
    pub(crate) coordinator: NodeId,
    /// A bound of what it adds to the MOB, in bytes.
    mob_bytes: usize,
    /// Where its record is in the log; zero until it is there.
    pub(crate) position: Position,
    /// Its counts, and the sessions to which the coordinator's reply stands for the invalidation, once it is decided.
    pub(crate) decided: Option<(Vector, SmallVec<[SessionId; 1]>)>,
}

impl Prepared {
    /// Its writes, part by part.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Delta> {
        self.parts.iter().flat_map(|part| &part.writes)
    }
}

/// The pages of one node.
#[derive(Debug)]
pub(crate) struct Pages {
    sharding: Sharding,
    has_peers: bool,
    table: Map<PageId, PageState>,
    applied: Vector,
    /// The counts that were applied when the process started.
    resumed: Vector,
    mob: Mob,
    images: Images,
    recent: Recent,
    locks: Locks,
    prepared: Map<TxnId, Prepared>,
    /// A bound of what the prepared will add to the MOB, in bytes.
    prepared_bytes: usize,
    directory: Directory<SessionId>,
    /// The pages whose home image cannot be read, and why. A page stays here until the restart.
    damaged: BTreeMap<PageId, String>,
    /// Dirty changes that were set aside.
    aside: BTreeMap<PageId, SetAside>,
    broken: Broken,
}

impl Pages {
    pub(crate) fn new(config: &Config, home: &[HomePage], aside: Vec<SetAside>) -> Self {
        let state = |page: &HomePage| {
            (page.page, PageState { version: page.version, home: page.version, home_bytes: page.bytes })
        };
        let mut pages = Self {
            sharding: config.sharding,
            has_peers: config.has_peers,
            table: home.iter().map(state).collect(),
            applied: Vector::new(),
            resumed: Vector::new(),
            mob: Mob::default(),
            images: Images::new(config.cache_bytes_limit),
            recent: Recent::new(config.recent_limit),
            locks: Locks::default(),
            prepared: Map::default(),
            prepared_bytes: 0,
            directory: Directory::default(),
            damaged: BTreeMap::new(),
            aside: BTreeMap::new(),
            broken: config.broken,
        };
        for aside in aside {
            pages.take_aside(aside);
        }
        pages
    }

    /// Changes that an earlier process set aside wait for write-back again: the image may be readable by now.
    fn take_aside(&mut self, aside: SetAside) {
        let SetAside { page, version, ref changes } = aside;
        self.table.entry(page).or_default().version = version;
        self.mob.apply(Position(0), version, &Delta { page, changes: changes.clone() });
        self.aside.insert(page, aside);
    }

    /// Everything through these counts was applied before the restart. Earlier changes are not known slot by slot, so
    /// evidence is judged by page version.
    pub(crate) fn resume(&mut self, applied: &Vector) {
        (self.applied, self.resumed) = (applied.clone(), applied.clone());
        self.recent.prune(applied);
    }

    /// The counts through which updates are applied.
    pub(crate) fn applied(&self) -> &Vector {
        &self.applied
    }

    /// The counts through which updates are applied, and the highest versions of pages of shards that are not here.
    pub(crate) fn known(&self) -> Vector {
        let mut known = self.applied.clone();
        for (&page, state) in self.table.iter().filter(|_| self.has_peers) {
            known.raise(self.sharding.of(page), state.version);
        }
        known
    }

    /// The count through which updates of the page's shard are applied.
    pub(crate) fn applied_to(&self, page: PageId) -> Version {
        self.count_of(page, &self.applied)
    }

    /// The count of the page's shard.
    pub(crate) fn count_of(&self, page: PageId, counts: &Vector) -> Version {
        counts.of(self.sharding.of(page))
    }

    /// The page's version.
    pub(crate) fn version(&self, page: PageId) -> Version {
        self.table.get(&page).map_or(Version::ZERO, |state| state.version)
    }

    /// Whether the page was written to since the process started.
    pub(crate) fn has_changed_since_start(&self, page: PageId) -> bool {
        self.version(page) > self.count_of(page, &self.resumed)
    }

    /// Whether something is in the page, or is about to be.
    pub(crate) fn is_in_use(&self, page: PageId) -> bool {
        !self.is_empty(page) || self.locks.is_locked(page)
    }

    /// Whether nothing is in the page, as far as can be seen without reading it: what is at home counts until it is
    /// written back that it was deleted.
    pub(crate) fn is_empty(&self, page: PageId) -> bool {
        let is_at_home =
            self.table.get(&page).is_none_or(|state| state.home_bytes as usize == ObjectPage::empty().len());
        is_at_home && (self.mob.holds_nothing_of(page) || self.broken.is(Rule::GrantEmpty))
    }

    /// The holders of each page.
    pub(crate) fn directory(&mut self) -> &mut Directory<SessionId> {
        &mut self.directory
    }

    /// The holders of the page.
    pub(crate) fn holders(&self, page: PageId) -> &[SessionId] {
        self.directory.holders(page)
    }

    /// The pages that prepared transactions write to, in order.
    pub(crate) fn prepared_pages(&self) -> Vec<PageId> {
        self.locks.pages()
    }

    /// The prepared transactions that write to the page, and to which slots.
    pub(crate) fn prepared(&self, page: PageId) -> impl Iterator<Item = (TxnId, SlotSet)> + '_ {
        self.locks.on(page)
    }

    /// Whether the session is listed for the page.
    pub(crate) fn holds(&self, page: PageId, session: SessionId) -> bool {
        self.directory.holds(page, session)
    }

    /// How many pages the session is listed for.
    pub(crate) fn pages_held(&self, session: SessionId) -> usize {
        self.directory.pages_held(session)
    }

    /// The counts at and below which it is not remembered who changed what.
    pub(crate) fn pruned(&self) -> &Vector {
        self.recent.pruned()
    }

    /// Forgets who changed what through `through`.
    pub(crate) fn prune(&mut self, through: &Vector) {
        self.recent.prune(through);
    }

    /// The slots of `page` that changed after `known`; `None` if that is no longer known.
    pub(crate) fn changed_after(&self, page: PageId, known: Version) -> Option<SlotSet> {
        (known >= self.count_of(page, self.pruned())).then(|| self.recent.changed_after(page, known))
    }

    /// The slots that were read and have changed since.
    pub(crate) fn stale(&self, request: &CommitRequest) -> Stale {
        let checks_pruned = !self.broken.is(Rule::PruneCheck);
        let of = |reads: &PageReads| {
            let pruned = if checks_pruned { self.count_of(reads.page, self.pruned()) } else { Version::ZERO };
            let mut slots = stale_slots(reads, self.version(reads.page), &self.recent, pruned);
            if self.has_peers {
                slots.union_with(&self.locks.about_to_change(reads));
            }
            slots
        };
        let stale = request.reads.iter().map(|reads| (reads.page, of(reads)));
        stale.filter(|(_, slots)| !slots.is_empty()).collect()
    }

    /// Whether a prepared transaction writes what a read-only one has read, and may be acknowledged before it is
    /// applied here.
    pub(crate) fn must_wait_to_read(&self, request: &CommitRequest) -> bool {
        self.has_peers && self.locks.conflict(request) && !self.broken.is(Rule::ReadersMeetPrepared)
    }

    /// The highest count that is known of each shard that a transaction writes to.
    pub(crate) fn highest(&self, request: &CommitRequest, early: &Early) -> Vector {
        let shards = request.writes.iter().map(|delta| self.sharding.of(delta.page));
        shards.map(|shard| (shard, self.applied.of(shard).max(early.highest(shard)))).collect()
    }

    /// Judges a transaction that writes: is everything that it read current, is it free of others, does it fit?
    pub(crate) fn validate(&mut self, request: &CommitRequest) -> Verdict {
        let stale = self.stale(request);
        if !stale.is_empty() {
            return Verdict::Refused(Refusal::Stale(stale));
        }
        if let Some(delta) = request.writes.iter().find(|delta| self.damaged.contains_key(&delta.page)) {
            return Verdict::Refused(Refusal::PageDamaged(delta.page));
        }
        let meets = self.locks.conflict(request) || self.locks.reads_conflict(request);
        if meets && !self.broken.is(Rule::PrepareLocks) {
            return Verdict::Met;
        }
        let verdicts = request.writes.iter().map(|delta| self.check_fit(delta));
        verdicts.reduce(worst).unwrap_or(Verdict::Valid)
    }

    /// A transaction was found valid: until it is decided its writes are in the way of others.
    pub(crate) fn prepare(&mut self, ticket: &Ticket) {
        let Ticket { request, mob_bytes, from, .. } = ticket;
        self.locks.lock(request.txn, &request.writes);
        if self.has_peers && !self.broken.is(Rule::PrepareReads) {
            self.locks.lock_reads(request.txn, &request.reads);
        }
        self.prepared_bytes += mob_bytes;
        let prepared = self.prepared.entry(request.txn).or_insert_with(|| Prepared {
            parts: SmallVec::new(),
            coordinator: from.coordinator,
            mob_bytes: 0,
            position: Position(0),
            decided: None,
        });
        prepared.parts.push(request.clone());
        prepared.mob_bytes += mob_bytes;
    }

    /// The transaction, if it is prepared.
    pub(crate) fn prepared_txn(&mut self, txn: TxnId) -> Option<&mut Prepared> {
        self.prepared.get_mut(&txn)
    }

    /// The prepared transactions that write to a shard.
    pub(crate) fn writes_to(&self, shard: Shard) -> impl Iterator<Item = (TxnId, &Prepared)> + '_ {
        let writes = move |prepared: &Prepared| prepared.writes().any(|delta| self.sharding.of(delta.page) == shard);
        self.prepared.iter().filter(move |(_, prepared)| writes(prepared)).map(|(&txn, prepared)| (txn, prepared))
    }

    /// The prepared transactions that write to a shard and are not decided.
    pub(crate) fn undecided(&self, shard: Shard) -> impl Iterator<Item = TxnId> + '_ {
        self.writes_to(shard).filter(|(_, prepared)| prepared.decided.is_none()).map(|(txn, _)| txn)
    }

    /// The transactions of a coordinator that are prepared and not applied. Some may be decided, and wait for earlier
    /// counts.
    pub(crate) fn unapplied_of(&self, coordinator: NodeId) -> impl Iterator<Item = TxnId> + '_ {
        let is_meant = move |(_, prepared): &(&TxnId, &Prepared)| prepared.coordinator == coordinator;
        self.prepared.iter().filter(is_meant).map(|(&txn, _)| txn)
    }

    /// The transactions that are prepared and not applied, by the shards that they write to.
    pub(crate) fn unapplied(&self, is_meant: impl Fn(TxnId) -> bool) -> BTreeMap<Shard, Vec<TxnId>> {
        let mut shards = BTreeMap::<_, Vec<_>>::new();
        for (&txn, prepared) in self.prepared.iter().filter(|(txn, _)| self.has_peers && is_meant(**txn)) {
            for delta in prepared.writes() {
                let of_shard = shards.entry(self.sharding.of(delta.page)).or_default();
                if of_shard.last() != Some(&txn) {
                    of_shard.push(txn);
                }
            }
        }
        shards
    }

    /// Whether a transaction is prepared and not applied.
    pub(crate) fn is_prepared(&self, txn: TxnId) -> bool {
        self.prepared.contains_key(&txn)
    }

    /// A prepared transaction is decided, and cannot be applied yet.
    pub(crate) fn decide_early(&mut self, txn: TxnId, counts: &Vector) {
        let Some(prepared) = self.prepared.get(&txn).filter(|_| !self.broken.is(Rule::WaitUndecided)) else { return };
        for part in &prepared.parts {
            self.locks.unlock_reads(txn, &part.reads);
            for delta in &part.writes {
                self.locks.decide(txn, delta.page, counts.of(self.sharding.of(delta.page)));
            }
        }
    }

    /// The counts of a prepared transaction that is decided.
    pub(crate) fn counts_of(&self, txn: TxnId) -> Option<&Vector> {
        Some(&self.prepared.get(&txn)?.decided.as_ref()?.0)
    }

    /// A transaction that is prepared and not decided.
    pub(crate) fn undecided_txn(&self, txn: TxnId) -> Option<&Prepared> {
        self.prepared.get(&txn).filter(|prepared| prepared.decided.is_none())
    }

    /// Whether a transaction is prepared and not decided.
    pub(crate) fn is_undecided(&self, txn: TxnId) -> bool {
        self.undecided_txn(txn).is_some()
    }

    /// The record of a prepared transaction is in the log.
    pub(crate) fn logged(&mut self, txn: TxnId, position: Position) {
        if let Some(prepared) = self.prepared.get_mut(&txn) {
            prepared.position = position;
        }
    }

    /// A transaction is over, and no longer in the way of others.
    pub(crate) fn unprepare(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.remove(&txn)?;
        self.prepared_bytes -= prepared.mob_bytes;
        for part in &prepared.parts {
            self.locks.unlock(txn, &part.writes);
            self.locks.unlock_reads(txn, &part.reads);
        }
        Some(prepared)
    }

    /// A bound of what the prepared transactions will add to the MOB, in bytes.
    pub(crate) fn prepared_bytes(&self) -> usize {
        self.prepared_bytes
    }

    /// Whether any transaction is prepared.
    pub(crate) fn has_prepared(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// How the deltas will move their pages at these counts.
    pub(crate) fn advances<'a>(&self, counts: &Vector, deltas: impl Iterator<Item = &'a Delta>) -> Vec<Advance> {
        let advance = |page| Advance { page, prev: self.version(page), version: self.count_of(page, counts) };
        deltas.map(|delta| advance(delta.page)).collect()
    }

    /// Applies a commit that was prepared, at the counts that follow.
    pub(crate) fn apply<'a>(&mut self, position: Position, counts: &Vector, deltas: impl Iterator<Item = &'a Delta>) {
        debug_assert!(counts.counts().iter().all(|&(shard, count)| count > self.applied.of(shard)));
        self.applied.join(counts);
        for delta in deltas {
            let shard = self.sharding.of(delta.page);
            let version = counts.of(shard);
            self.table.entry(delta.page).or_default().version = version;
            self.mob.apply(position, version, delta);
            self.recent.note(delta.page, shard, version, delta.changes.iter().map(|change| change.slot));
        }
    }

    /// Applies a commit that the log held. A delta that is home already is passed over.
    pub(crate) fn replay(&mut self, position: Position, counts: &Vector, deltas: &[Delta]) {
        for delta in deltas {
            self.replay_delta(position, self.count_of(delta.page, counts), delta);
        }
    }

    /// Applies a delta that a log held, unless it was written back (**CompareWithHome**).
    pub(crate) fn replay_delta(&mut self, position: Position, version: Version, delta: &Delta) {
        let state = self.table.entry(delta.page).or_default();
        let aside = self.aside.get(&delta.page).map_or(Version::ZERO, |aside| aside.version);
        let is_home = version <= state.home.max(aside);
        let is_there = if self.broken.is(Rule::CompareWithHome) { version <= state.version } else { is_home };
        if !is_there {
            state.version = version;
            self.mob.apply(position, version, delta);
        }
    }

    /// Everything in a shard through this count was applied before it was opened.
    pub(crate) fn resume_shard(&mut self, shard: Shard, applied: Version) {
        self.applied.raise(shard, applied);
        self.resumed.raise(shard, applied);
    }

    /// Which slots of a shard have changed through this count is not known.
    pub(crate) fn forget_recent(&mut self, shard: Shard, through: Version) {
        self.recent.prune(&[(shard, through)].into_iter().collect());
    }

    /// The slots of a shard that have changed lately.
    pub(crate) fn recent_changes(&self, shard: Shard) -> RecentChanges {
        self.recent.of_shard(shard, RECENT_CHANGES_MAX)
    }

    /// A shard comes, closed at this count, with what has changed there lately.
    pub(crate) fn take_recent(&mut self, recent: &RecentChanges, count: Version) {
        let RecentChanges { shard, pruned, changes } = recent;
        if !self.broken.is(Rule::ForgetMoved) {
            self.recent.forget_shard(*shard);
        }
        let before = changes.partition_point(|(_, version)| *version <= count);
        self.recent.take_shard(*shard, (*pruned).min(count), &changes[..before]);
    }

    /// The page's version in the page home, zero if it is not there.
    pub(crate) fn home_version(&self, page: PageId) -> Version {
        self.table.get(&page).map_or(Version::ZERO, |state| state.home)
    }

    /// The pages of a shard that are in the page home, and their versions there.
    pub(crate) fn home_versions(&self, shard: Shard) -> impl Iterator<Item = Held> + '_ {
        let of_shard = self.table.iter().filter(move |(page, _)| self.sharding.of(**page) == shard);
        let home = of_shard.map(|(&page, state)| Held { page, version: state.home });
        home.filter(|held| held.version > Version::ZERO)
    }

    /// Whether a shard has something that is not written back.
    pub(crate) fn is_dirty(&self, shard: Shard) -> bool {
        self.mob.oldest_pages().any(|page| self.sharding.of(page) == shard)
    }

    /// The transactions that are prepared in a shard, including those that only read there.
    pub(crate) fn prepared_in(&self, shard: Shard) -> impl Iterator<Item = &Prepared> {
        let touches = move |request: &CommitRequest| request.pages().any(|page| self.sharding.of(page) == shard);
        self.prepared.values().filter(move |prepared| prepared.parts.iter().any(|part| touches(part)))
    }

    /// The page home has a copy of a page whose shard is not served here.
    pub(crate) fn copied(&mut self, copy: &HomeImage) {
        let HomeImage { page, version, ref image } = *copy;
        self.aside.remove(&page);
        self.damaged.remove(&page);
        self.images.remove(page);
        self.table.insert(page, PageState { version, home: version, home_bytes: image.len() as u32 });
    }

    /// A shard is another node's: of its pages the versions in the page home are remembered, and nothing else.
    pub(crate) fn forget_shard(&mut self, shard: Shard) {
        for counts in [&mut self.applied, &mut self.resumed] {
            *counts = counts.counts().iter().copied().filter(|(other, _)| *other != shard).collect();
        }
        let held: Vec<_> = self.directory.all_pages().filter(|page| self.sharding.of(*page) == shard).collect();
        for page in held {
            self.directory.forget_page(page);
        }
    }

    /// The highest version of any page of a shard.
    pub(crate) fn newest_of(&self, shard: Shard) -> Version {
        let of_shard = self.table.iter().filter(|(page, _)| self.sharding.of(**page) == shard);
        of_shard.map(|(_, state)| state.version).max().unwrap_or_default()
    }

    /// The counts through which each shard is written back.
    pub(crate) fn home_through(&self) -> Vector {
        let mut least: BTreeMap<Shard, Version> = self.applied.counts().iter().copied().collect();
        for (page, oldest) in self.mob.first_versions() {
            if let Some(through) = least.get_mut(&self.sharding.of(page)) {
                *through = (*through).min(Version(oldest.0 - 1));
            }
        }
        least.into_iter().collect()
    }

    /// The page as it is now; `None` if its home image is not in memory.
    pub(crate) fn image(&mut self, page: PageId) -> Option<ObjectPage> {
        let home = self.home_image(page)?;
        Some(self.lay_over(page, &home))
    }

    /// The page's home image, if it is in memory; a page that never went home is empty there.
    pub(crate) fn home_image(&mut self, page: PageId) -> Option<ObjectPage> {
        match self.table.get(&page) {
            Some(state) if state.home > Version::ZERO => self.images.get(page).cloned(),
            _ => Some(ObjectPage::empty()),
        }
    }

    /// The page as it is now, given its home image.
    pub(crate) fn lay_over(&self, page: PageId, home: &ObjectPage) -> ObjectPage {
        let changes = self.mob.changes(page);
        if changes.is_empty() {
            return home.clone();
        }
        home.with(&changes).expect("no delta was accepted that its page has no room for")
    }

    /// The commits that wait for a page, in the order of their transactions.
    pub(crate) fn waiting_commits(&self) -> impl Iterator<Item = &Ticket> {
        let mut waiting: Vec<_> = self.images.waiting_commits().collect();
        waiting.sort_unstable_by_key(|ticket| ticket.request.txn);
        waiting.into_iter()
    }

    /// Takes out the commits that wait for a page and are meant.
    pub(crate) fn take_waiting_commits(&mut self, is_meant: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        self.images.take_waiting_commits(is_meant)
    }

    /// Waits for pages that are not in memory.
    pub(crate) fn read(&mut self, waiters: impl IntoIterator<Item = (PageId, Waiter)>, out: &mut Outputs) {
        self.images.wait(waiters, out);
    }

    /// The home has answered. Returns the waiters for the page, which find it in memory now, or what is wrong with the
    /// page. An answer from before the last install is no longer the page: it is read again.
    pub(crate) fn has_read(
        &mut self,
        page: PageId,
        found: Option<(Version, Bytes)>,
        out: &mut Outputs,
    ) -> Result<Vec<Waiter>, String> {
        // Read again, it may be whole: but what was set aside since is missing in it.
        if let Some(why) = self.damaged.get(&page) {
            return Err(why.clone());
        }
        let home = self.table.get(&page).map_or(Version::ZERO, |state| state.home);
        let (version, image) = found.ok_or_else(|| String::from("the page is missing in the page home"))?;
        if version < home {
            let waiters = self.images.take_waiters(page);
            self.images.wait(waiters.into_iter().map(|waiter| (page, waiter)), out);
            return Ok(Vec::new());
        }
        let image = ObjectPage::parse(image).map_err(|error| format!("the image in the page home: {error}"))?;
        self.images.insert(page, image);
        Ok(self.images.take_waiters(page))
    }

    /// Notes that the home cannot read the page. Returns the waiters.
    pub(crate) fn set_damaged(&mut self, page: PageId, why: String) -> Vec<Waiter> {
        self.damaged.insert(page, why);
        self.images.take_waiters(page)
    }

    /// Why the page cannot be read, if it cannot.
    pub(crate) fn damage(&self, page: PageId) -> Option<&str> {
        self.damaged.get(&page).map(String::as_str)
    }

    /// The pages that could not be read since the start, in order, and why.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = (PageId, &str)> {
        self.damaged.iter().map(|(page, why)| (*page, why.as_str()))
    }

    /// Returns all dirty changes of a damaged page.
    pub(crate) fn set_aside(&self, page: PageId) -> SetAside {
        let before = self.aside.get(&page).map_or(&[][..], |aside| &aside.changes);
        let mut changes: BTreeMap<_, _> = before.iter().map(|change| (change.slot, change.clone())).collect();
        changes.extend(self.mob.changes(page).into_iter().map(|change| (change.slot, change)));
        SetAside { page, version: self.version(page), changes: changes.into_values().collect() }
    }

    /// Returns the changes that are set aside after a batch that installs some pages and sets others aside.
    pub(crate) fn aside_with(&self, installed: &[Installed], aside: &[SetAside]) -> Vec<SetAside> {
        let mut all = self.aside.clone();
        for Installed { page, .. } in installed {
            all.remove(page);
        }
        all.extend(aside.iter().map(|aside| (aside.page, aside.clone())));
        all.into_values().collect()
    }

    /// A batch was written back, together with changes that were set aside.
    pub(crate) fn installed(&mut self, batch: &[Installed], aside: &[SetAside]) {
        for aside in aside {
            self.mob.installed(aside.page, aside.version);
            self.aside.insert(aside.page, aside.clone());
        }
        for Installed { page, version, image } in batch {
            self.aside.remove(page);
            let state = self.table.get_mut(page).expect("what is installed was written");
            state.home = *version;
            state.home_bytes = image.len() as u32;
            self.mob.installed(*page, *version);
            self.images.replace(*page, image);
            if image.is_empty() && self.broken.is(Rule::KeepVersion) {
                state.version = Version::ZERO;
            }
        }
    }

    /// The deltas that wait for write-back.
    pub(crate) fn mob(&self) -> &Mob {
        &self.mob
    }

    /// A bound of the page's image as it is now, in bytes.
    pub(crate) fn image_bytes_bound(&self, page: PageId) -> usize {
        self.table.get(&page).copied().unwrap_or_default().home_bytes as usize + self.mob.image_bytes_bound(page)
    }

    /// Memory that home images take, in bytes.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.images.bytes()
    }

    /// Whether the page keeps within its limit with this delta and all that are prepared. First by what each may add at
    /// most, then, near the limit, by the size that the page would really have.
    fn check_fit(&mut self, delta: &Delta) -> Verdict {
        let page = delta.page;
        let prepared = self.locks.image_bytes_bound(page);
        if self.image_bytes_bound(page) + prepared + image_bytes_bound(delta) <= PAGE_BYTES_MAX {
            return Verdict::Valid;
        }
        let Some(image) = self.image(page) else { return Verdict::Await(page) };
        match image.with(&delta.changes) {
            Ok(image) if image.len() + prepared <= PAGE_BYTES_MAX => Verdict::Valid,
            _ => Verdict::Refused(Refusal::PageFull(page)),
        }
    }
}

/// The verdict on two parts of one transaction.
fn worst(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Refused(refusal), _) | (_, Verdict::Refused(refusal)) => Verdict::Refused(refusal),
        (Verdict::Met, _) | (_, Verdict::Met) => Verdict::Met,
        (Verdict::Await(page), _) | (_, Verdict::Await(page)) => Verdict::Await(page),
        (Verdict::Valid, Verdict::Valid) => Verdict::Valid,
    }
}
