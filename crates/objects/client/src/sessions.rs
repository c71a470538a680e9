//! The course of the sessions: the messages that go out when one begins and when it resumes, and what is given up when
//! it ends.
//!
//! 1. The horizon moves only in `Live`. Between `Down` and `Resumed` there are changes that the client does not know.
//! 2. A request made while the session is not live waits for it, and goes out when it is. Only a client that knows
//!    nothing yet, so that there is nothing to compare, asks for a first page right behind its hello.
//! 3. The pages that we hold are told right behind the hello, and not only when we are welcome: that would be a round
//!    trip more.
//! 4. A node learns only of the pages of its shards, and its messages concern nothing else.

use crate::commit::Resend;
use crate::session::Brought;
use crate::{Client, TxnError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{AskOutcome, At, GROUP, Held, Outcome, Overdue, Resume, Resumed, SEVERAL, Welcome};
use types::{GoodbyeReason, Rule, Time, Vector};

impl Client {
    pub(crate) fn say_hello(&mut self, now: Time, at: At) {
        self.stats.sessions += 1;
        let hello = self.nodes[at].session.up.open(now, self.id, 0);
        self.send(now, at, hello);
        self.resume(now, at);
        if self.nodes[at].session.brought == Brought::Nothing {
            self.fetch_first(now, at);
        }
    }

    pub(crate) fn welcome(&mut self, at: At, welcome: &Welcome) -> Result<(), Goodbye> {
        let node = &mut self.nodes[at];
        if let Err(why) = node.session.up.agrees(welcome) {
            if why.reason == GoodbyeReason::WrongCluster {
                self.forget_the_store(at);
            }
            return Err(why);
        }
        let is_redirector = welcome.features & GROUP != 0;
        if is_redirector && at != At::HOME {
            return Err(Goodbye::malformed("expected a node of the store, got a redirector".into()));
        }
        if is_redirector && self.nodes.are_several() {
            return Err(self.go_through_redirector());
        }
        if self.nodes.are_several() && self.nodes[at].id != Some(welcome.node) {
            let text = format!("expected node {:?} at this address, got {}", self.nodes[at].id, welcome.node.0);
            return Err(Goodbye { reason: GoodbyeReason::Done, text });
        }
        self.know_store(at, welcome)?;
        let node = &mut self.nodes[at];
        node.id = Some(welcome.node);
        node.session.up.welcomed(welcome);
        node.session.is_of_several = welcome.features & SEVERAL != 0;
        if at == At::HOME {
            self.group.join(is_redirector);
        }
        if self.config.broken.is(Rule::ResumeBeforeHorizon) {
            self.nodes[at].session.up.heard_through(&welcome.through);
            self.nodes.forget_horizon();
        }
        Ok(())
    }

    /// Learns that its redirector has reached the store in another life, which sends the messages that follow.
    pub(crate) fn store_lives_anew(&mut self, welcome: &Welcome) -> Result<(), Goodbye> {
        self.know_store(At::HOME, welcome)?;
        let home = &mut self.nodes[At::HOME];
        home.id = Some(welcome.node);
        home.session.up.learn(welcome);
        Ok(())
    }

    /// Everything goes through the redirector from now on, which knows only the pages of one node. So the session
    /// begins again, with everything.
    fn go_through_redirector(&mut self) -> Goodbye {
        for at in self.nodes.all().skip(1) {
            self.session_is_down(at);
        }
        let mut under_way = Vec::new();
        for at in self.nodes.all().skip(1) {
            under_way.extend(self.nodes[at].fetches.take_strays(|_| false));
        }
        for (page, under_way) in under_way {
            self.nodes[At::HOME].fetches.take_in(page, under_way);
        }
        self.nodes.gather_counts(|node| &mut node.session.up);
        self.forget_others();
        self.nodes[At::HOME].address.clear();
        self.commits.take_ways(|_| Some(At::HOME));
        self.group.come_again();
        Goodbye { reason: GoodbyeReason::Done, text: "a redirector answers: all pages are to be compared there".into() }
    }

    /// Our knowledge must be of this store, and of no copy that has parted from it since. If it is not, we forget it,
    /// and the session ends: the next one begins with nothing. Only a redirector that is in a life of the store which
    /// we know to be over has not learned of the store's restart yet: we forget nothing, and go elsewhere until it has.
    fn know_store(&mut self, at: At, welcome: &Welcome) -> Result<(), Goodbye> {
        let is_of_redirector = welcome.features & GROUP != 0;
        let known = self.incarnations.of(welcome.node);
        let session = &mut self.nodes[at].session;
        if let Err(Goodbye { reason, mut text }) = session.up.continues(welcome)
            && welcome.features & SEVERAL == 0
            && !self.config.broken.is(Rule::KnowLineage)
        {
            let lineage = session.up.lineage();
            if is_of_redirector && welcome.lineage.current().is_some_and(|life| lineage.knows(life)) {
                text = "expected a redirector that has heard of the store's last restart, got one that has not".into();
                self.group.leave();
            } else if welcome.incarnation > known {
                session.up.has_parted(welcome);
                for txn in self.commits.void(at) {
                    self.txns.decide(txn, Ok(Outcome::NO_EFFECT), &mut self.out);
                }
                self.forget_pages(at);
            } else {
                session.up.has_parted(welcome);
                self.forget_node(at);
            }
            return Err(Goodbye { reason, text });
        }
        self.incarnations.raise(welcome.node, welcome.incarnation);
        Ok(())
    }

    /// Tells the node which of its pages we still hold.
    fn resume(&mut self, now: Time, at: At) {
        self.gone = Vector::new();
        let frozen = self.frozen_pages();
        let places = self.nodes.places();
        let of_frame = |(page, frame): (_, &cache::Frame)| Held { page, version: frame.version() };
        let (mut pages, mut kept) = (Vec::new(), Vec::new());
        pages.extend(self.cache.frames().map(of_frame).filter(|held| places.of(held.page) == at));
        kept.extend(frozen.into_iter().filter(|held| places.of(held.page) == at));
        pages.extend(&kept);
        pages.sort_unstable_by_key(|held| held.page);
        pages.dedup_by_key(|held| held.page);
        let grants = self.unfilled_grants(at);
        let session = &mut self.nodes[at].session;
        session.released.clear();
        session.keep_only(kept.iter().map(|held| held.page));
        let brings_nothing = pages.is_empty() && grants.is_empty() && session.up.named() == Vector::new();
        let may_fetch = brings_nothing || self.config.broken.is(Rule::JoinBeforeFetch);
        session.brought = if may_fetch { Brought::Nothing } else { Brought::Something };
        let missed = session.up.missed();
        for resume in Resume::split(session.horizon().counts, &pages, &grants, missed, &self.config.limits) {
            self.send(now, at, resume);
        }
    }

    pub(crate) fn resumed(&mut self, now: Time, at: At, resumed: Resumed) -> Result<(), Goodbye> {
        for page in resumed.dropped {
            self.drop_page(page);
            self.lose_grant(page);
        }
        // The node has compared only the pages that were here.
        self.gone = Vector::new();
        self.nodes[at].session.up.joined(now);
        if at == At::HOME {
            self.group.arrive();
        }
        self.heard_through(now, at, &resumed.through)?;
        if at == At::HOME {
            self.say_reachable(now);
            self.find_leader(now);
            self.look_again(now);
        }
        let most = self.nodes[at].session.up.limits().commits;
        for resend in self.commits.resume(at, most, &self.incarnations, self.config.broken) {
            match resend {
                Resend::Request(request) => self.send(now, at, request),
                Resend::Ask(txn) => self.send(now, at, AskOutcome { txn }),
            }
        }
        self.refuse_idle();
        self.ask_for_grants(now);
        self.send_fetches(now, at);
        self.wake_untold();
        Ok(())
    }

    /// Drops pages whose changes are unknown, as the redirector was away from its store for too long.
    pub(crate) fn lose_pages(&mut self, now: Time, resumed: Resumed) -> Result<(), Goodbye> {
        for page in resumed.dropped {
            self.drop_page(page);
            self.lose_grant(page);
            let home = &mut self.nodes[At::HOME];
            home.fetches.begin_again(page);
            home.session.release(now, page);
        }
        self.heard_through(now, At::HOME, &resumed.through)?;
        self.send_fetches(now, At::HOME);
        Ok(())
    }

    /// The node has ended the session.
    pub(crate) fn goodbye(&mut self, at: At, goodbye: Goodbye) -> Result<(), Goodbye> {
        if goodbye.reason == GoodbyeReason::WrongCluster {
            self.forget_the_store(at);
        }
        // A redirector without room for what we want committed is where we come back to, and is not to be taken over.
        if at == At::HOME && (goodbye.reason != GoodbyeReason::NoRoom || self.config.broken.is(Rule::ComeBack)) {
            self.group.leave();
        }
        if !goodbye.reason.is_final() {
            // The store drops the link after this, and our driver connects again.
            self.session_is_down(at);
            return Ok(());
        }
        let error = TxnError::Refused(goodbye.reason, goodbye.text.clone());
        self.nodes[at].session.up.end(error.clone());
        for txn in self.txns.waiting() {
            if at == At::HOME || self.nodes[at].fetches.is_awaited_by(txn) {
                self.give_up(txn, &error);
            }
        }
        Err(goodbye)
    }

    /// The store of this process has stopped for good: no call is answered from now on. A commit that it was asked for
    /// may have become durable before; the transaction that waits for one hears that its outcome is unknown.
    pub(crate) fn store_stopped(&mut self, why: String) {
        self.session_is_down(At::HOME);
        let error = TxnError::Stopped(why);
        self.nodes[At::HOME].session.up.end(error.clone());
        let all: Vec<_> = self.txns.all().map(|(handle, _)| handle).collect();
        for txn in all {
            self.give_up(txn, &error);
        }
    }

    /// Begins again with nothing: another store answers at this node's address.
    fn forget_the_store(&mut self, at: At) {
        self.forget_node(at);
        if at == At::HOME && self.nodes.are_several() {
            for other in self.nodes.all().skip(1) {
                self.session_is_down(other);
                self.forget_node(other);
            }
            self.forget_others();
        }
    }

    /// Forgets the pages of a node, and its commits.
    fn forget_node(&mut self, at: At) {
        for txn in self.commits.forget(at) {
            self.txns.decide(txn, Ok(Outcome::Unknown), &mut self.out);
        }
        self.forget_pages(at);
    }

    /// Forgets the pages of a node. The outcomes of commits can still be asked for.
    fn forget_pages(&mut self, at: At) {
        let places = self.nodes.places();
        let is_there = |page: &_| places.of(*page) == at;
        let pages: Vec<_> = self.cache.frames().map(|(page, _)| page).filter(is_there).collect();
        self.allocator.forget(is_there);
        for page in pages {
            self.drop_page(page);
        }
        self.gone = Vector::new();
        self.txns.forget_store(&mut self.out);
        let session = &mut self.nodes[at].session;
        session.up.forget_store();
        session.told = Vector::new();
        if let Some(node) = self.nodes[at].id {
            self.incarnations.forget(node);
        }
        self.nodes.forget_horizon();
    }

    /// Time has passed for the session with a node.
    pub(crate) fn session_timeout(&mut self, now: Time, at: At) {
        self.send_due(now, at);
        let session = &self.nodes[at].session;
        let ping_at = session.ping_at();
        match session.up.overdue(now, ping_at) {
            Some(Overdue::Silence(why)) => {
                if at == At::HOME && (ping_at.is_none() || session.up.has_pinged(now)) {
                    self.group.leave_silent(now);
                }
                self.hang_up(at, why);
            }
            Some(Overdue::Ping) => self.ping(now, at),
            None => {}
        }
    }
}
