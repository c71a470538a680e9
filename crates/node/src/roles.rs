//! The roles of the object door as machines, and what a client and the redirector beside it say to each other.
//!
//! A process that may lead its group hosts a redirector beside a client. The two talk like any other member and
//! redirector, over the network: which redirector leads the group, this one or another, changes with time. But
//! the client knows more of its group than a redirector that stands by.

mod client;
mod redirector;
mod store;

use core::any::type_name;
use protocol::{Leader, Message, Parcel};

/// A message of the kind that a port carries.
///
/// # Panics
/// If it is of another: the driver has made the link with a codec that is not the role's.
fn open<M: Message>(parcel: Parcel) -> M {
    parcel.open().unwrap_or_else(|other| panic!("expected a {}, got {other:?}", type_name::<M>()))
}

/// To a redirector, from the client beside it.
#[derive(Debug)]
pub(crate) enum Leading {
    /// Take the group over, in this epoch.
    Lead { epoch: u64 },
    /// The leader of the group, as the redirector has asked.
    LedBy(Option<Leader>),
}

/// To a client, from the redirector beside it: somebody knocks there, so who leads the group?
#[derive(Debug)]
pub(crate) struct LookForLeader;
