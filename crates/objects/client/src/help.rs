//! Help between peers: pages from their caches, and from ours to them (BuddyCache paper, section 4.3).
//!
//! 1. Help is given from the machine, whatever the application is computing: the driver's thread that learns of a need
//!    sends the page.
//! 2. Only a whole page is sent: one with a hole is no page to anybody else, and one with a slot that is ahead of its
//!    version would be taken for older than it is.
//! 3. A page answers one fetch, by its number. One that comes late, after the fetch was answered in another way, is
//!    dropped: changes since may have been told while the page was not held.
//! 4. A peer's page is installed when we have learned of everything that it reflects. It came on another connection
//!    than the invalidations, and may be ahead of them: a running transaction would see two moments at once.
//! 5. A member that connects to a peer shows the key that came with the request for help. Our own key is the
//!    driver's affair: it draws the key, and lets nobody in without it.

use crate::Client;
use crate::nodes::Node;
use crate::outputs::Outputs;
use alloc::vec::Vec;
use cache::Cache;
use core::time::Duration;
use machine::{Goodbye, UpstreamId};
use messages::{Arrived, At, Help, NoHelp, Page, PeerHello, PeerPage, Reachable, ToPeer};
use types::{Broken, ClientId, Map, PageId, PeerKey, Rule, Time};

/// How long a peer that could not be connected to is served by way of the redirector before it is tried again.
const DETOUR: Duration = Duration::from_secs(5);

/// How a peer is reached.
#[derive(Debug)]
enum Peer {
    Dialing { key: PeerKey },
    Up,
    Unreachable { until: Time },
}

/// The client's knowledge of its peers.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Where they reach us.
    reachable: Option<Reachable>,
    known: Map<ClientId, Peer>,
    known_max: usize,
    /// Pages that came from them, and that the redirector has not been notified of.
    arrived: Vec<(PageId, u64)>,
}

impl Peers {
    pub(crate) fn new(peers_max: usize) -> Self {
        Self { reachable: None, known: Map::default(), known_max: peers_max, arrived: Vec::new() }
    }

    /// Where members would reach us as their redirector, if we are eligible.
    pub(crate) fn eligible(&self) -> Option<&str> {
        self.reachable.as_ref().map(|reachable| reachable.eligible.as_str()).filter(|eligible| !eligible.is_empty())
    }

    /// A page has come from a peer.
    fn has_sent(&mut self, page: &Page) {
        self.arrived.push((page.page, page.number));
    }

    /// Tells the redirector which pages have come from peers, so many in a message: they can be had from here now.
    pub(crate) fn say_arrived(&mut self, pages_per_message: usize, out: &mut Outputs) {
        for pages in core::mem::take(&mut self.arrived).chunks(pages_per_message) {
            out.send(UpstreamId::ONLY, Arrived { pages: pages.to_vec() });
        }
    }

    /// Arrivals that were not told are of no account any more.
    pub(crate) fn link_is_gone(&mut self) {
        self.arrived.clear();
    }

    /// Whether the peer that help is asked for is connected to. If not, a connection is on its way where that can be
    /// tried.
    fn is_up(&mut self, now: Time, help: &Help, out: &mut Outputs) -> bool {
        if help.address.is_empty() {
            return false;
        }
        let (peer, peers) = (help.requester, &mut self.known);
        match peers.get(&peer) {
            Some(Peer::Up) => return true,
            Some(Peer::Dialing { .. }) => return false,
            Some(Peer::Unreachable { until }) if now < *until => return false,
            Some(Peer::Unreachable { .. }) | None => {}
        }
        if peers.len() >= self.known_max {
            peers.retain(|_, peer| !matches!(peer, Peer::Unreachable { until } if *until <= now));
        }
        if peers.len() < self.known_max {
            peers.insert(peer, Peer::Dialing { key: help.key });
            out.dial_peer(peer, help.address.clone());
        }
        false
    }

    /// A connection to the peer is up; gives the key that lets us in, if the connection was asked for.
    fn connected(&mut self, peer: ClientId) -> Option<PeerKey> {
        let &Peer::Dialing { key } = self.known.get(&peer)? else { return None };
        self.known.insert(peer, Peer::Up);
        Some(key)
    }

    /// A connection to the peer is gone, or could not be made.
    fn disconnected(&mut self, now: Time, peer: ClientId) {
        self.known.insert(peer, Peer::Unreachable { until: now + DETOUR });
    }
}

