//! The nodes of the store, and the session with each ([`messages::store_nodes`]).
//!
//! ```text
//!   per node   session, horizon of its shards, acknowledged counts, releases, pages under way, lease
//!   shared     members and what they hold, commits, the standby cache, who leads the group
//! ```
//! 1. The horizon has the counts of all shards. The session with a node moves those of its shards, and what that node
//!    has to say is passed on: to a member the redirector is the store.
//! 2. The group has a *coordinator* at a time: the node that members number their commits for. It is the home, and
//!    another one when that is away or has no shard. Members are welcomed again when it changes. A commit goes to the
//!    node of its number, even if the group has another coordinator by then (**OneCoordinator**).
//! 3. The group is open as long as one node is reached. Pages and commits of a node that is away wait for it. A member
//!    that brings pages of such a node drops them, if the node is away for longer than a member may be silent.

use crate::fetch::Fetches;
use crate::lease::Lease;
use crate::store_session::StoreSession;
use crate::syncs::NodeSyncs;
use crate::{Config, Redirector};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use machine::{Goodbye, UpstreamId};
use messages::{At, Change, GROUP, Lineage, Overdue, Placement, SEVERAL, SessionLimits, StoreNodes, ToClient, Welcome};
use types::{Horizon, PageId, Sharding, Time, TxnId, Vector};

/// The session with a node, and what there is of it alone.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) session: StoreSession,
    pub(crate) fetches: Fetches,
    pub(crate) lease: Lease,
    pub(crate) syncs: NodeSyncs,
    /// Since when it is not reached, if it is not.
    down_since: Time,
}

impl Node {
    fn new(now: Time, session: StoreSession, config: &Config) -> Self {
        let lease = Lease::new(config.limits.leased_changes, config.broken);
        Self { session, fetches: Fetches::default(), lease, syncs: NodeSyncs::default(), down_since: now }
    }

    /// Until when it is waited for; none if it is reached.
    pub(crate) fn awaited_until(&self, config: &Config) -> Option<Time> {
        (!self.session.is_live()).then(|| self.down_since + config.silence)
    }

    /// The counts of the node's shards through which every change was told.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        self.session.up.horizon()
    }

    /// When the next heartbeat is due, for the session or for the lease, if pings are sent: the node compares the
    /// group's pages at once, so they begin when it has.
    fn pings_at(&self) -> Option<Time> {
        let for_session = self.session.up.ping_at();
        let ping_at = self.lease.renew_at().map_or(for_session, |at| at.min(for_session));
        self.session.is_live().then_some(ping_at)
    }

    /// When something is due on the session.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.session.up.next_due(self.pings_at())
    }

    /// Returns the timeout that is due on its session.
    pub(crate) fn overdue(&self, now: Time) -> Option<Overdue> {
        self.session.up.overdue(now, self.pings_at())
    }

    /// The link is gone, and with it every answer that was on its way.
    fn link_is_gone(&mut self, now: Time) {
        if self.session.is_live() {
            self.down_since = now;
        }
        self.session.link_is_gone();
        self.fetches.link_is_gone();
        self.lease.link_is_gone();
        self.syncs.link_is_gone();
    }
}

/// All nodes that the redirector knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    known: StoreNodes<Node>,
    /// The counts of all shards, of which every change was told.
    horizon: Vector,
    /// The counts that members may have learned: those that messages have named, of whichever node, and replies to
    /// commits.
    passed_on: Vector,
    coordinator: At,
    /// Since when no node is reached, or no member was welcome.
    down_since: Time,
}

impl Nodes {
    pub(crate) fn new(config: &Config) -> Self {
        let home = Node::new(Time::ZERO, StoreSession::default(), config);
        let known = StoreNodes::new(home);
        Self { known, horizon: Vector::new(), passed_on: Vector::new(), coordinator: At::HOME, down_since: Time::ZERO }
    }

    /// The nodes with which the session is resumed, the home first.
    pub(crate) fn live(&self) -> impl Iterator<Item = At> {
        self.all().filter(|&at| self[at].session.is_live())
    }

    /// The first of these that is not among some.
    pub(crate) fn live_but(&self, others: &[At]) -> Option<At> {
        self.live().find(|at| !others.contains(at))
    }

    /// Whether a node that has pages is not among some.
    pub(crate) fn has_others(&self, some: &[At]) -> bool {
        self.are_several() && self.all().any(|at| self.places().has_pages(at) && !some.contains(&at))
    }

    /// Whether the store is reached: a node of it is.
    pub(crate) fn is_reached(&self) -> bool {
        self.live().next().is_some()
    }

