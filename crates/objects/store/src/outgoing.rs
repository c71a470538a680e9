//! Shards of this node that move away. The other node copies their pages, and asks for the close when hardly anything
//! is left to copy.
//!
//! ```text
//!   Copying --CloseShard--> Asked --> Closing --nothing prepared, all written back--> Closed
//!      ^                      ^          |                                              |
//!      +---- link lost -------+----------+                     opened again here, or placed at the other node
//! ```
//! 1. A shard closes only while there is a link to the coordinator of everything that is prepared there: otherwise it
//!    would be closed for as long as one of them is away.
//! 2. No node serves a closed shard until one of them takes its next opening. `membership` decides which, by comparing
//!    the opening's number.

use crate::Store;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use messages::nodes::ToNode;
use messages::{ListPages, PagesListed, ShardClosed};
use types::limits::PAGES_PER_MESSAGE_MAX;
use types::{NodeId, Opening, Shard, Time, Version};

#[derive(Debug)]
enum Stage {
    Copying,
    /// Hardly anything is left to copy.
    Asked,
    Closing,
    Closed {
        closed: ShardClosed,
        since: Time,
    },
}

/// A shard that is closed and waits for its next opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedShard {
    /// The shard.
    pub shard: Shard,
    /// The opening in which it was served.
    pub opening: Opening,
    /// The count at which it was closed.
    pub count: Version,
    /// Since when it is closed.
    pub since: Time,
}

#[derive(Debug)]
struct Outgoing {
    to: NodeId,
    stage: Stage,
}

/// The shards of this node that move away.
#[derive(Debug, Default)]
pub(crate) struct OutgoingShards {
    shards: BTreeMap<Shard, Outgoing>,
    /// The nodes that want shards closed which do not move there, as far as this node knows yet.
    wanted: BTreeMap<Shard, NodeId>,
}

impl OutgoingShards {
    /// Whether the shard is one of them.
    pub(crate) fn has(&self, shard: Shard) -> bool {
        self.shards.contains_key(&shard)
    }

    /// The node that the shard moves to, if it does.
    pub(crate) fn goes_to(&self, shard: Shard) -> Option<NodeId> {
        self.shards.get(&shard).map(|outgoing| outgoing.to)
    }

    /// Whether a shard is closed, and it is not known here which node has its next opening. That node waits for leases
    /// that were given before the close, and this one gives no more of them until its sessions know the shard's place
    /// (**PlaceBeforeLease**).
    pub(crate) fn has_closed(&self) -> bool {
        self.shards.values().any(|outgoing| matches!(outgoing.stage, Stage::Closed { .. }))
    }

    /// The shard moves no longer. Returns whether it did.
    pub(crate) fn remove(&mut self, shard: Shard) -> bool {
        self.shards.remove(&shard).is_some()
    }

    fn stage(&mut self, shard: Shard) -> Option<&mut Stage> {
        self.shards.get_mut(&shard).map(|outgoing| &mut outgoing.stage)
    }
}

impl Store {
    /// Sets the shards of this node that move, and their new nodes. A shard that is closed already stays closed.
    pub fn set_outgoing(&mut self, now: Time, moves: &[(Shard, NodeId)]) {
        let mut before = core::mem::take(&mut self.outgoing.shards);
        // The target of a move may change and change back before the first target notices. It has asked for the close.
        let asked = before.iter().filter(|(_, of)| matches!(of.stage, Stage::Asked | Stage::Closing));
        let asked: Vec<_> = asked.map(|(&shard, of)| (shard, of.to)).collect();
        let own = self.config.node;
        for &(shard, to) in moves.iter().filter(|(_, to)| *to != own) {
            let is_wanted = self.outgoing.wanted.remove(&shard) == Some(to);
            let stage = match before.remove(&shard) {
                Some(Outgoing { stage: Stage::Closed { closed, since }, .. }) => {
                    if is_wanted {
                        self.tell_closed(now, to, closed.clone());
                    }
                    Stage::Closed { closed, since }
                }
                Some(Outgoing { to: before, stage }) if before == to => stage,
                _ if is_wanted => Stage::Asked,
                _ => Stage::Copying,
            };
            self.outgoing.shards.insert(shard, Outgoing { to, stage });
        }
        let closed = before.into_iter().filter(|(_, outgoing)| matches!(outgoing.stage, Stage::Closed { .. }));
        self.outgoing.shards.extend(closed);
        for (shard, to) in asked {
            if self.outgoing.shards.get(&shard).is_none_or(|outgoing| outgoing.to != to) {
                self.outgoing.wanted.insert(shard, to);
                self.master.keep_shard(shard);
            }
        }
        self.master.set_leaving(self.outgoing.shards.keys().copied().collect());
        self.follow_up(now);
    }

