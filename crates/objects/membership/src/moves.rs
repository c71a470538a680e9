//! An operator moves shards to other nodes, and adds nodes.
//!
//! ```text
//!   placement/S {node n1} --move--> {node n1, to n2}     n2 copies, n1 closes the shard in its opening
//!                                      | n2 takes the next opening, by one transaction
//!                                      v
//!                                   {node n2}
//! ```
//! The nodes carry out the move that `placement/S` names, whether or not a command waits for it, and resume it after a
//! restart of either.

use crate::MembershipError;
use crate::cluster::Cluster;
use crate::keys::Key;
use crate::plan::SHARDS_PER_TRANSACTION;
use crate::records::{MemberRecord, PlacementRecord, text};
use crate::view::{View, as_seen, is_name};
use etcd::Operation;
use types::limits::NODES_MAX;
use types::{NodeId, Shard};

/// How often a change is decided again that others have got ahead of.
const ATTEMPTS: usize = 10;

impl Cluster {
    /// Has shards move, each to a node, or stay where they are if that is the node they are at.
    ///
    /// # Errors
    /// There is no such shard or node, or a node that shards should move to is not up.
    pub fn move_shards(&self, moves: &[(Shard, String)]) -> Result<(), MembershipError> {
        moves.chunks(SHARDS_PER_TRANSACTION).try_for_each(|moves| {
            self.attempt(|view| {
                let (mut compares, mut operations) = (Vec::new(), Vec::new());
                for (shard, to) in moves {
                    let placement = view.check_move(*shard, to)?;
                    let Some(seen) = view.placement.get(shard) else { continue };
                    if placement != seen.value {
                        let key = self.keys.of(Key::Placement(*shard));
                        compares.push(as_seen(key.clone(), Some(seen)));
                        operations.push(Operation::Put(key, text(&placement), None));
                    }
                }
                Ok((compares, operations))
            })
        })
    }

    /// Adds a node to the store, which has no shards at first.
    ///
    /// # Errors
    /// The name is in use or invalid, or the store has the most nodes that it can have.
    pub fn add(&self, node: &str) -> Result<NodeId, MembershipError> {
        let mut number = NodeId(0);
        let mut is_tried = false;
        self.attempt(|view| {
            if let Some(member) = view.members.get(node) {
                // The answer to the last attempt was lost.
                let is_mine = is_tried && member.value.start == 0 && member.value.number == number.0;
                let taken = || MembershipError::Config(format!("the store has a node '{node}': choose another name"));
                return if is_mine { Ok(Default::default()) } else { Err(taken()) };
            }
            if !is_name(node) || view.members.len() >= NODES_MAX {
                let why = format!(
                    "invalid node name '{node}': expected at most 64 letters, digits, '-', '_' and '.', and at most \
                     {NODES_MAX} nodes"
                );
                return Err(MembershipError::Config(why));
            }
            number = NodeId(view.members().last().map_or(0, |last| last.0 + 1));
            is_tried = true;
            let (member, config) = (self.keys.of(Key::Member(node)), self.keys.of(Key::Config));
            let record = MemberRecord { number: number.0, directory: None, start: 0 };
            // An opening that was decided from a view without the node fails its comparison: its log must be asked.
            let operations = vec![
                Operation::Put(member.clone(), text(&record), None),
                Operation::Put(config.clone(), text(&view.config.value), None),
            ];
            Ok((vec![as_seen::<MemberRecord>(member, None), as_seen(config, Some(&view.config))], operations))
        })?;
        Ok(number)
    }

    /// Carries out a transaction that is decided from a view, again as long as others get ahead of it.
    fn attempt(
        &self,
        mut decide: impl FnMut(&View) -> Result<(Vec<etcd::Compare>, Vec<Operation>), MembershipError>,
    ) -> Result<(), MembershipError> {
        for attempt in 1..=ATTEMPTS {
            let (compares, operations) = decide(&self.view()?)?;
            if operations.is_empty() {
                return Ok(());
            }
            match self.etcd.commit(&compares, &operations) {
                Ok(true) => return Ok(()),
                // The answer may be lost: the next view shows the outcome.
                Err(error) if attempt == ATTEMPTS => return Err(error.into()),
                Ok(false) | Err(_) => {}
            }
        }
        Err(MembershipError::Config("the store changes all the time: try again".into()))
    }
}

