//! The links of a node: which connection leads to which node.
//!
//! ```text
//!   n2 opens the link                          n1
//!     | NodeHello{n2, to n1} ----------------> |  of this store, a member, and not n1 itself
//!     | <---------------- NodeHello{n1, to n2} |  both ends have a link
//! ```
//! 1. Of two nodes the one with the higher number opens the link, and opens it again when it is lost.
//! 2. A node has one link to another. A new one takes the place of the last, which may be dead without a word.
//! 3. Nothing is heard on a connection before its hello, and one without a hello in time is ended by the driver.

use crate::Store;
use ::machine::{Goodbye, Port, UpstreamId};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use messages::{NodeHello, ToNode};
use types::{GoodbyeReason, NodeId, Time};

/// The connections that lead to nodes.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The connections that this node opens: where, and how many there were before to the same node.
    opened: BTreeMap<NodeId, (String, u64)>,
    by_node: BTreeMap<NodeId, Port>,
    by_port: BTreeMap<Port, NodeId>,
}

impl Links {
    /// The connection to a node.
    pub(crate) fn port(&self, node: NodeId) -> Option<Port> {
        self.by_node.get(&node).copied()
    }

    /// The nodes to which there is a link, and the connections that lead there.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, Port)> + '_ {
        self.by_node.iter().map(|(&node, &port)| (node, port))
    }

    fn insert(&mut self, node: NodeId, port: Port) {
        self.by_node.insert(node, port);
        self.by_port.insert(port, node);
    }

    /// A connection is gone. Returns the node that it led to.
    fn remove(&mut self, port: Port) -> Option<NodeId> {
        let node = self.by_port.remove(&port)?;
        self.by_node.remove(&node);
        Some(node)
    }
}

impl Store {
    /// Opens the link to a node with a lower number, at this address, whenever there is none. The one to an earlier
    /// address is closed.
    pub(crate) fn open_link(&mut self, now: Time, node: NodeId, address: &str) {
        let earlier = self.links.opened.get(&node).cloned();
        if earlier.as_ref().is_some_and(|(known, _)| known == address) {
            return;
        }
        if let Some((_, count)) = earlier {
            let upstream = upstream_of(node, count);
            self.link_is_down(now, Port::Upstream(upstream));
            self.out.close_link(upstream);
        }
        let count = earlier.map_or(0, |(_, count)| count + 1);
        self.links.opened.insert(node, (address.into(), count));
        self.out.open_link(upstream_of(node, count), address.into());
    }

    /// A connection that may become a link is up.
    pub fn link_is_up(&mut self, port: Port) {
        if let Port::Upstream(upstream) = port {
            self.say_hello(port, node_of(upstream));
        }
    }

    /// A connection that may have been a link is gone.
    pub fn link_is_down(&mut self, now: Time, port: Port) {
        if let Some(node) = self.links.remove(port) {
            self.node_lost(now, node);
        }
    }

    /// A message has come in on a connection that is a link, or is about to be.
    pub fn hear_link(&mut self, now: Time, port: Port, message: ToNode) {
        let node = self.links.by_port.get(&port).copied();
        match (node, message) {
            (_, ToNode::Goodbye(_)) => self.link_is_down(now, port),
            (None, ToNode::NodeHello(hello)) => match self.check_hello(port, &hello) {
                Ok(()) => self.link(now, port, hello.node),
                Err(why) => self.out.end_port(port, why),
            },
            (Some(node), message) if !matches!(message, ToNode::NodeHello(_)) => self.hear_node(now, node, message),
            (None | Some(_), _) => {
                let text = "expected one hello, and that first".into();
                self.link_is_down(now, port);
                self.out.end_port(port, Goodbye { reason: GoodbyeReason::Malformed, text });
            }
        }
    }

    fn check_hello(&self, port: Port, hello: &NodeHello) -> Result<(), Goodbye> {
        let NodeHello { cluster, node, to } = *hello;
        let own = self.config.node;
        let refuse = |reason, text| Err(Goodbye { reason, text });
        if cluster != self.cluster {
            let text = format!("expected a node of store {:?}, got one of {cluster:?}", self.cluster);
            return refuse(GoodbyeReason::WrongCluster, text);
        }
        if to != own || node == own || !self.config.members.contains(&node) {
            let text = format!("expected another member for node {}, got node {} for {}", own.0, node.0, to.0);
            return refuse(GoodbyeReason::Malformed, text);
        }
        match port {
            Port::Upstream(upstream) if node_of(upstream) != node => {
                refuse(GoodbyeReason::Malformed, format!("expected another node at this address than {}", node.0))
            }
            _ => Ok(()),
        }
    }

    fn link(&mut self, now: Time, port: Port, node: NodeId) {
        let text = "the node has another link now".into();
        self.end_link(now, node, Goodbye { reason: GoodbyeReason::Superseded, text });
        if matches!(port, Port::FromNode(_)) {
            self.say_hello(port, node);
        }
        self.links.insert(node, port);
        self.node_linked(now, node);
    }

    /// Ends the link to a node, and tells it why.
    pub(crate) fn end_link(&mut self, now: Time, node: NodeId, why: Goodbye) {
        if let Some(port) = self.links.port(node) {
            self.link_is_down(now, port);
            self.out.end_port(port, why);
        }
    }

    fn say_hello(&mut self, port: Port, to: NodeId) {
        let (cluster, node) = (self.cluster, self.config.node);
        self.out.say(port, NodeHello { cluster, node, to }.into());
    }
}

/// The number of a connection to a node, after `count` earlier ones.
fn upstream_of(node: NodeId, count: u64) -> UpstreamId {
    UpstreamId(count << u16::BITS | u64::from(node.0))
}

/// The node to which a connection leads.
fn node_of(UpstreamId(number): UpstreamId) -> NodeId {
    NodeId(number as u16)
}
