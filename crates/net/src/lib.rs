//! The hands on a network: TCP links, the drive loop of a process, a link emulator.
//!
//! ```text
//!    application threads            network tasks                    disk
//!         |  lock, call, unlock          |  one per link, reads        |  threads of its own
//!         v                              v                             v
//!      settle() ---------------->  Host::drive: an event, under the node's lock  <--- done
//!                                        |
//!            messages to their links ----+---- disk work ---- wakers ---- timer
//! ```
//! [`Host`] runs one [`node::Node`]. Whoever has an event gives it to the node under the lock, sorts what the node wants
//! done to where it belongs, still under the lock so that nothing overtakes, and carries it out when the lock is free:
//! an application's thread writes its own request to the socket, and the task that has read a commit leads the flush
//! that makes it durable and writes the reply. On the way of a lone commit no thread waits for another, except the
//! application's for its answer.
//!
//! [`Host::listen`] takes sessions, [`Host::connect`] opens one. [`Emulator`] puts a distance between the two.

mod clock;
mod counters;
mod emulator;
mod host;
mod leader;
mod link;
mod receive;
mod runtime;
mod server;
mod timer;
mod uplink;
mod wakers;

pub use counters::{Counters, Tally};
pub use emulator::{Emulator, LinkTally};
pub use host::{Host, HostEnd};
pub use runtime::Runtime;
pub use server::{ListenConfig, ListenError, refuse_open_network};
pub use uplink::{ConnectError, UplinkConfig, UplinkState};
