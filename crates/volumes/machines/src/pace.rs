//! How long a holder takes to count a copy, as its owner measures it: of one copy at a time, from when it is sent until
//! it is counted. The mean and the mean deviation are kept as TCP keeps those of its round trips (RFC 6298, section 2),
//! so one slow sync of a disk is no loss, and a holder that hangs is noticed long before the longest time that one may
//! take.

use crate::messages::holder::Sequence;
use core::time::Duration;
use types::Time;

/// A holder that counts nothing for this many times what it usually takes, with four deviations, is considered lost.
const PATIENCE_FACTOR: u32 = 8;

/// The pace of a holder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The copy that is being timed, and when it was sent.
    timed: Option<(Sequence, Time)>,
    /// The mean, and the mean deviation from it, if one was measured.
    usual: Option<(Duration, Duration)>,
}

impl Pace {
    /// A copy was sent.
    pub(crate) fn sent(&mut self, now: Time, sequence: Sequence) {
        self.timed.get_or_insert((sequence, now));
    }

    /// Everything through this copy is counted.
    pub(crate) fn counted(&mut self, now: Time, through: Sequence) {
        let Some((_, sent)) = self.timed.take_if(|(sequence, _)| *sequence <= through) else { return };
        let taken = now.since(sent);
        self.usual = Some(self.usual.map_or((taken, taken / 2), |(mean, deviation)| {
            ((mean * 7 + taken) / 8, (deviation * 3 + mean.abs_diff(taken)) / 4)
        }));
    }

    /// The session is over: nothing that was sent in it is waited for.
    pub(crate) fn stop(&mut self) {
        self.timed = None;
    }

    /// How long it may count nothing, within these bounds; as long as may be if it was never measured.
    pub(crate) fn patience(&self, min: Duration, max: Duration) -> Duration {
        let usual = self.usual.map(|(mean, deviation)| (mean + deviation * 4) * PATIENCE_FACTOR);
        usual.map_or(max, |usual| usual.max(min).min(max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(500);
    const MAX: Duration = Duration::from_secs(5);

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn patience_follows_what_a_holder_takes() {
        let mut pace = Pace::default();
        assert_eq!(pace.patience(MIN, MAX), MAX, "nothing was measured");
        for number in 1..=50 {
            pace.sent(ms(100 * number), Sequence(number));
            pace.counted(ms(100 * number + 2), Sequence(number));
        }
        assert_eq!(pace.patience(MIN, MAX), MIN);
        for number in 51..=100 {
            pace.sent(ms(100 * number), Sequence(number));
            pace.counted(ms(100 * number + 90), Sequence(number));
        }
        let patience = pace.patience(MIN, MAX);
        assert!(patience > MIN && patience < Duration::from_secs(2), "{patience:?}");
        // Later copies are not timed before the first one is counted.
        pace.sent(ms(20_000), Sequence(101));
        pace.sent(ms(29_000), Sequence(102));
        pace.counted(ms(30_000), Sequence(102));
        assert_eq!(pace.patience(MIN, MAX), MAX);
    }
}
