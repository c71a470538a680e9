//! The commits that are under way, and what is marked for them, decided.
//!
//! ```text
//!   told of --released--> promised --the store tells that it is applied--> visible
//!      |                                                                     |
//!      Update to the hub                                                Visible to the hub
//! ```
//! 1. A commit is promised when the hub has released what it changes (**PromiseReleased**), and marked until the store
//!    has told of it as of a change (**UnmarkWhenVisible**).
//! 2. The store reports commits that do not wait for a promise, too: those that were prepared before there was a
//!    lease.
//! 3. Without a session nothing is told, and the store continues when the last lease is over. So everything is marked
//!    from the end of a session until there is a lease again, and then what was under way when it began, as the store
//!    tells that first. The same goes for a lease that does not follow on the one before, as when the process slept
//!    (**StarWhenLost**).
//! 4. Of more commits at a time than are marked one by one, everything is marked in the place of what each changes
//!    (**StarWhenMany**), until the store has told of all of those as of changes. They are promised as soon as that is
//!    released, and later ones at once.
//! 5. A commit that changes pages of several nodes has a part at each. Each part is promised to its node, and marked
//!    until that node has told of it (**EachItsPart**). A part that its node releases again is over, too.
//! 6. The commits that are told before a lease are announced before it: so the hub gives no home more of a lease that
//!    has not marked them.

use crate::rule::Rule;
use coherence::Dependency;
use messages::At;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Broken, ObjectId, PageId, SlotSet, Time, TxnId};

/// A thing that a watcher wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The hub is notified of an update, which has this number of the watcher's.
    Update(u64, Vec<Dependency>),
    /// The hub is told that an update is visible.
    Visible(u64),
    /// The hub may give homes leases that end by then.
    Lease(Time),
}

/// The part of a commit on the pages of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) at: At,
    pub(crate) txn: TxnId,
}

/// A part of a commit that its node has told of.
#[derive(Debug, Default)]
struct Commit {
    pages: BTreeMap<PageId, SlotSet>,
    /// Its updates, and whether each is released.
    updates: BTreeMap<u64, bool>,
}

/// Everything is marked.
#[derive(Debug)]
struct Star {
    update: u64,
    is_released: bool,
    /// There is a lease, and all is marked that was under way when it began.
    is_leased: bool,
    /// The commits in whose place it is: there were too many to mark what each changes.
    covers: BTreeSet<Part>,
}

/// The commits that are under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    commits: BTreeMap<Part, Commit>,
    /// The commits of their updates.
    by_update: BTreeMap<u64, Part>,
    star: Option<Star>,
    /// Updates in whose place everything is marked, as soon as that is released.
    replaced: Vec<u64>,
    last_update: u64,
    effects: VecDeque<Effect>,
    /// The commits whose changes are marked one by one.
    marked_max: usize,
    broken: Broken<Rule>,
}

impl UnderWay {
    /// None: there is no session yet.
    pub(crate) fn new(marked_max: usize, broken: Broken<Rule>) -> Self {
        let mut under_way = Self {
            commits: BTreeMap::new(),
            by_update: BTreeMap::new(),
            star: None,
            replaced: Vec::new(),
            last_update: 0,
            effects: VecDeque::new(),
            marked_max,
            broken,
        };
        under_way.lost_all();
        under_way
    }

    /// There is no session with a node any more, and what became of its commits is not told.
    pub(crate) fn lost(&mut self, at: At) {
        self.mark_all();
        self.forget(|part| part.at == at);
    }

    /// There is no session with any node.
    pub(crate) fn lost_all(&mut self) {
        self.mark_all();
        self.forget(|_| true);
    }

    /// Everything is marked in the place of some commits.
    fn forget(&mut self, is_meant: impl Fn(&Part) -> bool) {
        self.commits.retain(|part, _| !is_meant(part));
        if let Some(star) = &mut self.star {
            star.covers.retain(|part| !is_meant(part));
        }
        let updates: Vec<_> =
            self.by_update.iter().filter(|(_, part)| is_meant(part)).map(|(&update, _)| update).collect();
        for update in updates {
            self.by_update.remove(&update);
            self.replaced.push(update);
        }
        self.end_replaced();
    }

    /// Marks everything until there is a lease, if it is not marked for longer than that.
    pub(crate) fn mark_all(&mut self) {
        if let Some(star) = &mut self.star {
            star.is_leased = false;
        } else if !self.broken.is(Rule::StarWhenLost) {
            self.begin_star(false);
        }
    }

    fn begin_star(&mut self, is_leased: bool) {
        let update = self.update(vec![Dependency::ALL]);
        self.star = Some(Star { update, is_released: false, is_leased, covers: BTreeSet::new() });
    }

    /// The store has given a lease until then; `follows` says that it was given while the one before continued.
    pub(crate) fn leased(&mut self, until: Time, follows: bool) {
        if !follows {
            self.mark_all();
        }
        if let Some(star) = &mut self.star {
            star.is_leased = true;
        }
        self.effects.push_back(Effect::Lease(until));
        self.end_star();
    }

