//! The course of the session with the store: hello, resume, heartbeat, end. How far it is and what is due on it is
//! decided in [`messages::upstream`], as for a client's.
//!
//! A redirector that cannot reach the store for too long sends its members away: they may reach it in another way.

use crate::Redirector;
use crate::nodes::Nodes;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{At, GROUP, Held, Overdue, Phase, Ping, Pong, Resume, Resumed, ToClient, Welcome};
use types::{GoodbyeReason, PageId, Rule, Time, Version};

impl Redirector {
    pub(crate) fn say_hello(&mut self, now: Time, at: At) {
        if self.nodes[at].session.up.is_over() {
            return;
        }
        self.stats.upstream_sessions += 1;
        let hello = self.nodes[at].session.up.open(now, self.id, GROUP);
        self.send_to(now, at, hello);
        self.resume_store(now, at);
    }

    pub(crate) fn hear_store(&mut self, now: Time, at: At, message: ToClient) {
        self.nodes[at].session.up.heard(now);
        self.nodes.hear_of(at, &message);
        match (self.nodes[at].session.up.phase(), message) {
            (Phase::Down | Phase::Over(_), _) | (Phase::Resuming | Phase::Live, ToClient::Pong(_)) => {}
            (_, ToClient::Goodbye(goodbye)) => self.goodbye(now, at, &goodbye),
            (Phase::Greeting, ToClient::Welcome(welcome)) => self.welcomed(now, at, welcome),
            (Phase::Resuming, ToClient::Resumed(resumed)) => self.upstream_resumed(now, at, &resumed),
            (Phase::Resuming, ToClient::Invalidations(invalidations)) => self.catch_up(now, at, &invalidations),
            (Phase::Live, ToClient::Invalidations(invalidations)) => self.invalidations(now, at, &invalidations),
            (Phase::Live, ToClient::Page(page)) => self.page(now, at, &page),
            (Phase::Live, ToClient::LeftOut(left_out)) => self.left_out(now, at, &left_out),
            (Phase::Live, ToClient::CommitReply(reply)) => self.commit_reply(now, at, reply),
            (Phase::Live, ToClient::Granted(granted)) => self.granted(now, at, granted),
            (Phase::Live, ToClient::Synced(synced)) => self.synced(now, at, synced),
            (Phase::Live, ToClient::Leased(leased)) => self.leased(now, at, leased),
            (Phase::Live, ToClient::Intent(intent)) => self.intent(now, at, &intent),
            (Phase::Live, ToClient::Elsewhere(elsewhere)) => self.elsewhere(at, elsewhere.page),
            (Phase::Resuming | Phase::Live, ToClient::Placement(placement)) => {
                if let Err(Goodbye { reason, text }) = self.placement(now, at, &placement) {
                    self.hang_up(now, at, reason, text);
                }
            }
            (Phase::Live, ToClient::Leader(leader)) => self.leader(now, &leader),
            (Phase::Live, ToClient::Revalidated(revalidated)) => self.revalidated(now, revalidated),
            (Phase::Resuming | Phase::Live, ToClient::Ping(ping)) => {
                self.send_to(now, at, Pong { nonce: ping.nonce });
            }
            (phase, _) => {
                let text = format!("a message that a store does not send to a redirector that is {phase:?}");
                self.hang_up(now, at, GoodbyeReason::Malformed, text);
            }
        }
    }

    fn welcomed(&mut self, now: Time, at: At, welcome: Welcome) {
        if let Err(Goodbye { reason, text }) = self.nodes[at].session.up.agrees(&welcome) {
            return self.over(now, at, reason, &text);
        }
        if self.nodes.are_several() && self.nodes[at].id != Some(welcome.node) {
            let text = format!("expected node {:?} at this address, got {}", self.nodes[at].id, welcome.node.0);
            return self.hang_up(now, at, GoodbyeReason::Done, text);
        }
        if welcome.features & GROUP == 0 {
            let text = "expected a store that takes groups, got one that does not";
            return self.over(now, at, GoodbyeReason::Protocol, text);
        }
        let session = &mut self.nodes[at].session;
        let life = session.up.life();
        if let Err(Goodbye { reason, text }) = session.up.continues(&welcome)
            && !self.config.broken.is(Rule::KnowLineage)
        {
            session.up.has_parted(&welcome);
            return self.begin_anew(now, at, reason, text);
        }
        let id = welcome.node;
        session.welcomed(welcome);
        let lives_anew = session.up.life() != life;
        self.nodes[at].id = Some(id);
        if lives_anew && at == self.nodes.coordinator() {
            self.welcome_again();
        }
    }

