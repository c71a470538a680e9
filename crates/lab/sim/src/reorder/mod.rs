//! Reordering: two masters, and caches that learn of either one's pages on both streams.
//!
//! A simulated node has one store, whose invalidations come in sequence; the vcache has nothing to do there. With
//! several store nodes a change of one master's page can come on the stream of another, which coordinated its
//! transaction, before or after what the page's own master tells. Here are two masters' worth of that, around the real
//! cache, the real *recent* and its validation, the real directory and streams, and the messages of the protocol.
//!
//! ```text
//!   master 0 ==== stream ====> member       its own pages: every change, in order, and a `through`
//!     |  ^                       |          pages of both:  what it coordinates, with the new values
//!   commit, numbered at both     |
//!     v  |                       v
//!   master 1 ==== stream ====> member       ... and pages on their way from a master or a peer, in any order
//! ```
//! Each step one thing happens, drawn from the seed: a stream delivers its next message, a page arrives, a transaction
//! begins, a page is evicted, a stream repeats itself, a session is lost and resumed. At the end everything is
//! delivered, and the caches must have joined up what came out of order.
//!
//! | file | |
//! |---|---|
//! | `scenario` | what kind of day it is |
//! | `master` | one store node's worth: pages, counts, *recent*, the holders, changes left to another to tell |
//! | `member` | one client's worth: cache, horizons, fetches, requests |
//! | `links` | streams, requests and pages under way |
//! | `commit` | a transaction over both masters: judged, numbered, told |
//! | `step` | what can happen next |
//! | `check` | what must be true of every cache at every step |
//! | `run` | one run from its seed to its verdict |

mod check;
mod commit;
mod links;
mod master;
mod member;
mod run;
mod scenario;
mod step;

pub(crate) use run::run_seed;
use types::PageId;

const MASTERS: usize = 2;

/// A member, by its place.
type MemberNo = usize;

/// The master of a page: each has a space of its own.
fn master_of(page: PageId) -> usize {
    page.space as usize
}
