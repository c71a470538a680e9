//! The course of the session with the store: hello, resume, heartbeat, end. How far it is and what is due on it is
//! decided in [`messages::upstream`], as for a client's.
//!
//! A redirector that cannot reach the store for too long sends its members away: they may reach it in another way.

use crate::Redirector;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{GROUP, Held, Overdue, Phase, Ping, Pong, Resume, Resumed, ToClient, Welcome};
use types::{GoodbyeReason, PageId, Rule, SessionId, Time, Version};

impl Redirector {
    pub(crate) fn say_hello(&mut self, now: Time) {
        if self.upstream.up.is_over() {
            return;
        }
        self.stats.upstream_sessions += 1;
        let hello = self.upstream.up.open(now, self.id, GROUP);
        self.send_to_store(now, hello);
        self.resume_store(now);
    }

    pub(crate) fn hear_store(&mut self, now: Time, message: ToClient) {
        self.upstream.up.heard(now);
        self.upstream.up.hear_of(&message.newest_named(self.upstream.up.sharding()));
        match (self.upstream.up.phase(), message) {
            (Phase::Down | Phase::Over(_), _) | (Phase::Resuming | Phase::Live, ToClient::Pong(_)) => {}
            (_, ToClient::Goodbye(goodbye)) => self.goodbye(now, goodbye),
            (Phase::Greeting, ToClient::Welcome(welcome)) => self.welcomed(now, welcome),
            (Phase::Resuming, ToClient::Resumed(resumed)) => self.upstream_resumed(now, &resumed),
            (Phase::Resuming, ToClient::Invalidations(invalidations)) => self.catch_up(now, &invalidations),
            (Phase::Live, ToClient::Invalidations(invalidations)) => self.invalidations(now, &invalidations),
            (Phase::Live, ToClient::Page(page)) => self.page(now, &page),
            (Phase::Live, ToClient::LeftOut(left_out)) => self.left_out(now, &left_out),
            (Phase::Live, ToClient::CommitReply(reply)) => self.commit_reply(now, reply),
            (Phase::Live, ToClient::Granted(granted)) => self.granted(now, granted),
            (Phase::Live, ToClient::Leased(leased)) => self.leased(now, leased),
            (Phase::Live, ToClient::Intent(intent)) => self.intent(now, &intent),
            (Phase::Live, ToClient::Leader(leader)) => self.leader(now, &leader),
            (Phase::Live, ToClient::Revalidated(revalidated)) => self.revalidated(now, revalidated),
            (Phase::Resuming | Phase::Live, ToClient::Ping(ping)) => {
                self.send_to_store(now, Pong { nonce: ping.nonce });
            }
            (phase, _) => {
                let text = format!("a message that a store does not send to a redirector that is {phase:?}");
                self.hang_up(now, GoodbyeReason::Malformed, text);
            }
        }
    }

    fn welcomed(&mut self, now: Time, welcome: Welcome) {
        if let Err(Goodbye { reason, text }) = self.upstream.up.agrees(&welcome) {
            return self.over(now, reason, text);
        }
        if welcome.features & GROUP == 0 {
            let text = "expected a store that takes groups, got one that does not".into();
            return self.over(now, GoodbyeReason::Protocol, text);
        }
        let life = self.upstream.up.life();
        if let Err(Goodbye { reason, text }) = self.upstream.up.continues(&welcome)
            && !self.config.broken.is(Rule::KnowLineage)
        {
            self.upstream.up.has_parted(&welcome);
            return self.begin_anew(now, reason, text);
        }
        self.upstream.welcomed(welcome);
        if self.upstream.up.life() != life {
            self.welcome_again();
        }
    }