    /// The store is a copy of the one that we know, or that one in the place of a copy: the pages of our group are of
    /// another. The members find that out by themselves where they go.
    fn begin_anew(&mut self, now: Time, at: At, reason: GoodbyeReason, text: String) {
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason, text: text.clone() });
        }
        self.hang_up(now, at, reason, text.clone());
        if at != At::HOME {
            self.hang_up(now, At::HOME, reason, text);
        }
        let (config, stats) = (self.config.clone(), self.stats);
        let mut nodes = mem::replace(&mut self.nodes, Nodes::new(&config));
        for upstream in nodes.forget() {
            self.out.close(upstream);
        }
        let out = mem::take(&mut self.out);
        *self = Self { out, nodes, stats, ..Self::new(config, self.id) };
    }

    /// Tells the store the pages that the group holds. Everything that was told through our horizon has been passed on,
    /// so that is how much is known of each page. Pages that members which have not joined say that they bring are no
    /// part of it: they are compared in this session, and may be made up.
    fn resume_store(&mut self, now: Time, at: At) {
        let (horizon, places) = (self.nodes[at].horizon().counts.clone(), self.nodes.places());
        let is_there = |page: &PageId| places.of(*page) == at;
        let joined = self.members.all().into_iter().filter(|session| self.members.is_joined(*session));
        let held = joined.flat_map(|session| self.holders.pages(session));
        let mut pages: Vec<_> = held.chain(self.standby.pages()).filter(is_there).collect();
        pages.sort_unstable();
        pages.dedup();
        let pages: Vec<_> = pages.into_iter().map(|page| Held { page, version: Version::ZERO }).collect();
        let grants = self.grants.all(|page| is_there(&page));
        let missed = self.nodes[at].session.up.missed();
        for resume in Resume::split(&horizon, &pages, &grants, missed, &self.config.limits) {
            self.send_to(now, at, resume);
        }
    }

    /// A node knows again the pages that the group holds: messages that have waited for that go out.
    fn upstream_resumed(&mut self, now: Time, at: At, resumed: &Resumed) {
        self.nodes[at].session.up.joined(now);
        self.drop_pages(now, resumed.dropped.clone(), &resumed.through);
        self.nodes.heard_through(at, &resumed.through);
        if self.nodes.choose_coordinator() {
            self.welcome_again();
        }
        self.check_believed(now, at);
        self.resend_commits(now, at);
        self.refuse_idle();
        self.resend_revalidations(now, at);
        self.serve_grants_again(now);
        self.send_unsent(now);
        self.claim_at(now, at);
        self.ask_for_members(now, at);
        // A store that takes groups may have a lease for us.
        self.ping_store(now, at);
    }

    fn ping_store(&mut self, now: Time, at: At) {
        self.nodes[at].session.up.pinged(now);
        self.nodes[at].lease.has_pinged();
        self.send_to(now, at, Ping { nonce: now.0 });
        self.watch_leader(now, at);
    }

    fn goodbye(&mut self, now: Time, at: At, goodbye: &Goodbye) {
        if goodbye.reason == GoodbyeReason::Superseded && !self.config.group.is_empty() {
            // Another has taken the group over. The store drops the link, and we stand by on the next one.
            self.upstream_is_down(now, at);
            return self.superseded(now, &goodbye.text);
        }
        if goodbye.reason.is_final() {
            return self.over(now, at, goodbye.reason, &goodbye.text);
        }
        // The store drops the link after this, and our driver connects again.
        self.upstream_is_down(now, at);
    }

    /// There is nothing more to be had from the store: the members go elsewhere.
    fn over(&mut self, now: Time, at: At, reason: GoodbyeReason, text: &str) {
        self.upstream_is_down(now, at);
        self.send_all_away(now, &format!("the redirector has ended: {text}"));
        self.end_upstream(now, reason, text);
    }

    /// Ends the sessions with all nodes for good.
    fn end_upstream(&mut self, now: Time, reason: GoodbyeReason, text: &str) {
        for at in self.nodes.all() {
            self.nodes[at].session.up.end(text.into());
            self.upstream_is_down(now, at);
            self.out.hang_up(self.nodes[at].upstream, reason, text.into());
        }
    }

    /// Ends everything: the members go elsewhere, and the store lets another lead.
    pub fn close(&mut self, now: Time) {
        let text = "the redirector is closing down";
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason: GoodbyeReason::Done, text: text.into() });
        }
        self.end_upstream(now, GoodbyeReason::Done, text);
        self.out.closed();
    }

    /// A node is away: requests that any node can answer go to another.
    pub(crate) fn is_cut_off_from(&mut self, now: Time, at: At) {
        if !self.nodes.is_reached() || self.nodes[at].session.is_live() {
            return;
        }
        self.serve_grants(now);
        if self.leadership.epoch().is_none() {
            self.claim(now);
        }
    }

    /// When something is due on the sessions with the nodes.
    pub(crate) fn upstream_due(&self) -> Option<Time> {
        let sessions = self.nodes.all().filter_map(|at| self.nodes[at].next_due());
        sessions.chain(self.next_given_up()).min()
    }

    /// Time has passed for the sessions with the nodes.
    pub(crate) fn upstream_timeout(&mut self, now: Time) {
        for at in self.nodes.all() {
            self.send_due(now, at);
            match self.nodes[at].overdue(now) {
                Some(Overdue::Silence(Goodbye { reason, text })) => self.hang_up(now, at, reason, text),
                Some(Overdue::Ping) => self.ping_store(now, at),
                None => {}
            }
        }
        self.give_up_nodes(now);
        if self.cut_off_at().is_some_and(|at| at <= now) {
            let text =
                format!("the redirector has not reached its store, or does not lead, for {:?}", self.config.silence);
            self.members.tell_group(&self.config.group, &mut self.out);
            self.send_all_away(now, &text);
            self.leadership.look_no_longer();
            self.nodes.wait_from(now);
        }
    }
}
