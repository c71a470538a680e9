//! A site at its file server: its revisions, the publishes that wait for their turn, and its subscribers.

use super::work::{NewSize, Settings, SiteState};
use crate::holders::Holders;
use crate::messages::{Consistency, Identity, Refusal, Switch, VisitorKey};
use crate::number::{Number, Revision};
use crate::rule::Way;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::mem;
use machine::Port;
use tree::{ChunkHash, Path};
use types::limits::PUBLISHES_REMEMBERED;
use types::{Broken, Time};

/// The older revisions from which edits to the newest are kept.
const EDITS_KEPT: usize = 16;

/// A site.
#[derive(Debug)]
pub(super) struct Site {
    /// The revisions that are kept; the last is the head.
    pub(super) revisions: BTreeMap<Number, ChunkHash>,
    pub(super) settings: Settings,
    /// The last publishes and the revisions that they made, the oldest first.
    publishes: VecDeque<(Identity, Revision)>,
    pub(super) holders: Holders,
    /// The publish that is under way, and those that wait for it.
    pub(super) under_way: Option<UnderWay>,
    pub(super) queue: VecDeque<Asked>,
    /// Publishes that wait for locks.
    pub(super) aside: Vec<Asked>,
    /// Publishers that wait until every older revision that is served says that it is stale.
    pub(super) waiting: Vec<Waiting>,
    /// Whether its record is there: false while the site is being created.
    pub(super) exists: bool,
    /// Whether its removal is at the disk: a publish that came now would be lost.
    pub(super) is_leaving: bool,
    /// The last offer.
    pub(super) offer: Option<LastOffer>,
    /// The edits that lead from older revisions to the newest, for subscribers that have those; none while the disk
    /// looks for them.
    edits: BTreeMap<Number, Option<Bytes>>,
    /// Revisions that are being dropped.
    pub(super) drops: Vec<Revision>,
    /// Trees that were whole when this life of the server looked at them.
    checked: BTreeSet<ChunkHash>,
    broken: Broken<Way>,
}

/// A publish that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// None for the server's own, and where the publisher is gone.
    pub(super) port: Option<Port>,
    pub(super) switch: Switch,
    /// Paths that it changes and that were locked: they are not locked again before it is made.
    pub(super) meets: BTreeSet<Path>,
}

impl Asked {
    pub(super) fn new(port: Option<Port>, switch: Switch) -> Self {
        Self { port, switch, meets: BTreeSet::new() }
    }
}

/// A publish that is under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) asked: Asked,
    pub(super) stage: Stage,
}

/// The state of a publish.
#[derive(Debug)]
pub(super) enum Stage {
    /// The disk looks for the chunks of its tree.
    Checking,
    /// The disk merges its tree with the newest one.
    Merging,
    /// The disk looks for the locked paths that it changes.
    Comparing(Next),
    /// The newest revision of a sequential site is being revoked.
    Revoking(Next),
    /// The revision is being made durable.
    Publishing { next: Next, drops: Vec<Revision>, base: Option<ChunkHash> },
}

/// The revision that a publish is going to make, all chunks of which are there.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) revision: Revision,
    pub(super) size: NewSize,
    /// The edits that lead to it from the newest one.
    pub(super) edits: Bytes,
}

/// A publisher that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) port: Port,
    pub(super) ticket: u64,
    pub(super) number: Number,
}

/// The offer of the newest revision.
#[derive(Clone, Debug)]
pub(super) struct LastOffer {
    pub(super) base: ChunkHash,
    pub(super) reports: bool,
    pub(super) edits: Bytes,
}

impl Site {
    /// A site that is about to be created.
    pub(super) fn new(broken: Broken<Way>) -> Self {
        Self {
            revisions: BTreeMap::new(),
            settings: Settings::new(u32::MAX, VisitorKey([0; 32]), Consistency::default()),
            publishes: VecDeque::new(),
            holders: Holders::new(broken),
            under_way: None,
            queue: VecDeque::new(),
            aside: Vec::new(),
            waiting: Vec::new(),
            exists: false,
            is_leaving: false,
            offer: None,
            edits: BTreeMap::new(),
            drops: Vec::new(),
            checked: BTreeSet::new(),
            broken,
        }
    }

    /// A site as its record has it.
    pub(super) fn recovered(state: SiteState, broken: Broken<Way>) -> Self {
        let mut site = Self::new(broken);
        site.take_record(state);
        site
    }

