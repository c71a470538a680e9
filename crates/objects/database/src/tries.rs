//! Running a transaction again that others got in the way of.

use crate::precedence::Place;
use crate::{Database, Error};
use client::TxnHandle;
use std::sync::Arc;
use std::time::Duration;
use types::{Caller, Refusal, Time};

/// The longest pause between two tries of one transaction.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The first pause, before it is doubled try by try: about one commit on a fast disk.
const PAUSE_MIN: Duration = Duration::from_micros(100);

/// The tries after which a transaction that others were faster than gets in line (see `precedence`).
const TRIES_BEFORE_LINE: u32 = 4;

/// How another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Others were faster, and nothing else is in the way: the next try may begin at once.
    TryAgain,
    /// Something is in the way that passes: the next try comes after a pause.
    Pause,
}

impl Cure {
    /// How another try can help a transaction that has ended like this; `None` if it cannot.
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Doomed => Some(Self::TryAgain),
            Error::Refused(refusal) => Self::of_refused(refusal),
            _ => None,
        }
    }

    fn of_refused(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::Stale(_) => Some(Self::TryAgain),
            // A store that is closing is about to be a store that starts.
            Refusal::Closing => Some(Self::Pause),
            refusal => (refusal.caller() == Caller::Retry).then_some(Self::Pause),
        }
    }
}

/// How often and for how long one transaction was tried.
#[derive(Debug)]
pub struct Tries {
    database: Arc<Database>,
    began: Time,
    count: u32,
    /// Its place in line, when it has lost too often.
    place: Option<Place>,
}

/// The client's patience is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// How often it was tried.
    pub tries: u32,
    /// For how long.
    pub waited: Duration,
}

impl Tries {
    /// The first try begins.
    pub fn begin(database: &Arc<Database>) -> Self {
        Self { database: database.clone(), began: database.now(), count: 0, place: None }
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Waits before the next try, if there is time for one. A transaction that has only lost a race continues at once,
    /// or gets in line: a pause would give the next race to the winner of this one.
    pub async fn pause(&mut self, cure: Cure, last: TxnHandle) -> Result<(), GaveUp> {
        self.count += 1;
        let now = self.database.now();
        let waited = now - self.began;
        if waited >= self.database.patience() {
            return Err(GaveUp { tries: self.count, waited });
        }
        match cure {
            Cure::Pause => self.database.sleep_until(now + self.next_pause(now, last)).await,
            Cure::TryAgain if self.count < TRIES_BEFORE_LINE => {}
            Cure::TryAgain => self.place.get_or_insert_with(|| Place::take(&self.database)).await_first().await,
        }
        Ok(())
    }

    /// Doubles try by try. Each pause is drawn from its upper half, so that transactions that have met do not meet
    /// again in step; the clock and the handle of the last try are random enough for that.
    fn next_pause(&self, now: Time, last: TxnHandle) -> Duration {
        let full = PAUSE_MIN.saturating_mul(1 << self.count.min(16)).min(PAUSE_MAX);
        let seed = now.0.wrapping_add(last.0.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let draw = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        full / 2 + full.mul_f64(draw as f64 / f64::from(u32::MAX)) / 2
    }
}