    /// The node that is asked who leads the group: of those that are reached the one with the lowest number.
    pub(crate) fn arbiter(&self) -> Option<At> {
        self.live().min_by_key(|&at| self[at].id)
    }

    /// Every change through here to what the group holds was told.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        Horizon { counts: &self.horizon, sharding: self.sharding() }
    }

    /// Which pages have counts in common.
    pub(crate) fn sharding(&self) -> Sharding {
        self[At::HOME].session.up.sharding()
    }

    /// The highest counts that the nodes have named.
    pub(crate) fn named(&self) -> Vector {
        self.all().map(|at| self[at].session.up.named()).fold(self.passed_on.clone(), |all, named| all.joined(&named))
    }

    /// The counts that concern a page: those of the shards of its node.
    pub(crate) fn counts_for(&self, page: PageId, counts: &Vector) -> Vector {
        self.places().own(self.places().of(page), counts)
    }

    /// Everything through these counts of a node's shards was told.
    pub(crate) fn heard_through(&mut self, at: At, through: &Vector) {
        let (node, places) = self.known.parts(at);
        let through = places.own(at, through);
        node.session.up.heard_through(&through);
        self.horizon.join(&through);
    }

    /// A message of a node names counts of its shards. Those of others are theirs to say. Members may learn them from
    /// what the last node of a shard has sent all the same.
    pub(crate) fn hear_of(&mut self, at: At, message: &ToClient) {
        let (node, places) = self.parts(at);
        let named = message.newest_named(node.session.up.sharding());
        node.session.up.hear_of(&places.own(at, &named));
        self.passed_on.join(&named);
    }

    /// A reply says that these counts were applied.
    pub(crate) fn hear_reply(&mut self, counts: &Vector) {
        self.passed_on.join(counts);
    }

    /// The node that members number their commits for.
    pub(crate) fn coordinator(&self) -> At {
        self.coordinator
    }

    /// Another node coordinates the group's next commits if the one so far is away, or has no shard while another has.
    /// Returns whether there is another.
    pub(crate) fn choose_coordinator(&mut self) -> bool {
        let is_live = self[self.coordinator].session.is_live();
        let next = if is_live && self.places().has_pages(self.coordinator) {
            None
        } else {
            let with_shards = self.live().find(|&at| self.places().has_pages(at));
            with_shards.or_else(|| self.live().next().filter(|_| !is_live))
        };
        next.is_some_and(|next| core::mem::replace(&mut self.coordinator, next) != next)
    }

    /// The link to a node is gone.
    pub(crate) fn link_is_gone(&mut self, now: Time, at: At) {
        let was_reached = self.is_reached();
        self[at].link_is_gone(now);
        if (was_reached && !self.is_reached()) || self.down_since == Time::ZERO {
            self.down_since = now;
        }
    }

    /// Since when no node is reached, or no member was welcome.
    pub(crate) fn down_since(&self) -> Time {
        self.down_since
    }

    /// Members that come from now on wait, and the time counts.
    pub(crate) fn wait_from(&mut self, now: Time) {
        self.down_since = now;
    }

    /// The facts about the store that members are told.
    ///
    /// # Panics
    /// Before a node has said who it is.
    pub(crate) fn store(&self) -> &Welcome {
        self[self.coordinator].session.store()
    }

    /// The store is another than the one that was known: begins again with its home. Returns the connections to the
    /// other nodes.
    pub(crate) fn forget(&mut self) -> Vec<UpstreamId> {
        let others = self.known.forget_others(|node| &mut node.session.up);
        let home = &mut self.known[At::HOME];
        home.session.begin_anew();
        home.fetches = Fetches::default();
        (self.horizon, self.passed_on) = (Vector::new(), Vector::new());
        (self.coordinator, self.down_since) = (At::HOME, Time::ZERO);
        others
    }

    /// The greeting of a member that is welcome. Each of several nodes has its own lives, which this redirector
    /// compares (**KnowLineage**).
    pub(crate) fn welcome(&self, config: &Config) -> Welcome {
        let store = self.store();
        Welcome {
            features: if self.are_several() { GROUP | SEVERAL } else { GROUP },
            cluster: store.cluster,
            node: store.node,
            incarnation: store.incarnation,
            lineage: if self.are_several() { Lineage::default() } else { store.lineage.clone() },
            sharding: store.sharding,
            through: self.horizon.clone(),
            limits: SessionLimits {
                fetches: config.limits.fetches_per_session as u32,
                commits: config.limits.commits_per_session as u32,
                silence_ms: u32::try_from(config.silence.as_millis()).unwrap_or(u32::MAX),
            },
        }
    }

    /// A member's commit is about to change these slots: a read of them is for their node to judge.
    pub(crate) fn contest(&mut self, page: PageId, txn: TxnId, slots: &types::SlotSet) {
        self.of_mut(page).lease.contest(page, txn, slots);
    }
}

