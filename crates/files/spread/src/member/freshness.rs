//! Whether the revision that is served is the newest, and the visitors who wait for that.

use super::{Member, Opened, READY};
use crate::number::Number;
use crate::rule::Way;
use core::mem;
use machine::Output;
use types::Time;

/// The state of the served revision: whether it is known to be the newest.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The end of the last lease under which the revision that is served was the newest, once there is a newer one, or
    /// one that it is not told of.
    pub(super) frozen: Option<Time>,
    /// The revision that was last acquired.
    pub(super) acquired: Option<Acquired>,
    /// The newest revision of which it was told no more than the number.
    pub(super) invalidated: Number,
    /// Whether a visitor waits for the newest revision.
    pub(super) is_wanted: bool,
}

/// A revision that was the newest after it had been asked for, and when the lease ends under which it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acquired {
    pub(super) number: Number,
    pub(super) asked: Time,
    pub(super) until: Time,
}

impl Member {
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
        let told = if self.consistency().is_lazy() { self.newest_number() } else { Number::NONE };
        self.current_number().max(self.freshness.invalidated).max(told)
    }

    /// The revision that is served may no longer be the newest: leases of later questions do not cover it. Where reads
    /// wait for the newest, none is served as such from now on.
    pub(super) fn freeze(&mut self) {
        if self.freshness.frozen.is_none() {
            let until = self.taker.until();
            self.freshness.frozen = Some(if self.consistency().is_lazy() { until.min(self.now) } else { until });
        }
    }

    /// If the revision that is served is the newest, those who wait for that are woken.
    pub(super) fn confirm(&mut self) {
        if self.kept.current() == self.newest && self.taker.has_share() {
            self.freshness.frozen = None;
            if mem::take(&mut self.freshness.is_wanted) {
                self.outputs.push_back(Output::Wake(READY));
            }
        }
    }
}