/// The page as the cache has it, in answer to the fetch of this number, if it is whole and in sequence.
fn whole(cache: &Cache, page: PageId, number: u64, broken: Broken) -> Option<Page> {
    let (version, image) = cache.get(page)?.whole(broken)?;
    Some(Page { page, version, number, fresh: false, behind: Vec::new(), image: image.image().clone() })
}

impl Client {
    /// The driver takes connections of peers, and where. Sessions that the redirector of a group opens from now on,
    /// and the one that is open, learn of it.
    pub fn reachable(&mut self, now: Time, reachable: Reachable) {
        self.peers.reachable = Some(reachable);
        if self.nodes[At::HOME].session.is_live() {
            self.say_reachable(now);
        }
    }

    /// Where members would reach the redirector that stands by beside us; empty if there is none.
    pub fn eligible(&self) -> &str {
        &self.config.eligible
    }

    /// Tells the redirector, if there is one, where peers reach us.
    pub(crate) fn say_reachable(&mut self, now: Time) {
        if let Some(reachable) = self.peers.reachable.clone().filter(|_| self.group.is_joined()) {
            self.send(now, At::HOME, reachable);
        }
    }

    /// A connection to a peer is up, which was asked for: says who will send pages on it.
    pub fn peer_connected(&mut self, peer: ClientId) {
        if let Some(key) = self.peers.connected(peer) {
            self.out.send_peer(peer, PeerHello { client: self.id, key });
        }
    }

    /// A connection to a peer is gone, or could not be made.
    pub fn peer_disconnected(&mut self, now: Time, peer: ClientId) {
        self.peers.disconnected(now, peer);
    }

    /// The redirector asks for pages for a peer.
    pub(crate) fn help(&mut self, now: Time, help: &Help) {
        let mut not_whole = Vec::new();
        for &page in &help.pages {
            let Some(page) = whole(&self.cache, page, help.number, self.config.broken) else {
                not_whole.push(page);
                continue;
            };
            self.stats.pages_given += 1;
            let page = PeerPage { requester: help.requester, through: help.through.clone(), page };
            if self.peers.is_up(now, help, &mut self.out) {
                self.out.send_peer(help.requester, page);
            } else {
                self.send(now, At::HOME, page);
            }
        }
        if !not_whole.is_empty() {
            let no_help = NoHelp { requester: help.requester, number: help.number, pages: not_whole };
            self.send(now, At::HOME, no_help);
        }
    }

    /// A message of a peer.
    pub fn from_peer(&mut self, now: Time, message: ToPeer) {
        if let ToPeer::PeerPage(page) = message
            && let Err(why) = self.peer_page(now, page)
        {
            self.hang_up(At::HOME, why);
        }
    }

    /// A peer's page has arrived, on a connection of its own or by way of the redirector.
    pub(crate) fn peer_page(&mut self, now: Time, page: PeerPage) -> Result<(), Goodbye> {
        let PeerPage { requester, through: mut reflects, page } = page;
        let is_mine = requester == self.id && self.nodes[At::HOME].session.is_live();
        if !is_mine || !self.nodes[At::HOME].fetches.expects(page.page, page.number) {
            return Ok(());
        }
        // A peer that has asked what became of a commit of its own may know of that before its redirector does.
        reflects.raise(self.nodes.horizon().sharding.of(page.page), page.version);
        if !self.nodes.horizon().reaches(&reflects) && !self.config.broken.is(Rule::HearFirst) {
            self.nodes[At::HOME].fetches.keep_early(reflects, page);
            return Ok(());
        }
        self.install_peer_page(now, page)
    }

    fn install_peer_page(&mut self, now: Time, page: Page) -> Result<(), Goodbye> {
        // Of what the store has committed since the peer heard from it, the page says nothing.
        let page = Page { fresh: self.config.broken.is(Rule::FreshFromStore), ..page };
        self.stats.pages_from_peers += 1;
        self.peers.has_sent(&page);
        self.nodes[At::HOME].session.up.piggyback_by(now);
        let before = self.stats.fetch_time;
        self.page(now, At::HOME, page)?;
        self.stats.peer_time += self.stats.fetch_time.saturating_sub(before);
        Ok(())
    }

    /// The horizon has moved: installs the pages of peers that waited for that.
    pub(crate) fn install_early(&mut self, now: Time) -> Result<(), Goodbye> {
        loop {
            let Node { session, fetches } = self.nodes.parts(At::HOME).0;
            let Some(page) = fetches.take_early(session.horizon()) else { return Ok(()) };
            // It may have come in another way in the meantime.
            if fetches.expects(page.page, page.number) {
                self.install_peer_page(now, page)?;
            }
        }
    }
}
