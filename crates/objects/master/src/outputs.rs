//! The actions that a master wants done, in order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use machine::Goodbye;
use messages::{Advance, CopiedPage, Granted, NotCopied, ToClient, Vote};
use types::{NodeId, PageId, SessionId, Shard, SlotChange, TxnId, Vector, Version};

/// An action that a master wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message on a session; messages of one session keep their order.
    Send(SessionId, ToClient),
    /// Send a grant. If it moves the `next` of its space, that must be durable first.
    Grant(SessionId, Granted, Option<NextPage>),
    /// Say when everything that was sent on this session before has left, by [`crate::Master::has_room`].
    AwaitRoom(SessionId),
    /// A session has ended, and this is why.
    End(SessionId, Goodbye),
    /// Tell the coordinator at this node.
    Vote(NodeId, Vote),
    /// Tell the coordinator at this node that a transaction is applied, and the own one how it has moved its pages.
    Applied(NodeId, TxnId, Vec<Advance>),
    /// Tell all coordinators that this shard is served, which may have been about to close.
    Serving(Shard),
    /// Send a node the copy of a page.
    Copied(NodeId, CopiedPage),
    /// Tell a node that there is no copy of a page.
    NotCopied(NodeId, NotCopied),
    /// Read these pages from the home: [`crate::Master::has_read`] or [`crate::Master::is_damaged`] for each.
    Read(Vec<PageId>),
    /// Write pages back. One is outstanding at a time: [`crate::Master::installed`] or [`crate::Master::home_full`].
    Install(Install),
}

/// All pages of the space below `next` have been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPage {
    /// The space.
    pub space: u32,
    /// The number of the first page that has not been granted.
    pub next: u32,
}

/// Pages as of one moment, to be written back in one atomic batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The pages.
    pub pages: Vec<HomeImage>,
    /// The highest counts that were applied at that moment. Everything here is at or below them.
    pub applied: Vector,
    /// For each space the first page that was not granted.
    pub next_pages: Vec<(u32, u32)>,
    /// All changes to pages that cannot be read.
    pub aside: Vec<SetAside>,
}

/// Changes to a page whose image in the home cannot be read. The checkpoint keeps them, so that the log can be freed.
/// They are written back if the image can be read again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The page.
    pub page: PageId,
    /// The page's version with these changes.
    pub version: Version,
    /// The slots that were changed, in order.
    pub changes: Vec<SlotChange>,
}

/// A page as it goes to or comes from the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeImage {
    /// The page.
    pub page: PageId,
    /// Its version.
    pub version: Version,
    /// Its image.
    pub image: Bytes,
}

/// The entry of one page in the home when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomePage {
    /// The page.
    pub page: PageId,
    /// Its version.
    pub version: Version,
    /// The length of its image, in bytes.
    pub bytes: u32,
}

/// The queue that [`crate::Master::poll_output`] empties.
#[derive(Debug, Default)]
pub(crate) struct Outputs(VecDeque<Output>);

impl Outputs {
    /// Wants something done.
    pub(crate) fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, to: SessionId, message: impl Into<ToClient>) {
        self.push(Output::Send(to, message.into()));
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}
