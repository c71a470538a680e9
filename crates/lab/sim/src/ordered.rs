//! A disk of a front end's own, whose work is more than a log. The front end decides what the work does; the simulator,
//! when it is done and how much of it a power failure leaves.
//!
//! ```text
//!   submit --> line --one after the other--> done: reported            pieces that need no order are done beside
//!                 \--power failure--> a drawn prefix of the line is done, and nobody is told
//! ```

use crate::drive::{Disk, Operation, Started};
use crate::rng::{Delay, Rng};
use crate::violation::{Violation, ensure};
use core::any::Any;
use core::fmt;
use core::time::Duration;
use machine::{DiskDone, Done, Opaque};
use std::collections::{BTreeMap, VecDeque};

/// How long a piece of work takes: up to 400 microseconds.
const PIECE: Delay =
    Delay { least: Duration::ZERO, spread: Duration::from_micros(800), spike_permille: 0, spike: Duration::ZERO };

/// The content of a disk, and what work does to it.
pub trait Content: Any + fmt::Debug {
    /// The work that the machine gives.
    type Work: Any + fmt::Debug + Send;
    /// The outcome that it is told.
    type Done: Done;

    /// Whether a piece of work waits for those before it.
    fn is_ordered(work: &Self::Work) -> bool;

    /// Whether pieces behind it may be done before it, once those before it are done.
    fn may_be_passed(_: &Self::Work) -> bool {
        false
    }

    /// Does a piece of work, all of it, durably.
    fn work(&mut self, work: Self::Work) -> Option<Self::Done>;
}

/// Such a disk.
#[derive(Debug)]
pub(crate) struct OrderedDisk<C: Content> {
    pub(crate) content: C,
    line: VecDeque<C::Work>,
    beside: BTreeMap<u64, C::Work>,
    last: u64,
    is_busy: bool,
    /// How long a piece of work takes.
    piece: Delay,
}

impl<C: Content> OrderedDisk<C> {
    pub(crate) fn new(content: C) -> Self {
        Self { content, line: VecDeque::new(), beside: BTreeMap::new(), last: 0, is_busy: false, piece: PIECE }
    }

    /// A disk whose work takes no time.
    pub(crate) fn instant(content: C) -> Self {
        Self { piece: Delay::exactly(Duration::ZERO), ..Self::new(content) }
    }

    fn next(&mut self, rng: &mut Rng) -> Option<Started> {
        let begins = !self.is_busy && !self.line.is_empty();
        begins.then(|| {
            self.is_busy = true;
            Started { after: self.piece.draw(rng), operation: Operation::Flush }
        })
    }
}

impl<C: Content> Disk for OrderedDisk<C> {
    fn submit(&mut self, work: Opaque, rng: &mut Rng) -> Result<Option<Started>, Violation> {
        let work = match work.open::<C::Work>() {
            Ok(work) => work,
            Err(other) => {
                ensure(false, "disk", || format!("this disk does no work such as {other:?}"))?;
                return Ok(None);
            }
        };
        if C::is_ordered(&work) {
            self.line.push_back(work);
            return Ok(self.next(rng));
        }
        self.last += 1;
        self.beside.insert(self.last, work);
        Ok(Some(Started { after: self.piece.draw(rng), operation: Operation::Beside(self.last) }))
    }

    fn finish(&mut self, operation: Operation, rng: &mut Rng) -> (Vec<DiskDone>, Option<Started>) {
        if let Operation::Beside(number) = operation {
            let done = self.beside.remove(&number).and_then(|work| self.content.work(work));
            return (done.map(DiskDone::new).into_iter().collect(), None);
        }
        self.is_busy = false;
        if self.line.front().is_some_and(C::may_be_passed) && rng.index(4) > 0 {
            let second = 1.min(self.line.len() - 1);
            self.line.swap(0, second);
            return (Vec::new(), self.next(rng));
        }
        let done = self.line.pop_front().and_then(|work| self.content.work(work));
        (done.map(DiskDone::new).into_iter().collect(), self.next(rng))
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        for _ in 0..rng.index(self.line.len() + 1) {
            if let Some(work) = self.line.pop_front() {
                self.content.work(work);
            }
        }
        self.line.clear();
        self.beside.clear();
        self.is_busy = false;
    }
}
