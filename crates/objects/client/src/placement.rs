//! Where the nodes of the store are, and which of them has which shard: as they say themselves.
//!
//! 1. Every node says the same, and says it again when something changes.
//! 2. A page under way at a node that does not have it is asked for at the one that has. If neither knows better, the
//!    page waits until some node does.
//! 3. A shard that has moved to another node leaves nothing behind: its pages are dropped, as the new node does not
//!    list them for this client.

use crate::Client;
use crate::places::At;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{Elsewhere, Placement};
use types::{NodeId, Time};

impl Client {
    /// A node says where the shards are.
    pub(crate) fn placement(&mut self, now: Time, at: At, placement: &Placement) -> Result<(), Goodbye> {
        let sharding = self.nodes[at].session.up.sharding();
        let all: BTreeSet<_> = placement.nodes.iter().map(|node| node.node).collect();
        let is_whole = placement.shards.len() == usize::from(sharding.shards().get())
            && placement.shards.iter().all(|node| all.contains(node))
            && self.nodes[at].id.is_some_and(|own| all.contains(&own))
            && all.len() == placement.nodes.len();
        if !is_whole {
            let text = format!("expected a node for each of {} shards, got {placement:?}", sharding.shards());
            return Err(Goodbye::malformed(text));
        }
        for node in &placement.nodes {
            self.node_is_at(node.node, &node.address);
        }
        for at in self.nodes.all() {
            if !self.nodes[at].id.is_some_and(|id| all.contains(&id)) {
                self.close_node(at);
            }
        }
        let place_of = |id: &NodeId| self.nodes.find_id(*id).unwrap_or(At::HOME);
        let places: Vec<_> = placement.shards.iter().map(place_of).collect();
        let frozen = self.frozen_pages().into_iter().map(|held| held.page);
        let held = self.cache.frames().map(|(page, _)| page).chain(frozen);
        let before: Vec<_> = held.map(|page| (page, self.nodes.places().of(page))).collect();
        self.nodes.place(sharding, places);
        for (page, before) in before {
            if self.nodes.places().of(page) != before {
                self.drop_page(page);
                self.lose_grant(page);
            }
        }
        self.send_strays(now);
        Ok(())
    }

    /// A node is at this address.
    fn node_is_at(&mut self, id: NodeId, address: &str) {
        let at = self.nodes.find_id(id).unwrap_or_else(|| self.nodes.add(id, &self.config));
        if self.nodes[at].address == address {
            return;
        }
        let was_opened = !self.nodes[at].address.is_empty();
        self.nodes[at].address = address.into();
        // The driver opens the session with the first node, and asks where to look for it (`Client::way`).
        if at != At::HOME {
            if was_opened {
                self.session_is_down(at);
                self.out.close(self.nodes[at].upstream);
                self.nodes[at].upstream = self.nodes.next_upstream();
            }
            self.out.open(self.nodes[at].upstream, vec![address.into()]);
        }
    }

    /// A node is no longer one of the store.
    fn close_node(&mut self, at: At) {
        if at != At::HOME && !self.nodes[at].address.is_empty() {
            self.session_is_down(at);
            self.out.close(self.nodes[at].upstream);
            self.nodes[at].upstream = self.nodes.next_upstream();
            self.nodes[at].address.clear();
        }
    }

    /// Closes the connections to the other nodes when another store answers at the client's home.
    pub(crate) fn forget_others(&mut self) {
        for upstream in self.nodes.forget_others() {
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
