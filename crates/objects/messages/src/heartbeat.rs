//! Whether the other end of a session lives: pings, and how long it may be silent.

use crate::SessionLimits;
use types::Time;

/// The heartbeat of a session, as the end that has opened it counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heartbeat {
    heard: Time,
    sent: Time,
    pinged: Time,
}

impl Heartbeat {
    /// The other side has said something, or it may be silent from now on as if it had.
    pub fn heard(&mut self, now: Time) {
        self.heard = now;
    }

    /// This side has said something.
    pub fn sent(&mut self, now: Time) {
        self.sent = now;
    }

    /// This side has sent a ping, or needs none as if it had.
    pub fn pinged(&mut self, now: Time) {
        self.pinged = now;
    }

    /// When the next ping is due: a third of the silence after either side was last heard, and no sooner after the last
    /// one.
    #[inline]
    pub fn ping_at(&self, limits: SessionLimits) -> Time {
        self.sent.min(self.heard).max(self.pinged) + limits.ping_after()
    }

    /// When the other side should be taken for dead.
    #[inline]
    pub fn silent_at(&self, limits: SessionLimits) -> Time {
        self.heard + limits.silence()
    }

    /// Whether this side has pinged when it was to. One that has not did not run, and so could not hear the other side
    /// either: whose the silence was it cannot say.
    pub fn has_pinged(&self, now: Time, limits: SessionLimits) -> bool {
        now < self.ping_at(limits) + limits.ping_after()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    #[test]
    fn a_ping_is_due_when_either_side_was_silent_for_a_third() {
        let (limits, mut heartbeat) =
            (SessionLimits { silence_ms: 1500, ..SessionLimits::UNTOLD }, Heartbeat::default());
        heartbeat.heard(ms(100));
        assert_eq!((heartbeat.ping_at(limits), heartbeat.silent_at(limits)), (ms(500), ms(1600)));
        heartbeat.sent(ms(300));
        assert_eq!(heartbeat.ping_at(limits), ms(600));
        // An end that does not answer is not asked again at once.
        heartbeat.pinged(ms(600));
        heartbeat.sent(ms(600));
        assert_eq!((heartbeat.ping_at(limits), heartbeat.silent_at(limits)), (ms(1100), ms(1600)));
    }

    #[test]
    fn an_end_that_did_not_ping_in_time_has_not_asked() {
        let (limits, mut heartbeat) =
            (SessionLimits { silence_ms: 1500, ..SessionLimits::UNTOLD }, Heartbeat::default());
        heartbeat.heard(ms(0));
        heartbeat.pinged(ms(500));
        assert!(!heartbeat.has_pinged(ms(1500), limits), "it was stopped before its second ping");
        heartbeat.pinged(ms(1000));
        assert!(heartbeat.has_pinged(ms(1500), limits));
        assert!(!heartbeat.has_pinged(ms(2000), limits), "it was stopped after that");
    }
}