impl Deref for Nodes {
    type Target = StoreNodes<Node>;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl DerefMut for Nodes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.known
    }
}

impl Redirector {
    /// A node says where the nodes and the shards are.
    pub(crate) fn placement(&mut self, now: Time, at: At, placement: &Placement) -> Result<(), Goodbye> {
        let sharding = self.nodes.sharding();
        placement.check(sharding, self.nodes[at].id)?;
        let revision = self.nodes.revision();
        let before: Vec<_> = if self.nodes.are_several() { self.held_pages() } else { Vec::new() };
        let before: Vec<_> = before.into_iter().map(|page| (page, self.nodes.places().of(page))).collect();
        let config = &self.config;
        let beside = |home: &Node| Node::new(now, home.session.beside(), config);
        for change in self.nodes.place(sharding, placement, beside) {
            match change {
                Change::Close(at, upstream) => {
                    self.upstream_is_down(now, at);
                    self.out.close(upstream);
                }
                Change::Open(upstream, address) => self.out.open(upstream, alloc::vec![address]),
            }
        }
        let places = self.nodes.places();
        let moved = before.into_iter().filter(|&(page, before)| places.of(page) != before).map(|(page, _)| page);
        let moved = moved.collect();
        self.shards_have_moved(now, moved);
        if self.nodes.revision() != revision {
            self.sync_again(now);
        }
        if self.nodes.choose_coordinator() {
            self.welcome_again();
        }
        Ok(())
    }

    /// The pages that the group holds, or waits for.
    fn held_pages(&self) -> Vec<PageId> {
        let sessions = self.members.all().into_iter();
        let mut pages: Vec<_> = sessions.flat_map(|session| self.holders.pages(session)).collect();
        pages.extend(self.standby.pages());
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Pages have another node, which does not list them for this group: their holders drop them. Fetches under way are
    /// sent to the nodes that have the pages now.
    fn shards_have_moved(&mut self, now: Time, moved: Vec<PageId>) {
        if !moved.is_empty() {
            let through = self.nodes.horizon().counts.clone();
            self.drop_pages(now, moved, &through);
            self.compare_all_again(now);
        }
        let mut strays = Vec::new();
        for at in self.nodes.all() {
            let (node, places) = self.nodes.parts(at);
            strays.extend(node.fetches.take_strays(|page| places.of(page) == at));
        }
        for (page, under_way) in strays {
            self.nodes.of_mut(page).fetches.take_in(page, under_way);
        }
    }

    /// A node does not have a page that it was asked for.
    pub(crate) fn elsewhere(&mut self, at: At, page: PageId) {
        if self.nodes[at].fetches.is_elsewhere(page) && self.nodes.places().of(page) != at {
            let strays = self.nodes[at].fetches.take_strays(|stray| stray != page);
            for (page, under_way) in strays {
                self.nodes.of_mut(page).fetches.take_in(page, under_way);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::{NonZeroU16, NonZeroU32};
    use messages::{Invalidations, NodeAt};
    use types::{NodeId, Opening, Shard, Version};

    /// The last node of a shard may still send what another node's placement has overtaken. Members learn its counts.
    #[test]
    fn members_may_name_every_count_that_was_passed_on_to_them() {
        let (config, nothing) = (Config::default(), Vector::new());
        let mut nodes = Nodes::new(&config);
        nodes[At::HOME].id = Some(NodeId(0));
        let sharding = Sharding::new(NonZeroU16::new(2).expect("not zero"), NonZeroU32::MIN);
        let node_at = |node| NodeAt { node: NodeId(node), start: 1, address: alloc::format!("n{node}:1") };
        let shards = alloc::vec![(NodeId(0), Opening(1)), (NodeId(1), Opening(2))];
        let placement = Placement { nodes: alloc::vec![node_at(0), node_at(1)], shards };
        nodes.place(sharding, &placement, |home| Node::new(Time::ZERO, home.session.beside(), &config));
        let counts: Vector = [(Shard(1), Version(7))].into_iter().collect();
        assert!(nodes.check_named(&counts, &nothing, "a fetch").is_err());
        let invalidations = Invalidations { through: counts.clone(), items: Vec::new() };
        nodes.hear_of(At::HOME, &invalidations.into());
        assert!(nodes.check_named(&counts, &nothing, "a fetch").is_ok());
    }
}
