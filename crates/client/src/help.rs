//! Help between neighbours: pages from their caches, and from ours to them (BuddyCache paper, section 4.3).
//!
//! 1. Help is given from the machine, whatever the application is computing: the driver's thread that hears of a need
//!    sends the page.
//! 2. Only a whole page is sent: one with a hole is no page to anybody else, and one with a slot that is ahead of its
//!    version would be taken for older than it is.
//! 3. A page answers one fetch, by its number. One that comes late, after the fetch was answered in another way, is
//!    dropped: changes since may have been told while the page was not held.
//! 4. A neighbour's page is installed when we have heard of all that it reflects. It came on another connection than the
//!    notices, and may be ahead of them: a running transaction would see two moments at once.
//! 5. A member that connects to a neighbour shows the key that came with the request for help. Our own key is the
//!    driver's affair: it draws the key, and lets nobody in without it.

use crate::{Client, Output};
use alloc::vec::Vec;
use core::time::Duration;
use protocol::{Arrived, Help, NoHelp, Page, PeerHello, PeerPage, Reachable, ToPeer};
use types::{ClientId, Map, PageId, PeerKey, Rule, Time};

/// How long a neighbour that could not be connected to is served by way of the redirector before it is tried again.
const DETOUR: Duration = Duration::from_secs(5);

/// How a neighbour is reached.
#[derive(Debug)]
enum Peer {
    Dialing { key: PeerKey },
    Up,
    Unreachable { until: Time },
}

/// The client's knowledge of its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Where they reach us.
    reachable: Option<Reachable>,
    peers: Map<ClientId, Peer>,
    /// Pages that came from them, and that the redirector has not been told of.
    arrived: Vec<(PageId, u64)>,
}

impl Neighbours {
    /// Where members would reach us as their redirector, if we are eligible.
    pub(crate) fn eligible(&self) -> Option<&str> {
        self.reachable.as_ref().map(|reachable| reachable.eligible.as_str()).filter(|eligible| !eligible.is_empty())
    }

    /// The arrivals that the redirector is to be told with the next message.
    pub(crate) fn take_arrived(&mut self) -> Vec<(PageId, u64)> {
        core::mem::take(&mut self.arrived)
    }

    /// Arrivals that were not told are of no account any more.
    pub(crate) fn link_is_gone(&mut self) {
        self.arrived.clear();
    }
}

impl Client {
    /// The driver takes connections of neighbours, and where. Sessions that the redirector of a group opens from now on,
    /// and the one that is open, hear of it.
    pub fn reachable(&mut self, now: Time, reachable: Reachable) {
        self.neighbours.reachable = Some(reachable);
        if self.session.is_live() {
            self.say_reachable(now);
        }
    }

    /// Where members would reach the redirector that stands by beside us; empty if there is none.
    pub fn eligible(&self) -> &str {
        &self.config.eligible
    }

    /// Tells the redirector, if there is one, where neighbours reach us.
    pub(crate) fn say_reachable(&mut self, now: Time) {
        if !self.session.in_group {
            return;
        }
        if let Some(reachable) = self.neighbours.reachable.clone() {
            self.send(now, reachable);
        }
    }

    /// A connection to a neighbour is up, which was asked for: says who will send pages on it.
    pub fn peer_connected(&mut self, peer: ClientId) {
        if let Some(&Peer::Dialing { key }) = self.neighbours.peers.get(&peer) {
            self.neighbours.peers.insert(peer, Peer::Up);
            let message = PeerHello { client: self.id, key }.into();
            self.outputs.push_back(Output::SendPeer { peer, message });
        }
    }

    /// A connection to a neighbour is gone, or could not be made.
    pub fn peer_disconnected(&mut self, now: Time, peer: ClientId) {
        self.neighbours.peers.insert(peer, Peer::Unreachable { until: now + DETOUR });
    }

