//! Shards of other nodes that move to this one: their pages are copied here, and then they open.
//!
//! ```text
//!   Waiting --> Listing --> Copying --> (again, while there is much) --> Closing --> Listing --> Copying --> Arrived
//!      ^                                                                                                        |
//!      +------------------------------------------- link lost --------------------------------------------------+
//! ```
//! 1. One shard is copied at a time. Pages whose version is in the page home here, from an earlier attempt or an
//!    earlier stay of the shard, are not copied again.
//! 2. A shard has arrived when everything is in the page home here that its master had written back as it closed
//!    (**CopyAfterClose**), and the log has which of its pages are granted. Then it may have its next opening here.
//! 3. When the link to the master is lost all begins again: it may be another one, in another opening.
//! 4. Where other data of the node goes with a shard, as published sites do, the close waits for them
//!    (**SitesBeforeClose**). In the meantime the master serves the shard, and other shards are copied.

use crate::{Record, Store};
use ::machine::Goodbye;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use messages::{CloseShard, CopiedPage, CopyPages, ListPages, NotCopied, PagesListed, RecentChanges, ShardClosed};
use types::{NodeId, Opening, PageId, Rule, Shard, Time, Version};

/// Pages that are asked for at a time, and how few are on their way when the next are asked for.
const PAGES_AT_A_TIME: usize = 64;
const FEW_PAGES: usize = 32;

/// The close follows on a round that lists no more pages than this, and on the last round of this many.
const CLOSE_BELOW: usize = 128;
const ROUNDS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No link, or others come first.
    Waiting,
    Listing,
    /// The copies will be as of this count.
    Copying {
        through: Version,
    },
    /// Hardly anything is left to copy, and something else has to come before the close.
    Ready,
    Closing,
    Arrived,
    /// A page cannot be read.
    Stuck,
}

/// A shard that moves here.
#[derive(Debug)]
struct Incoming {
    from: NodeId,
    stage: Stage,
    /// Everything that was written back through here is copied.
    above: Version,
    /// The pages to ask for.
    wanted: VecDeque<PageId>,
    /// Pages on their way.
    asked: BTreeSet<PageId>,
    rounds: u32,
    /// The pages that the last list has named and that were not here.
    round_pages: usize,
    /// The slots that have changed lately, as the old master has named them before the close.
    recent: Option<RecentChanges>,
    closed: Option<(Opening, Version)>,
    progress: Progress,
}

/// How far the move of a shard to this node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pages that were copied.
    pub copied: u64,
    /// Pages that were listed so far.
    pub listed: u64,
    /// Why the copy has stopped, if it has.
    pub trouble: Option<String>,
}

impl Incoming {
    fn new(from: NodeId) -> Self {
        Self {
            from,
            stage: Stage::Waiting,
            above: Version::ZERO,
            wanted: VecDeque::new(),
            asked: BTreeSet::new(),
            rounds: 0,
            round_pages: 0,
            recent: None,
            closed: None,
            progress: Progress::default(),
        }
    }
}

/// The shards that move to this node.
#[derive(Debug, Default)]
pub(crate) struct IncomingShards {
    shards: BTreeMap<Shard, Incoming>,
    /// The shards that may close; all of them unless something else goes with them.
    complete: Option<BTreeSet<Shard>>,
}

impl IncomingShards {
    /// Whether the shard moves here.
    pub(crate) fn has(&self, shard: Shard) -> bool {
        self.shards.contains_key(&shard)
    }

    /// Whether everything that goes with a shard is here.
    fn may_close(&self, shard: Shard) -> bool {
        self.complete.as_ref().is_none_or(|complete| complete.contains(&shard))
    }

    /// The shard moves here no longer. Returns the slots that have changed there lately, if it did.
    pub(crate) fn remove(&mut self, shard: Shard) -> Option<RecentChanges> {
        let incoming = self.shards.remove(&shard)?;
        Some(incoming.recent.unwrap_or_else(|| RecentChanges::unknown(shard)))
    }

    /// A shard has another opening. If it comes from there, it begins again.
    pub(crate) fn opened(&mut self, shard: Shard, opening: Opening) {
        if let Some(incoming) = self.shards.get_mut(&shard)
            && incoming.closed.is_some_and(|(closed, _)| closed < opening)
        {
            *incoming = Incoming::new(incoming.from);
        }
    }

