//! The parts of a transaction: which master judges which of its pages, and what each has said.
//!
//! ```text
//!   pages      0/1   0/2   0/3   0/4
//!   shards     4     1     2     1            masters: shards 1 and 4 at n1, 2 at n2
//!   at once    n1 { 0/1 0/2 0/4 }, n2 { 0/3 }
//!   in turn    n1 { 0/2 0/4 }, then n2 { 0/3 }, then n1 { 0/1 }
//! ```
//! In turn, parts follow each other in the order of their shards, which is the same for all transactions: so no circle
//! of them waits for each other.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use messages::{Advance, Among, CommitRequest, Openings, Verdict};
use smallvec::{SmallVec, smallvec};
use types::{NodeId, Opening, PageId, Shard, Sharding, Vector};

/// The master of a shard, and the opening in which it has it.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: NodeId,
    opening: Opening,
}

/// The master of each shard.
#[derive(Debug)]
pub(crate) struct Masters {
    sharding: Sharding,
    own: NodeId,
    /// Where the shards of a store of several nodes are, by shard. In a store of one node they are at the coordinator's
    /// own.
    places: Vec<Option<Place>>,
    /// The nodes to which there is no link.
    away: BTreeSet<NodeId>,
}

impl Masters {
    /// All shards are at this node.
    pub(crate) fn new(sharding: Sharding, own: NodeId) -> Self {
        Self { sharding, own, places: Vec::new(), away: BTreeSet::new() }
    }

    /// A shard is at this node in this opening, unless a later one is known. Returns whether it has had an earlier one.
    pub(crate) fn place(&mut self, shard: Shard, node: NodeId, opening: Opening) -> bool {
        let place = Place { node, opening };
        let at = usize::from(shard.0);
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        let known = self.places[at].get_or_insert(place);
        let is_news = known.opening < opening;
        if known.opening <= opening {
            *known = place;
        }
        is_news
    }

    /// There is a link to a node, or there is none.
    pub(crate) fn set_away(&mut self, node: NodeId, is_away: bool) {
        if is_away {
            self.away.insert(node);
        } else {
            self.away.remove(&node);
        }
    }

    /// Whether there is no link to a node.
    pub(crate) fn is_away(&self, node: NodeId) -> bool {
        self.away.contains(&node)
    }

    /// The coordinator's own node.
    pub(crate) fn own(&self) -> NodeId {
        self.own
    }

    /// The shard of a page.
    pub(crate) fn shard_of(&self, page: PageId) -> Shard {
        self.sharding.of(page)
    }

    /// The node of a shard, if that was said.
    pub(crate) fn place_of(&self, shard: Shard) -> Option<NodeId> {
        self.shard_at(shard).map(|(node, _)| node)
    }

    /// The node of a shard, and its opening there.
    pub(crate) fn shard_at(&self, shard: Shard) -> Option<(NodeId, Opening)> {
        self.place_at(shard).map(|place| (place.node, place.opening))
    }

    fn place_at(&self, shard: Shard) -> Option<Place> {
        *self.places.get(usize::from(shard.0))?
    }

    fn of(&self, shard: Shard) -> NodeId {
        self.place_at(shard).map_or(self.own, |place| place.node)
    }

    /// Whether a shard of the part has another opening by now.
    pub(crate) fn has_moved(&self, part: &Part) -> bool {
        let known = |shard| self.place_at(shard).map(|place| place.opening);
        part.openings.iter().any(|&(shard, opening)| known(shard) != Some(opening))
    }

    /// How a transaction with these counts moves the pages that it writes. The versions before are not known.
    pub(crate) fn as_counted(&self, request: &CommitRequest, counts: &Vector) -> Vec<Advance> {
        let of_page = |page| Advance::from_unknown(page, counts.of(self.shard_of(page)));
        request.writes.iter().map(|delta| of_page(delta.page)).collect()
    }

    /// The parts of a transaction that is asked for at once.
    pub(crate) fn at_once(&self, request: &Arc<CommitRequest>) -> Parts {
        if self.places.is_empty() {
            let (request, openings) = (request.clone(), Openings::new());
            let all = Part { master: self.own, request, openings, state: State::Unasked };
            return Parts { in_turn: false, list: smallvec![all] };
        }
        let mut groups: SmallVec<[NodeId; 1]> = SmallVec::new();
        for shard in self.shards(request) {
            let master = self.of(shard);
            if !groups.contains(&master) {
                groups.push(master);
            }
        }
        let part_of = |page| {
            let master = self.of(self.shard_of(page));
            groups.iter().position(|&group| group == master)
        };
        Parts { in_turn: false, list: self.split(request, &groups, part_of) }
    }

