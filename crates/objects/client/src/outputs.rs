//! The actions that the machine wants done, in order.

use crate::TxnHandle;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use machine::{Goodbye, UpstreamId};
use messages::{Leader, ToPeer, ToServer};
use types::{ClientId, GoodbyeReason};

/// An action that the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message to the node at the other end of this connection.
    Send(UpstreamId, ToServer),
    /// Open a connection to a node at one of these addresses, and open it again whenever it is lost.
    Open(UpstreamId, Vec<String>),
    /// Close a connection to a node for good.
    Close(UpstreamId),
    /// Connect to a peer, and report the outcome.
    DialPeer {
        /// The peer.
        peer: ClientId,
        /// Where it takes connections, as `host:port`.
        address: String,
    },
    /// Send a message to a peer that is connected to.
    SendPeer {
        /// The peer.
        peer: ClientId,
        /// The message.
        message: ToPeer,
    },
    /// Take over as the redirector of our group.
    Lead {
        /// The epoch to claim.
        epoch: u64,
    },
    /// The redirector beside us has asked who leads our group: whose redirector has just given a heartbeat, or `None`
    /// if we are with none.
    LedBy(Option<Leader>),
    /// The event that this transaction waits for has happened: call again.
    Wake(TxnHandle),
    /// The link is no good: drop it and, unless the reason is final, connect again.
    Hangup {
        /// The connection.
        upstream: UpstreamId,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
}

/// The queue that [`crate::Client::poll_output`] empties.
#[derive(Debug, Default)]
pub(crate) struct Outputs(VecDeque<Output>);

impl Outputs {
    /// Sends a message to a node as it is; `Client::send` sends those first that are due before any other.
    pub(crate) fn send(&mut self, to: UpstreamId, message: impl Into<ToServer>) {
        self.0.push_back(Output::Send(to, message.into()));
    }

    /// Opens a connection to a node.
    pub(crate) fn open(&mut self, upstream: UpstreamId, addresses: Vec<String>) {
        self.0.push_back(Output::Open(upstream, addresses));
    }

    /// Closes a connection to a node.
    pub(crate) fn close(&mut self, upstream: UpstreamId) {
        self.0.push_back(Output::Close(upstream));
    }

    /// Connects to a peer.
    pub(crate) fn dial_peer(&mut self, peer: ClientId, address: String) {
        self.0.push_back(Output::DialPeer { peer, address });
    }

    /// Sends a message to a peer that is connected to.
    pub(crate) fn send_peer(&mut self, peer: ClientId, message: impl Into<ToPeer>) {
        self.0.push_back(Output::SendPeer { peer, message: message.into() });
    }

    /// Takes the group over in this epoch.
    pub(crate) fn lead(&mut self, epoch: u64) {
        self.0.push_back(Output::Lead { epoch });
    }

    /// Tells the redirector beside us whose redirector we are with.
    pub(crate) fn led_by(&mut self, leader: Option<Leader>) {
        self.0.push_back(Output::LedBy(leader));
    }

    /// Tells a transaction to call again.
    pub(crate) fn wake(&mut self, txn: TxnHandle) {
        self.0.push_back(Output::Wake(txn));
    }

    /// Drops the link.
    pub(crate) fn hang_up(&mut self, upstream: UpstreamId, why: Goodbye) {
        let Goodbye { reason, text } = why;
        self.0.push_back(Output::Hangup { upstream, reason, text });
    }

    /// The next one.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.0.pop_front()
    }
}
