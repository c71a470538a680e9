//! Where the nodes of the store are, and which of them has which shard: as they say themselves.
//!
//! 1. Every node says it, and says it again when something changes. They learn of changes at different times: of two
//!    places of a shard the one in the later opening counts, and of two addresses of a node the one of the later start.
//! 2. A page under way at a node that does not have it is asked for at the one that has. If neither knows better, the
//!    page waits until some node does.
//! 3. A shard that has moved to another node leaves nothing behind: its pages are dropped, as the new node does not
//!    list them for this client.

use crate::Client;
use crate::fetch::Fetches;
use crate::nodes::Node;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{At, Change, Elsewhere, Placement};
use types::{NodeId, Rule, Time};

impl Client {
    /// A node says where the shards are.
    pub(crate) fn placement(&mut self, now: Time, at: At, placement: &Placement) -> Result<(), Goodbye> {
        if self.group.is_joined() {
            return Err(Goodbye::malformed("a placement, which a redirector does not send".into()));
        }
        let (sharding, own) = (self.nodes[at].session.up.sharding(), self.nodes[at].id);
        placement.check(sharding, own)?;
        let frozen = self.frozen_pages().into_iter().map(|held| held.page);
        let held = self.cache.frames().map(|(page, _)| page).chain(frozen);
        let before: Vec<_> = held.map(|page| (page, self.nodes.places().of(page))).collect();
        let (is_first, revision) = (!self.nodes.are_several(), self.nodes.revision());
        let config = &self.config;
        let beside = |home: &Node| Node { session: home.session.beside(), fetches: Fetches::new(config) };
        for change in self.nodes.place(sharding, placement, beside) {
            match change {
                Change::Close(at, upstream) => {
                    self.session_is_down(at);
                    self.out.close(upstream);
                }
                Change::Open(upstream, address) => self.out.open(upstream, vec![address]),
            }
        }
        if is_first {
            // The counts of a redirector are those of the nodes.
            self.nodes.share_counts(|node| &mut node.session.up);
        } else {
            for (page, before) in before {
                if self.nodes.places().of(page) != before && !self.config.broken.is(Rule::DropMoved) {
                    self.drop_page(page);
                    self.lose_grant(page);
                }
            }
        }
        self.allocator.shards_may_have_moved();
        self.ask_for_grants(now);
        self.commits.take_ways(|txn| self.nodes.coordinator_of(txn));
        self.send_strays(now);
        if self.nodes.revision() != revision {
            self.ask_again();
        }
        Ok(())
    }

    /// The nodes of the store that have an address, the client's home first; none while the store is one of one node.
    pub fn store_nodes(&self) -> Vec<(NodeId, String)> {
        let all = self.nodes.all().filter(|_| self.nodes.are_several());
        let reached = all.filter(|&at| !self.nodes[at].address.is_empty());
        reached.filter_map(|at| Some((self.nodes[at].id?, self.nodes[at].address.clone()))).collect()
    }

    /// Closes the connections to the other nodes when another store answers at the client's home.
    pub(crate) fn forget_others(&mut self) {
        for upstream in self.nodes.forget_others(|node| &mut node.session.up) {
            self.out.close(upstream);
        }
    }

    /// Asks each node for the pages under way that are there, and that others were asked for.
    fn send_strays(&mut self, now: Time) {
        let mut strays = Vec::new();
        for at in self.nodes.all() {
            let (node, places) = self.nodes.parts(at);
            strays.extend(node.fetches.take_strays(|page| places.of(page) == at));
        }
        for (page, under_way) in strays {
            self.nodes.of_mut(page).fetches.take_in(page, under_way);
        }
        for at in self.nodes.all() {
            self.send_fetches(now, at);
        }
    }

    /// A node does not have the page that it was asked for.
    pub(crate) fn elsewhere(&mut self, now: Time, at: At, elsewhere: Elsewhere) {
        let Elsewhere { page, number } = elsewhere;
        if self.nodes[at].fetches.expects(page, number) {
            self.nodes[at].fetches.is_elsewhere(page);
            if self.nodes.places().of(page) != at {
                self.send_strays(now);
            }
        }
    }
}