    /// The link to a node is lost: what comes from there begins again.
    pub(crate) fn lost(&mut self, node: NodeId) {
        for incoming in self.shards.values_mut().filter(|incoming| incoming.from == node) {
            *incoming = Incoming::new(node);
        }
    }

    /// The shard whose turn it is.
    fn current(&self, is_linked: impl Fn(NodeId) -> bool) -> Option<Shard> {
        let is_under_way =
            |incoming: &Incoming| matches!(incoming.stage, Stage::Listing | Stage::Copying { .. } | Stage::Closing);
        let may_begin = |incoming: &Incoming| incoming.stage == Stage::Waiting && is_linked(incoming.from);
        let find = |is_meant: &dyn Fn(&Incoming) -> bool| self.shards.iter().find(|(_, incoming)| is_meant(incoming));
        find(&is_under_way).or_else(|| find(&may_begin)).map(|(&shard, _)| shard)
    }
}

impl Store {
    /// These shards move here, each from another node, and no others do.
    pub fn set_incoming(&mut self, now: Time, moves: &[(Shard, NodeId)]) {
        let mut before = core::mem::take(&mut self.incoming.shards);
        for &(shard, from) in moves.iter().filter(|(_, from)| *from != self.config.node) {
            let kept = before.remove(&shard).filter(|incoming| incoming.from == from);
            self.incoming.shards.insert(shard, kept.unwrap_or_else(|| Incoming::new(from)));
        }
        self.master.set_arriving(self.incoming.shards.keys().copied().collect());
        self.follow_up(now);
    }

    /// From now on a shard that moves here is closed at its old node only if it is one of these: what goes with it has
    /// come.
    pub fn set_complete(&mut self, now: Time, shards: BTreeSet<Shard>) {
        for shard in &shards {
            if let Some(incoming) = self.incoming.shards.get_mut(shard).filter(|it| it.stage == Stage::Ready) {
                // Pages may have been written back in the meantime.
                (incoming.stage, incoming.rounds) = (Stage::Waiting, 0);
            }
        }
        self.incoming.complete = Some(shards);
        self.follow_up(now);
    }