    /// Takes what its record says.
    pub(super) fn take_record(&mut self, state: SiteState) {
        self.revisions = state.revisions.iter().map(|revision| (revision.number, revision.root)).collect();
        self.publishes = state.publishes.into();
        (self.settings, self.exists) = (state.settings, true);
    }

    /// The newest revision.
    pub(super) fn head(&self) -> Option<Revision> {
        self.revisions.last_key_value().map(|(&number, &root)| Revision { number, root })
    }

    /// The number of the newest revision.
    pub(super) fn head_number(&self) -> Number {
        self.head().map_or(Number::NONE, |head| head.number)
    }

    /// The revision that a publish has made, if it was made.
    pub(super) fn made_by(&self, identity: Identity) -> Option<Revision> {
        self.publishes.iter().find_map(|(known, revision)| (*known == identity).then_some(*revision))
    }

    /// Whether a publish is merged with the newest revision, as it was made from an older one.
    pub(super) fn merges(&self, switch: &Switch) -> bool {
        let is_other = self.head().is_some_and(|head| switch.base != Some(head.root));
        switch.merges && switch.of == 0 && is_other
    }

    /// Why a publish cannot be made from its base (**CompareBase**). To be merged, it must have been made from nothing
    /// or from a revision that is kept.
    pub(super) fn refusal(&self, switch: &Switch) -> Option<Refusal> {
        let is_kept = |base| self.revisions.values().any(|kept| *kept == base);
        if switch.base == self.head().map(|head| head.root) || self.broken.is(Way::AnyBase) {
            None
        } else if !self.merges(switch) {
            Some(Refusal::Overtaken)
        } else {
            (!switch.base.is_none_or(is_kept)).then_some(Refusal::NotKept)
        }
    }

    /// A tree was looked at, and all of it is there.
    pub(super) fn checked(&mut self, root: ChunkHash) {
        if !self.broken.is(Way::TrustDropped) {
            let (revisions, under_way) = (&self.revisions, self.under_way.as_ref().map(|it| it.asked.switch.root));
            self.checked.retain(|root| under_way == Some(*root) || revisions.values().any(|kept| kept == root));
        }
        self.checked.insert(root);
    }

    /// Whether all of a tree is there without another look: it is that of a revision that is kept, whose chunks no
    /// collection removes (**SwitchHasAll**).
    pub(super) fn is_whole(&self, root: ChunkHash) -> bool {
        let is_kept = self.revisions.values().any(|kept| *kept == root) || self.broken.is(Way::TrustDropped);
        is_kept && self.checked.contains(&root)
    }

    /// A publish was made.
    pub(super) fn made(&mut self, identity: Identity, revision: Revision) {
        self.edits.clear();
        self.revisions.insert(revision.number, revision.root);
        self.publishes.push_back((identity, revision));
        if self.publishes.len() > PUBLISHES_REMEMBERED {
            self.publishes.pop_front();
        }
    }

    /// Takes the revisions out that may be dropped when `more` are published: neither among the newest that are kept,
    /// nor held.
    pub(super) fn take_droppable(&mut self, now: Time, more: usize) -> Vec<Revision> {
        let keep = (self.settings.keep.max(1) as usize).saturating_sub(more);
        // The head stays until the next one is durable.
        let older = self.revisions.len().saturating_sub(keep.max(1));
        if older == 0 {
            return Vec::new();
        }
        let held = self.holders.held(now);
        let numbers = self.revisions.keys().take(older).filter(|number| !held.contains(number));
        let numbers: Vec<Number> = numbers.copied().collect();
        let take = |number| Some(Revision { number, root: self.revisions.remove(&number)? });
        numbers.into_iter().filter_map(take).collect()
    }

    /// Puts back revisions whose drop has failed.
    pub(super) fn put_back(&mut self, revisions: Vec<Revision>) {
        self.revisions.extend(revisions.into_iter().map(|revision| (revision.number, revision.root)));
    }

    /// The trees whose chunks are needed: of the revisions, and of the publish that is being made.
    pub(super) fn roots(&self) -> impl Iterator<Item = ChunkHash> {
        let publishing = self.under_way.as_ref().and_then(|UnderWay { asked, stage }| match stage {
            Stage::Checking => None,
            Stage::Merging => Some(asked.switch.root),
            Stage::Comparing(next) | Stage::Revoking(next) | Stage::Publishing { next, .. } => Some(next.revision.root),
        });
        self.revisions.values().copied().chain(publishing)
    }

