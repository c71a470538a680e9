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
//! The closure of [`Db::transact`] is run again when others got in between; its reads see one consistent state each
//! time, and its writes take effect as a whole or not at all.
//!
//! | to | see |
//! |---|---|
//! | keep typed values that refer to each other | [`Tx::create`], [`Ref`] |
//! | read and write bytes in part | [`ByteValue`] |
//! | find them again | named roots, [`Map`] |
//! | keep applications apart in one store | [`Space`], [`Builder::space`], [`Db::space`] |
//! | lay together what is used together | [`Near`], [`Anywhere`] |
//! | begin and commit where a closure does not fit | [`Db::begin`], [`Transaction`] |
//! | wait without a thread | [`Db::transact_async`], [`AsyncTx`] |
//! | know what an error asks for | [`Error::caller`] |
//! | read designs that `thorp load` has stored | [`design::Design`] |

pub use objects::{
    Anywhere, Async, AsyncTransaction, AsyncTx, Blocking, Builder, ByteValue, Caller, ClientId, Committed, Cursor, Db,
    EncodeKey, Error, GoodbyeReason, Incarnation, KEY_BYTES_MAX, Key, KeyType, Map, Mode, Near, OBJECTS_NAMED_MAX,
    ObjectId, PageId, Ref, Refusal, Result, SlotSet, Space, Stats, Stored, Transaction, Tx, TxnId, Version, wait_for,
};
pub use types::limits;

/// Designs: files of ISO 10303-21 (IFC, STEP) that `thorp load` has made objects of.
///
/// ```no_run
/// use std::ops::Bound;
/// use thorp::Db;
/// use thorp::design::Design;
///
/// let db = Db::open("shed")?;
/// let Some(house) = db.transact(|tx| Design::find(tx, "house"))? else { return Ok(()) };
/// let mut from = Bound::Unbounded;
/// loop {
///     let entities = db.transact(|tx| house.entities_from(tx, from, 1_000))?;
///     let Some(last) = entities.last() else { return Ok(()) };
///     from = Bound::Excluded(last.entity.number);
///     for wall in entities.iter().filter(|object| object.entity.is_a("IfcWall")) {
///         println!("{}", wall.to_entity());
///     }
/// }
/// # #[expect(unreachable_code)]
/// # Ok::<(), thorp::Error>(())
/// ```
pub mod design {
    pub use designs::{Design, Entity, Extra, Link, Object, Part, Text, Value};
}

/// The example of the front page is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And so is that of the page on values.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/values.md")]
struct Values;

#[cfg(test)]
mod tests {
    use super::{Caller, ClientId, Error, GoodbyeReason, Incarnation, ObjectId, PageId, Refusal, SlotSet, TxnId};

    /// The object and the transaction in an error, by names that an application can write.
    fn subject_of(error: &Error) -> Option<(Option<ObjectId>, Option<TxnId>)> {
        match error {
            Error::NoSuchObject(object) | Error::Format { object, .. } | Error::Damaged { object, .. } => {
                Some((Some(*object), None))
            }
            Error::OutcomeUnknown(txn) => Some((None, Some(*txn))),
            _ => None,
        }
    }

    #[test]
    fn an_unknown_outcome_asks_for_a_look() {
        let txn = TxnId { client: ClientId(1), number: 2 };
        let error = Error::OutcomeUnknown(txn);
        assert_eq!(subject_of(&error), Some((None, Some(txn))));
        assert_eq!(error.caller(), Some(Caller::Look));
        let page = PageId::new(0, 1);
        let refusals = [
            (Refusal::Stale(vec![(page, SlotSet::default())]), Caller::Retry),
            (Refusal::NoSuchPage(page), Caller::Correct),
            (Refusal::Lapsed(Incarnation(1)), Caller::Retry),
        ];
        for (refusal, caller) in refusals {
            assert_eq!(Error::Refused(refusal).caller(), Some(caller));
        }
        let ended = Error::SessionEnded(GoodbyeReason::Stranger, String::new());
        assert_eq!(ended.caller(), Some(Caller::Reconnect));
    }
}
