//! The faults that can strike any process, in words, and when they strike: each kind at its own rate while the storm
//! lasts.

use core::convert::Infallible;
use core::time::Duration;

/// Something that goes wrong, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<F = Infallible> {
    /// A process dies, and starts again a little later.
    Crash,
    /// Nothing arrives between two processes for a while.
    Sever,
    /// A connection is lost.
    Cut,
    /// Nothing arrives on one path for a while.
    Stall,
    /// A process does nothing for a while.
    Pause,
    /// A disk is slow for a while.
    SlowDisk,
    /// The system refuses one kind of a disk's work for a while, for lack of something.
    DiskRefuses,
    /// A write to a disk fails. Its process ends, unless the machine lives on; then the disk works again later.
    DiskFails,
    /// A fault of one kind of run.
    Own(F),
}

/// Which faults strike, and how often: the mean time between two of a kind.
#[derive(Debug)]
pub(crate) struct Faults<F> {
    pub(crate) rates: Vec<(Fault<F>, Duration)>,
    /// Faults strike, as long as the storm lasts.
    pub(crate) storm: bool,
}

impl<F> Default for Faults<F> {
    fn default() -> Self {
        Self { rates: Vec::new(), storm: true }
    }
}
