//! The state of all nodes, as etcd has it.

use crate::records::{ComingRecord, LeasedSpaces, NodeRecord};
use crate::view::View;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use types::Shard;

/// The state of a store of several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The store's identity.
    pub store: String,
    /// The number of shards.
    pub shards: u16,
    /// The pages that stay together in a shard.
    pub extent: u32,
    /// The length of a node's lease, in seconds.
    pub lease_s: u64,
    /// The leased spaces, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased: Option<LeasedSpaces>,
    /// The term of the last sequencer.
    pub epoch: u32,
    /// The sequencer's node, if there is one.
    pub sequencer: Option<String>,
    /// The nodes, in the order of their numbers.
    pub nodes: Vec<NodeStatus>,
    /// The shards.
    pub placement: Vec<ShardStatus>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// Its number.
    pub number: u16,
    /// Whether it has a lease.
    pub state: NodeState,
    /// Where it is, if it is up.
    pub address: Option<String>,
    /// The runs that it has had.
    pub starts: u64,
    /// Its shards by their state.
    pub shards: BTreeMap<ShardState, usize>,
    /// The nodes whose logs it waits for.
    pub waits_for: Vec<String>,
    /// The share of its log that is taken, in percent, rounded down to tens; none if it is not up.
    pub log_percent: Option<u8>,
    /// The shards that move to it, as far as they are copied.
    pub coming: Vec<Copying>,
}

/// A shard that is copied to the node that it moves to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copying {
    /// Its number.
    pub shard: u16,
    /// Pages that were copied.
    pub copied: u64,
    /// Pages that were listed so far.
    pub listed: u64,
    /// Why the copy has stopped, if it has.
    pub trouble: Option<String>,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardStatus {
    /// Its number.
    pub shard: u16,
    /// Its node.
    pub node: String,
    /// The number of its last opening, zero if it was never opened.
    pub opening: u32,
    /// Its state.
    pub state: ShardState,
    /// The node that it moves to.
    pub to: Option<String>,
}

/// Whether a node has a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node has a lease.
    Up,
    /// The node has no lease.
    Away,
    /// The node was never started.
    New,
}

/// Whether a shard is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardState {
    /// The shard is served.
    Serving,
    /// Its node is up and does not serve it yet.
    Opening,
    /// Its node was stopped in order, and serves it at once when it is back.
    Closed,
    /// Its node is gone, and asks the logs of all nodes when it is back.
    Away,
}

impl Status {
    /// The state in a view.
    pub fn of(view: &View) -> Self {
        let config = &view.config.value;
        let placement: Vec<_> = (0..config.shards).filter_map(|shard| ShardStatus::of(view, Shard(shard))).collect();
        let mut nodes: Vec<_> = view.members.keys().map(|node| NodeStatus::of(view, node, &placement)).collect();
        nodes.sort_by_key(|node| node.number);
        Self {
            store: format!("{:?}", config.store),
            shards: config.shards,
            extent: config.extent,
            lease_s: config.lease_s,
            leased: config.leased.clone(),
            epoch: view.epoch(),
            sequencer: view.sequencer.as_ref().map(|sequencer| sequencer.value.node.clone()),
            nodes,
            placement,
        }
    }

    /// For a person.
    pub fn text(&self) -> String {
        let Self { store, shards, extent, lease_s, leased, epoch, sequencer, nodes, .. } = self;
        let sequencer = sequencer.as_deref().unwrap_or("none: the next node that is up takes the next epoch");
        let mut text = format!("store {store}: {shards} shards with extents of {extent} pages, leases of {lease_s} s");
        if let Some(LeasedSpaces { spaces, lease_ms }) = leased {
            let spaces: Vec<_> = spaces.iter().map(u32::to_string).collect();
            let _ = write!(text, "\nleased spaces: {}, leases of {lease_ms} ms", spaces.join(", "));
        }
        let _ = write!(text, "\nsequencer {sequencer}, epoch {epoch}");
        for NodeStatus { node, state, address, shards, waits_for, log_percent, coming, .. } in nodes {
            let state = match state {
                NodeState::Up => "up",
                NodeState::Away => "away",
                NodeState::New => "never started",
            };
            let at = address.as_ref().map(|address| format!(" at {}", visible(address))).unwrap_or_default();
            let _ = write!(text, "\n{node}: {state}{at}; shards");
            for (number, (state, count)) in shards.iter().enumerate() {
                let comma = if number > 0 { "," } else { "" };
                let _ = write!(text, "{comma} {}: {count}", state.name());
            }
            if !waits_for.is_empty() {
                let _ = write!(text, "; waits for the logs of {}", visible(&waits_for.join(", ")));
            }
            if let Some(percent) = log_percent {
                let _ = write!(text, "; log {percent} % full");
            }
            for Copying { shard, copied, listed, trouble } in coming {
                let _ = write!(text, "\n  shard {shard} moves here: {copied} of {listed} pages copied");
                if let Some(trouble) = trouble {
                    let _ = write!(text, ", and stopped: {}", visible(trouble));
                }
            }
        }
        text
    }
}

