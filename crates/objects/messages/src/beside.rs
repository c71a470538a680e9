//! The local messages between a client and the redirector in its process.
//!
//! A process that may lead its group hosts a redirector beside a client. The two talk like any other member and
//! redirector, over the network, since another redirector may lead the group. But the client knows more of its group
//! than a redirector that stands by.

use crate::Leader;

/// To a redirector, from the client in its process.
#[derive(Debug)]
pub enum Leading {
    /// Take the group over, in this epoch.
    Lead {
        /// The epoch.
        epoch: u64,
    },
    /// The leader of the group, as the redirector has asked.
    LedBy(Option<Leader>),
}

/// To a client, from the redirector in its process, to which a member has connected: who leads the group?
#[derive(Debug)]
pub struct LookForLeader;
