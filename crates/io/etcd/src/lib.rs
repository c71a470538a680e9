//! A client of etcd's HTTP gateway, for programs that keep a few keys there: no `protoc`, no gRPC.
//!
//! ```text
//!   Etcd::read      all keys below a prefix, as of one revision
//!   Etcd::commit    a transaction: compare, then put or delete
//!   Etcd::grant, keep_alive, revoke     leases, whose keys go when they expire
//! ```
//! 1. Every call ends within the time that the client was made with, at each endpoint.
//! 2. A call whose answer is lost is sent to the next endpoint. So a transaction may be carried out and reported as not
//!    carried out: its caller reads the keys. A transaction must compare, so that a second copy has no effect.
//! 3. An answer is not trusted: it is bounded, and an error names what was expected.
//!
//! | file | what it knows or does |
//! |---|---|
//! | `address` | where etcd is, and what the keys are for |
//! | `client` | calls over HTTP, at one endpoint after another |
//! | `wire` | requests and answers in JSON |
//! | `error` | why a call has no answer |

mod address;
mod client;
mod error;
mod wire;

pub use address::EtcdUrl;
pub use client::Etcd;
pub use error::EtcdError;
pub use wire::{Compare, Entry, Lease, LeaseId, Operation, Snapshot};
