//! The time of an experiment: its parts have shares of it, and those who wait hear how much is left.
//!
//! A part is expected to take this long on a quiet machine of two processors. The time of the earlier parts beside that
//! says how slow this machine is now; the rest of the time is shared out among the parts that are left, and a part
//! repeats what it measures as often as its share allows.

use crate::Result;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The time that is usual for all of a paper.
pub const USUAL: Duration = Duration::from_secs(14 * 60);

/// The fewest repetitions: of one it is unknown whether it comes out again.
const REPETITIONS_MIN: usize = 2;

/// The state of an experiment, for the person who waits for it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The work that is being done.
    pub what: String,
    /// How much of all the work is done, from 0 to 1, by the time that it is expected to take.
    pub done: f64,
    /// How long the rest takes, if it continues like this; `None` at the beginning.
    pub left: Option<Duration>,
}

/// A part of an experiment, and the seconds that it is expected to take.
pub(crate) type Part = (String, f64);

/// The time of an experiment.
pub(crate) struct Pace<'a> {
    begun: Instant,
    length: Duration,
    parts: Vec<Part>,
    now: RefCell<Now>,
    say: &'a dyn Fn(&Step) -> Result<()>,
}

/// Where the experiment is.
#[derive(Clone, Copy, Debug)]
struct Now {
    /// The part that has begun last, by its place.
    part: Option<usize>,
    /// How much of it is done, from 0 to 1.
    done: f64,
    /// When its time is over.
    ends: Instant,
}

impl<'a> Pace<'a> {
    /// An experiment of these parts, in this order, that should take this long at most.
    pub(crate) fn new(length: Duration, parts: Vec<Part>, say: &'a dyn Fn(&Step) -> Result<()>) -> Self {
        let begun = Instant::now();
        let now = RefCell::new(Now { part: None, done: 0.0, ends: begun + length });
        Self { begun, length, parts, now, say }
    }

    /// Begins a part; those before it are done. One that is not in the list has no time of its own.
    pub(crate) fn begin(&self, name: &str) {
        let Some(part) = self.parts.iter().position(|(part, _)| part == name) else { return };
        let seconds = |parts: &[Part]| parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let share = self.parts[part].1 / seconds(&self.parts[part..]).max(f64::MIN_POSITIVE);
        let left = self.length.saturating_sub(self.begun.elapsed());
        *self.now.borrow_mut() = Now { part: Some(part), done: 0.0, ends: Instant::now() + left.mul_f64(share) };
    }

    /// So much of the part is done, from 0 to 1.
    pub(crate) fn advance(&self, done: f64) {
        self.now.borrow_mut().done = done.clamp(0.0, 1.0);
    }

    /// The work that was done of the part just now was expected to take this many seconds.
    pub(crate) fn worked(&self, seconds: f64) {
        let mut now = self.now.borrow_mut();
        if let Some(part) = now.part {
            now.done = (now.done + seconds / self.parts[part].1).min(1.0);
        }
    }

    /// Returns what is being done now.
    ///
    /// # Errors
    /// The one who hears it wants the experiment to end.
    pub(crate) fn say(&self, what: impl Into<String>) -> Result<()> {
        let (done, took) = (self.done(), self.begun.elapsed());
        let left = (done > 0.02).then(|| took.mul_f64((1.0 - done) / done));
        (self.say)(&Step { what: what.into(), done, left })
    }