    /// The parts of a transaction that is asked for in the order of shards.
    pub(crate) fn in_turn(&self, request: &Arc<CommitRequest>) -> Parts {
        let (mut groups, mut part_of_shard) = (SmallVec::<[NodeId; 1]>::new(), BTreeMap::new());
        for shard in self.shards(request) {
            let master = self.of(shard);
            if groups.last() != Some(&master) {
                groups.push(master);
            }
            part_of_shard.insert(shard, groups.len() - 1);
        }
        let part_of = |page| part_of_shard.get(&self.shard_of(page)).copied();
        Parts { in_turn: true, list: self.split(request, &groups, part_of) }
    }

    /// Gives each of these masters its part. A single part is the request itself.
    fn split(
        &self,
        request: &Arc<CommitRequest>,
        masters: &[NodeId],
        part_of: impl Fn(PageId) -> Option<usize>,
    ) -> SmallVec<[Part; 1]> {
        let part = |(&master, request): (&NodeId, Arc<CommitRequest>)| {
            let opening = |shard| Some((shard, self.place_at(shard)?.opening));
            let openings = self.shards(&request).into_iter().filter_map(opening).collect();
            Part { master, request, openings, state: State::Unasked }
        };
        if let [only] = masters {
            return smallvec![part((only, request.clone()))];
        }
        let (txn, incarnation, answered) = (request.txn, request.incarnation, request.answered);
        let none = || CommitRequest { txn, incarnation, answered, reads: Vec::new(), writes: Vec::new() };
        let mut requests: Vec<_> = masters.iter().map(|_| none()).collect();
        for reads in &request.reads {
            if let Some(at) = part_of(reads.page) {
                requests[at].reads.push(reads.clone());
            }
        }
        for delta in &request.writes {
            if let Some(at) = part_of(delta.page) {
                requests[at].writes.push(delta.clone());
            }
        }
        masters.iter().zip(requests.into_iter().map(Arc::new)).map(part).collect()
    }

    /// The shards that a transaction touches, in order.
    fn shards(&self, request: &CommitRequest) -> SmallVec<[Shard; 1]> {
        in_order(request.pages().map(|page| self.shard_of(page)))
    }
}

/// Each of some shards once, in order.
pub(crate) fn in_order(shards: impl Iterator<Item = Shard>) -> SmallVec<[Shard; 1]> {
    let mut ordered = SmallVec::new();
    for shard in shards {
        if let Err(at) = ordered.binary_search(&shard) {
            ordered.insert(at, shard);
        }
    }
    ordered
}

/// The state of one part.
#[derive(Debug)]
enum State {
    Unasked,
    Asked,
    Judged(Verdict),
}

/// A part of a transaction.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) master: NodeId,
    pub(crate) request: Arc<CommitRequest>,
    /// The openings of its shards in which it is judged.
    openings: Openings,
    state: State,
}

impl Part {
    /// Whether its master was asked, and has not said that it cannot be.
    fn is_out(&self) -> bool {
        self.is_prepared() || matches!(self.state, State::Asked)
    }

    /// Whether it has pages of this shard.
    pub(crate) fn touches(&self, shard: Shard) -> bool {
        self.openings.iter().any(|(touched, _)| *touched == shard)
    }

    /// Whether it is judged in an opening that is over, now that there are these.
    pub(crate) fn is_before(&self, openings: &Openings) -> bool {
        let is_over =
            |(shard, opening): &(Shard, Opening)| openings.iter().any(|new| new.0 == *shard && new.1 > *opening);
        self.openings.iter().any(is_over)
    }

    fn moves(&self) -> bool {
        matches!(self.state, State::Judged(Verdict::Moving))
    }

    fn is_prepared(&self) -> bool {
        matches!(self.state, State::Judged(Verdict::Prepared))
    }
}

/// The next step of a transaction, once a master has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Others have not answered.
    Wait,
    /// Some master has not prepared it.
    MeetObstacles,
    /// Others were not asked.
    AskMore,
    /// All have prepared it.
    Count,
}

