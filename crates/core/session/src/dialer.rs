//! Where the next session is tried, and when.
//!
//! ```text
//!   a way that the role names --failed--> the next one at once --too many--> pause
//!   configured addresses: first --failed--> second --failed--> ... last --failed--> pause, the first again
//! ```
//! 1. Configured addresses are tried in turn, without a pause between them, and from the first on whenever a session
//!    was lost.
//! 2. A way that the role names goes before them: where its group is. It does not interrupt a round of the configured
//!    ones: one of the others may be where the role is wanted.
//! 3. Named ways are tried without a pause, but only [`HURRIED_MAX`] in a row: some may lead from one to the other and
//!    back.
//! 4. A pause is twice as long as the one before, until a session has come up. The driver draws it between half and
//!    all, so that the clients of a store that restarts do not come back all at once.
//! 5. An attempt takes less time where there are other addresses to try.
//! 6. While a later address is used, the earlier ones are looked at from time to time.

use core::time::Duration;

/// Ways that the role knows are tried without a pause. No more of them than this in a row.
pub const HURRIED_MAX: u32 = 8;

/// How long one attempt may take where there are others: until it is connected, and then until there is an answer. A
/// redirector that does not reach its store says so sooner, after its own patience.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long after a session with a later address has begun the earlier ones are looked at again; twice as long after
/// each time, whether in vain or not, up to the longest.
const LOOK_BACK_MIN: Duration = Duration::from_millis(500);
const LOOK_BACK_MAX: Duration = Duration::from_secs(30);

/// How long attempts take, and the pauses between them.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The most that one attempt may take, until there is an answer.
    pub attempt_within: Duration,
    /// The pause after all have failed for the first time.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

/// The address of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<A> {
    /// Where the role wants to go.
    Named(A),
    /// A configured address, by its place.
    Configured(usize),
}

/// One attempt at a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt<A> {
    /// Where.
    pub target: Target<A>,
    /// How long it may take to connect.
    pub connect_within: Duration,
    /// How long after that there must be an answer.
    pub answer_within: Duration,
}

impl<A> Attempt<A> {
    /// How many of the configured addresses come before it: none where the role has named it.
    pub fn earlier(&self) -> usize {
        match self.target {
            Target::Named(_) => 0,
            Target::Configured(place) => place,
        }
    }
}

/// When the next attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once, at the next address of the same round.
    InTurn,
    /// At once, on a way that the role has named.
    Hurry,
    /// After this long at most.
    After(Duration),
}

/// Keeps a session open: says where to try next, and when.
#[derive(Debug)]
pub struct Dialer {
    addresses: usize,
    times: Times,
    /// How many of the configured addresses have failed in this round.
    failed: usize,
    /// Whether what is tried now is a configured address.
    is_configured: bool,
    pause: Duration,
    hurried: u32,
    /// It outlasts sessions: one that listens and does not welcome would be gone back to again and again.
    look_back: Duration,
}

impl Dialer {
    /// Dials so many configured addresses in turn.
    pub fn new(addresses: usize, times: Times) -> Self {
        let (pause, look_back) = (times.pause_min, LOOK_BACK_MIN);
        Self { addresses, times, failed: 0, is_configured: true, pause, hurried: 0, look_back }
    }

    /// The next attempt, where `way` asks the role where it wants to go.
    pub fn attempt<A>(&mut self, way: impl FnOnce() -> Option<A>) -> Attempt<A> {
        let way = if self.failed == 0 { way() } else { None };
        self.is_configured = way.is_none();
        let there_are_others = way.is_some() || self.addresses > 1;
        let most = if there_are_others { (CONNECT_WITHIN, ANSWER_WITHIN) } else { (Duration::MAX, Duration::MAX) };
        let within = self.times.attempt_within;
        Attempt {
            target: way.map_or(Target::Configured(self.failed), Target::Named),
            connect_within: within.min(most.0),
            answer_within: within.min(most.1),
        }
    }

