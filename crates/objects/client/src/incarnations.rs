//! The latest known incarnation of each node: a request names that of the node that coordinates it.

use types::{Incarnation, Map, NodeId};

/// The latest known incarnation of each node that commits were coordinated by.
#[derive(Debug, Default)]
pub(crate) struct Incarnations(Map<NodeId, Incarnation>);

impl Incarnations {
    /// The latest known incarnation of a node.
    pub(crate) fn of(&self, node: NodeId) -> Incarnation {
        self.0.get(&node).copied().unwrap_or(Incarnation(0))
    }

    /// A node is in this incarnation, or in a later one.
    pub(crate) fn raise(&mut self, node: NodeId, incarnation: Incarnation) {
        let known = self.0.entry(node).or_insert(incarnation);
        *known = incarnation.max(*known);
    }

    /// Another store answers in the place of a node's.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}