impl View {
    /// The placement of a shard that moves to a node.
    fn check_move(&self, shard: Shard, to: &str) -> Result<PlacementRecord, MembershipError> {
        let Some(placement) = self.placement.get(&shard).filter(|_| shard.0 < self.config.value.shards) else {
            let (last, shard) = (self.config.value.shards - 1, shard.0);
            return Err(MembershipError::Config(format!("no shard {shard}: expected 0 to {last}")));
        };
        self.member(to)?;
        let node = &placement.value.node;
        let is_move = to != node;
        if let Some(away) = [node, to].into_iter().find(|node| is_move && !self.nodes.contains_key(*node)) {
            let why = format!("node '{away}' is away: a shard moves while both nodes are up, so start it first");
            return Err(MembershipError::Config(why));
        }
        Ok(PlacementRecord { to: is_move.then(|| to.to_owned()), ..placement.value.clone() })
    }

    /// A place for each shard of a node elsewhere: at the other nodes that are up, those with the fewest shards first.
    ///
    /// # Errors
    /// There is no such node, or no other one is up.
    pub fn drain(&self, node: &str) -> Result<Vec<(Shard, String)>, MembershipError> {
        self.member(node)?;
        let is_at = |placement: &PlacementRecord, node: &str| placement.to.as_ref().unwrap_or(&placement.node) == node;
        let shards_of = |node: &String| self.placement.values().filter(|of| is_at(&of.value, node)).count();
        let others = self.nodes.keys().filter(|other| *other != node);
        let mut others: Vec<_> = others.map(|other| (shards_of(other), other)).collect();
        let mut moves = Vec::new();
        for (shard, placement) in self.placement.iter().filter(|(_, placement)| placement.value.node == node) {
            if let Some(to) = placement.value.to.as_ref().filter(|to| *to != node) {
                moves.push((*shard, to.clone()));
                continue;
            }
            let Some(fewest) = others.iter_mut().min() else {
                let why = format!("no node is up that could have the shards of '{node}': start one");
                return Err(MembershipError::Config(why));
            };
            fewest.0 += 1;
            moves.push((*shard, fewest.1.clone()));
        }
        Ok(moves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{entry, view};

    fn up(node: &str) -> etcd::Entry {
        entry(Key::Node(node), r#"{"address":"a:2","run":"000000000000000a","opening":[],"waits_for":[]}"#)
    }

    #[test]
    fn a_shard_moves_between_nodes_that_are_up() {
        let view = view(&[up("n1"), up("n2")]);
        let moved = view.check_move(Shard(0), "n2").unwrap();
        assert_eq!(text(&moved), r#"{"node":"n1","to":"n2"}"#);
        assert_eq!(text(&view.check_move(Shard(0), "n1").unwrap()), r#"{"node":"n1"}"#, "it stays");
        for (shard, to, why) in [(6, "n2", "no shard 6: expected 0 to 5"), (0, "n9", "no node 'n9'"), (0, "n3", "away")]
        {
            let error = view.check_move(Shard(shard), to).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(view.check_move(Shard(2), "n1").unwrap_err().to_string().contains("'n3' is away"));
    }

    #[test]
    fn a_drained_node_leaves_its_shards_to_those_with_the_fewest() {
        let moving = entry(Key::Placement(Shard(3)), r#"{"node":"n1","to":"n3"}"#);
        let all = view(&[up("n1"), up("n2"), up("n3"), moving]);
        let expected = [(Shard(0), "n2".into()), (Shard(3), "n3".into())];
        assert_eq!(all.drain("n1").unwrap(), expected);
        assert!(view(&[up("n1")]).drain("n1").unwrap_err().to_string().contains("no node is up"));
        assert!(all.drain("n9").is_err());
    }
}
