//! Disk work and notes, as drivers carry them: they do not look inside.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use types::Position;

/// A value that its carrier does not look at: work for a machine's disk, what became of it, a note.
pub struct Opaque(Box<dyn Carried>);

trait Carried: Any + fmt::Debug + Send {}

impl<T: Any + fmt::Debug + Send> Carried for T {}

impl Opaque {
    /// Wraps a value.
    pub fn new(value: impl Any + fmt::Debug + Send) -> Self {
        Self(Box::new(value))
    }

    /// The value, if it is of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let value: &dyn Any = &*self.0;
        value.downcast_ref()
    }

    /// Unwraps the value.
    ///
    /// # Errors
    /// The same again, if the value is of another type.
    pub fn open<T: Any>(self) -> Result<T, Self> {
        if self.get::<T>().is_none() {
            return Err(self);
        }
        let value: Box<dyn Any> = self.0;
        Ok(*value.downcast().expect("just seen"))
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The outcome of disk work, as a disk reports it.
pub trait Done: fmt::Debug + Send + 'static {
    /// The log position through which every record is durable, if that is what it says.
    fn durable(&self) -> Option<Position>;
}

/// The outcome of a machine's disk work. A failed write or sync is not here ([`crate::Machine::disk_failed`]).
#[derive(Debug)]
pub struct DiskDone {
    durable: Option<Position>,
    done: Opaque,
}

impl DiskDone {
    /// As a disk has said.
    pub fn new(done: impl Done) -> Self {
        Self { durable: done.durable(), done: Opaque::new(done) }
    }

    /// The log position through which every record is durable, if that is what it says.
    pub fn durable(&self) -> Option<Position> {
        self.durable
    }

    /// The disk's report, if it is of this type.
    ///
    /// # Errors
    /// That, if it is of another.
    pub fn open<T: Done>(self) -> Result<T, Opaque> {
        self.done.open()
    }
}

/// The work of a disk that is a log and nothing else: append the record at the next position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append<R>(pub Position, pub R);

/// The report of such a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Every record through this position is durable.
    Durable(Position),
    /// The disk works again after a failure: its log holds every record through this position, and no later one.
    Reopened(Position),
}

impl Done for Appended {
    fn durable(&self) -> Option<Position> {
        let (Self::Durable(through) | Self::Reopened(through)) = self;
        Some(*through)
    }
}