    /// How much of all the work is done, from 0 to 1.
    fn done(&self) -> f64 {
        let now = *self.now.borrow();
        let seconds: f64 = self.parts.iter().map(|(_, seconds)| seconds).sum();
        (self.expected(&now) / seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// The seconds that what is done was expected to take.
    fn expected(&self, now: &Now) -> f64 {
        let Some(part) = now.part else { return 0.0 };
        self.parts[..part].iter().map(|(_, seconds)| seconds).sum::<f64>() + now.done * self.parts[part].1
    }

    /// How long the part may still take.
    pub(crate) fn part_left(&self) -> Duration {
        self.now.borrow().ends.saturating_duration_since(Instant::now())
    }

    /// How much of what it usually does the part has time for, from 0 to 1, on a machine that continues as it was.
    pub(crate) fn affordable(&self) -> f64 {
        let now = *self.now.borrow();
        let Some(part) = now.part else { return 1.0 };
        let expected = self.expected(&now);
        // The first parts say little about a machine.
        let slowness = if expected < 10.0 { 1.0 } else { (self.begun.elapsed().as_secs_f64() / expected).max(1.0) };
        let needed = self.parts[part].1 * slowness;
        (self.part_left().as_secs_f64() / needed.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// As often as usual, if the part has the time for that, and more often if all may take longer than usual; but not
    /// less than twice.
    pub(crate) fn repetitions(&self, usual: usize) -> Repetitions<'_> {
        let times = (self.length.as_secs_f64() / USUAL.as_secs_f64()).max(1.0);
        let most = ((usual as f64 * times) as usize).max(REPETITIONS_MIN);
        Repetitions { pace: self, begun: Instant::now(), done: 0, most }
    }
}

/// The repetitions of something, counted from 0.
pub(crate) struct Repetitions<'a> {
    pace: &'a Pace<'a>,
    begun: Instant,
    done: usize,
    most: usize,
}

impl Repetitions<'_> {
    /// The most that there will be.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

impl Iterator for Repetitions<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.pace.advance(self.done as f64 / self.most as f64);
        let each = self.begun.elapsed() / self.done.max(1) as u32;
        let has_room = self.done < REPETITIONS_MIN || each <= self.pace.part_left();
        (self.done < self.most && has_room).then(|| {
            self.done += 1;
            self.done - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    fn parts(seconds: &[f64]) -> Vec<Part> {
        seconds.iter().enumerate().map(|(at, seconds)| (at.to_string(), *seconds)).collect()
    }

    #[test]
    fn parts_share_the_time_that_is_left() {
        let pace = Pace::new(Duration::from_secs(100), parts(&[30.0, 10.0, 10.0]), &|_| Ok(()));
        let left = || pace.part_left().as_secs_f64().round() as u32;
        pace.begin("0");
        assert_eq!(left(), 60);
        pace.begin("1");
        assert_eq!(left(), 50, "what the first did not use is the others'");
        pace.begin("2");
        assert_eq!(left(), 100);
        assert!((pace.affordable() - 1.0).abs() < 1e-9);
        pace.begin("not in the list");
        assert_eq!(left(), 100);
    }

    #[test]
    fn a_waiting_person_hears_how_far_it_is() {
        let heard = RefCell::new(Vec::new());
        let hear = |step: &Step| {
            heard.borrow_mut().push((step.what.clone(), (step.done * 100.0).round() as u32, step.left.is_some()));
            Ok(())
        };
        let pace = Pace::new(Duration::from_secs(100), parts(&[30.0, 10.0]), &hear);
        pace.say("begin").unwrap();
        pace.begin("0");
        pace.advance(0.5);
        pace.say("half of the first").unwrap();
        pace.begin("1");
        pace.say("the second").unwrap();
        let expected = [("begin", 0, false), ("half of the first", 38, true), ("the second", 75, true)];
        assert_eq!(heard.into_inner(), expected.map(|(what, done, left)| (what.to_owned(), done, left)));
    }

    #[test]
    fn a_part_repeats_as_often_as_its_time_allows_and_twice_at_least() {
        let ample = Pace::new(Duration::from_secs(100), parts(&[1.0]), &|_| Ok(()));
        ample.begin("0");
        assert_eq!(ample.repetitions(5).count(), 5);
        let long = Pace::new(2 * USUAL, parts(&[1.0]), &|_| Ok(()));
        long.begin("0");
        assert_eq!(long.repetitions(5).count(), 10);
        let short = Pace::new(Duration::from_millis(5), parts(&[1.0]), &|_| Ok(()));
        short.begin("0");
        let done = short.repetitions(5).map(|_| sleep(Duration::from_millis(10))).count();
        assert_eq!(done, 2);
        assert!(short.affordable() < 0.01);
    }
}
