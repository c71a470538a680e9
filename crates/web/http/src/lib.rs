//! HTTP for clients: listeners, threads, connections over TCP or TLS, and the limits that slow clients meet.
//!
//! ```text
//!   clients --> server: accepts --> threads --> connection --> Answer --> Answered
//!                  |                                |
//!                  +-- connections: places          +-- activity: marks, from which limits are judged
//! ```
//! A front end is a [`Service`]: it says the limits, counts what happens to connections, and opens for each thread an
//! [`Answer`], to which every request goes. It never sees a socket.
//!
//! | module | duty |
//! |---|---|
//! | `service` | the traits that a front end implements |
//! | `server`, `threads` | accepting, and threads with a runtime each |
//! | `connections` | the number of connections, and which make room for others |
//! | `connection`, `activity` | a client's connection, and when it has been slow for too long |
//! | `answered` | the body of an answer on its connection |
//! | `chunks` | trailers of HTTP/1.1, checked before hyper reads them |
//! | `early_hints`, `pending_hints` | responses that come before the final one |
//! | `tls`, `certificates`, `handshake` | PEM files; certificates that change; the start of a connection over TLS |
//! | `limits` | what a client can make grow, and for how long |

mod activity;
mod answered;
mod certificates;
mod chunks;
mod connection;
mod connections;
mod early_hints;
mod handshake;
pub mod limits;
mod pending_hints;
mod server;
mod service;
mod threads;
pub mod tls;

pub use activity::{Activity, Overdue, UnderWay};
pub use answered::{AnswerBody, Answered};
pub use certificates::{CertificateFiles, Certificates, LoadedCertificates};
pub use early_hints::HintsTo;
pub use handshake::HandshakeFailure;
pub use limits::Limits;
pub use server::{Server, Settings};
pub use service::{Answer, ConnectionEvent, Delay, Service, ThreadEnd};
