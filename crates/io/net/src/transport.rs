//! Connections: bytes with readiness, and the messages that they make up. Nothing here knows a machine or a host.
//!
//! ```text
//!   poller --wakeups--> connection [ receiver <--read-- socket <--write-- sender ]
//! ```
//! [`socket::Socket`] alone knows that the bytes are those of TCP, or of a socket of this machine: it reads and writes what is ready and says when there is
//! nothing or no room, as a protected stream would. Transport security takes its place below the sender and the
//! receiver, and nothing above changes.

pub(crate) mod connection;
pub(crate) mod counters;
pub(crate) mod poller;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod watched;