    /// There is no session any more, or there has been none: `was_up` if it had come up. `has_way` asks whether the
    /// role knows of a way that was not tried yet.
    pub fn lost(&mut self, was_up: bool, has_way: impl FnOnce() -> bool) -> Next {
        if was_up {
            if !self.is_configured || self.failed == 0 {
                self.look_back = LOOK_BACK_MIN;
            }
            (self.failed, self.pause, self.hurried) = (0, self.times.pause_min, 0);
        } else if self.is_configured {
            self.failed += 1;
            if self.failed < self.addresses {
                return Next::InTurn;
            }
            self.failed = 0;
        }
        if self.hurried < HURRIED_MAX && has_way() {
            self.hurried += 1;
            return Next::Hurry;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(self.times.pause_max);
        Next::After(pause)
    }

    /// How long to wait, at most, until the addresses before the one that is used are looked at.
    pub fn look_back(&mut self) -> Duration {
        let pause = self.look_back;
        self.look_back = (pause * 2).min(LOOK_BACK_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    const TIMES: Times = Times { attempt_within: ms(5000), pause_min: ms(10), pause_max: ms(35) };

    fn nowhere() -> Option<&'static str> {
        None
    }

    #[test]
    fn addresses_are_tried_in_turn_and_pauses_double() {
        let mut dialer = Dialer::new(2, TIMES);
        for pause in [10, 20, 35, 35] {
            assert_eq!(dialer.attempt(nowhere).target, Target::Configured(0));
            assert_eq!(dialer.lost(false, || false), Next::InTurn);
            // A round that has begun continues.
            assert_eq!(dialer.attempt(|| Some("nine:1")).target, Target::Configured(1));
            assert_eq!(dialer.lost(false, || false), Next::After(ms(pause)));
        }
        dialer.attempt(nowhere);
        assert_eq!(dialer.lost(true, || false), Next::After(ms(10)), "a session came up");
        assert_eq!(dialer.attempt(nowhere).target, Target::Configured(0));
    }

    #[test]
    fn named_ways_go_first_and_do_not_go_in_circles() {
        let mut dialer = Dialer::new(1, TIMES);
        for _ in 0..HURRIED_MAX {
            assert_eq!(dialer.attempt(|| Some("nine:1")).target, Target::Named("nine:1"));
            assert_eq!(dialer.lost(false, || true), Next::Hurry);
        }
        dialer.attempt(|| Some("nine:1"));
        assert_eq!(dialer.lost(false, || true), Next::After(ms(10)));
        dialer.attempt(nowhere);
        dialer.lost(true, || false);
        dialer.attempt(nowhere);
        assert_eq!(dialer.lost(false, || true), Next::Hurry, "a session came up since");
    }

    #[test]
    fn an_attempt_takes_less_where_there_are_others() {
        let within = |addresses, way: Option<&str>| {
            let attempt = Dialer::new(addresses, TIMES).attempt(|| way);
            (attempt.connect_within, attempt.answer_within)
        };
        assert_eq!(within(1, None), (ms(5000), ms(5000)));
        assert_eq!(within(2, None), (ms(1000), ms(2000)));
        assert_eq!(within(1, Some("nine:1")), (ms(1000), ms(2000)));
    }

    #[test]
    fn earlier_addresses_are_looked_at_less_and_less_often() {
        let mut dialer = Dialer::new(2, TIMES);
        assert_eq!([dialer.look_back(), dialer.look_back()], [ms(500), ms(1000)]);
        // The second address is lost: what listens at the first may not have welcomed.
        dialer.attempt(nowhere);
        dialer.lost(false, || false);
        dialer.attempt(nowhere);
        dialer.lost(true, || false);
        assert_eq!(dialer.look_back(), ms(2000));
        dialer.attempt(nowhere);
        dialer.lost(true, || false);
        assert_eq!(dialer.look_back(), ms(500));
    }
}
