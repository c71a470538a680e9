//! The actions that the machine wants done, in order.

use crate::{DiskWork, Output, Position, SessionId};
use alloc::collections::VecDeque;
use machine::Goodbye;
use messages::{ToClient, ToNode};
use types::NodeId;

/// The queue that [`crate::Store::poll_output`] empties.
#[derive(Debug, Default)]
pub(crate) struct Outputs(VecDeque<Output>);

impl Outputs {
    /// Sends a message that depends on nothing but what is durable already.
    pub(crate) fn send(&mut self, to: SessionId, message: impl Into<ToClient>) {
        self.0.push_back(Output::Send { to, message: message.into(), after: None });
    }

    /// Sends a message once everything through `after` is durable.
    pub(crate) fn send_after(&mut self, to: SessionId, message: impl Into<ToClient>, after: Option<Position>) {
        self.0.push_back(Output::Send { to, message: message.into(), after });
    }

    /// Tells the peer why, then ends the session.
    pub(crate) fn end(&mut self, session: SessionId, why: Goodbye) {
        self.send(session, why.clone());
        let Goodbye { reason, text } = why;
        self.0.push_back(Output::End { session, reason, text });
    }

    /// Asks to be told when everything that was sent on a session has left.
    pub(crate) fn await_room(&mut self, session: SessionId) {
        self.0.push_back(Output::AwaitRoom(session));
    }

    /// Says something to another node.
    pub(crate) fn tell(&mut self, to: NodeId, message: ToNode) {
        self.0.push_back(Output::Tell(to, message));
    }

    /// Ends the link to another node, and says why.
    pub(crate) fn end_link(&mut self, node: NodeId, why: Goodbye) {
        self.tell(node, why.clone().into());
        self.0.push_back(Output::EndLink(node, why));
    }

    /// Asks for disk work.
    pub(crate) fn disk(&mut self, work: DiskWork) {
        self.0.push_back(Output::Disk(work));
    }

    /// Says that the process may stop.
    pub(crate) fn closed(&mut self) {
        self.0.push_back(Output::Closed);
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}