    /// The redirector asks for pages for a neighbour.
    pub(crate) fn help(&mut self, now: Time, help: &Help) {
        let mut not_whole = Vec::new();
        for &page in &help.pages {
            match self.whole(page, help.number) {
                Some(page) => self.send_to_peer(now, help, page),
                None => not_whole.push(page),
            }
        }
        if !not_whole.is_empty() {
            let no_help = NoHelp { requester: help.requester, number: help.number, pages: not_whole };
            self.send(now, no_help);
        }
    }

    /// The page as we have it, if it is whole and in sequence.
    fn whole(&self, page: PageId, number: u64) -> Option<Page> {
        let (version, image) = self.cache.get(page)?.whole(self.config.broken)?;
        Some(Page { page, version, number, fresh: false, behind: Vec::new(), image: image.image().clone() })
    }

    fn send_to_peer(&mut self, now: Time, help: &Help, page: Page) {
        self.stats.pages_given += 1;
        let (peer, through) = (help.requester, help.through);
        let page = PeerPage { requester: peer, through, page };
        if self.is_up(now, help) {
            self.outputs.push_back(Output::SendPeer { peer, message: page.into() });
        } else {
            self.send(now, page);
        }
    }

    /// Whether the neighbour is connected to. If not, a connection is on its way where that can be tried.
    fn is_up(&mut self, now: Time, help: &Help) -> bool {
        if help.address.is_empty() {
            return false;
        }
        let (peer, peers) = (help.requester, &mut self.neighbours.peers);
        match peers.get(&peer) {
            Some(Peer::Up) => return true,
            Some(Peer::Dialing { .. }) => return false,
            Some(Peer::Unreachable { until }) if now < *until => return false,
            Some(Peer::Unreachable { .. }) | None => {}
        }
        if peers.len() >= self.config.limits.peers {
            peers.retain(|_, peer| !matches!(peer, Peer::Unreachable { until } if *until <= now));
        }
        if peers.len() < self.config.limits.peers {
            peers.insert(peer, Peer::Dialing { key: help.key });
            self.outputs.push_back(Output::DialPeer { peer, address: help.address.clone() });
        }
        false
    }

    /// A message of a neighbour, or one that it sent by way of the redirector.
    pub fn from_peer(&mut self, now: Time, message: ToPeer) {
        if let ToPeer::PeerPage(page) = message {
            self.peer_page(now, page);
        }
    }

    /// A neighbour's page has arrived.
    pub(crate) fn peer_page(&mut self, now: Time, page: PeerPage) {
        let PeerPage { requester, through, page } = page;
        let is_mine = requester == self.id && self.session.is_live();
        if !is_mine || !self.fetches.expects(page.page, page.number, self.config.broken) {
            return;
        }
        // A neighbour that has asked what became of a commit of its own may know of that before its redirector does.
        let reflects = through.max(page.version);
        if reflects > self.session.horizon() && !self.config.broken.is(Rule::HearFirst) {
            return self.fetches.keep_early(reflects, page);
        }
        self.install_peer_page(now, page);
    }

    fn install_peer_page(&mut self, now: Time, page: Page) {
        // Of what the store has committed since the neighbour heard from it, the page says nothing.
        let page = Page { fresh: self.config.broken.is(Rule::FreshFromStore), ..page };
        self.stats.pages_from_peers += 1;
        self.neighbours.arrived.push((page.page, page.number));
        self.session.up.piggyback_by(now);
        let before = self.stats.fetch_time;
        self.page(now, page);
        self.stats.peer_time += self.stats.fetch_time.saturating_sub(before);
    }

    /// The horizon has moved: installs the pages of neighbours that waited for that.
    pub(crate) fn install_early(&mut self, now: Time) {
        while let Some(page) = self.fetches.take_early(self.session.horizon()) {
            // It may have come in another way meanwhile.
            if self.fetches.expects(page.page, page.number, self.config.broken) {
                self.install_peer_page(now, page);
            }
        }
    }

    /// Tells the redirector which pages have come from neighbours: they can be had from here now.
    pub(crate) fn say_arrived(&mut self) {
        for pages in self.neighbours.take_arrived().chunks(self.config.limits.pages_per_message) {
            self.outputs.push_back(Output::Send(Arrived { pages: pages.to_vec() }.into()));
        }
    }
}
