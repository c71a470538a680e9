//! The session with the store: the messages that go out when it begins and when it resumes, and the state that is given
//! up when it ends. How far it is and what is due on it is decided in [`messages::upstream`].
//!
//! 1. The horizon moves only in `Live`. Between `Down` and `Resumed` there are changes that nobody has told us.
//! 2. A request made while the session is not live waits for it, and goes out when it is. Only a client that knows
//!    nothing yet, so that there is nothing to compare, asks for a first page right behind its hello.
//! 3. The pages that we hold are told right behind the hello, and not only when we are welcome: that would be a round
//!    trip more.

use crate::commit::{NO_EFFECT, Resend};
use crate::{Client, TxnError};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{Ack, AskOutcome, GROUP, Held, Outcome, Overdue, Phase, Resume, Resumed, Upstream, Welcome};
use types::{GoodbyeReason, Horizon, Incarnation, PageId, Rule, Shard, Time, Vector};

/// The state that a session has begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brought {
    /// No page, no grant, and nothing learned of: there is nothing to be compared.
    Nothing,
    Something,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// How far it is, and what is known of the store.
    pub(crate) up: Upstream<TxnError>,
    /// The latest changes in any batch. Those beyond the horizon came with a batch that was cut, and more will follow.
    pub(crate) told: Vector,
    brought: Brought,
    /// Of the store: the latest that we have learned of.
    pub(crate) incarnation: Incarnation,
    ack_is_due: bool,
    /// Pages that have left, as far as the store was not told.
    pub(crate) released: Vec<PageId>,
    /// Pages that have left and that the store continues listing for us, for the reads of running transactions.
    kept: BTreeSet<PageId>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            up: Upstream::default(),
            told: Vector::new(),
            brought: Brought::Something,
            incarnation: Incarnation(0),
            ack_is_due: false,
            released: Vec::new(),
            kept: BTreeSet::new(),
        }
    }

    /// We have learned of every change through here to what we hold.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        self.up.horizon()
    }

    /// The horizon moves, and the store learns of that soon; says whether it does.
    pub(crate) fn heard_through(&mut self, now: Time, through: &Vector) -> bool {
        let moves = self.up.heard_through(through);
        if moves {
            self.ack_is_due = true;
            self.up.piggyback_by(now);
        }
        moves
    }

    /// With [`types::Rule::OwnHorizon`] taken out: the horizon moves to the highest of these counts in all shards.
    pub(crate) fn level_horizon(&mut self, through: &Vector) {
        let highest = through.counts().iter().map(|&(_, count)| count).max().unwrap_or_default();
        let mut level = Vector::new();
        for shard in 0..self.up.sharding().shards().get() {
            level.raise(Shard(shard), highest);
        }
        self.up.heard_through(&level);
    }

    /// The acknowledgement that is due.
    pub(crate) fn take_ack(&mut self) -> Option<Ack> {
        mem::take(&mut self.ack_is_due).then(|| Ack { through: self.horizon().counts.clone() })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.up.is_live()
    }

    /// Whether pages may be asked for. A client that brings nothing to be compared has joined with its last resume,
    /// wherever that is on its way; until the session says how much may be asked for, that is one page.
    pub(crate) fn may_fetch(&self) -> bool {
        self.is_live() || (self.brought == Brought::Nothing && self.up.is_up())
    }

    /// The error of a call that needs a store, if there will never be one.
    pub(crate) fn check(&self) -> Result<(), TxnError> {
        match self.up.phase() {
            Phase::Over(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The page has left the cache, and the store should continue listing it for us.
    pub(crate) fn keep(&mut self, page: PageId) {
        self.kept.insert(page);
    }

    /// Whether the store lists the page for us although it has left the cache.
    pub(crate) fn keeps(&self, page: PageId) -> bool {
        self.kept.contains(&page)
    }

    /// The store does not list the page for us.
    pub(crate) fn is_unlisted(&mut self, page: PageId) {
        self.kept.remove(&page);
    }

    /// The store lists, of the pages that have left, these for us.
    pub(crate) fn keep_only(&mut self, pages: impl Iterator<Item = PageId>) {
        self.kept = pages.collect();
    }

    /// The page has left: the store is told soon.
    pub(crate) fn release(&mut self, now: Time, page: PageId) {
        self.kept.remove(&page);
        self.released.push(page);
        self.up.piggyback_by(now);
    }

    /// Releases may have waited for a grant, which has come.
    pub(crate) fn releases_may_go(&mut self, now: Time) {
        if !self.released.is_empty() {
            self.up.piggyback_by(now);
        }
    }

    /// When the other end is told that we live. The comparison of our pages may take longer than we may be silent: a
    /// redirector asks its store, which may be far away and its line busy.
    fn ping_at(&self) -> Option<Time> {
        let pings = matches!(self.up.phase(), Phase::Resuming | Phase::Live);
        pings.then(|| self.up.ping_at())
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.up.next_due(self.ping_at())
    }
}

impl Client {
    pub(crate) fn say_hello(&mut self, now: Time) {
        self.stats.sessions += 1;
        let hello = self.session.up.open(now, self.id, 0);
        self.send(now, hello);
        self.resume(now);
        if self.session.brought == Brought::Nothing {
            self.fetch_first(now);
        }
    }

    pub(crate) fn welcome(&mut self, welcome: &Welcome) -> Result<(), Goodbye> {
        if let Err(why) = self.session.up.agrees(welcome) {
            if why.reason == GoodbyeReason::WrongCluster {
                self.forget_the_store();
            }
            return Err(why);
        }
        self.know_store(welcome)?;
        self.session.up.welcomed(welcome);
        self.group.join(welcome.features & GROUP != 0);
        if self.config.broken.is(Rule::ResumeBeforeHorizon) {
            self.session.up.heard_through(&welcome.through);
        }
        Ok(())
    }

    /// Its redirector has reached the store in another life: the messages that follow are of that one.
    pub(crate) fn store_lives_anew(&mut self, welcome: &Welcome) -> Result<(), Goodbye> {
        self.know_store(welcome)?;
        self.session.up.learn(welcome);
        Ok(())
    }

    /// Our knowledge must be of this store, and of no copy that has parted from it since. If it is not, we forget it,
    /// and the session ends: the next one begins with nothing. Only a redirector that is in a life of the store which
    /// we know to be over has not learned of the store's restart yet: we forget nothing, and go elsewhere until it has.
    fn know_store(&mut self, welcome: &Welcome) -> Result<(), Goodbye> {
        if let Err(Goodbye { reason, mut text }) = self.session.up.continues(welcome)
            && !self.config.broken.is(Rule::KnowLineage)
        {
            let is_of_redirector = welcome.features & GROUP != 0;
            let lineage = self.session.up.lineage();
            if is_of_redirector && welcome.lineage.current().is_some_and(|life| lineage.knows(life)) {
                text = "expected a redirector that has heard of the store's last restart, got one that has not".into();
                self.group.leave();
            } else if welcome.incarnation > self.session.incarnation {
                self.session.up.has_parted(welcome);
                for txn in self.commits.void() {
                    self.txns.decide(txn, Ok(NO_EFFECT), &mut self.out);
                }
                self.forget_pages();
            } else {
                self.session.up.has_parted(welcome);
                self.forget_the_store();
            }
            return Err(Goodbye { reason, text });
        }
        self.session.incarnation = self.session.incarnation.max(welcome.incarnation);
        Ok(())
    }

    /// Tells the store the pages that we still hold.
    fn resume(&mut self, now: Time) {
        self.session.released.clear();
        let mut pages: Vec<_> = self.cache.frames().map(|(page, f)| Held { page, version: f.version() }).collect();
        let frozen = self.frozen_pages();
        self.session.keep_only(frozen.iter().map(|held| held.page));
        pages.extend(frozen);
        pages.sort_unstable_by_key(|held| held.page);
        pages.dedup_by_key(|held| held.page);
        let grants = self.unfilled_grants();
        let brings_nothing = pages.is_empty() && grants.is_empty() && self.session.up.named() == Vector::new();
        let may_fetch = brings_nothing || self.config.broken.is(Rule::JoinBeforeFetch);
        self.session.brought = if may_fetch { Brought::Nothing } else { Brought::Something };
        let missed = self.session.up.missed();
        for resume in Resume::split(self.session.horizon().counts, &pages, &grants, missed, &self.config.limits) {
            self.send(now, resume);
        }
    }

    pub(crate) fn resumed(&mut self, now: Time, resumed: Resumed) -> Result<(), Goodbye> {
        for page in resumed.dropped {
            self.drop_page(page);
            self.lose_grant(page);
        }
        self.session.up.joined(now);
        self.group.arrive();
        self.heard_through(now, &resumed.through)?;
        self.say_reachable(now);
        self.find_leader(now);
        self.look_again(now);
        let most = self.session.up.limits().commits;
        for resend in self.commits.resume(most, self.session.incarnation, self.config.broken) {
            match resend {
                Resend::Request(request) => self.send(now, request),
                Resend::Ask(txn) => self.send(now, AskOutcome { txn }),
            }
        }
        self.ask_for_grants(now);
        self.send_fetches(now);
        Ok(())
    }

    /// The redirector was away from its store for this long that nobody knows the changes of these pages.
    pub(crate) fn lose_pages(&mut self, now: Time, resumed: Resumed) -> Result<(), Goodbye> {
        for page in resumed.dropped {
            self.drop_page(page);
            self.lose_grant(page);
            self.fetches.begin_again(page);
            self.session.release(now, page);
        }
        self.heard_through(now, &resumed.through)?;
        self.send_fetches(now);
        Ok(())
    }

    /// The store has ended the session.
    pub(crate) fn goodbye(&mut self, goodbye: Goodbye) -> Result<(), Goodbye> {
        if goodbye.reason == GoodbyeReason::WrongCluster {
            self.forget_the_store();
        }
        // A redirector without room for what we want committed is where we come back to, and is not to be taken over.
        if goodbye.reason != GoodbyeReason::NoRoom || self.config.broken.is(Rule::ComeBack) {
            self.group.leave();
        }
        if !goodbye.reason.is_final() {
            // The store drops the link after this, and our driver connects again.
            self.session_is_down();
            return Ok(());
        }
        let error = TxnError::Refused(goodbye.reason, goodbye.text.clone());
        self.session.up.end(error.clone());
        for txn in self.txns.waiting() {
            self.give_up(txn, &error);
        }
        Err(goodbye)
    }

    /// The store of this process has stopped for good: no call is answered from now on. A commit that it was asked for
    /// may have become durable before; the transaction that waits for one hears that its outcome is unknown.
    pub(crate) fn store_stopped(&mut self, why: String) {
        self.session_is_down();
        let error = TxnError::Stopped(why);
        self.session.up.end(error.clone());
        let all: Vec<_> = self.txns.all().map(|(handle, _)| handle).collect();
        for txn in all {
            self.give_up(txn, &error);
        }
    }

    /// Everything here is of another store: begins again with nothing.
    fn forget_the_store(&mut self) {
        for txn in self.commits.forget() {
            self.txns.decide(txn, Ok(Outcome::Unknown), &mut self.out);
        }
        self.forget_pages();
    }

    /// The same, but for commits whose outcome can still be had.
    fn forget_pages(&mut self) {
        let pages: Vec<_> = self.cache.frames().map(|(page, _)| page).collect();
        for page in pages {
            self.drop_page(page);
        }
        self.txns.forget_store(&mut self.out);
        self.session.up.forget_store();
        (self.session.told, self.session.incarnation) = (Vector::new(), Incarnation(0));
        self.allocator.forget();
    }

    /// Time has passed for the session.
    pub(crate) fn session_timeout(&mut self, now: Time) {
        self.send_due(now);
        let ping_at = self.session.ping_at();
        match self.session.up.overdue(now, ping_at) {
            Some(Overdue::Silence(why)) => {
                if ping_at.is_none() || self.session.up.has_pinged(now) {
                    self.group.leave_silent(now);
                }
                self.hang_up(why);
            }
            Some(Overdue::Ping) => self.ping(now),
            None => {}
        }
    }
}
