//! All keys of a store, as of one revision of etcd.

use crate::MembershipError;
use crate::keys::{Key, Keys};
use crate::records::{
    ConfigRecord, Drawn, LeasedSpaces, MemberRecord, NodeRecord, OpeningRecord, PlacementRecord, SequencerRecord, parse,
};
use etcd::{Compare, Snapshot};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};
use std::ops::RangeInclusive;
use std::time::Duration;
use types::limits::{LEASED_SPACES_MAX, NODES_MAX, SHARDS_MAX};
use types::{ClusterId, NodeId, Shard, Sharding};

/// The lengths of a node's lease, in seconds: etcd has none that are shorter.
pub(crate) const LEASE_S: RangeInclusive<u64> = 2..=60;

/// The highest epoch that has a next one in 20 bits (`Version`), and bounds of the same kind that no store comes to.
const EPOCH_MAX: u32 = (1 << 20) - 2;
const START_MAX: u64 = 1 << 62;
const COUNT_MAX: u64 = u64::MAX - (1 << 32);

/// A value, and the revision of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept<T> {
    pub(crate) value: T,
    pub(crate) revision: i64,
}

/// All keys of a store as of one revision. Every shard has a node, and every name is a member's.
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) revision: i64,
    pub(crate) config: Kept<ConfigRecord>,
    pub(crate) members: BTreeMap<String, Kept<MemberRecord>>,
    pub(crate) nodes: BTreeMap<String, Kept<NodeRecord>>,
    pub(crate) placement: BTreeMap<Shard, Kept<PlacementRecord>>,
    pub(crate) openings: BTreeMap<Shard, Kept<OpeningRecord>>,
    pub(crate) sequencer: Option<Kept<SequencerRecord>>,
    /// The term of the last sequencer, and the revision of its key; none if there was no sequencer yet.
    pub(crate) epoch: Option<Kept<u32>>,
}

impl View {
    /// Parses all keys; `None` if there is no store.
    pub(crate) fn parse(keys: &Keys, snapshot: &Snapshot) -> Result<Option<Self>, MembershipError> {
        let (mut config, mut epoch, mut sequencer) = (None, None, None);
        let (mut members, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        let (mut placement, mut openings) = (BTreeMap::new(), BTreeMap::new());
        for entry in &snapshot.entries {
            fn kept<T: DeserializeOwned>(entry: &etcd::Entry) -> Result<Kept<T>, MembershipError> {
                let value = parse(&entry.value).map_err(|why| wrong(&entry.key, why))?;
                Ok(Kept { value, revision: entry.revision })
            }
            match keys.parse(&entry.key) {
                Some(Key::Config) => config = Some(kept(entry)?),
                Some(Key::Epoch) => epoch = Some(kept(entry)?),
                Some(Key::Sequencer) => sequencer = Some(kept(entry)?),
                Some(Key::Member(node)) => drop(members.insert(node.to_owned(), kept(entry)?)),
                Some(Key::Node(node)) => drop(nodes.insert(node.to_owned(), kept(entry)?)),
                Some(Key::Placement(shard)) => drop(placement.insert(shard, kept(entry)?)),
                Some(Key::Opening(shard)) => drop(openings.insert(shard, kept(entry)?)),
                // A later version's.
                None => {}
            }
        }
        let Some(config) = config else { return Ok(None) };
        let view = Self { revision: snapshot.revision, config, members, nodes, placement, openings, sequencer, epoch };
        view.check(keys)?;
        Ok(Some(view))
    }

    fn check(&self, keys: &Keys) -> Result<(), MembershipError> {
        let config = &self.config.value;
        let has_shards = (1..=SHARDS_MAX).contains(&config.shards.into()) && config.extent > 0;
        if !has_shards || !LEASE_S.contains(&config.lease_s) {
            let why = format!("expected an extent, a lease and 1 to {SHARDS_MAX} shards");
            return Err(wrong(&keys.of(Key::Config), why));
        }
        if config.leased.as_ref().is_some_and(|leased| !leased.is_valid()) {
            let why = format!("expected 1 to {LEASED_SPACES_MAX} leased spaces and a length of the leases");
            return Err(wrong(&keys.of(Key::Config), why));
        }
        self.check_numbers(keys)?;
        if !config.is_complete {
            // The other keys may be of two attempts to create it.
            return Ok(());
        }
        let numbers: BTreeSet<_> = self.members.values().map(|member| member.value.number).collect();
        let has_names = self.members.keys().all(|name| is_name(name));
        if numbers.len() != self.members.len() || numbers.len() > NODES_MAX || numbers.is_empty() || !has_names {
            let why = format!("expected 1 to {NODES_MAX} members with names and numbers of their own");
            return Err(wrong(&keys.of(Key::Member("")), why));
        }
        let is_member = |node: &str| self.members.contains_key(node);
        for shard in (0..config.shards).map(Shard) {
            let placement = self.placement.get(&shard).map(|placement| &placement.value);
            if !placement.is_some_and(|placement| placement.nodes().all(is_member)) {
                return Err(wrong(&keys.of(Key::Placement(shard)), "expected a member's name".into()));
            }
        }
        if let Some(sequencer) = self.sequencer.as_ref().filter(|sequencer| !is_member(&sequencer.value.node)) {
            let why = format!("expected a member's name, got '{}'", sequencer.value.node);
            return Err(wrong(&keys.of(Key::Sequencer), why));
        }
        Ok(())
    }

    /// Every number has a next one.
    fn check_numbers(&self, keys: &Keys) -> Result<(), MembershipError> {
        let too_high = |key| Err(wrong(&keys.of(key), "expected a lower number".into()));
        if self.epoch() > EPOCH_MAX {
            return too_high(Key::Epoch);
        }
        if let Some((node, _)) = self.members.iter().find(|(_, member)| member.value.start > START_MAX) {
            return too_high(Key::Member(node));
        }
        let closed = |closed: Option<u64>| closed.is_some_and(|count| count > COUNT_MAX);
        let is_high = |opening: &OpeningRecord| opening.opening == u32::MAX || closed(opening.closed);
        if let Some((&shard, _)) = self.openings.iter().find(|(_, opening)| is_high(&opening.value)) {
            return too_high(Key::Opening(shard));
        }
        match self.placement.iter().find(|(_, placement)| closed(placement.value.closed)) {
            Some((&shard, _)) => too_high(Key::Placement(shard)),
            None => Ok(()),
        }
    }

    /// The store's identity.
    pub fn store(&self) -> ClusterId {
        ClusterId(self.config.value.store.0)
    }

    /// How pages are spread over the shards.
    pub fn sharding(&self) -> Sharding {
        let ConfigRecord { shards, extent, .. } = self.config.value;
        let shards = NonZeroU16::new(shards).unwrap_or(NonZeroU16::MIN);
        Sharding::new(shards, NonZeroU32::new(extent).unwrap_or(NonZeroU32::MIN))
    }

    /// The length of a node's lease.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.config.value.lease_s)
    }