    /// Whether its newest revision is shared with no subscriber, as a newer one is being published (**RevokeFirst**).
    pub(super) fn is_locked(&self) -> bool {
        match self.under_way.as_ref().map(|it| &it.stage) {
            Some(Stage::Revoking(_)) => true,
            Some(Stage::Publishing { .. }) => self.settings.consistency == Consistency::Sequential,
            Some(Stage::Checking | Stage::Merging | Stage::Comparing(_)) | None => false,
        }
    }

    /// Whether locks can be granted: a publish that is under way and changes their paths would be compared with them.
    pub(super) fn grants_locks(&self) -> bool {
        self.under_way.as_ref().is_none_or(|it| matches!(it.stage, Stage::Checking | Stage::Merging))
    }

    /// Whether a publish waits for the lock of a path.
    pub(super) fn is_waited_for(&self, path: &Path) -> bool {
        let under_way = self.under_way.iter().map(|it| &it.asked);
        under_way.chain(&self.queue).chain(&self.aside).any(|asked| asked.meets.contains(path))
    }

    /// The tree that an offer's edits change, and the edits, for a subscriber that has this revision. None while it is
    /// not known whether there are edits.
    pub(super) fn edits_from(&self, has: Number) -> Option<(ChunkHash, Bytes)> {
        let head = self.head()?;
        match self.revisions.get(&has).filter(|root| **root != head.root) {
            Some(root) => Some((*root, self.edits.get(&has)?.clone()?)),
            None => Some((head.root, Bytes::new())),
        }
    }

    /// The edits from an older revision to the newest are known.
    pub(super) fn keep_edits(&mut self, from: Number, edits: Bytes) {
        self.edits.insert(from, Some(edits));
    }

    /// Notes a search for the edits from a revision. Returns whether it must begin.
    pub(super) fn look_for_edits(&mut self, from: Number) -> bool {
        if self.edits.contains_key(&from) {
            return false;
        }
        if self.edits.len() >= EDITS_KEPT {
            // Searches under way stay, so a subscriber cannot have the disk do more at a time.
            let known = self.edits.iter().find_map(|(number, edits)| edits.is_some().then_some(*number));
            if known.and_then(|known| self.edits.remove(&known)).is_none() {
                return false;
            }
        }
        self.edits.insert(from, None);
        true
    }

    /// A port is gone.
    pub(super) fn lost(&mut self, port: Port) {
        self.holders.lost(port);
        self.waiting.retain(|waiting| waiting.port != port);
        self.queue.retain(|asked| asked.port != Some(port));
        self.aside.retain(|asked| asked.port != Some(port));
        if let Some(under_way) = &mut self.under_way
            && under_way.asked.port == Some(port)
        {
            // The publish continues, and a repeated request gets the answer.
            under_way.asked.port = None;
        }
    }

    /// The publishes that a session has asked for, and that are under way.
    pub(super) fn publishes_of(&self, port: Port) -> usize {
        let asked = self.under_way.iter().map(|it| &it.asked).chain(&self.queue).chain(&self.aside);
        asked.filter(|asked| asked.port == Some(port)).count()
    }

    /// Whether a publish that waits or is under way was asked for in a later session than this one, which its publisher
    /// has left: what was said in it can arrive late.
    pub(super) fn is_left(&self, port: Port, identity: Identity) -> bool {
        let asked = self.under_way.iter().map(|it| &it.asked).chain(&self.queue).chain(&self.aside);
        asked.filter(|it| it.switch.identity == identity).any(|it| it.port > Some(port))
    }

    /// A publisher waits for a revision. Asked again on its port, it is told once.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.retain(|it| it.port != waiting.port || it.ticket != waiting.ticket);
        self.waiting.push(waiting);
    }

    /// Takes the publishers whose wait is over: every older revision that is served says that it is stale.
    pub(super) fn take_reported(&mut self, now: Time) -> Vec<Waiting> {
        let oldest = self.holders.oldest(now);
        let (reported, waiting) =
            mem::take(&mut self.waiting).into_iter().partition(|it| oldest.is_none_or(|at| at >= it.number));
        self.waiting = waiting;
        reported
    }

    /// Returns whether there is neither a record nor a request.
    pub(super) fn is_nothing(&self) -> bool {
        !self.exists && self.under_way.is_none() && self.queue.is_empty() && self.aside.is_empty()
    }
}
