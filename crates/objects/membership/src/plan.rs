//! The transactions of a node, each decided from one view and compared with it.
//!
//! ```text
//!   open    openings/S + 1, this run     if placement/S, openings/S, nodes/NODE and config are as seen; takes out
//!                                        `closed`
//!   take    placement/S, this node,      if placement/S, openings/S and nodes/NODE are as seen: the shard was closed
//!           and openings/S + 1           in that opening, and moves here
//!   reopen  openings/S + 1, this run     the same, of a shard that was closed here to move and does not
//!   elect   sequencer, epoch + 1         if there is no sequencer, and epoch and nodes/NODE are as seen
//!   leave   placement/S with `closed`    if openings/S is this run's
//! ```

use crate::keys::{Key, Keys};
use crate::records::{Drawn, NodeRecord, OpeningRecord, PlacementRecord, SequencerRecord, text};
use crate::view::{View, as_seen};
use etcd::{Compare, LeaseId, Operation};
use std::collections::BTreeMap;
use types::{Opening, Shard, Version};

/// Shards in one transaction: etcd takes 128 conditions and 128 changes.
pub(crate) const SHARDS_PER_TRANSACTION: usize = 48;

/// Conditions and changes, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) compares: Vec<Compare>,
    pub(crate) operations: Vec<Operation>,
}

/// Shards that move and wait for their next opening, as the node's store has them: those that have arrived, and those
/// that are closed here.
pub(crate) type Moved = BTreeMap<Shard, Closed>;

/// The end of an opening: its number, and the count at which the shard was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) opening: Opening,
    pub(crate) count: Version,
    /// The shard was closed here too long ago, and stays after all.
    pub(crate) is_overdue: bool,
}

/// A node in its run.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) keys: Keys,
    pub(crate) node: String,
    pub(crate) run: Drawn,
    pub(crate) lease: LeaseId,
}

impl Own {
    /// The next transaction of a node that is up; none if there is nothing to do.
    pub(crate) fn next(&self, view: &View, moved: &Moved) -> Option<Transaction> {
        self.open(view).or_else(|| self.elect(view)).or_else(|| self.take(view, moved))
    }

    /// Takes the next openings of shards that have arrived here, or that were closed here and stay.
    fn take(&self, view: &View, moved: &Moved) -> Option<Transaction> {
        let mut transaction = Transaction { compares: vec![self.is_up(view)], operations: Vec::new() };
        for (&shard, closed) in moved.iter().take(SHARDS_PER_TRANSACTION) {
            let (Some(placement), Some(opening)) = (view.placement.get(&shard), view.openings.get(&shard)) else {
                continue;
            };
            let PlacementRecord { node, to, .. } = &placement.value;
            let is_as_closed = opening.value.opening == closed.opening.0;
            let comes = to.as_ref() == Some(&self.node);
            let is_awaited = to.as_ref().is_some_and(|to| to != node && view.nodes.contains_key(to));
            let stays = *node == self.node && (closed.is_overdue || !is_awaited);
            if !is_as_closed || !(comes || stays) {
                continue;
            }
            let to = if comes || closed.is_overdue { None } else { to.clone() };
            let record = PlacementRecord { node: self.node.clone(), closed: None, to };
            let next = opening.value.opening + 1;
            let taken = OpeningRecord { opening: next, run: self.run, closed: Some(closed.count.0) };
            let (placement_key, opening_key) = (self.keys.of(Key::Placement(shard)), self.keys.of(Key::Opening(shard)));
            transaction.operations.push(Operation::Put(placement_key.clone(), text(&record), None));
            transaction.operations.push(Operation::Put(opening_key.clone(), text(&taken), None));
            let (placement, opening) = (Some(placement), Some(opening));
            transaction.compares.extend([as_seen(placement_key, placement), as_seen(opening_key, opening)]);
        }
        (!transaction.operations.is_empty()).then_some(transaction)
    }

    /// Takes the next opening of shards that are not this run's.
    fn open(&self, view: &View) -> Option<Transaction> {
        let is_own = |shard: &Shard| view.openings.get(shard).is_some_and(|opening| opening.value.run == self.run);
        let mut shards = view.shards_of(&self.node).filter(|shard| !is_own(shard)).peekable();
        shards.peek()?;
        // A new node changes `config`. So its log is asked, or it has read this opening before it coordinates.
        let is_config = as_seen(self.keys.of(Key::Config), Some(&view.config));
        let mut transaction = Transaction { compares: vec![self.is_up(view), is_config], operations: Vec::new() };
        for shard in shards.take(SHARDS_PER_TRANSACTION) {
            let (placement, opening) = (view.placement.get(&shard), view.openings.get(&shard));
            let closed = placement.and_then(|placement| placement.value.closed);
            let (placement_key, opening_key) = (self.keys.of(Key::Placement(shard)), self.keys.of(Key::Opening(shard)));
            let next = opening.map_or(0, |opening| opening.value.opening) + 1;
            let record = OpeningRecord { opening: next, run: self.run, closed };
            transaction.operations.push(Operation::Put(opening_key.clone(), text(&record), None));
            if closed.is_some() {
                let to = placement.and_then(|placement| placement.value.to.clone());
                let record = PlacementRecord { node: self.node.clone(), closed: None, to };
                transaction.operations.push(Operation::Put(placement_key.clone(), text(&record), None));
            }
            transaction.compares.extend([as_seen(placement_key, placement), as_seen(opening_key, opening)]);
        }
        Some(transaction)
    }