impl NodeStatus {
    fn of(view: &View, node: &str, placement: &[ShardStatus]) -> Self {
        let (member, record) = (&view.members[node].value, view.nodes.get(node).map(|record| &record.value));
        let mut shards = BTreeMap::new();
        for shard in placement.iter().filter(|shard| shard.node == node) {
            *shards.entry(shard.state).or_default() += 1;
        }
        Self {
            node: node.to_owned(),
            number: member.number,
            state: match record {
                Some(_) => NodeState::Up,
                None if member.start == 0 => NodeState::New,
                None => NodeState::Away,
            },
            address: record.map(|record| record.address.clone()),
            starts: member.start,
            shards,
            waits_for: record.map(|record| record.waits_for.clone()).unwrap_or_default(),
            log_percent: record.map(|record| record.log_percent),
            coming: record.map(|record| Copying::all(view, node, record)).unwrap_or_default(),
        }
    }
}

impl Copying {
    /// The shards that move to a node. It may not have reported yet that some have arrived.
    fn all(view: &View, node: &str, record: &NodeRecord) -> Vec<Self> {
        let moves = |coming: &&ComingRecord| view.moves().any(|(shard, _, to)| shard.0 == coming.shard && to == node);
        let all = record.coming.iter().filter(moves).cloned();
        all.map(|ComingRecord { shard, copied, listed, trouble }| Self { shard, copied, listed, trouble }).collect()
    }
}

impl ShardStatus {
    fn of(view: &View, shard: Shard) -> Option<Self> {
        let placement = &view.placement.get(&shard)?.value;
        let opening = view.openings.get(&shard).map(|opening| &opening.value);
        let node = view.nodes.get(&placement.node).map(|node| &node.value);
        let state = match (node, opening) {
            (Some(node), Some(opening)) if node.run == opening.run && !node.opening.contains(&shard.0) => {
                ShardState::Serving
            }
            (Some(_), _) => ShardState::Opening,
            (None, _) if placement.closed.is_some() => ShardState::Closed,
            (None, _) => ShardState::Away,
        };
        let opening = opening.map_or(0, |opening| opening.opening);
        let to = placement.to.clone().filter(|to| *to != placement.node);
        Some(Self { shard: shard.0, node: placement.node.clone(), opening, state, to })
    }
}

impl ShardState {
    fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Opening => "opening",
            Self::Closed => "closed in order",
            Self::Away => "away",
        }
    }
}

/// A text of another process, which does not get to control a terminal.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;
    use crate::view;
    use crate::view::tests::{entry, view};

    #[test]
    fn the_state_of_shards_is_their_nodes() {
        let n2 = r#"{"address":"a:2","run":"000000000000000a","opening":[4],"waits_for":["n3"],"log_percent":30,
            "coming":[{"shard":3,"copied":7,"listed":9},{"shard":1,"copied":0,"listed":0}]}"#;
        let status = Status::of(&view(&[
            entry(Key::Node("n2"), n2),
            entry(Key::Member("n1"), r#"{"number":0,"directory":"0000000000000001","start":4}"#),
            entry(Key::Opening(Shard(1)), r#"{"opening":2,"run":"000000000000000a"}"#),
            entry(Key::Opening(Shard(4)), r#"{"opening":2,"run":"000000000000000a"}"#),
            entry(Key::Placement(Shard(0)), r#"{"node":"n1","closed":9}"#),
            entry(Key::Placement(Shard(3)), r#"{"node":"n1","to":"n2"}"#),
        ]));
        let expected = "store 00000000000000c1: 6 shards with extents of 64 pages, leases of 5 s\n\
            sequencer none: the next node that is up takes the next epoch, epoch 0\n\
            n1: away; shards closed in order: 1, away: 1\n\
            n2: up at a:2; shards serving: 1, opening: 1; waits for the logs of n3; log 30 % full\n  \
            shard 3 moves here: 7 of 9 pages copied\n\
            n3: never started; shards away: 2";
        assert_eq!(status.text(), expected);
        let leased = view::tests::leased(r#"{"spaces":[0,3],"lease_ms":700}"#);
        let leased = Status::of(&view(&[entry(Key::Config, &leased)]));
        assert!(leased.text().contains("\nleased spaces: 0, 3, leases of 700 ms\nsequencer"), "{}", leased.text());
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["nodes"][1]["shards"]["serving"], 1);
        assert_eq!((&json["placement"][1]["opening"], &json["placement"][0]["state"]), (&2.into(), &"closed".into()));
    }
}