    /// The shards that have arrived: the openings in which they were served, and the counts at which they are closed.
    pub fn arrived(&self) -> impl Iterator<Item = (Shard, Opening, Version)> + '_ {
        let has_arrived = |(_, incoming): &(&Shard, &Incoming)| incoming.stage == Stage::Arrived;
        let arrived = self.incoming.shards.iter().filter(has_arrived);
        arrived.filter_map(|(&shard, incoming)| incoming.closed.map(|(opening, count)| (shard, opening, count)))
    }

    /// The shards that move here, and how far each is.
    pub fn incoming(&self) -> impl Iterator<Item = (Shard, &Progress)> {
        self.incoming.shards.iter().map(|(&shard, incoming)| (shard, &incoming.progress))
    }

    /// Goes on with the shard whose turn it is.
    pub(crate) fn copy_incoming(&mut self, now: Time) {
        // A node that closes has to come to rest. It copies the rest after its next start.
        if self.closing {
            return;
        }
        let links = &self.links;
        let Some(shard) = self.incoming.current(|node| links.port(node).is_some()) else { return };
        let has_room = self.master.copy_bytes_waiting() < 2 * self.config.limits.write_back_bytes;
        let is_home = self.master.copies_waiting() == 0;
        let is_logged = self.log.is_durable(self.last_grant);
        let may_close = self.incoming.may_close(shard) || self.config.broken.is(Rule::SitesBeforeClose);
        let Some(incoming) = self.incoming.shards.get_mut(&shard) else { return };
        let message = match incoming.stage {
            Stage::Waiting => {
                incoming.stage = Stage::Listing;
                ListPages { shard, above: incoming.above }.into()
            }
            Stage::Copying { .. } if !incoming.wanted.is_empty() => {
                if incoming.asked.len() > FEW_PAGES || !has_room {
                    return;
                }
                let count = incoming.wanted.len().min(PAGES_AT_A_TIME);
                let pages: Vec<_> = incoming.wanted.drain(..count).collect();
                incoming.asked.extend(&pages);
                CopyPages { shard, pages }.into()
            }
            Stage::Copying { through } if incoming.asked.is_empty() && is_home => {
                incoming.above = incoming.above.max(through);
                incoming.rounds += 1;
                if incoming.closed.is_some() {
                    if is_logged {
                        incoming.stage = Stage::Arrived;
                    }
                    return;
                }
                if incoming.round_pages <= CLOSE_BELOW || incoming.rounds >= ROUNDS_MAX {
                    if !may_close {
                        incoming.stage = Stage::Ready;
                        // Another one may have its turn.
                        return self.copy_incoming(now);
                    }
                    incoming.stage = Stage::Closing;
                    CloseShard { shard }.into()
                } else {
                    incoming.stage = Stage::Listing;
                    ListPages { shard, above: incoming.above }.into()
                }
            }
            _ => return,
        };
        let from = incoming.from;
        self.tell(now, from, message);
    }

    /// The master of a shard has listed its pages.
    pub(crate) fn pages_listed(&mut self, from: NodeId, listed: PagesListed) {
        let PagesListed { shard, through, is_last, pages } = listed;
        let Some(incoming) = self.incoming.shards.get_mut(&shard) else { return };
        if incoming.from != from || incoming.stage != Stage::Listing {
            return;
        }
        let sharding = self.config.sharding;
        let is_lacking = |held: &messages::Held| sharding.of(held.page) == shard && self.master.lacks(*held);
        incoming.wanted.extend(pages.into_iter().filter(is_lacking).map(|held| held.page));
        if is_last {
            incoming.round_pages = incoming.wanted.len();
            incoming.progress.listed += incoming.wanted.len() as u64;
            incoming.stage = Stage::Copying { through };
        }
    }

    /// A page has come.
    pub(crate) fn page_copied(&mut self, from: NodeId, copied: CopiedPage) -> Result<(), Goodbye> {
        let shard = self.config.sharding.of(copied.page);
        let Some(incoming) = self.incoming.shards.get_mut(&shard).filter(|incoming| incoming.from == from) else {
            return Ok(());
        };
        if incoming.asked.remove(&copied.page) {
            incoming.progress.copied += 1;
            self.master.take_copy(copied).map_err(Goodbye::malformed)?;
        }
        Ok(())
    }

    /// The master of a shard cannot read a page.
    pub(crate) fn page_not_copied(&mut self, from: NodeId, page: NotCopied) {
        let NotCopied { page, why } = page;
        let shard = self.config.sharding.of(page);
        let Some(incoming) = self.incoming.shards.get_mut(&shard).filter(|incoming| incoming.from == from) else {
            return;
        };
        if incoming.asked.contains(&page) {
            let why = why.unwrap_or_default();
            incoming.progress.trouble = Some(format!("page {page} cannot be read: {why}"));
            incoming.stage = Stage::Stuck;
        }
    }

    /// The master of a shard is about to say that it has closed it.
    pub(crate) fn recent_changes(&mut self, from: NodeId, recent: RecentChanges) -> Result<(), Goodbye> {
        let RecentChanges { shard, pruned, ref changes } = recent;
        let is_its = |page| self.config.sharding.of(page) == shard;
        let are_its = changes.iter().all(|((page, _), version)| is_its(*page) && *version > pruned);
        if !are_its || !changes.is_sorted_by_key(|(_, version)| *version) {
            return Err(Goodbye::malformed(format!("expected changes of shard {} in their order", shard.0)));
        }
        let incoming = self.incoming.shards.get_mut(&shard);
        if let Some(incoming) = incoming.filter(|it| it.from == from && it.stage == Stage::Closing) {
            incoming.recent = Some(recent);
        }
        Ok(())
    }

    /// The master of a shard has closed it: what it has written back since the last list is copied.
    pub(crate) fn shard_closed(&mut self, now: Time, from: NodeId, closed: ShardClosed) {
        let ShardClosed { shard, opening, count, next_pages } = closed;
        let Some(incoming) = self.incoming.shards.get_mut(&shard) else { return };
        if incoming.from != from || incoming.stage != Stage::Closing {
            return;
        }
        incoming.closed = Some((opening, count));
        if self.config.broken.is(Rule::CopyAfterClose) {
            incoming.stage = Stage::Copying { through: incoming.above };
        } else {
            incoming.stage = Stage::Listing;
            let above = incoming.above;
            self.tell(now, from, ListPages { shard, above }.into());
        }
        for (space, next) in next_pages {
            if self.master.granted_before(space, next) {
                self.last_grant = self.log.append(Record::Grant { space, next }, &mut self.out);
            }
        }
    }
}
