//! The requests of an owner's application, and why one is not done.

use crate::messages::holder::{Content, Extent};

/// The number that the driver has given to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request to write. TRIM and WRITE_ZEROES are writes, too.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Its number, for the answer.
    pub request: RequestId,
    /// Where.
    pub extent: Extent,
    /// The contents. They are kept no longer than it takes to send copies.
    pub content: &'a Content,
    /// Its answer is a promise even where those of other writes are not (FUA).
    pub is_fua: bool,
    /// More copies than W, for one whose extent is written often; 0 for W. It waits for no more than there are.
    pub copies: u8,
}

/// Why a request is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// The log, or a holder, is full of what is not written back: [`Effect::Room`](crate::Effect::Room) tells when to
    /// come again.
    NoRoom,
    /// It goes beyond the end of the volume, has no length, or its contents are of another length.
    OutOfRange,
    /// There are not as many copies as it takes, and no write is taken without.
    Degraded,
    /// The owner's lease is over: it does not know whether another host has the volume now.
    LeaseOver,
    /// The volume is being resized already.
    Resizing,
    /// Another epoch has begun: the volume is another host's.
    Ended,
    /// The owner has detached the volume, or is about to.
    Detached,
    /// The owner was stopped.
    Stopped,
    /// Its client has hung up.
    GivenUp,
}

impl Declined {
    /// The reason's name, as it is counted and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::OutOfRange => "out_of_range",
            Self::Degraded => "degraded",
            Self::LeaseOver => "lease_over",
            Self::Resizing => "resizing",
            Self::Ended => "ended",
            Self::Detached => "detached",
            Self::Stopped => "stopped",
            Self::GivenUp => "given_up",
        }
    }
}