    /// The shards that are closed and wait for their next opening.
    pub fn closed_to_move(&self) -> impl Iterator<Item = ClosedShard> + '_ {
        self.outgoing.shards.iter().filter_map(|(&shard, outgoing)| match outgoing.stage {
            Stage::Closed { closed: ShardClosed { opening, count, .. }, since } => {
                Some(ClosedShard { shard, opening, count, since })
            }
            Stage::Copying | Stage::Asked | Stage::Closing => None,
        })
    }

    /// Whether this node serves no shard, and another one is about to open or to close here: it is not known yet which
    /// node has pages to grant.
    pub(crate) fn is_between_shards(&self) -> bool {
        let closes = |outgoing: &Outgoing| matches!(outgoing.stage, Stage::Closing | Stage::Closed { .. });
        !self.master.serves_any() && (self.outgoing.shards.values().any(closes) || self.arrived().next().is_some())
    }

    /// The link to a node is lost. The shards that move there are served as before, unless they are closed.
    pub(crate) fn outgoing_lost(&mut self, node: NodeId) {
        self.outgoing.wanted.retain(|_, to| *to != node);
        for (&shard, outgoing) in self.outgoing.shards.iter_mut().filter(|(_, outgoing)| outgoing.to == node) {
            if matches!(outgoing.stage, Stage::Closing) {
                self.master.keep_shard(shard);
            }
            if matches!(outgoing.stage, Stage::Asked | Stage::Closing) {
                outgoing.stage = Stage::Copying;
            }
        }
    }

    /// A node wants to know which pages of a shard are in the page home. If it has asked for the close before, it has
    /// begun again since.
    pub(crate) fn list_pages(&mut self, now: Time, to: NodeId, list: &ListPages) {
        if self.outgoing.wanted.get(&list.shard) == Some(&to) {
            self.outgoing.wanted.remove(&list.shard);
        }
        let outgoing = self.outgoing.shards.get_mut(&list.shard).filter(|outgoing| outgoing.to == to);
        if let Some(outgoing) = outgoing.filter(|outgoing| matches!(outgoing.stage, Stage::Asked | Stage::Closing)) {
            outgoing.stage = Stage::Copying;
            self.master.keep_shard(list.shard);
        }
        let (pages, through) = self.master.list_pages(list.shard, list.above);
        let mut parts = pages.chunks(PAGES_PER_MESSAGE_MAX).peekable();
        loop {
            let pages = parts.next().map(<[_]>::to_vec).unwrap_or_default();
            let is_last = parts.peek().is_none();
            let listed = PagesListed { shard: list.shard, through, is_last, pages };
            self.tell(now, to, ToNode::PagesListed(listed));
            if is_last {
                break;
            }
        }
    }

    /// A node has copied nearly everything of a shard that moves there.
    pub(crate) fn close_shard(&mut self, now: Time, to: NodeId, shard: Shard) {
        let Some(outgoing) = self.outgoing.shards.get_mut(&shard).filter(|outgoing| outgoing.to == to) else {
            if shard.0 < self.config.sharding.shards().get() {
                self.outgoing.wanted.insert(shard, to);
            }
            return;
        };
        match &outgoing.stage {
            Stage::Copying => outgoing.stage = Stage::Asked,
            Stage::Asked | Stage::Closing => {}
            Stage::Closed { closed, .. } => {
                let closed = closed.clone();
                self.tell_closed(now, to, closed);
            }
        }
    }

    fn tell_closed(&mut self, now: Time, to: NodeId, closed: ShardClosed) {
        let recent = self.master.recent_changes(closed.shard);
        self.tell(now, to, recent.into());
        self.tell(now, to, closed.into());
    }

    /// Closes the shards that may close. Returns whether something has happened.
    pub(crate) fn close_outgoing(&mut self, now: Time) -> bool {
        let mut has_done = false;
        for shard in self.outgoing.shards.keys().copied().collect::<Vec<_>>() {
            has_done |= self.close_one(now, shard);
        }
        has_done
    }

    fn close_one(&mut self, now: Time, shard: Shard) -> bool {
        let is_closing = match self.outgoing.stage(shard) {
            Some(Stage::Asked) => false,
            Some(Stage::Closing) => true,
            _ => return false,
        };
        let (links, own) = (&self.links, self.config.node);
        let is_away = |node: &NodeId| *node != own && links.port(*node).is_none();
        let may_close = self.master.serves(shard) && !self.master.coordinators_in(shard).iter().any(is_away);
        let next = match (is_closing, may_close) {
            (false, true) => {
                self.master.close_shard(shard);
                Stage::Closing
            }
            (true, false) => {
                self.master.keep_shard(shard);
                Stage::Asked
            }
            (true, true) => {
                let Some((opening, count)) = self.master.end_shard(shard) else { return false };
                let closed = ShardClosed { shard, opening, count, next_pages: self.master.next_pages() };
                let to = self.outgoing.shards.get(&shard).map(|outgoing| outgoing.to);
                if let Some(to) = to {
                    self.tell_closed(now, to, closed.clone());
                }
                Stage::Closed { closed, since: now }
            }
            (false, false) => return false,
        };
        if let Some(stage) = self.outgoing.stage(shard) {
            *stage = next;
        }
        true
    }
}
