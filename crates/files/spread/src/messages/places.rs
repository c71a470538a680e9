//! The home of a space: the node that has its sites, in a store of several. A space goes to another node.
//!
//! ```text
//!   publisher, subscriber                 n1                                              n2
//!     | Enter{space}, or a Join ---------> |   the sites are at n2
//!     | <------------- Elsewhere{address}  |   the session ends
//!     | Enter{space} ----------------------------------------------------------------->   |
//!
//!   n3                                    n2
//!     | Want{hashes} --------------------> |   the chunks of all revisions, while n2 serves
//!     | HandOver{ticket, to: n3} --------> |   it ends the other sessions of the space
//!     | <----- HandedOver{term, hashes} *  |   nothing is under way; n3 takes the home in one transaction
//! ```

use super::fields::Hashes;
use alloc::string::String;
use alloc::vec::Vec;
use framing::{Text, messages};
use tree::ChunkHash;
use types::NodeId;
use types::limits::{ADDRESS_BYTES_MAX, SPACE_NAME_BYTES_MAX};

messages! {
    /// The session is for the sites of a space.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Enter {
        /// The space.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
    }

    /// The sites of the space are at another node. The session ends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Elsewhere {
        /// Where that node is.
        pub address: String as Text<ADDRESS_BYTES_MAX>,
    }

    /// A node has copied the sites of a space, and wants to be their home.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HandOver {
        /// The asker's number for the request.
        pub ticket: u64,
        /// The node.
        pub to: NodeId,
        /// The space.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
    }

    /// The sites of the space are served here no longer, and nothing of theirs is under way.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HandedOver {
        /// The asker's number for the request.
        pub ticket: u64,
        /// The term of the home here, which the next one ends.
        pub term: u64,
        /// The longest lease that subscribers may have, in milliseconds.
        pub lease_ms: u32,
        /// Whether this is the last part of the answer.
        pub is_last: bool,
        /// Chunks of uploads that are in no revision yet.
        pub hashes: Vec<ChunkHash> as Hashes,
    }
}
