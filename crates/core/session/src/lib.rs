//! Sessions, decided in one place.
//!
//! | module | decides | for |
//! |---|---|---|
//! | [`upstream`] | how far a session is that this end has opened, and what is due on it | a client's session, a redirector's trunk |
//! | [`pulse`] | whether the other end lives | `upstream` |
//! | [`dialer`] | where the next session is tried, and when | an end that connects |
//! | [`admission`] | whether a peer is let in | an end that listens to peers |
//!
//! All of it is pure: the time is given, and what should be done is said. The rest of a session is its role's affair:
//! catching up, acknowledging and releasing.
#![no_std]

extern crate alloc;

pub mod admission;
pub mod dialer;
pub mod pulse;
pub mod upstream;

pub use admission::admit;
pub use dialer::{Attempt, Dialer, Next, Target, Times};
pub use pulse::Pulse;
pub use upstream::{Overdue, Phase, Upstream};
