//! The first front end: transactional objects.
//!
//! | file | what is in it |
//! |---|---|
//! | `db` | a database, and the loop that runs transactions |
//! | `tx` | a running transaction: get, put, create, delete |
//! | `transaction` | transactions that the application begins and ends itself |
//! | `object` | an object's value in a transaction, wherever it is stored |
//! | `value`, `format`, `chain` | how objects are in slots, and in chains of chunks when they are large |
//! | `cbor`, `named` | how values are encoded, and by which names they know their types |
//! | `ids` | object ids in the bytes of objects |
//! | `reference`, `references` | typed references; where an object refers to, by its bytes |
//! | `stamp` | what tells an object from the next one in its slot |
//! | `key`, `key_type`, `kinds` | the keys of maps, and what a map knows of its types |
//! | `tree`, `node`, `map`, `cursor` | the ordered map |
//! | `byte_value`, `byte_head`, `byte_table`, `byte_line` | bytes that are read and written in part |
//! | `slots` | many slots in one call |
//! | `roots` | names that objects, maps and byte values are found by |
//! | `stored` | what names stand for, for programs that do not know the types |
//! | `spaces` | the spaces of a store |
//! | `open` | where the store is: a directory, a server or a group, memory; and what may be chosen before |
//! | `join` | an application that is a node of a store of several (feature `cluster`) |
//! | `error` | what can go wrong, sorted by what the caller should do |

mod byte_head;
mod byte_line;
mod byte_table;
mod byte_value;
mod cbor;
mod chain;
mod cursor;
mod db;
mod error;
mod format;
mod ids;
#[cfg(feature = "cluster")]
mod join;
mod key;
mod key_type;
mod kinds;
mod map;
mod named;
mod node;
mod object;
mod open;
mod reference;
mod references;
mod roots;
mod slots;
mod spaces;
mod stamp;
mod stored;
mod transaction;
mod tree;
mod tx;
mod value;

pub use byte_value::ByteValue;
pub use client::Stats;
pub use cursor::Cursor;
pub use database::{Async, Blocking, Committed, Mode, Space};
pub use db::{Db, over, wait_for};
pub use error::{Caller, Error, Result};
pub use key::{EncodeKey, KEY_BYTES_MAX, Key};
pub use key_type::KeyType;
pub use map::Map;
pub use open::Builder;
pub use reference::{Anywhere, Near, Ref};
pub use references::references;
pub use stored::Stored;
pub use transaction::{AsyncTransaction, Transaction};
pub use tx::{AsyncTx, OBJECTS_NAMED_MAX, Tx};
pub use types::{ClientId, GoodbyeReason, Incarnation, ObjectId, PageId, Refusal, SlotSet, TxnId, Version};
