//! An open store and its client, and the beginning and end of transactions: what every front end is built over.
//!
//! | file | what is in it |
//! |---|---|
//! | `database` | the client that the transactions of one database share |
//! | `transaction` | begin, commit, abort |
//! | `tries`, `precedence`, `line`, `nested` | running a transaction again; which goes first then; none inside of another |
//! | `wait` | operations written once, blocking and as futures |
//! | `config` | what is chosen before a database is opened |
//! | `open`, `local` | a store in this process: its recovery, its start, its end |
//! | `adjoining` | a client that outlives the stores of its process |
//! | `connect`, `memory` | a store elsewhere: a server or a group; a store in memory |
//! | `spaces`, `catalog` | the store's spaces, by name; the object that their names are in |
//! | `error` | what can go wrong below every front end |
//!
//! A front end has a transaction of its own over [`Transaction`]: it says what the bytes of objects are, and calls the
//! client for each operation by [`Database::wait`].
//!
//! ```
//! use bytes::Bytes;
//! use client::{Created, Read};
//! use database::{Database, Transaction, block_on};
//! use std::task::Poll;
//!
//! let database = Database::in_memory()?;
//! let transaction = Transaction::begin(&database)?;
//! let txn = transaction.handle();
//! let created = database.wait(txn, |client, now| {
//!     Ok(match client.create(now, txn, 0, None, Bytes::from_static(b"hello"))? {
//!         Created::Object(object) => Poll::Ready(object),
//!         Created::Wait => Poll::Pending,
//!     })
//! });
//! let object = block_on(created)?;
//! let committed = block_on(transaction.commit(None))?;
//! assert!(committed.version.is_some());
//!
//! let transaction = Transaction::begin(&database)?;
//! let txn = transaction.handle();
//! let read = database.wait(txn, |client, now| {
//!     Ok(match client.read(now, txn, object)? {
//!         Read::Value(bytes) => Poll::Ready(bytes.len()),
//!         Read::Absent => Poll::Ready(0),
//!         Read::Wait => Poll::Pending,
//!     })
//! });
//! assert_eq!(block_on(read)?, 5);
//! transaction.abort();
//! database.close()?;
//! # Ok::<(), database::Error>(())
//! ```

mod adjoining;
mod catalog;
mod config;
mod connect;
mod database;
mod error;
mod line;
mod local;
mod memory;
mod nested;
mod open;
mod precedence;
mod spaces;
mod transaction;
mod tries;
mod wait;

pub use adjoining::AdjoiningClient;
pub use catalog::{MAIN_SPACE_NAME, MEMBERS_SPACE, Space, VOLUMES_SPACE, check_application_space, check_name};
pub use config::{Config, Eligible};
pub use database::{Database, Local, apart, go_on};
pub use error::{Error, Result};
pub use local::{LocalStore, Recovered};
pub use nested::Inside;
pub use open::client_beside;
pub use transaction::{Committed, Transaction};
pub use tries::{Cure, GaveUp, Tries};
pub use wait::{Async, Blocking, Mode, block_on};
