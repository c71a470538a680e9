//! The actions that the machine wants done, in order.

use alloc::collections::VecDeque;
use alloc::string::String;
use machine::Goodbye;
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
    /// Send a message to the store.
    Upstream(ToServer),
    /// The connection to the store is no good: drop it and, unless the reason is final, connect again.
    Hangup {
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

    pub(crate) fn upstream(&mut self, message: impl Into<ToServer>) {
        self.0.push_back(Output::Upstream(message.into()));
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

    pub(crate) fn hang_up(&mut self, reason: GoodbyeReason, text: String) {
        self.0.push_back(Output::Hangup { reason, text });
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}
