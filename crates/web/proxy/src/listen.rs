//! Clients' connections: taken, over TLS or not, and served by threads with a runtime each.
//!
//! | module | duty |
//! |---|---|
//! | `threads`, `worker` | threads, each with a runtime of its own |
//! | `connections` | the number of connections, and which make room for others |
//! | `connection`, `client`, `activity` | a client's connection, and when it has been slow for too long |
//! | `tls`, `certificates`, `handshake` | PEM files; the proxy's certificates; the start of a connection over TLS |

pub(crate) mod activity;
pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod handshake;
pub(crate) mod threads;
pub(crate) mod tls;
pub(crate) mod worker;
