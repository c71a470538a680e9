//! The faults of a store of several nodes: of its processes, of etcd, and of the lines between them.

use super::PATIENCE;
use crate::Result;
use crate::cluster::{Cluster, Store};
use crate::crew::{Crew, now};
use crate::lab::Cut;
use crate::nodes::{Node, Nodes};
use std::time::Duration;
use workloads::Random;

/// How long a link between nodes is silent before TCP gives it up.
const LINK_SILENCE: Duration = Duration::from_secs(6);

/// How long after the end of a lease its node certainly knows that.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// A fault, which is repaired later. Nodes count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    /// A node is killed, and started again.
    Kill(usize),
    /// The node with the sequencer is.
    KillSequencer,
    /// Two nodes are, at once.
    KillTwo([usize; 2]),
    /// All nodes and etcd are: all power is lost.
    KillAll,
    /// A node is stopped in order, and started again.
    Close(usize),
    /// A node's process is stopped where it is, and continues.
    Stop(usize),
    /// Etcd is killed, and started again. An etcd that the user has named is cut off instead.
    EtcdAway,
    /// A node is cut off from etcd alone.
    CutFromEtcd(usize),
    /// The line between two nodes is a black hole, in one direction or both.
    CutNodes([usize; 2], Cut),
    /// A shard moves to a node, from the one that has the most others.
    Move(usize),
    /// A shard moves to the first node, and the second one is killed before it is there.
    MoveAndKill([usize; 2]),
    /// All is well.
    Nothing,
}

