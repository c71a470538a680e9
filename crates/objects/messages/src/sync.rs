//! A client asks for all changes that it has not heard yet, for a transaction that begins no earlier than everything
//! that was acknowledged before it (Multicomputer paper, section 4: start vectors).
//!
//! ```text
//!   client                               store
//!     | Sync{number} --------------------> |
//!     | <--------------- Invalidations     |   everything that has committed here
//!     | <------- Synced{number, shards}    |   of these shards
//! ```
//! A commit may be acknowledged before its masters have applied it, but not before they have prepared it. So a
//! master names a shard when everything is applied or released that was prepared there as the question came. The
//! answer comes behind the changes of all commits that were acknowledged, to any client, before the question.
//! Shards where nothing is prepared are named at once, the others in later answers to the same question. A
//! redirector asks the nodes and passes on the answers of each. A node that does not serve a shard, because it
//! moves, does not name it: the client asks again when it learns of the shard's next place.

use alloc::vec::Vec;
use framing::{Rest, messages};
use types::Shard;
use types::limits::SHARDS_MAX;

messages! {
    /// Asks that everything be told which has committed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sync {
        /// A number that the answer repeats; it never goes down.
        pub number: u64,
    }

    /// Everything was told that had committed on these shards when it was asked.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Synced {
        /// The number of the question. One question has several answers: of each node, and for shards that settle
        /// later.
        pub number: u64,
        /// Shards that the answering node serves.
        pub shards: Vec<Shard> as Rest<SHARDS_MAX>,
    }
}
