//! A machine's disk in virtual time, as the engine sees it: it takes work, and some time later the work is done.

use crate::rng::{Delay, Rng};
use crate::violation::{Violation, ensure};
use bytes::Bytes;
use core::any::Any;
use core::time::Duration;
use core::{fmt, mem};
use machine::{Append, Appended, DiskDone, Opaque};
use types::{PageId, Position, Time, Version};

/// An operation that comes to an end on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Flush,
    /// These pages are read when it ends.
    Read(Vec<PageId>),
    /// These pages were read when it began, and are handed over when it ends.
    Deliver(Vec<Found>),
    Install,
    ReadLog,
    Free(Position),
    /// A disk that has failed works again.
    Reopen,
    /// A piece of work that needs no order, by its number.
    Beside(u64),
}

/// A page as the disk has it.
pub(crate) type Found = (PageId, Option<(Version, Bytes)>);

impl Operation {
    /// How many kinds of work there are.
    pub(crate) const KINDS: usize = 4;

    /// The kind of work that this is.
    fn kind(&self) -> usize {
        match self {
            Self::Flush | Self::Reopen => 0,
            Self::Read(_) | Self::Deliver(_) | Self::ReadLog | Self::Beside(_) => 1,
            Self::Install => 2,
            Self::Free(_) => 3,
        }
    }
}

/// Something the disk has to do, and how long it takes.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) after: Duration,
    pub(crate) operation: Operation,
}

/// A machine's disk: its work, and the content that outlives its process.
pub(crate) trait Disk: Any + fmt::Debug {
    /// Takes work. Returns the operation that this starts.
    fn submit(&mut self, work: Opaque, rng: &mut Rng) -> Result<Option<Started>, Violation>;

    /// An operation has come to its end. Returns the reports to the machine, and the operation that starts next.
    fn finish(&mut self, operation: Operation, rng: &mut Rng) -> (Vec<DiskDone>, Option<Started>);

    /// A write fails.
    fn fail(&mut self, rng: &mut Rng) {
        let _ = rng;
    }

    /// Its machine knows of the failure. Returns the operation at whose end the disk works again; `None` for a disk
    /// whose machine does not live on without.
    fn reopen(&mut self, rng: &mut Rng) -> Option<Started> {
        let _ = rng;
        None
    }

    /// The power fails: a drawn part of what was not durable is there nevertheless.
    fn lose_power(&mut self, rng: &mut Rng);
}

/// How much slower everything is on a slow disk.
const SLOWNESS: u32 = 20;

/// A disk, and what is wrong with it at the moment.
#[derive(Debug)]
pub(crate) struct Drive {
    pub(crate) disk: Box<dyn Disk>,
    /// Everything is slow until then.
    pub(crate) slow_until: Time,
    /// Work of this kind is refused until then.
    pub(crate) refuses: Option<(usize, Time)>,
}

impl Drive {
    pub(crate) fn new(disk: impl Disk) -> Self {
        Self { disk: Box::new(disk), slow_until: Time::ZERO, refuses: None }
    }

    /// Returns the disk, if it is of this type.
    pub(crate) fn get<D: Disk>(&self) -> Option<&D> {
        (&*self.disk as &dyn Any).downcast_ref()
    }

    /// Returns the disk, to change it, if it is of this type.
    pub(crate) fn get_mut<D: Disk>(&mut self) -> Option<&mut D> {
        (&mut *self.disk as &mut dyn Any).downcast_mut()
    }

    /// How long an operation takes that begins now.
    pub(crate) fn takes(&self, now: Time, after: Duration) -> Duration {
        if now < self.slow_until { after * SLOWNESS } else { after }
    }

    /// Until when an operation cannot come to its end.
    pub(crate) fn refused_until(&self, now: Time, operation: &Operation) -> Option<Time> {
        self.refuses.filter(|(kind, until)| *kind == operation.kind() && now < *until).map(|(_, until)| until)
    }
}

/// A record of a simulated log.
pub trait Record: Clone + fmt::Debug + Send + 'static {}

impl<R: Clone + fmt::Debug + Send + 'static> Record for R {}

/// How long a flush of a log takes: up to twice 200 microseconds.
const FLUSH: Delay =
    Delay { least: Duration::ZERO, spread: Duration::from_micros(400), spike_permille: 0, spike: Duration::ZERO };

/// How long a log that has failed takes to work again: up to 60 ms.
const REOPEN: Delay =
    Delay { least: Duration::ZERO, spread: Duration::from_millis(60), spike_permille: 0, spike: Duration::ZERO };

/// A disk that is a log and nothing else.
#[derive(Debug)]
pub(crate) struct LogDisk<R> {
    pub(crate) records: Vec<(Position, R)>,
    /// How many of them are durable, and how many the flush under way makes so.
    durable: usize,
    flushing: Option<usize>,
    /// A write has failed, and nothing is written until the log works again.
    has_failed: bool,
}

impl<R> Default for LogDisk<R> {
    fn default() -> Self {
        Self { records: Vec::new(), durable: 0, flushing: None, has_failed: false }
    }
}

impl<R> LogDisk<R> {
    /// The position through which every record is durable.
    fn through(&self) -> Position {
        self.records[..self.durable].last().map_or(Position::default(), |(position, _)| *position)
    }

    fn flush(&mut self, rng: &mut Rng) -> Option<Started> {
        let begins = self.flushing.is_none() && self.durable < self.records.len();
        begins.then(|| {
            self.flushing = Some(self.records.len());
            Started { after: FLUSH.draw(rng), operation: Operation::Flush }
        })
    }
}

impl<R: Record> Disk for LogDisk<R> {
    fn submit(&mut self, work: Opaque, rng: &mut Rng) -> Result<Option<Started>, Violation> {
        match work.open() {
            // Its machine has yet to learn of the failure.
            Ok(Append::<R>(..)) if self.has_failed => return Ok(None),
            Ok(Append(position, record)) => self.records.push((position, record)),
            Err(other) => ensure(false, "disk", || format!("a log does no work such as {other:?}"))?,
        }
        Ok(self.flush(rng))
    }

    fn finish(&mut self, operation: Operation, rng: &mut Rng) -> (Vec<DiskDone>, Option<Started>) {
        if operation == Operation::Reopen {
            // The power may have failed in the meantime, too: then a new life has read the log.
            let reopened = mem::take(&mut self.has_failed).then(|| DiskDone::new(Appended::Reopened(self.through())));
            return (reopened.into_iter().collect(), None);
        }
        // One that has failed is over.
        let Some(flushed) = self.flushing.take() else { return (Vec::new(), None) };
        self.durable = flushed;
        (vec![DiskDone::new(Appended::Durable(self.through()))], self.flush(rng))
    }

    fn fail(&mut self, rng: &mut Rng) {
        self.lose_power(rng);
        self.has_failed = true;
    }

    fn reopen(&mut self, rng: &mut Rng) -> Option<Started> {
        Some(Started { after: REOPEN.draw(rng), operation: Operation::Reopen })
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        let survive = self.durable + rng.index(self.records.len() - self.durable + 1);
        self.records.truncate(survive);
        (self.durable, self.flushing, self.has_failed) = (survive, None, false);
    }
}
