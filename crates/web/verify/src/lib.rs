//! The web front end for servers that keep a cache of their own, such as nginx, or PHP with files: whether they may use
//! what they have.
//!
//! ```text
//!   client -- request --> server -- "what of this key?" --> helper -- word --> home
//!                           |  \
//!                 version:  |   `- request, ticket --> application -- ticket, dependencies --> helper: stored?
//!               use it, or  |                              |
//!                           |  <-- response, "stored" -----+
//!                      keep it under key and version
//! ```
//! The helper gives each key a version, and says at each request whether what is kept under it may be used (rule
//! LookAtHit of `docs/coherence.md`). With it goes a ticket, taken before the request goes to the application
//! (StoreIfUntouched). The application sends the ticket back with what its response depends on, and is told whether
//! that is stored; only then the server keeps it. When anything changes that is stored under a version, the key has
//! another one from then on.
//!
//! `docs/verify.md` has the requests, and `examples` servers that make them.

mod counters;
mod error;
mod helper;
mod home;
mod keys;
pub mod limits;
mod refusal;
mod rule;
mod service;
pub mod tables;
mod ticket;
mod verify;

pub use counters::Tally;
pub use error::StartError;
pub use helper::{Declined, Helper, Look, NotTold, Pass};
pub use ops::Stopper;
pub use rule::Rule;
pub use verify::{Config, Verify};