/// The parts of a transaction.
#[derive(Debug)]
pub(crate) struct Parts {
    in_turn: bool,
    list: SmallVec<[Part; 1]>,
}

impl Parts {
    /// The other masters, as each of them learns of them.
    pub(crate) fn among(&self, writes: bool) -> Among {
        match &self.list[..] {
            [_] => Among::Alone,
            _ if self.in_turn => Among::InTurn { writes, is_held: self.list.iter().any(Part::is_prepared) },
            _ => Among::AtOnce { writes },
        }
    }

    /// Whether its parts are asked for in the order of their shards.
    pub(crate) fn is_in_turn(&self) -> bool {
        self.in_turn
    }

    /// The master that is alone with it.
    pub(crate) fn alone(&self) -> Option<NodeId> {
        if let [only] = &self.list[..] { Some(only.master) } else { None }
    }

    /// The parts that should be asked for now: all of them, or the next. They count as asked for.
    pub(crate) fn ask(&mut self) -> SmallVec<[(NodeId, Arc<CommitRequest>, Openings); 1]> {
        let most = if self.in_turn { 1 } else { self.list.len() };
        let unasked = self.list.iter_mut().filter(|part| matches!(part.state, State::Unasked)).take(most);
        let ask = |part: &mut Part| {
            part.state = State::Asked;
            (part.master, part.request.clone(), part.openings.clone())
        };
        unasked.map(ask).collect()
    }

    /// A master has judged the part that it was asked for. Returns whether it was asked for one.
    pub(crate) fn judged(&mut self, by: NodeId, verdict: Verdict) -> bool {
        let is_it = |part: &&mut Part| part.master == by && matches!(part.state, State::Asked);
        let Some(part) = self.list.iter_mut().find(is_it) else { return false };
        part.state = State::Judged(verdict);
        true
    }

    /// Counts some parts as busy that their masters have judged, or were asked for. Returns whether there was one.
    pub(crate) fn fail(&mut self, is_meant: impl Fn(&Part) -> bool) -> bool {
        let mut is_any = false;
        for part in self.list.iter_mut().filter(|part| part.is_out() && is_meant(part)) {
            (part.state, is_any) = (State::Judged(Verdict::Busy), true);
        }
        is_any
    }

    /// Whether the master at this node has prepared a part.
    pub(crate) fn is_prepared_at(&self, node: NodeId) -> bool {
        self.list.iter().any(|part| part.master == node && part.is_prepared())
    }

    /// The masters that have not answered.
    pub(crate) fn asked(&self) -> impl Iterator<Item = NodeId> {
        self.list.iter().filter(|part| matches!(part.state, State::Asked)).map(|part| part.master)
    }

    /// The parts whose shards move.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &Part> {
        self.list.iter().filter(|part| part.moves())
    }

    /// Forgets all but the parts whose shards move.
    pub(crate) fn keep_moving(&mut self) {
        self.list.retain(|part| part.moves());
    }

    /// The verdicts that do not let it commit.
    pub(crate) fn obstacles(&self) -> impl Iterator<Item = &Verdict> {
        self.list.iter().filter_map(|part| match &part.state {
            State::Judged(Verdict::Prepared) | State::Unasked | State::Asked => None,
            State::Judged(verdict) => Some(verdict),
        })
    }

    /// The next step.
    pub(crate) fn next(&self) -> Next {
        if self.asked().next().is_some() {
            Next::Wait
        } else if self.obstacles().next().is_some() {
            Next::MeetObstacles
        } else if self.list.iter().any(|part| matches!(part.state, State::Unasked)) {
            Next::AskMore
        } else {
            Next::Count
        }
    }

    /// The masters that have prepared a part, each once, and whether they write.
    pub(crate) fn prepared(&self) -> SmallVec<[(NodeId, bool); 1]> {
        let mut masters: SmallVec<[(NodeId, bool); 1]> = SmallVec::new();
        for part in self.list.iter().filter(|part| part.is_prepared()) {
            let writes = !part.request.writes.is_empty();
            match masters.iter_mut().find(|(master, _)| *master == part.master) {
                Some((_, also_writes)) => *also_writes |= writes,
                None => masters.push((part.master, writes)),
            }
        }
        masters
    }
}

/// The counts that a transaction's own must be above.
pub(crate) fn are_above(counts: &Vector, floor: &Vector) -> bool {
    counts.counts().iter().all(|&(shard, count)| count > floor.of(shard))
}
