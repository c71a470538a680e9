//! Copies of a log elsewhere, as numbers: who counts how much of it, and what a holder keeps of it.
//!
//! The one that writes the log sends each record to some holders, in order. A link keeps that order and so does a
//! holder's log, so everything that a holder has of a stream is told by one number: it counts every record through that
//! one.
//!
//! | module | duty |
//! |---|---|
//! | `counts` | the writer's side: what so many count |
//! | `partition` | a holder's side: the copies that it keeps, and what it counts |

mod counts;
mod partition;

pub(crate) use counts::Counts;
pub(crate) use partition::Partition;
