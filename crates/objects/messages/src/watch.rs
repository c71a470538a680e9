//! How a watcher is at its store: it learns of each commit before anybody can see the change, and when everybody
//! can.
//!
//! ```text
//!   watcher                                store
//!     | Hello{features: WATCH} ----------> |
//!     | Resume{last}, Resumed              |   it holds no page, and counts as holding each of the leased spaces
//!     | Ping ----------------------------> |
//!     | <--------- Intent{txn, pages}*     |   what is prepared already, and will wait for no word of the watcher's
//!     | <------------ Leased, Pong         |   commits wait for the watcher from now on, for as long as its lease lasts
//!     | <---------- Intent{txn, pages}     |   one is valid, and is not logged yet
//!     | Promise{txn} --------------------> |   it may become visible
//!     | <------- Invalidations{.. txn}     |   it is: whoever asks the store from now on sees it
//! ```
//! The messages are those of leases ([`crate::lease`]) and of invalidations ([`crate::invalidation`]). A watcher is
//! asked for each commit, also if it has promised for the same slots a moment ago (**PromiseOnce**): its promise says
//! that nobody uses any more what was read before this change, and not that somebody asks before the next one.
//!
//! In a store of several nodes a watcher has a session with each node, and each says this of the pages that it is the
//! master of. A transaction that changes pages of two nodes comes in an intent of each; a promise is for the node that
//! it is sent to. A master may release what it has prepared, because another one is busy or refuses:
//!
//! ```text
//!     | <---------- Intent{txn, pages}     |   prepared
//!     | <---------- Abandoned{txn}         |   released: if it is prepared again, there is another intent
//! ```

use framing::messages;
use types::TxnId;

messages! {
    /// A transaction that was about to change pages here changes nothing (**TellAbandoned**).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Abandoned {
        /// The transaction.
        pub txn: TxnId,
    }
}

/// In [`crate::Hello::features`]: the session is a watcher's. In [`crate::Welcome::features`]: a store answers that
/// asks it.
pub const WATCH: u64 = 2;