    /// The leased spaces, if there are any.
    pub fn leased(&self) -> Option<&LeasedSpaces> {
        self.config.value.leased.as_ref()
    }

    /// The numbers of all nodes, in order.
    pub fn members(&self) -> Vec<NodeId> {
        let numbers: BTreeSet<_> = self.members.values().map(|member| NodeId(member.value.number)).collect();
        numbers.into_iter().collect()
    }

    /// The names of all nodes, by their numbers.
    pub fn names(&self) -> BTreeMap<NodeId, String> {
        self.members.iter().map(|(name, member)| (NodeId(member.value.number), name.clone())).collect()
    }

    /// The record of a node.
    ///
    /// # Errors
    /// The store has no such node.
    pub(crate) fn member(&self, node: &str) -> Result<&MemberRecord, MembershipError> {
        let nodes = || self.members.keys().cloned().collect();
        let unknown = || MembershipError::NoSuchNode { node: node.to_owned(), nodes: nodes() };
        self.members.get(node).map(|member| &member.value).ok_or_else(unknown)
    }

    /// A node's number.
    pub fn number(&self, node: &str) -> Option<NodeId> {
        self.members.get(node).map(|member| NodeId(member.value.number))
    }

    /// The shards of a node.
    pub(crate) fn shards_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = Shard> + 'a {
        let is_its = move |(_, placement): &(&Shard, &Kept<PlacementRecord>)| placement.value.node == node;
        let shards = self.config.value.shards;
        self.placement.iter().filter(is_its).map(|(&shard, _)| shard).filter(move |shard| shard.0 < shards)
    }

    /// The shards that move, each with the node that has it and the one that it moves to.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (Shard, &str, &str)> {
        self.placement.iter().filter_map(|(&shard, placement)| {
            let PlacementRecord { node, to, .. } = &placement.value;
            Some((shard, node.as_str(), to.as_deref().filter(|to| to != node)?))
        })
    }

    /// Whether a node is up in this run.
    pub(crate) fn is_up(&self, node: &str, run: Drawn) -> bool {
        self.nodes.get(node).is_some_and(|node| node.value.run == run)
    }

    /// The term of the last sequencer, zero if there was none.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.as_ref().map_or(0, |epoch| epoch.value)
    }
}

/// The condition that a key is as it was seen.
pub(crate) fn as_seen<T>(key: String, kept: Option<&Kept<T>>) -> Compare {
    match kept {
        Some(kept) => Compare::Unchanged(key, kept.revision),
        None => Compare::Absent(key),
    }
}

/// Whether a text may be the name of a node.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_part)
}