    /// A commit is about to change these slots. It is told again as long as it is under way, also page by page.
    /// Returns it if it may become visible.
    pub(crate) fn told(&mut self, part: Part, pages: &[(PageId, SlotSet)]) -> Option<Part> {
        let is_covered = self.star.as_ref().is_some_and(|star| star.covers.contains(&part));
        if is_covered || self.commits.len() >= self.marked_max && !self.commits.contains_key(&part) {
            return self.cover(part);
        }
        let commit = self.commits.entry(part).or_default();
        let mut names = Vec::new();
        for (page, slots) in pages {
            let known = commit.pages.entry(*page).or_default();
            if !slots.is_empty() && known.contains_all(slots) {
                continue;
            }
            known.union_with(slots);
            names.push(page.name());
            names.extend(slots.iter().map(|slot| ObjectId::new(*page, slot).name()));
        }
        if !names.is_empty() {
            // No name is longer than one may be.
            let update = self.update(names.into_iter().filter_map(Dependency::new).collect());
            self.by_update.insert(update, part);
            self.commits.entry(part).or_default().updates.insert(update, false);
        }
        self.broken.is(Rule::PromiseReleased).then_some(part)
    }

    /// Everything is marked in the place of what a commit changes.
    fn cover(&mut self, part: Part) -> Option<Part> {
        if self.broken.is(Rule::StarWhenMany) {
            return Some(part);
        }
        if self.star.is_none() {
            self.begin_star(true);
        }
        let star = self.star.as_mut()?;
        star.covers.insert(part);
        star.is_released.then_some(part)
    }

    /// The hub has released an update; gives the commits that may become visible by that.
    pub(crate) fn released(&mut self, update: u64) -> Vec<Part> {
        let Some(star) = self.star.as_mut().filter(|star| star.update == update) else {
            return self.released_of_commit(update).into_iter().collect();
        };
        star.is_released = true;
        let covered = star.covers.iter().copied().collect();
        self.end_replaced();
        self.end_star();
        covered
    }

    fn released_of_commit(&mut self, update: u64) -> Option<Part> {
        let &part = self.by_update.get(&update)?;
        let commit = self.commits.get_mut(&part)?;
        commit.updates.insert(update, true);
        if !commit.updates.values().all(|&is_released| is_released) {
            return None;
        }
        if self.broken.is(Rule::UnmarkWhenVisible) {
            for update in std::mem::take(&mut commit.updates).into_keys() {
                self.by_update.remove(&update);
                self.effects.push_back(Effect::Visible(update));
            }
        }
        Some(part)
    }

    /// A node has applied its part of a commit: whoever asks the node from now on sees that.
    pub(crate) fn applied(&mut self, part: Part) {
        if self.broken.is(Rule::EachItsPart) {
            let others: Vec<_> = self.commits.keys().copied().filter(|other| other.txn == part.txn).collect();
            for other in others {
                self.over(other);
            }
        }
        self.over(part);
    }

    /// A part of a commit is applied, or it will not be.
    pub(crate) fn over(&mut self, part: Part) {
        for update in self.commits.remove(&part).into_iter().flat_map(|commit| commit.updates.into_keys()) {
            self.by_update.remove(&update);
            self.effects.push_back(Effect::Visible(update));
        }
        if self.star.as_mut().is_some_and(|star| star.covers.remove(&part)) {
            self.end_star();
        }
    }

    /// Ends the mark of everything if no cache has anything of before any more, the store tells what changes, and all
    /// is visible that it was for.
    fn end_star(&mut self) {
        let is_over = |star: &mut Star| star.is_released && star.is_leased && star.covers.is_empty();
        if let Some(star) = self.star.take_if(is_over) {
            self.effects.push_back(Effect::Visible(star.update));
        }
    }

    fn end_replaced(&mut self) {
        if self.star.as_ref().is_none_or(|star| star.is_released) {
            self.effects.extend(self.replaced.drain(..).map(Effect::Visible));
        }
    }

    fn update(&mut self, names: Vec<Dependency>) -> u64 {
        self.last_update += 1;
        self.effects.push_back(Effect::Update(self.last_update, names));
        self.last_update
    }

    /// The next thing to do.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether there is something to do.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// How much there should do.
    pub(crate) fn effects(&self) -> usize {
        self.effects.len()
    }

    /// Whether updates are told one by one, and not everything is marked.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.star.is_none()
    }

    /// Whether everything is marked, and no cache answers with anything of before.
    pub(crate) fn is_all_marked(&self) -> bool {
        self.star.as_ref().is_some_and(|star| star.is_released)
    }

    /// Whether parts of commits are under way at a node.
    pub(crate) fn has_parts_at(&self, at: At) -> bool {
        let covered = self.star.iter().flat_map(|star| &star.covers);
        self.commits.keys().chain(covered).any(|part| part.at == at)
    }

    /// How many commits are under way.
    pub(crate) fn count(&self) -> usize {
        self.commits.len() + self.star.as_ref().map_or(0, |star| star.covers.len())
    }
}
