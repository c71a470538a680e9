//! One node and what it takes to run it: events go in, and what the node wants done is carried out.
//!
//! ```text
//!   event --> drive: node's lock, outputs sorted --> messages to connections, wakers, dials
//!                                                --> flush: who leads it, when, on which thread
//! ```
//! Nothing here knows which thread it is on, or how sessions come about. The layers above give it what it needs of them
//! when it is made ([`core::Dial`]) or by a trait: [`link::Filter`], [`core::Caller`].

pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod drive;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod flush;
pub(crate) mod last_words;
pub(crate) mod link;
pub(crate) mod tasks;
pub(crate) mod timers;
pub(crate) mod wakers;