fn wrong(key: &str, why: String) -> MembershipError {
    MembershipError::Value { key: key.to_owned(), why }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etcd::Entry;

    pub(crate) fn keys() -> Keys {
        Keys::new("main")
    }

    pub(crate) fn entry(key: Key<'_>, value: &str) -> Entry {
        Entry { key: keys().of(key), value: value.to_owned(), revision: 7 }
    }

    /// A store of n1, n2 and n3, whose six shards are placed in turn, and what else there is.
    pub(crate) fn snapshot(more: &[Entry]) -> Snapshot {
        let config = r#"{"store":"00000000000000c1","shards":6,"extent":64,"lease_s":5,"is_complete":true}"#;
        let member = |number: u16| {
            let value = format!(r#"{{"number":{number},"directory":null,"start":0}}"#);
            entry(Key::Member(&format!("n{}", number + 1)), &value)
        };
        let placement =
            |shard: u16| entry(Key::Placement(Shard(shard)), &format!(r#"{{"node":"n{}"}}"#, shard % 3 + 1));
        let mut entries = vec![entry(Key::Config, config)];
        entries.extend((0..3).map(member).chain((0..6).map(placement)));
        // A later entry takes the place of an earlier one.
        entries.retain(|entry| more.iter().all(|other| other.key != entry.key));
        entries.extend_from_slice(more);
        Snapshot { revision: 9, entries }
    }

    pub(crate) fn view(more: &[Entry]) -> View {
        View::parse(&keys(), &snapshot(more)).unwrap().unwrap()
    }

    /// The value of a configuration with leased spaces.
    pub(crate) fn leased(spaces: &str) -> String {
        let config = r#"{"store":"00000000000000c1","shards":6,"extent":64,"lease_s":5,"is_complete":true"#;
        format!(r#"{config},"leased":{spaces}}}"#)
    }

    #[test]
    fn a_view_has_the_leased_spaces() {
        let spaces = leased(r#"{"spaces":[0,3],"lease_ms":700}"#);
        let expected = LeasedSpaces { spaces: vec![0, 3], lease_ms: 700 };
        assert_eq!(view(&[entry(Key::Config, &spaces)]).leased(), Some(&expected));
        assert_eq!(LeasedSpaces::new(vec![3, 0, 3], 700), Some(expected));
        assert_eq!(view(&[]).leased(), None, "the store was created before spaces could be leased");
        assert_eq!(LeasedSpaces::new(vec![], 700), None);
    }

    #[test]
    fn a_view_has_the_shards_of_each_node() {
        let view = view(&[]);
        assert_eq!(view.shards_of("n2").collect::<Vec<_>>(), [Shard(1), Shard(4)]);
        assert_eq!(view.members(), [NodeId(0), NodeId(1), NodeId(2)]);
        assert_eq!((view.number("n3"), view.number("n4"), view.epoch()), (Some(NodeId(2)), None, 0));
        assert!(View::parse(&keys(), &Snapshot::default()).unwrap().is_none());
    }

    #[test]
    fn values_that_no_node_writes_are_named() {
        for (key, value) in [
            (Key::Config, "{}"),
            (Key::Config, r#"{"store":"00000000000000c1","shards":0,"extent":1,"lease_s":5,"is_complete":true}"#),
            (Key::Config, r#"{"store":"00000000000000c1","shards":7,"extent":1,"lease_s":5,"is_complete":true}"#),
            (Key::Member("n2"), r#"{"number":0,"directory":null,"start":0}"#),
            (Key::Placement(Shard(5)), r#"{"node":"n9"}"#),
            (Key::Sequencer, r#"{"node":"n9","run":"0000000000000001","epoch":1}"#),
            (Key::Config, r#"{"store":"00000000000000c1","shards":6,"extent":1,"lease_s":9e9,"is_complete":true}"#),
            (Key::Config, &leased(r#"{"spaces":[0],"lease_ms":49}"#)),
            (Key::Config, &leased(r#"{"spaces":[],"lease_ms":2000}"#)),
            (Key::Epoch, "-1"),
            (Key::Epoch, "1048575"),
            (Key::Member("n2"), r#"{"number":1,"directory":null,"start":18446744073709551615}"#),
            (Key::Member("n\u{1b}"), r#"{"number":7,"directory":null,"start":1}"#),
            (Key::Opening(Shard(0)), r#"{"opening":4294967295,"run":"0000000000000001"}"#),
            (Key::Placement(Shard(0)), r#"{"node":"n1","closed":18446744073709551615}"#),
            (Key::Opening(Shard(0)), "\u{1b}"),
        ] {
            let error = View::parse(&keys(), &snapshot(&[entry(key, value)])).unwrap_err();
            assert!(error.to_string().contains("in etcd has a value that no node writes"), "{error}");
        }
    }
}
