//! Whether the served revision is the newest, and the visitors who wait for the newest.

use super::{Member, Opened, READY, RETRY_AFTER};
use crate::number::Number;
use crate::rule::Way;
use core::mem;
use machine::Output;
use types::Time;

/// The state of the served revision: whether it is known to be the newest.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The end of the last lease under which the served revision was the newest, once there is a newer one, or may be
    /// one without a message.
    pub(super) frozen: Option<Time>,
    /// The revision that was last acquired.
    pub(super) acquired: Option<Acquired>,
    /// The newest revision of which it was told no more than the number.
    pub(super) invalidated: Number,
    /// Whether a visitor waits for the newest revision.
    pub(super) is_wanted: bool,
    /// When the newest revision may be asked for again, after the last one could not be fetched.
    pub(super) asks_at: Option<Time>,
    pub(super) demand: Demand,
}

/// The reads at a member, as far as they say whether revisions should be pushed to it.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Revisions that were offered since the last visitor came.
    unread: u32,
    /// Whether it asks for the newest revision instead of being offered each.
    pub(super) is_idle: bool,
    /// The last revision that it has asked for, and how many of the last ones followed closely on each other.
    last: u64,
    close: u32,
}

/// Questions for the newest revision, with fewer than two publishes between them, after which a member is offered each
/// again: asking costs two messages, an offer one.
const CLOSE_QUESTIONS: u32 = 3;

impl Demand {
    /// A visitor comes.
    pub(super) fn visited(&mut self) {
        self.unread = 0;
    }

    /// A revision was pushed. Returns whether too many were before it without a visitor.
    pub(super) fn offered(&mut self, idle_after: Option<u32>) -> bool {
        self.unread += 1;
        let is_idle = idle_after.is_some_and(|most| self.unread > most);
        if is_idle {
            (self.is_idle, self.close) = (true, 0);
        }
        is_idle
    }

    /// The newest revision was asked for, and is this one.
    pub(super) fn asked(&mut self, number: Number) {
        self.close = if number.count < self.last.saturating_add(2) { self.close + 1 } else { 0 };
        self.last = number.count;
    }

    /// Whether the next question asks for each later revision.
    pub(super) fn is_frequent(&self) -> bool {
        !self.is_idle || self.close >= CLOSE_QUESTIONS
    }
}

/// A revision that was the newest after it had been asked for, and when the lease ends under which it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acquired {
    pub(super) number: Number,
    asked: Time,
    until: Time,
}

impl Member {
    /// Whether a visitor who comes now is answered at once.
    pub fn is_ready(&self, now: Time) -> bool {
        self.kept.current().is_some() && (!self.may_wait() || self.is_sure(now, now))
    }

    /// Whether visitors may have to wait for the newest revision.
    pub(super) fn may_wait(&self) -> bool {
        self.is_lazy() && self.is_up && self.taker.is_joined()
    }

    /// Whether the newest revision is fetched only for a reader.
    pub fn is_lazy(&self) -> bool {
        self.consistency().is_lazy() || self.freshness.demand.is_idle
    }

    /// Asks for the newest revision, for a visitor who waits since then.
    pub(super) fn later(&mut self, now: Time, since: Time) -> Opened {
        (self.now, self.freshness.is_wanted) = (now, true);
        self.pump();
        Opened::Later(since)
    }

    /// Whether the revision that is served is the newest, or was so after this time.
    pub(super) fn is_sure(&self, now: Time, since: Time) -> bool {
        let shares = self.taker.shares(now) || self.is_broken(Way::ServeReleased) && self.taker.is_leased(now);
        let is_it = |it: Acquired| it.number == self.current_number() && since <= it.asked && now < it.until;
        shares && self.kept.current() == self.newest || self.freshness.acquired.is_some_and(is_it)
    }

    /// When the last lease ends under which the revision that is served was the newest.
    pub(super) fn fresh_until(&self) -> Time {
        self.freshness.frozen.unwrap_or(self.taker.until())
    }

    /// The oldest revision that it may serve as the newest.
    pub(super) fn serves_from(&self) -> Number {
        let told = if self.is_lazy() { self.newest_number() } else { Number::NONE };
        self.current_number().max(self.freshness.invalidated).max(told)
    }

    /// The newest revision came as the answer to a question of this time.
    pub(super) fn acquired(&mut self, number: Number, asked: Time) {
        self.freshness.acquired = Some(Acquired { number, asked, until: self.taker.until() });
        self.freshness.demand.asked(number);
        self.freshness.demand.is_idle &= !self.taker.has_share();
    }

    /// Ends a fetch that makes no progress, if the server was not asked whether its revision still is the newest, or has
    /// said that it is not. Returns whether it has: then the server is asked, at once only if there is a newer one.
    pub(super) fn asks_again(&mut self) -> bool {
        let target = self.fetch.as_ref().map(|fetch| fetch.revision.number);
        let Some(target) = target.filter(|_| self.is_lazy() && !self.taker.has_share()) else { return false };
        if target >= self.freshness.invalidated {
            self.freshness.asks_at = Some(self.now + RETRY_AFTER);
        }
        self.give_up();
        (self.freshness.acquired, self.freshness.is_wanted) = (None, true);
        true
    }

    /// A revision was pushed.
    pub(super) fn pushed(&mut self) {
        if self.freshness.demand.offered(self.config.idle_after) {
            self.release();
        }
    }

    /// Serves no revision as the newest before it has asked for the newest.
    pub(super) fn release(&mut self) {
        self.freeze();
        if let Some(release) = self.taker.release_share() {
            self.ask(release);
        }
    }

    /// The revision that is served may no longer be the newest: leases of later questions do not cover it. Where reads
    /// wait for the newest, none is served as such from now on.
    pub(super) fn freeze(&mut self) {
        if self.freshness.frozen.is_none() {
            let until = self.taker.until();
            self.freshness.frozen = Some(if self.is_lazy() { until.min(self.now) } else { until });
        }
    }

    /// If the revision that is served is the newest, those who wait for that are woken.
    pub(super) fn confirm(&mut self) {
        if self.kept.current() != self.newest {
            return;
        }
        if self.taker.has_share() {
            self.freshness.frozen = None;
        }
        let is_asked = self.freshness.acquired.is_some_and(|it| it.number == self.current_number());
        if (self.taker.has_share() || is_asked) && mem::take(&mut self.freshness.is_wanted) {
            self.outputs.push_back(Output::Wake(READY));
        }
    }
}