    /// The store is a copy of the one that we know, or that one in the place of a copy: the pages of our group are of
    /// another. The members find that out by themselves where they go.
    fn begin_anew(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason, text: text.clone() });
        }
        self.hang_up(now, reason, text);
        let (config, out, stats) = (self.config.clone(), mem::take(&mut self.out), self.stats);
        let mut up = mem::take(&mut self.upstream.up);
        up.forget_store();
        *self = Self { out, stats, ..Self::new(config, self.id) };
        self.upstream.up = up;
    }

    /// Tells the store the pages that the group holds. Everything that was told through our horizon has been passed on,
    /// so that is how much is known of each page. Pages that members which have not joined say that they bring are no
    /// part of it: they are compared in this session, and may be made up.
    fn resume_store(&mut self, now: Time) {
        let horizon = self.upstream.horizon().counts.clone();
        let joined = self.members.all().into_iter().filter(|session| self.members.is_joined(*session));
        let held = joined.flat_map(|session| self.holders.pages(session));
        let mut pages: Vec<_> = held.chain(self.standby.pages()).collect();
        pages.sort_unstable();
        pages.dedup();
        let pages: Vec<_> = pages.into_iter().map(|page| Held { page, version: Version::ZERO }).collect();
        let grants = self.grants.all();
        for resume in Resume::split(&horizon, &pages, &grants, self.upstream.up.missed(), &self.config.limits) {
            self.send_to_store(now, resume);
        }
    }

    /// The store knows again the pages that the group holds: messages that have waited for that go out.
    fn upstream_resumed(&mut self, now: Time, resumed: &Resumed) {
        self.upstream.up.joined(now);
        self.drop_pages(now, resumed);
        self.upstream.heard_through(&resumed.through);
        self.resend_commits(now);
        self.resend_revalidations(now);
        self.serve_grants(now);
        self.send_unsent(now);
        self.claim(now);
        // A store that takes groups may have a lease for us.
        self.ping_store(now);
    }

    fn ping_store(&mut self, now: Time) {
        self.upstream.up.pinged(now);
        self.lease.has_pinged();
        self.send_to_store(now, Ping { nonce: now.0 });
        self.watch_leader(now);
    }

    /// Pages have changed in ways that nobody knows slot by slot: their holders drop them, and say so by a release.
    /// Only then may it hear that the horizon has moved.
    fn drop_pages(&mut self, now: Time, resumed: &Resumed) {
        let mut by_member: BTreeMap<SessionId, Vec<PageId>> = BTreeMap::new();
        for &page in &resumed.dropped {
            self.standby.remove(page);
            self.grants.lose(page);
            self.holders.unlist_all_whole(page);
            // Those that are not compared yet are compared again.
            for &holder in self.holders.of(page).iter().filter(|holder| self.members.is_joined(**holder)) {
                if !self.config.broken.is(Rule::TellDropped) {
                    by_member.entry(holder).or_default().push(page);
                }
            }
            self.release_if_unheld(now, page);
        }
        for (session, dropped) in by_member {
            for &page in &dropped {
                // Should it wait for the page, it asks again: the copy on its way may be as old.
                self.forget_want(session, page);
            }
            self.reply(session, Resumed { through: resumed.through.clone(), dropped });
            self.members.streams.resume(session, &resumed.through);
        }
    }

    fn goodbye(&mut self, now: Time, goodbye: Goodbye) {
        if goodbye.reason == GoodbyeReason::Superseded && !self.config.group.is_empty() {
            // Another has taken the group over. The store drops the link, and we stand by on the next one.
            self.upstream_is_down(now);
            return self.superseded(now, &goodbye.text);
        }
        if goodbye.reason.is_final() {
            return self.over(now, goodbye.reason, goodbye.text);
        }
        // The store drops the link after this, and our driver connects again.
        self.upstream_is_down(now);
    }

    /// There is nothing more to be had from the store: the members go elsewhere.
    fn over(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        self.upstream_is_down(now);
        self.upstream.up.end(text.clone());
        self.send_all_away(now, &format!("the redirector has ended: {text}"));
        self.out.hang_up(reason, text);
    }

    /// Ends everything: the members go elsewhere, and the store lets another lead.
    pub fn close(&mut self, now: Time) {
        let text = "the redirector is closing down";
        for session in self.members.all() {
            self.end(now, session, Goodbye { reason: GoodbyeReason::Done, text: text.into() });
        }
        self.upstream_is_down(now);
        self.upstream.up.end(text.into());
        self.out.hang_up(GoodbyeReason::Done, text.into());
        self.out.closed();
    }

    /// When the next heartbeat is due, for the session or for the lease.
    pub(crate) fn ping_at(&self) -> Time {
        let for_session = self.upstream.up.ping_at();
        self.lease.renew_at().map_or(for_session, |at| at.min(for_session))
    }

    /// The same, if pings are sent: the store compares the group's pages at once, so they begin when it has.
    fn pings_at(&self) -> Option<Time> {
        self.upstream.is_live().then(|| self.ping_at())
    }

    /// When something is due on the session with the store.
    pub(crate) fn upstream_due(&self) -> Option<Time> {
        self.upstream.up.next_due(self.pings_at())
    }

    /// Time has passed for the session with the store.
    pub(crate) fn upstream_timeout(&mut self, now: Time) {
        self.send_due(now);
        match self.upstream.up.overdue(now, self.pings_at()) {
            Some(Overdue::Silence(Goodbye { reason, text })) => self.hang_up(now, reason, text),
            Some(Overdue::Ping) => self.ping_store(now),
            None => {}
        }
        if self.cut_off_at().is_some_and(|at| at <= now) {
            let text =
                format!("the redirector has not reached its store, or does not lead, for {:?}", self.config.silence);
            self.members.tell_group(&self.config.group, &mut self.out);
            self.send_all_away(now, &text);
            self.leadership.look_no_longer();
            self.upstream.wait_from(now);
        }
    }
}
