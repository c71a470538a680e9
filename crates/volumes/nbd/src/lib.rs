//! The NBD protocol, and a server that speaks it over any [`Device`]: fixed newstyle handshake, structured replies,
//! `base:allocation`.
//!
//! | file | what it is |
//! |---|---|
//! | `device` | what a server serves: requests by batches, answers in any order |
//! | [`numbers`] | the protocol's magic numbers, options, commands and flags |
//! | `limits` | what a client may have at most |
//! | `handshake` | the first phase, from bytes to a session: pure |
//! | `requests` | the second phase, from bytes to requests: pure |
//! | `replies` | from answers to bytes: pure |
//! | `outbox` | replies on their way out, with their payloads in place |
//! | `buffers` | the memory that requests are received into, again and again |
//! | `connection` | the threads of a connection: who reads, who waits for a disk, who waits for the client |
//! | `listen` | addresses, and who may connect |
//! | `presence` | whether a client is there, and the changes under way for it |
//! | `shared` | exports and connections, as all threads know them |
//! | `server` | accepts, shakes hands, stops gracefully |
//! | `counters` | what was served and what was refused, by reason |
//!
//! The specification is `doc/proto.md` of the NBD project.

mod buffers;
mod connection;
mod counters;
mod device;
mod handshake;
mod limits;
mod listen;
pub mod numbers;
mod outbox;
mod presence;
mod replies;
mod requests;
mod server;
mod shared;

pub use counters::{Ended, Tally};
pub use device::{Answer, Device, Errno, Extent, Form, Geometry, Operation, Permit, Piece, Replies, Request, Ticket};
pub use handshake::{Catalog, Handshake, Session, Step, greeting};
pub use limits::{
    CONNECTIONS_MAX, CREW_MAX, EXTENTS_MAX, HANDSHAKE_WITHIN, HANDSHAKES_MAX, NAME_BYTES_MAX, OPTION_BYTES_MAX,
    OPTIONS_MAX, OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX, PAYLOAD_BYTES_MAX,
};
pub use listen::{Address, AddressError};
pub use requests::{Item, Requests};
pub use server::{Server, ServerConfig, Watch};
pub use shared::Export;
