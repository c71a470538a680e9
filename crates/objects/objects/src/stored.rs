//! The names of a space, for programs that do not know the types: a listing can show the maps and objects of any
//! application, with the number of their entries.

use crate::cursor::Cursor;
use crate::kinds::{self, Kinds};
use crate::node::Root;
use crate::value::{Slot, Value};
use crate::{Mode, Ref, Result, Tx};
use std::future::Future;
use std::ops::Bound;

/// A name, and the map or object that it stands for.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The name.
    pub name: String,
    /// The map or object in words, such as `a value of type Part`.
    pub what: String,
    is_map: bool,
    object: Ref<()>,
}

/// A number of entries, and the encoded key behind which there may be more.
type Counted = (usize, Option<Vec<u8>>);

impl Stored {
    /// Whether it is a map, whose entries can be counted.
    pub fn is_map(&self) -> bool {
        self.is_map
    }

    /// Counts entries of a map, some more than `at_most` at the most. Returns with them the encoded key behind which
    /// another call counts on, in the same transaction or in another; `None` at the end.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// # db.transact(|tx| stock.insert(tx, "wheel", &4))?;
    /// let stored = db.transact(|tx| tx.stored())?;
    /// assert_eq!((&*stored[0].name, stored[0].is_map()), ("stock", true));
    /// assert_eq!(stored[0].what, "a map with keys of type String");
    /// assert_eq!(db.transact(|tx| stored[0].count_from(tx, None, 1_000))?, (1, None));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn count_from<M: Mode>(
        &self,
        tx: &mut Tx<M>,
        behind: Option<Vec<u8>>,
        at_most: usize,
    ) -> M::Out<impl Future<Output = Result<Counted>>> {
        let lower = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let cursor = Cursor::<Vec<u8>, ()>::new(Root::new(self.object, Kinds::ANY), lower, Bound::Unbounded);
        let is_map = self.is_map;
        M::run(async move { if is_map { cursor.count_some(tx, at_most).await } else { Ok((0, None)) } })
    }
}

impl<M: Mode> Tx<M> {
    /// Everything in the transaction's space that goes by a name, and what it is. The objects that only others refer to
    /// are not among it.
    pub fn stored(&mut self) -> M::Out<impl Future<Output = Result<Vec<Stored>>>> {
        M::run(async move {
            let named = self.all_named().await?;
            self.read_ahead(named.iter().map(|(.., object)| object.id()))?;
            let mut all = Vec::with_capacity(named.len());
            for (name, is_map, object) in named {
                let what = self.read_slot(object.id(), |slot| Slot::parse(object.into(), slot).map(describe)).await?;
                let what = what.transpose()?.flatten().unwrap_or_else(|| "nothing: its object was deleted".to_owned());
                all.push(Stored { name, what, is_map, object });
            }
            Ok(all)
        })
    }
}

fn describe(slot: Option<Slot<'_>>) -> Option<String> {
    let slot = slot?;
    let map = match slot.value {
        Value::Inline(content) if slot.kind.is_of_map() => kinds::describe(content),
        _ => None,
    };
    Some(map.unwrap_or_else(|| slot.describe()))
}
