//! How a master tells what has changed.

use crate::bytes::{get_changes, get_slots, put_changes, put_slots, values};
use crate::{Advance, PerShard};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use bytes::Bytes;
use core::mem;
use framing::field::check_count;
use framing::{Field, FieldLayout, Layout, Limits, Meta, Reader, WireError, messages};
use types::limits::{MESSAGE_BYTES_MAX, NOTICES_PER_MESSAGE_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
use types::{ClientId, Delta, Horizon, PageId, SlotChange, SlotSet, TxnId, Vector, Version};

/// A batch: all changes through `through` to pages that the receiver holds are in this batch or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidations {
    /// The counts through which the receiver has heard everything once it has applied the batch.
    pub through: Vector,
    /// The changes, those of each shard in count order.
    pub items: Vec<Invalidation>,
}

impl Invalidations {
    /// Changes in as many batches as they take. Of a receiver that has learned of everything through `before` only the
    /// last one moves the horizon.
    pub fn split(items: Vec<Invalidation>, before: &Vector, through: Vector, limits: &types::Limits) -> Vec<Self> {
        let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        for item in items {
            if batch.len() == limits.invalidations_per_message || bytes > limits.invalidation_bytes_per_message {
                batches.push(Self { through: before.clone(), items: mem::take(&mut batch) });
                bytes = 0;
            }
            bytes += item.bytes();
            batch.push(item);
        }
        batches.push(Self { through, items: batch });
        batches
    }

    /// The changes as a receiver with this horizon takes them. A change that is ahead of the horizon and of this
    /// batch's `through` is part of more that is still to come: its new values beside older ones of the rest would be
    /// two moments at once, so it only invalidates.
    pub fn as_taken<'a>(&'a self, horizon: Horizon<'_>) -> impl Iterator<Item = Cow<'a, Invalidation>> + use<'a> {
        let shown = self.through.clone().joined(horizon.counts);
        let sharding = horizon.sharding;
        self.items.iter().map(move |item| {
            if item.version > shown.of(sharding.of(item.page)) && item.data.is_some() {
                Cow::Owned(Invalidation { data: None, slots: item.slots.clone(), ..*item })
            } else {
                Cow::Borrowed(item)
            }
        })
    }
}

/// A page went from version `prev` to `version` in these slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The page.
    pub page: PageId,
    /// Its version before.
    pub prev: Version,
    /// Its version since.
    pub version: Version,
    /// The slots that changed.
    pub slots: SlotSet,
    /// The transaction that changed them, or [`Invalidation::SEVERAL`].
    pub txn: TxnId,
    /// Their new values, in slot order; without them the invalidation invalidates.
    pub data: Option<Vec<SlotChange>>,
}

impl Invalidation {
    /// Stands in an invalidation that sums up the changes of several transactions. No transaction is called that: their
    /// numbers begin at 1.
    pub const SEVERAL: TxnId = TxnId { client: ClientId(0), number: 0 };

    /// The news of a commit's change to one page for others, with the new values.
    pub fn of(txn: TxnId, delta: &Delta, advance: Advance) -> Self {
        let Advance { page, prev, version } = advance;
        Self { page, prev, version, slots: delta.slots(), txn, data: Some(delta.changes.clone()) }
    }

    /// The bytes that it takes in a message: those of its changes, and its own.
    fn bytes(&self) -> usize {
        let change = |change: &SlotChange| 4 + change.value.as_ref().map_or(0, Bytes::len);
        let changes = self.data.iter().flatten().map(change).sum::<usize>();
        44 + 8 * self.slots.as_words().len() + changes
    }
}

messages! {
    /// The sender has applied all changes through `through`. Masters use it only to forget, never to decide.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ack {
        /// The sender's horizon.
        pub through: Vector as PerShard,
    }
}

/// In place of an invalidation's count of changes: it invalidates. No page has that many slots.
const NO_DATA: u16 = u16::MAX;
const _: () = assert!(SLOTS_MAX < NO_DATA as usize);

/// The values of the changes are the body.
impl Layout for Invalidations {
    const LIMITS: Limits = Limits::bytes(u16::BYTES).and_more().with_body(MESSAGE_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("invalidations of a batch", self.items.len(), NOTICES_PER_MESSAGE_MAX)?;
        PerShard::put(&self.through, "through", meta)?;
        self.items.iter().try_for_each(|item| put_invalidation(meta, item))
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.items.iter().filter_map(|item| item.data.as_deref()).flat_map(values)
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let through = PerShard::get("through", reader)?;
        Ok(Self { through, items: get_invalidations(reader)? })
    }
}

