//! Why something was not done: every reason has a name, a text for the one that must act, and a caller's next step.

use crate::{Incarnation, PageId, SlotSet};
use alloc::vec::Vec;
use core::fmt;

/// The remedy for an error: a caller acts on this, and not on each error's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// Run the transaction again: others got in between.
    Retry,
    /// Wait, or make room, then run it again.
    MakeRoom,
    /// The call itself is wrong: correct it.
    Correct,
    /// Connect again.
    Reconnect,
    /// It may have happened: look at what is stored before it is done again.
    Look,
    /// The stored data is damaged: check the store, and restore what it has lost.
    Repair,
}

/// Why a commit was refused. A refused commit has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// These slots were read and are no longer the newest. The client turns them into holes before it tries again.
    Stale(Vec<(PageId, SlotSet)>),
    /// A transaction that is being committed is in the way.
    Busy,
    /// The store has no room left, on disk or in its log.
    StoreFull,
    /// The page would pass its size limit; what grows must move to a page of its own.
    PageFull(PageId),
    /// The transaction wrote or read more than one transaction may.
    TooLarge,
    /// The page is not one that was ever granted.
    NoSuchPage(PageId),
    /// The store cannot read the page, so a change to it could not be written back.
    PageDamaged(PageId),
    /// The session has too many requests outstanding.
    TooMany,
    /// The store is closing down.
    Closing,
    /// The request was sent to an earlier incarnation of the store than this one, which knows of no outcome. The client
    /// sends it again, if anybody still waits for it; no application learns of this.
    Lapsed(Incarnation),
}

impl Refusal {
    /// The reason's name, as it is counted and logged.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stale(_) => "stale",
            Self::Busy => "busy",
            Self::StoreFull => "store_full",
            Self::PageFull(_) => "page_full",
            Self::TooLarge => "too_large",
            Self::NoSuchPage(_) => "no_such_page",
            Self::PageDamaged(_) => "page_damaged",
            Self::TooMany => "too_many",
            Self::Closing => "closing",
            Self::Lapsed(_) => "lapsed",
        }
    }

    /// The class of the error, by what the caller should do.
    pub const fn caller(&self) -> Caller {
        match self {
            Self::Stale(_) | Self::Busy | Self::TooMany | Self::PageFull(_) | Self::Lapsed(_) => Caller::Retry,
            Self::StoreFull => Caller::MakeRoom,
            Self::TooLarge | Self::NoSuchPage(_) => Caller::Correct,
            Self::Closing => Caller::Reconnect,
            Self::PageDamaged(_) => Caller::Repair,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(pages) => {
                let slots: usize = pages.iter().map(|(_, slots)| slots.len()).sum();
                write!(f, "{slots} objects that the transaction read were changed by others in the meantime")
            }
            Self::Busy => write!(f, "another transaction on the same objects is being committed"),
            Self::StoreFull => write!(f, "the store is full: free space on its disk, or give it a larger one"),
            Self::PageFull(page) => write!(f, "page {page} has no room for what the transaction adds to it"),
            Self::TooLarge => {
                write!(f, "the transaction writes more than {} bytes: split it", crate::limits::TXN_BYTES_MAX)
            }
            Self::NoSuchPage(page) => write!(f, "page {page} does not exist in this store"),
            Self::PageDamaged(page) => write!(
                f,
                "page {page} is damaged in the store, so it takes no changes: copy out what is whole with \
                 'thorp doctor --salvage', or restore the store from a copy"
            ),
            Self::TooMany => write!(f, "too many requests of this client are outstanding"),
            Self::Closing => write!(f, "the store is closing down"),
            Self::Lapsed(_) => write!(f, "the store was started again since it was asked to commit the transaction"),
        }
    }
}

/// Why a session was ended by one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoodbyeReason {
    /// The peer is done, or closing down.
    Done,
    /// No protocol version that both sides speak.
    Protocol,
    /// The client's cache is of another store.
    WrongCluster,
    /// A newer session of the same client, or a later redirector of the same group, has taken over.
    Superseded,
    /// A message broke the protocol.
    Malformed,
    /// A bound on what a peer can make grow was passed.
    TooMuch,
    /// No heartbeat for too long.
    Silent,
    /// The node takes no more sessions.
    Full,
    /// The redirector cannot reach its store, the hub has no source, or the store's node has no lease or is not open.
    CutOff,
    /// A process that connected as a peer does not have the key that the redirector gives to peers.
    Stranger,
    /// There is no room to keep the peer's request until it can be passed on: it should come back here and send it
    /// again.
    NoRoom,
    /// A hub was not told to expect the source that the updater speaks for.
    UnknownSource,
}

impl GoodbyeReason {
    /// All reasons, in the order of their numbers on the wire.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Protocol,
        Self::WrongCluster,
        Self::Superseded,
        Self::Malformed,
        Self::TooMuch,
        Self::Silent,
        Self::Full,
        Self::CutOff,
        Self::Stranger,
        Self::NoRoom,
        Self::UnknownSource,
    ];

    /// The reason's name, as it is counted and logged.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Protocol => "protocol",
            Self::WrongCluster => "wrong_cluster",
            Self::Superseded => "superseded",
            Self::Malformed => "malformed",
            Self::TooMuch => "too_much",
            Self::Silent => "silent",
            Self::Full => "full",
            Self::CutOff => "cut_off",
            Self::Stranger => "stranger",
            Self::NoRoom => "no_room",
            Self::UnknownSource => "unknown_source",
        }
    }

    /// Whether connecting again can help.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Protocol | Self::WrongCluster | Self::Superseded)
    }
}
