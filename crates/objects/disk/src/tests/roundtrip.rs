//! Records survive their encoding, whatever they are; and bytes that are no record are refused, whatever they are.

use crate::records::StoreRecords;
use bytes::Bytes;
use log::{HEADER_BYTES, Records};
use messages::Lineage;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use store::{CommitRecord, Counted, LeasesGiven, Record, UncountedCommit};
use types::{ClientId, Delta, Incarnation, Life, PageId, Shard, SlotChange, TxnId, Vector, Version};
use vfs::Aligned;

fn txn() -> impl Strategy<Value = TxnId> {
    any::<(u64, u64)>().prop_map(|(client, number)| TxnId { client: ClientId(client), number })
}

fn delta() -> impl Strategy<Value = Delta> {
    let value = option::of(vec(any::<u8>(), 0..300).prop_map(Bytes::from));
    let changes = proptest::collection::btree_map(0..1024_u16, value, 1..20);
    (any::<u64>(), changes).prop_map(|(page, changes)| Delta {
        page: PageId::from_bits(page),
        changes: changes.into_iter().map(|(slot, value)| SlotChange { slot, value }).collect(),
    })
}

fn any_record() -> impl Strategy<Value = Record> {
    let counted = (txn(), any::<u64>()).prop_map(|(txn, version)| Counted { txn, version: Version(version) });
    prop_oneof![
        (any::<u64>(), option::of((any::<u32>(), vec(any::<u32>(), 0..4), lives()))).prop_map(
            |(incarnation, given)| {
                let (leases, (lineage, counts)) = given.map_or_else(Default::default, |(ms, spaces, lives)| {
                    (Some(LeasesGiven { lease_ms: ms, spaces }), lives)
                });
                Record::Incarnation { incarnation: Incarnation(incarnation), leases, lineage, counts }
            }
        ),
        any::<(u32, u32)>().prop_map(|(space, next)| Record::Grant { space, next }),
        vec(counted, 0..50).prop_map(Record::Counts),
        (txn(), any::<u64>(), vec(delta(), 0..20))
            .prop_map(|(txn, answered, deltas)| Record::Uncounted(UncountedCommit { txn, answered, deltas })),
        (txn(), any::<u64>(), vector(), vec(delta(), 0..20))
            .prop_map(|(txn, answered, counts, deltas)| Record::Commit(CommitRecord { txn, counts, answered, deltas })),
    ]
}

/// The lives in a record, and the counts behind them, which a record without lives does not have.
fn lives() -> impl Strategy<Value = (Lineage, Option<Vector>)> {
    let of_one_shard = || any::<u64>().prop_map(|count| Vector::only(Version(count)));
    prop_oneof![
        (vec((any::<u64>(), of_one_shard()), 0..40), option::of(of_one_shard())),
        (vec((any::<u64>(), vector()), 1..40), vector().prop_map(Some)),
    ]
    .prop_map(|(lives, counts)| {
        let counts = counts.filter(|_| !lives.is_empty());
        let lives = lives.into_iter().map(|(life, began)| (Life(life), began));
        (Lineage::new(lives.collect()), counts)
    })
}

fn vector() -> impl Strategy<Value = Vector> {
    proptest::collection::btree_map(0..8_u16, any::<u64>(), 0..4).prop_map(|counts| {
        let mut vector = Vector::new();
        for (shard, count) in counts {
            vector.raise(Shard(shard), Version(count));
        }
        vector
    })
}

proptest! {
    #[test]
    fn a_record_is_what_it_was(record in any_record()) {
        let mut body = Aligned::default();
        StoreRecords::encode(&record, &mut |part: &[u8]| body.put(part));
        prop_assert_eq!(body.len(), StoreRecords::body_bytes(&record));
        prop_assert!((HEADER_BYTES + body.len()) as u64 <= record.bytes_bound(), "the store must know the room it takes");
        let decoded = StoreRecords::decode(StoreRecords::kind(&record), Bytes::copy_from_slice(body.bytes()));
        prop_assert_eq!(decoded, Ok(record));
    }

    #[test]
    fn a_record_that_lost_or_gained_bytes_is_refused(record in any_record(), cut in 1..40_usize) {
        // A record of leases is left out: one of format 1 says nothing of what this one does.
        prop_assume!(!matches!(record, Record::Incarnation { .. }));
        let mut body = Aligned::default();
        StoreRecords::encode(&record, &mut |part: &[u8]| body.put(part));
        let short = Bytes::copy_from_slice(&body.bytes()[..body.len().saturating_sub(cut)]);
        prop_assert!(StoreRecords::decode(StoreRecords::kind(&record), short).is_err());
        body.put(&vec![0; cut]);
        prop_assert!(StoreRecords::decode(StoreRecords::kind(&record), Bytes::copy_from_slice(body.bytes())).is_err());
    }

    #[test]
    fn any_bytes_are_a_record_or_refused(bytes in vec(any::<u8>(), 0..200), kind in any::<u8>()) {
        let record = StoreRecords::decode(kind, Bytes::from(bytes));
        prop_assert!(record.is_err() || (1..6).contains(&kind));
    }
}