    /// Takes the next epoch if there is no sequencer.
    fn elect(&self, view: &View) -> Option<Transaction> {
        if view.sequencer.is_some() {
            return None;
        }
        let (sequencer, epoch) = (self.keys.of(Key::Sequencer), self.keys.of(Key::Epoch));
        let record = SequencerRecord { node: self.node.clone(), run: self.run, epoch: view.epoch() + 1 };
        let is_seen = as_seen(epoch.clone(), view.epoch.as_ref());
        Some(Transaction {
            compares: vec![self.is_up(view), Compare::Absent(sequencer.clone()), is_seen],
            operations: vec![
                Operation::Put(sequencer, text(&record), Some(self.lease)),
                Operation::Put(epoch, record.epoch.to_string(), None),
            ],
        })
    }

    /// Changes what the others know of this node.
    pub(crate) fn report(&self, view: &View, record: &NodeRecord) -> Transaction {
        let put = Operation::Put(self.keys.of(Key::Node(&self.node)), text(record), Some(self.lease));
        Transaction { compares: vec![self.is_up(view)], operations: vec![put] }
    }

    /// Records shards that were closed in order at these counts, as far as they are not recorded yet.
    pub(crate) fn leave(&self, view: &View, closed: &[(Shard, Version)]) -> Transaction {
        let mut transaction = Transaction::default();
        for &(shard, Version(count)) in closed {
            let opening = view.openings.get(&shard).filter(|opening| opening.value.run == self.run);
            let placement = view.placement.get(&shard).filter(|placement| placement.value.node == self.node);
            let (Some(opening), Some(placement)) = (opening, placement) else { continue };
            if placement.value.closed == Some(count) {
                continue;
            }
            let key = self.keys.of(Key::Placement(shard));
            let record = PlacementRecord { closed: Some(count), ..placement.value.clone() };
            let opening = as_seen(self.keys.of(Key::Opening(shard)), Some(opening));
            transaction.compares.extend([opening, as_seen(key.clone(), Some(placement))]);
            transaction.operations.push(Operation::Put(key, text(&record), None));
        }
        transaction
    }

