//! How a session begins, resumes, shows that it lives, and ends.
//!
//! ```text
//!   client                                store
//!     | Hello{client, epoch}  ------------> |   an older epoch of the client is fenced off
//!     | <------------ Welcome{incarnation}  |
//!     | Rejoin{pages}, Rejoin{last} ------> |   lists each page, compares its version
//!     | <---- Notices (what was missed)     |
//!     | <---- Rejoined{through, dropped}    |   from here on the horizon moves again
//! ```
//! A client with an empty cache sends one `Rejoin{last}` without pages: there is one way in.

use crate::PROTOCOL;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use types::{ClientId, ClusterId, GoodbyeReason, Incarnation, NodeId, PageId, PageRange, Version};

/// Opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest and newest protocol that the client speaks.
    pub protocol: (u16, u16),
    /// What the client is or can do beside what every client can, one bit each: [`crate::GROUP`].
    pub features: u64,
    /// The store that the client's cache belongs to; `None` for an empty cache.
    pub cluster: Option<ClusterId>,
    /// The client.
    pub client: ClientId,
    /// Counts the client's sessions. Of two sessions of one client the higher epoch lives.
    pub epoch: u64,
}

impl Hello {
    /// The protocol that both speak, if the client's cache may meet pages of `cluster` at all.
    ///
    /// # Errors
    /// `Protocol` if there is no such protocol, `WrongCluster` if the cache is of another store.
    pub fn agree(&self, cluster: ClusterId) -> Result<u16, Goodbye> {
        let (oldest, newest) = self.protocol;
        let protocol = newest.min(PROTOCOL.1);
        if protocol < oldest.max(PROTOCOL.0) {
            let text = format!("expected a protocol from {} to {}, got {oldest} to {newest}", PROTOCOL.0, PROTOCOL.1);
            return Err(Goodbye { reason: GoodbyeReason::Protocol, text });
        }
        match self.cluster {
            Some(got) if got != cluster => {
                let text = format!("expected a cache of store {cluster:?}, got one of {got:?}");
                Err(Goodbye { reason: GoodbyeReason::WrongCluster, text })
            }
            _ => Ok(protocol),
        }
    }
}

/// Accepts a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol that both will speak.
    pub protocol: u16,
    /// The client's features that its other end knows too.
    pub features: u64,
    /// The store's data set.
    pub cluster: ClusterId,
    /// The store node that answers.
    pub node: NodeId,
    /// Its process's life.
    pub incarnation: Incarnation,
    /// The count through which its master has applied updates.
    pub through: Version,
    /// What the client may ask of it.
    pub limits: SessionLimits,
}

/// What one session may ask of a store at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Pages being fetched.
    pub fetches: u32,
    /// Commit requests outstanding.
    pub commits: u32,
    /// Silence after which the other side is taken for dead, in milliseconds; a ping is due at a third of it.
    pub silence_ms: u32,
}

/// Ends a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// Why, by name.
    pub reason: GoodbyeReason,
    /// Why, for a person: what was expected and what came.
    pub text: String,
}

impl Goodbye {
    /// A message broke the protocol: the text says what was expected and what came.
    pub fn malformed(text: String) -> Self {
        Self { reason: GoodbyeReason::Malformed, text }
    }

    /// A bound on what a peer can make grow was passed.
    pub fn too_much(text: String) -> Self {
        Self { reason: GoodbyeReason::TooMuch, text }
    }
}

/// A page that a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The page.
    pub page: PageId,
    /// The version of the client's frame.
    pub version: Version,
}

/// Some of what a client still holds. Several may follow one another; the last one says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoin {
    /// The client's horizon: it has heard of every change to what it holds through here.
    pub horizon: Version,
    /// Pages that it holds.
    pub pages: Vec<Held>,
    /// Pages that it was granted and has not filled yet.
    pub grants: Vec<PageRange>,
    /// Whether this is all.
    pub last: bool,
}

/// Everything named by the rejoin is listed; notices of what was missed have gone before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoined {
    /// The client's horizon once it has applied those notices and dropped `dropped`.
    pub through: Version,
    /// Pages that changed in ways the store no longer knows slot by slot: the client drops them.
    pub dropped: Vec<PageId>,
}

/// Are you there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Comes back in the pong.
    pub nonce: u64,
}

/// Yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The ping's.
    pub nonce: u64,
}