impl NodeFault {
    /// Each kind of fault once, of nodes that are drawn.
    pub(super) fn all(nodes: usize, random: &mut Random) -> Vec<Self> {
        let two = |random: &mut Random| {
            let first = random.below(nodes);
            [first, (first + 1 + random.below(nodes - 1)) % nodes]
        };
        vec![
            Self::Kill(random.below(nodes)),
            Self::KillSequencer,
            Self::KillTwo(two(random)),
            Self::KillAll,
            Self::Close(random.below(nodes)),
            Self::Stop(random.below(nodes)),
            Self::EtcdAway,
            Self::CutFromEtcd(random.below(nodes)),
            Self::CutNodes(two(random), Cut::Both),
            Self::CutNodes(two(random), Cut::FromSite),
            Self::Move(random.below(nodes)),
            Self::MoveAndKill([random.below(nodes), random.below(nodes)]),
        ]
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill(_) => "kill a node",
            Self::KillSequencer => "kill the sequencer's node",
            Self::KillTwo(_) => "kill two nodes",
            Self::KillAll => "kill all nodes",
            Self::Close(_) => "stop a node in order",
            Self::Stop(_) => "stop a node where it is",
            Self::EtcdAway => "kill etcd",
            Self::CutFromEtcd(_) => "cut a node off from etcd",
            Self::CutNodes(_, Cut::Both) => "cut the line between two nodes",
            Self::CutNodes(_, _) => "drop what a node sends to another",
            Self::Move(_) => "move a shard",
            Self::MoveAndKill(_) => "kill a node while a shard moves",
            Self::Nothing => "nothing",
        }
    }

    /// The nodes that it concerns and that were drawn.
    pub(super) fn nodes(self) -> Vec<usize> {
        match self {
            Self::Kill(node) | Self::Close(node) | Self::Stop(node) | Self::CutFromEtcd(node) | Self::Move(node) => {
                vec![node]
            }
            Self::KillTwo(nodes) | Self::CutNodes(nodes, _) | Self::MoveAndKill(nodes) => nodes.into(),
            Self::KillSequencer | Self::KillAll | Self::EtcdAway | Self::Nothing => Vec::new(),
        }
    }

    /// Whether it can keep clients from their work.
    pub(super) fn concerns_clients(self) -> bool {
        !matches!(self, Self::Nothing | Self::Move(_))
    }

    /// Whether it is a SIGKILL.
    pub(super) fn kills(self) -> bool {
        let of_nodes = matches!(self, Self::Kill(_) | Self::KillSequencer | Self::KillTwo(_) | Self::MoveAndKill(_));
        of_nodes || matches!(self, Self::KillAll | Self::EtcdAway)
    }

    /// Whether it ends a lease if it lasts.
    pub(super) fn ends_lease(self) -> bool {
        matches!(self, Self::Stop(_) | Self::EtcdAway | Self::CutFromEtcd(_))
    }

    /// Breaks it, repairs it, and waits until all nodes serve. Returns when everything was repaired.
    pub(super) fn inflict(self, cluster: &mut Cluster, broken_for: Duration) -> Result<u64> {
        let Cluster { store: Store::Nodes(nodes), crew, .. } = cluster else {
            unreachable!("only a store of several nodes has such faults")
        };
        let outlasts_lease = self.ends_lease() && broken_for > nodes.lease() + LEASE_MARGIN;
        let silenced: Vec<usize> = match self {
            Self::Stop(node) | Self::CutFromEtcd(node) if outlasts_lease => vec![node],
            Self::EtcdAway if outlasts_lease => (0..nodes.all.len()).collect(),
            _ => Vec::new(),
        };
        nodes.all.iter().for_each(Node::skip_lines);
        match self {
            Self::Kill(node) => kill(nodes, crew, &[node], broken_for),
            Self::KillSequencer => {
                let sequencer = nodes.sequencer()?.ok_or("all nodes serve and there is no sequencer")?;
                kill(nodes, crew, &[sequencer], broken_for)
            }
            Self::KillTwo(two) => kill(nodes, crew, &two, broken_for),
            Self::KillAll => nodes.lose_power(crew, broken_for),
            Self::Close(node) => {
                nodes.all[node].close()?;
                crew.wait_for(broken_for)?;
                nodes.all[node].start_again()
            }
            Self::Stop(node) => {
                nodes.all[node].stop()?;
                crew.wait_for(broken_for)?;
                nodes.all[node].resume()
            }
            Self::EtcdAway => be_without_etcd(nodes, crew, broken_for),
            Self::CutFromEtcd(node) => {
                nodes.all[node].cut_from_etcd();
                crew.wait_for(broken_for)?;
                nodes.mend();
                Ok(())
            }
            Self::CutNodes(two, cut) => cut_nodes(nodes, crew, two, cut, broken_for),
            Self::Move(to) => {
                let shard = nodes.move_to(to)?;
                nodes.await_moved(crew, shard, to)
            }
            Self::MoveAndKill([to, victim]) => {
                let shard = nodes.move_to(to)?;
                kill(nodes, crew, &[victim], broken_for)?;
                nodes.await_moved(crew, shard, to)
            }
            Self::Nothing => crew.wait_for(broken_for),
        }?;
        let mended = now();
        silenced.into_iter().try_for_each(|node| nodes.all[node].await_lease_over(PATIENCE))?;
        nodes.await_serving(crew)?;
        Ok(mended)
    }
}

fn kill(nodes: &mut Nodes, crew: &Crew, victims: &[usize], broken_for: Duration) -> Result {
    victims.iter().try_for_each(|&node| nodes.all[node].kill())?;
    crew.wait_for(broken_for)?;
    victims.iter().try_for_each(|&node| nodes.all[node].start_again())
}

fn be_without_etcd(nodes: &mut Nodes, crew: &Crew, broken_for: Duration) -> Result {
    if nodes.kill_etcd()? {
        crew.wait_for(broken_for)?;
        return nodes.start_etcd();
    }
    nodes.all.iter().for_each(Node::cut_from_etcd);
    crew.wait_for(broken_for)?;
    nodes.mend();
    Ok(())
}

fn cut_nodes(nodes: &Nodes, crew: &Crew, [first, second]: [usize; 2], cut: Cut, broken_for: Duration) -> Result {
    nodes.cut(first, second, cut);
    crew.wait_for(broken_for.min(LINK_SILENCE))?;
    if let Some(longer) = broken_for.checked_sub(LINK_SILENCE) {
        nodes.lose(first, second);
        crew.wait_for(longer)?;
    }
    nodes.mend();
    Ok(())
}
