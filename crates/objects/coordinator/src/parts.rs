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

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use messages::{Among, CommitRequest, Verdict};
use smallvec::{SmallVec, smallvec};
use types::{NodeId, PageId, Shard, Sharding, Vector};

/// The master of each shard.
#[derive(Debug)]
pub(crate) struct Masters {
    sharding: Sharding,
    own: NodeId,
    /// The masters of shards that are at other nodes.
    others: BTreeMap<Shard, NodeId>,
}

impl Masters {
    /// All shards are at this node.
    pub(crate) fn new(sharding: Sharding, own: NodeId) -> Self {
        Self { sharding, own, others: BTreeMap::new() }
    }

    /// A shard is at this node from now on.
    pub(crate) fn place(&mut self, shard: Shard, at: NodeId) {
        if at == self.own {
            self.others.remove(&shard);
        } else {
            self.others.insert(shard, at);
        }
    }

    /// The coordinator's own node.
    pub(crate) fn own(&self) -> NodeId {
        self.own
    }

    /// The shard of a page.
    pub(crate) fn shard_of(&self, page: PageId) -> Shard {
        self.sharding.of(page)
    }

    fn of(&self, shard: Shard) -> NodeId {
        self.others.get(&shard).copied().unwrap_or(self.own)
    }

    /// The parts of a transaction that is asked for at once.
    pub(crate) fn at_once(&self, request: &Arc<CommitRequest>) -> Parts {
        if self.others.is_empty() {
            let all = Part { master: self.own, request: request.clone(), state: State::Unasked };
            return Parts { in_turn: false, list: smallvec![all] };
        }
        let mut groups: SmallVec<[NodeId; 1]> = SmallVec::new();
        for shard in self.shards(request) {
            let master = self.of(shard);
            if !groups.contains(&master) {
                groups.push(master);
            }
        }
        let part_of = |page| groups.iter().position(|&group| group == self.of(self.shard_of(page)));
        Parts { in_turn: false, list: split(request, &groups, part_of) }
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
        Parts { in_turn: true, list: split(request, &groups, part_of) }
    }

    /// The shards that a transaction touches, in order.
    fn shards(&self, request: &CommitRequest) -> SmallVec<[Shard; 1]> {
        let read = request.reads.iter().map(|reads| reads.page);
        let pages = read.chain(request.writes.iter().map(|delta| delta.page));
        in_order(pages.map(|page| self.shard_of(page)))
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

/// Gives each of these masters its part. A single part is the request itself.
fn split(
    request: &Arc<CommitRequest>,
    masters: &[NodeId],
    part_of: impl Fn(PageId) -> Option<usize>,
) -> SmallVec<[Part; 1]> {
    let part = |(at, &master): (usize, &NodeId)| {
        let request = if masters.len() == 1 {
            request.clone()
        } else {
            let reads = request.reads.iter().filter(|reads| part_of(reads.page) == Some(at));
            let writes = request.writes.iter().filter(|delta| part_of(delta.page) == Some(at));
            let (txn, incarnation, answered) = (request.txn, request.incarnation, request.answered);
            let (reads, writes) = (reads.cloned().collect(), writes.cloned().collect());
            Arc::new(CommitRequest { txn, incarnation, answered, reads, writes })
        };
        Part { master, request, state: State::Unasked }
    };
    masters.iter().enumerate().map(part).collect()
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
    state: State,
}

impl Part {
    fn is_prepared(&self) -> bool {
        matches!(self.state, State::Judged(Verdict::Prepared))
    }
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
    pub(crate) fn ask(&mut self) -> SmallVec<[(NodeId, Arc<CommitRequest>); 1]> {
        let most = if self.in_turn { 1 } else { self.list.len() };
        let unasked = self.list.iter_mut().filter(|part| matches!(part.state, State::Unasked)).take(most);
        let ask = |part: &mut Part| {
            part.state = State::Asked;
            (part.master, part.request.clone())
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

    /// The masters that have not answered.
    pub(crate) fn asked(&self) -> impl Iterator<Item = NodeId> {
        self.list.iter().filter(|part| matches!(part.state, State::Asked)).map(|part| part.master)
    }

    /// The verdicts that do not let it commit.
    pub(crate) fn obstacles(&self) -> impl Iterator<Item = &Verdict> {
        self.list.iter().filter_map(|part| match &part.state {
            State::Judged(Verdict::Prepared) | State::Unasked | State::Asked => None,
            State::Judged(verdict) => Some(verdict),
        })
    }

    /// Whether a part was not asked for yet.
    pub(crate) fn has_more(&self) -> bool {
        self.list.iter().any(|part| matches!(part.state, State::Unasked))
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
