//! The actions that the machine wants done, in order.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use machine::{Goodbye, UpstreamId};
use messages::{ToClient, ToServer};
use types::{GoodbyeReason, SessionId};

/// An action that the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message to a member.
    Send {
        /// The member's session.
        to: SessionId,
        /// The message.
        message: ToClient,
    },
    /// End a member's session, after the messages before have gone out.
    End {
        /// The session.
        session: SessionId,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
    /// Ask the member beside us whether its redirector lives.
    LookForLeader,
    /// Send a message to the node at the other end of this connection.
    Upstream(UpstreamId, ToServer),
    /// Open a connection to a node at one of these addresses, and open it again whenever it is lost.
    Open(UpstreamId, Vec<String>),
    /// Close a connection to a node for good.
    Close(UpstreamId),
    /// The connection to a node is no good: drop it and, unless the reason is final, connect again.
    Hangup {
        /// The connection.
        upstream: UpstreamId,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
    /// It has closed: the process may stop.
    Closed,
}

/// The queue that [`crate::Redirector::poll_output`] empties.
#[derive(Debug, Default)]
pub(crate) struct Outputs(VecDeque<Output>);

impl Outputs {
    pub(crate) fn send(&mut self, to: SessionId, message: impl Into<ToClient>) {
        self.0.push_back(Output::Send { to, message: message.into() });
    }

    pub(crate) fn upstream(&mut self, to: UpstreamId, message: impl Into<ToServer>) {
        self.0.push_back(Output::Upstream(to, message.into()));
    }

    pub(crate) fn open(&mut self, upstream: UpstreamId, addresses: Vec<String>) {
        self.0.push_back(Output::Open(upstream, addresses));
    }

    pub(crate) fn close(&mut self, upstream: UpstreamId) {
        self.0.push_back(Output::Close(upstream));
    }

    /// Tells the member why, then ends its session.
    pub(crate) fn end(&mut self, session: SessionId, why: Goodbye) {
        self.send(session, why.clone());
        let Goodbye { reason, text } = why;
        self.0.push_back(Output::End { session, reason, text });
    }

    pub(crate) fn closed(&mut self) {
        self.0.push_back(Output::Closed);
    }

    pub(crate) fn look_for_leader(&mut self) {
        self.0.push_back(Output::LookForLeader);
    }

    pub(crate) fn hang_up(&mut self, upstream: UpstreamId, reason: GoodbyeReason, text: String) {
        self.0.push_back(Output::Hangup { upstream, reason, text });
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}
