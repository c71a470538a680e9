//! A volume that lacks spare holders alone: W copies can be had, so writes continue, and nothing is brought home for
//! it.
//!
//! ```text
//!      silence            replacement                                 write-back
//!   Short ----> the registry ----> another one takes ----> it has all that is dirty ----> Well
//!               forgets it         its place
//! ```
//! What is written in the meantime is at the owner and the holders that are left. The new holder gets writes as they
//! come, and has everything that is dirty when everything older is home: it is filled from the owner's log no slower
//! than that.

use crate::reliability::cycle::{Cycle, State};

impl Cycle<'_> {
    /// The owner and its holders do what should be done now.
    pub(crate) fn short(&mut self) {
        let State::Short { since, whole_at } = self.state else { return };
        let serving = self.serving();
        self.volume.write_on(&serving);
        if !self.holders_serve() {
            // Another one was lost before this one had everything.
            let since = if whole_at.is_some() { self.now } else { since };
            self.state = State::Short { since, whole_at: None };
            if self.fleet.has_home(self.now) && self.now >= since + self.world.silence_s {
                self.volume.hold(&serving);
            }
            if self.fleet.has_home(self.now) && self.now >= since + self.world.replace_after_s {
                self.find_holders();
            }
        }
        let State::Short { since, whole_at } = self.state else { return };
        if !self.holders_serve() || !self.fleet.has_home(self.now) && whole_at.is_none() {
            return;
        }
        let whole_at = whole_at.unwrap_or_else(|| {
            self.volume.hold(&self.copies[1..]);
            self.now + self.write_back_s()
        });
        self.state = State::Short { since, whole_at: Some(whole_at) };
        if self.now >= whole_at {
            self.volume.fill(&self.copies[1..]);
            (self.state, self.exposed) = (State::Well, None);
        }
    }

    /// When they do something next.
    pub(crate) fn short_until(&self, since: f64, whole_at: Option<f64>) -> Option<f64> {
        let due = [since + self.world.silence_s, since + self.world.replace_after_s];
        whole_at.or_else(|| due.into_iter().filter(|at| *at > self.now).min_by(f64::total_cmp))
    }
}
