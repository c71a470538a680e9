//! A holder as its owner has it, for people.

use crate::messages::holder::{PartitionId, Sequence};

/// A holder of an owner's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its partition.
    pub partition: PartitionId,
    /// Its state.
    pub state: HolderState,
    /// The bytes that it takes beyond those that it was sent.
    pub room: u64,
    /// It has counted all through this write that is not written back; none, unless it is whole.
    pub through: Sequence,
}

/// The state of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HolderState {
    /// It was lost, and is in the registry no more. It is a holder again when it answers, unless another one took its
    /// place.
    Lost,
    /// There is no session with it, or it is about to be forgotten.
    Away,
    /// It is being sent what it lacks.
    Filling,
    /// It has everything that is dirty, and is sent each write at once.
    Whole,
    /// The same, maybe, and it wants to leave.
    Leaving,
}

impl HolderState {
    /// Its name in a status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Away => "away",
            Self::Filling => "filling",
            Self::Whole => "whole",
            Self::Leaving => "leaving",
        }
    }
}
