//! The hands on a network: TCP links, the drive loop of a process, a link emulator.
//!
//! ```text
//!    application threads           the reactor's threads              disk
//!         |  lock, call, unlock          |  receive                     |  threads of its own
//!         v                              v                              v
//!      settle() ---------------->  Host::drive: an event, under the node's lock  <--- done
//!                                        |
//!            messages to their links ----+---- disk work ---- wakers ---- timer
//! ```
//! [`Host`] runs one [`node::Node`]. Whoever has an event gives it to the node under the lock, sorts what the node wants
//! done to where it belongs, still under the lock so that nothing overtakes, and carries it out when the lock is free:
//! an application's thread writes its own request to the socket and reads the answer, and the thread that has read a
//! commit leads the flush that makes it durable and writes the reply. On the way of a lone commit no thread hands
//! anything to another of its process.
//!
//! Sockets are read by the reactor's threads, and by threads of the application that wait; what is rare, to accept, to
//! connect, to wait for a time, are tasks of tokio.
//!
//! [`Host::listen`] takes sessions, of a store or a redirector; [`Host::connect`] opens a client's, and
//! [`Host::connect_trunk`] a redirector's with its store. Members of a group connect to each other by themselves.
//! [`Emulator`] puts a distance between two ends.

mod address;
mod assist;
mod clock;
mod connection;
mod contain;
mod counters;
mod emulator;
mod host;
mod leader;
mod link;
mod look;
mod peers;
mod reactor;
mod runtime;
mod server;
mod slow_start;
mod socket;
mod standing;
mod status;
mod timer;
mod turn;
mod uplink;
mod wakers;

pub use address::AddressError;
#[cfg(feature = "panics")]
pub use contain::PANICS_AT;
pub use counters::{Counters, Tally};
pub use emulator::{Emulator, LinkTally};
pub use host::{Host, HostEnd};
pub use runtime::Runtime;
pub use server::{ListenConfig, ListenError, Listener, refuse_open_network};
pub use standing::{ConnectError, UplinkState};
pub use status::ask_status;
pub use uplink::UplinkConfig;
