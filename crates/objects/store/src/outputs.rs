//! The actions that the machine wants done, in order.

use crate::{DiskWork, Output, Position, SessionId};
use alloc::collections::VecDeque;
use alloc::string::String;
use machine::{Goodbye, Port, UpstreamId};
use messages::{ToClient, ToNode};

/// The queue that [`crate::Store::poll_output`] empties.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    queue: VecDeque<Output>,
    is_silent: bool,
}

impl Outputs {
    /// Sends a message that depends on nothing but what is durable already.
    pub(crate) fn send(&mut self, to: SessionId, message: impl Into<ToClient>) {
        self.push(Output::Send { to, message: message.into(), after: None });
    }

    /// Sends a message once everything through `after` is durable.
    pub(crate) fn send_after(&mut self, to: SessionId, message: impl Into<ToClient>, after: Option<Position>) {
        self.push(Output::Send { to, message: message.into(), after });
    }

    /// Tells the peer why, then ends the session.
    pub(crate) fn end(&mut self, session: SessionId, why: Goodbye) {
        self.queue.push_back(Output::Send { to: session, message: why.clone().into(), after: None });
        let Goodbye { reason, text } = why;
        self.queue.push_back(Output::End { session, reason, text });
    }

    /// Asks to be told when everything that was sent on a session has left.
    pub(crate) fn await_room(&mut self, session: SessionId) {
        self.push(Output::AwaitRoom(session));
    }

    /// Says something to another node.
    pub(crate) fn say(&mut self, port: Port, message: ToNode) {
        self.push(Output::Say(port, message));
    }

    /// Tells another node why, then ends the connection.
    pub(crate) fn end_port(&mut self, port: Port, why: Goodbye) {
        self.queue.push_back(Output::Say(port, why.clone().into()));
        self.queue.push_back(Output::EndLink(port, why));
    }

    /// Opens a connection to another node, whenever there is none.
    pub(crate) fn open_link(&mut self, upstream: UpstreamId, address: String) {
        self.push(Output::OpenLink(upstream, address));
    }

    /// Closes one for good.
    pub(crate) fn close_link(&mut self, upstream: UpstreamId) {
        self.push(Output::CloseLink(upstream));
    }

    /// Asks for disk work.
    pub(crate) fn disk(&mut self, work: DiskWork) {
        self.push(Output::Disk(work));
    }

    /// Says that the process may stop.
    pub(crate) fn closed(&mut self) {
        self.push(Output::Closed);
    }

    /// Takes goodbyes only, from now on.
    pub(crate) fn silence(&mut self) {
        self.is_silent = true;
    }

    fn push(&mut self, output: Output) {
        if !self.is_silent {
            self.queue.push_back(output);
        }
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }
}
