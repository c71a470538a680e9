//! The machines of a process and what it takes to run them: events go in, and what the machines want done is carried
//! out.
//!
//! ```text
//!   event --> drive: machine's lock, outputs sorted --> messages to connections, wakers, dials
//!               ^                                   --> inboxes of other machines --+
//!               |                                   --> flush: who leads it, when, on which thread
//!               +-------------------------------------------------------------------+
//! ```
//! Nothing here knows which thread it is on, or how sessions come about. The layers above give it what it needs of them
//! when it is made ([`core::Dial`]) or by a trait: [`link::Filter`], [`caller::Caller`].

mod adjoining;
pub(crate) mod caller;
pub(crate) mod clock;
pub(crate) mod core;
mod disk;
pub(crate) mod drive;
pub(crate) mod failure;
pub(crate) mod flush;
pub(crate) mod last_words;
pub(crate) mod link;
pub(crate) mod role;
pub(crate) mod tasks;
pub(crate) mod timers;