/// Its fields, how many words its slots have and how many changes there are; then the words, and the changes.
pub(crate) fn put_invalidation(meta: &mut Meta<'_>, invalidation: &Invalidation) -> Result<(), WireError> {
    let Invalidation { page, prev, version, txn, slots, data } = invalidation;
    (*page, (*prev, *version)).put(meta);
    let changes = data.as_ref().map_or(NO_DATA, |changes| changes.len() as u16);
    (*txn, (slots.as_words().len() as u16, changes)).put(meta);
    put_slots(meta, slots);
    data.as_deref().map_or(Ok(()), |changes| put_changes(meta, changes))
}

/// Notices to the end of the meta.
pub(crate) fn get_invalidations(reader: &mut Reader<'_>) -> Result<Vec<Invalidation>, WireError> {
    let (mut items, mut changes_left) = (Vec::new(), TXN_CHANGES_MAX);
    while !reader.is_at_end() {
        check_count("invalidations of a batch", items.len() + 1, NOTICES_PER_MESSAGE_MAX)?;
        items.push(get_invalidation(reader, &mut changes_left)?);
    }
    Ok(items)
}

fn get_invalidation(reader: &mut Reader<'_>, changes_left: &mut usize) -> Result<Invalidation, WireError> {
    let (page, (prev, version)) = Field::get("page", reader)?;
    let (txn, (words, changes)) = <(TxnId, (u16, u16))>::get("invalidation", reader)?;
    let slots = get_slots(reader, words.into())?;
    let data = match changes {
        NO_DATA => None,
        count => Some(get_changes(reader, count.into(), changes_left)?),
    };
    Ok(Invalidation { page, prev, version, slots, txn, data })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::num::{NonZeroU16, NonZeroU32};
    use types::limits::{NOTICES_PER_MESSAGE_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
    use types::{Shard, Sharding};

    fn invalidation(number: u32, data: Option<Vec<SlotChange>>) -> Invalidation {
        let slots = [0].into_iter().collect();
        let page = PageId::new(1, number);
        Invalidation { page, prev: Version(1), version: Version(2), slots, txn: Invalidation::SEVERAL, data }
    }

    fn batches(items: Vec<Invalidation>) -> Vec<(usize, u64)> {
        let batches = Invalidations::split(items, &Version(5).into(), Version(9).into(), &types::Limits::SHIPPED);
        batches.iter().map(|batch| (batch.items.len(), batch.through.of(Shard::ONLY).0)).collect()
    }

    #[test]
    fn a_change_is_shown_by_the_count_of_its_own_shard() {
        let sharding = Sharding::new(NonZeroU16::MAX, NonZeroU32::MIN);
        let ahead = invalidation(0, Some(Vec::new()));
        let (shard, other) = (sharding.of(ahead.page), sharding.of(PageId::new(1, 1)));
        for (heard, is_shown) in [(shard, true), (other, false)] {
            let mut through = Vector::new();
            through.raise(heard, ahead.version);
            let batch = Invalidations { through, items: vec![ahead.clone()] };
            let horizon = Horizon { counts: &Vector::new(), sharding };
            let taken = batch.as_taken(horizon).next().expect("there is one");
            assert_eq!(taken.data.is_some(), is_shown);
        }
    }

    #[test]
    fn batches_are_cut_by_count_and_the_last_moves_the_horizon() {
        let many = (0..=NOTICES_PER_MESSAGE_MAX as u32).map(|number| invalidation(number, None)).collect();
        assert_eq!(batches(many), [(NOTICES_PER_MESSAGE_MAX, 5), (1, 9)]);
        assert_eq!(batches(Vec::new()), [(0, 9)]);
    }

    #[test]
    fn batches_are_cut_by_bytes_also_where_objects_are_deleted() {
        let values = vec![SlotChange {
            slot: 0,
            value: Some(Bytes::from(vec![0; types::Limits::SHIPPED.invalidation_bytes_per_message])),
        }];
        assert_eq!(batches(vec![invalidation(0, Some(values)), invalidation(1, None)]), [(1, 5), (1, 9)]);
        let deletes: Vec<_> = (0..SLOTS_MAX as u16).map(|slot| SlotChange { slot, value: None }).collect();
        let many =
            (0..NOTICES_PER_MESSAGE_MAX as u32).map(|number| invalidation(number, Some(deletes.clone()))).collect();
        let most = batches(many).iter().map(|(items, _)| items * SLOTS_MAX).max();
        assert!(most.is_some_and(|changes| changes < TXN_CHANGES_MAX), "{most:?} changes");
    }
}
