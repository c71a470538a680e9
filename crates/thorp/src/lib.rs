//! Thorp: a coherent cache and transactional object store.
//!
//! Shared data lives durably in a store. Those who use it keep what they use in a cache of their own, read it with a
//! function call, and never commit on stale data. The store is a directory of this process, or a server.
//!
//! ```
//! use thorp::{Db, Map};
//!
//! # fn main() -> Result<(), thorp::Error> {
//! let db = Db::in_memory()?; // or Db::open("shed"), or Db::connect(address)
//! let wheels = db.transact(|tx| {
//!     let parts: Map<String, u64> = tx.map("parts")?;
//!     let wheels = parts.get(tx, "wheel")?.unwrap_or(0) + 4;
//!     parts.insert(tx, "wheel", &wheels)?;
//!     Ok(wheels)
//! })?;
//! assert_eq!(wheels, 4);
//! # Ok(())
//! # }
//! ```
//! The closure of [`Db::transact`] is run again when others got in between; what it reads is one consistent state each
//! time, and what it does takes effect as a whole or not at all.
//!
//! | to | see |
//! |---|---|
//! | keep typed values that refer to each other | [`Tx::create`], [`Ref`] |
//! | find them again | named roots, [`Map`] |
//! | lay together what is used together | [`Near`], [`Anywhere`] |
//! | wait without a thread | [`Db::transact_async`], [`AsyncTx`] |
//! | know what an error asks for | [`Error::caller`] |

pub use objects::*;
pub use types::limits;

/// The example of the front page is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And so is that of the page on values.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/values.md")]
struct Values;