    /// The node is up as it was seen.
    fn is_up(&self, view: &View) -> Compare {
        as_seen(self.keys.of(Key::Node(&self.node)), view.nodes.get(&self.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{entry, keys, view};
    use etcd::Entry;

    fn own() -> Own {
        Own { keys: keys(), node: "n2".into(), run: Drawn(0xA), lease: LeaseId(1) }
    }

    fn up() -> Entry {
        entry(Key::Node("n2"), r#"{"address":"a:2","run":"000000000000000a","opening":[],"waits_for":[]}"#)
    }

    #[test]
    fn a_node_takes_the_next_openings_and_then_the_next_epoch() {
        let shard_1 = entry(Key::Opening(Shard(1)), r#"{"opening":4,"run":"0000000000000009"}"#);
        let closed = entry(Key::Placement(Shard(1)), r#"{"node":"n2","closed":77}"#);
        let first = own().next(&view(&[up(), shard_1, closed]), &Moved::new()).unwrap();
        let [Operation::Put(key, value, None), Operation::Put(at, open, None), Operation::Put(other, one, None)] =
            &first.operations[..]
        else {
            panic!("{first:?}")
        };
        assert_eq!(
            (&**key, &**value),
            ("/thorp/main/openings/1", r#"{"opening":5,"run":"000000000000000a","closed":77}"#)
        );
        assert_eq!((&**at, &**open), ("/thorp/main/placement/1", r#"{"node":"n2"}"#));
        assert_eq!((&**other, &**one), ("/thorp/main/openings/4", r#"{"opening":1,"run":"000000000000000a"}"#));
        assert_eq!(first.compares.len(), 6);
        assert!(first.compares.contains(&Compare::Absent("/thorp/main/openings/4".into())));

        let taken = |shard| entry(Key::Opening(Shard(shard)), r#"{"opening":5,"run":"000000000000000a"}"#);
        let next = own().next(&view(&[up(), taken(1), taken(4), entry(Key::Epoch, "6")]), &Moved::new()).unwrap();
        let [Operation::Put(_, value, Some(LeaseId(1))), Operation::Put(_, epoch, None)] = &next.operations[..] else {
            panic!("{next:?}")
        };
        assert_eq!((&**value, &**epoch), (r#"{"node":"n2","run":"000000000000000a","epoch":7}"#, "7"));
        let sequencer = entry(Key::Sequencer, r#"{"node":"n1","run":"0000000000000001","epoch":7}"#);
        assert_eq!(own().next(&view(&[up(), taken(1), taken(4), sequencer]), &Moved::new()), None);
    }

    #[test]
    fn a_shard_that_was_closed_to_move_opens_once_at_the_one_node_or_the_other() {
        let taken = |shard| entry(Key::Opening(Shard(shard)), r#"{"opening":5,"run":"000000000000000a"}"#);
        let sequencer = entry(Key::Sequencer, r#"{"node":"n1","run":"0000000000000001","epoch":7}"#);
        let moved = |shard, opening, is_overdue| {
            let closed = Closed { opening: Opening(opening), count: Version(77), is_overdue };
            Moved::from([(Shard(shard), closed)])
        };
        let next = |more: &[Entry], moved: &Moved| {
            let entries = [&[up(), taken(1), taken(4), sequencer.clone()], more].concat();
            own().next(&view(&entries), moved).map(|transaction| transaction.operations)
        };
        let put = |key, value: &str| Operation::Put(keys().of(key), value.into(), None);
        let opened = r#"{"opening":5,"run":"000000000000000a","closed":77}"#;

        // Shard 0 comes from n1, which has closed it in opening 4.
        let n1 = [
            entry(Key::Opening(Shard(0)), r#"{"opening":4,"run":"0000000000000001"}"#),
            entry(Key::Placement(Shard(0)), r#"{"node":"n1","to":"n2"}"#),
        ];
        let comes = [put(Key::Placement(Shard(0)), r#"{"node":"n2"}"#), put(Key::Opening(Shard(0)), opened)];
        assert_eq!(next(&n1, &moved(0, 4, false)).as_deref(), Some(&comes[..]));
        assert_eq!(next(&n1, &moved(0, 3, false)), None, "it was opened again since");
        let stayed = entry(Key::Placement(Shard(0)), r#"{"node":"n1"}"#);
        assert_eq!(next(&[n1[0].clone(), stayed], &moved(0, 4, false)), None, "it does not move any more");

        // Shard 1 was closed here to move to n3.
        let n3 = entry(Key::Node("n3"), r#"{"address":"a:3","run":"0000000000000003","opening":[],"waits_for":[]}"#);
        let moves = entry(Key::Placement(Shard(1)), r#"{"node":"n2","to":"n3"}"#);
        assert_eq!(next(&[n3.clone(), moves.clone()], &moved(1, 5, false)), None);
        let opened = put(Key::Opening(Shard(1)), r#"{"opening":6,"run":"000000000000000a","closed":77}"#);
        let kept = |value| Some(vec![put(Key::Placement(Shard(1)), value), opened.clone()]);
        assert_eq!(
            next(std::slice::from_ref(&moves), &moved(1, 5, false)),
            kept(r#"{"node":"n2","to":"n3"}"#),
            "n3 is away"
        );
        assert_eq!(next(&[n3.clone(), moves], &moved(1, 5, true)), kept(r#"{"node":"n2"}"#), "n3 takes too long");
        assert_eq!(next(&[n3], &moved(1, 5, false)), kept(r#"{"node":"n2"}"#), "it does not move any more");
    }

    #[test]
    fn a_store_of_many_shards_opens_in_several_transactions() {
        let config = r#"{"store":"00000000000000c1","shards":1024,"extent":1,"lease_s":5,"is_complete":true}"#;
        let mut entries = vec![up(), entry(Key::Config, config)];
        entries.extend((0..1024).map(|shard| entry(Key::Placement(Shard(shard)), r#"{"node":"n2","closed":1}"#)));
        let first = own().next(&view(&entries), &Moved::new()).unwrap();
        assert!(first.compares.len() <= 128 && first.operations.len() <= 128, "{}", first.compares.len());
    }

    #[test]
    fn only_the_run_that_has_a_shard_says_that_it_is_closed() {
        let opening = |run: &str| entry(Key::Opening(Shard(1)), &format!(r#"{{"opening":4,"run":"{run}"}}"#));
        let closed = [(Shard(1), Version(9)), (Shard(0), Version(9))];
        let left = own().leave(&view(&[opening("000000000000000a")]), &closed);
        let [Operation::Put(key, value, None)] = &left.operations[..] else { panic!("{left:?}") };
        assert_eq!((&**key, &**value), ("/thorp/main/placement/1", r#"{"node":"n2","closed":9}"#));
        assert_eq!(own().leave(&view(&[opening("000000000000000b")]), &closed), Transaction::default());
    }
}
