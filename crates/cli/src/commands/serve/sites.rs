//! The published sites of a node: its file server learns where shards and nodes are, and shards close when it has their
//! sites.

use crate::cli::ServeArgs;
use crate::{Error, Result};
use database::LocalStore;
use files::{NodeAt, NodeSites, Places, ShardAt, keep_chunks_in_bucket};
use membership::{Cluster, View};
use net::{Beside, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use types::{NodeId, Shard, Sharding};

/// The file server of a node, from the first time that the node has a lease until the end of the process.
pub(super) struct Sites {
    server: NodeSites,
    is_open: bool,
    sharding: Sharding,
    /// The names of the nodes, as far as they are known.
    names: BTreeMap<NodeId, String>,
    /// The shards that the store knows to be complete.
    complete: Option<BTreeSet<Shard>>,
}

impl Sites {
    pub(super) fn start(own: NodeId, view: &View, args: &ServeArgs, runtime: &Runtime) -> Result<Self> {
        if let Some(url) = &args.chunks {
            keep_chunks_in_bucket(&args.dir, url)?;
        }
        let lease = Duration::from_millis(args.site_lease_ms.into());
        let server = NodeSites::start(own, &args.dir, lease, runtime)?;
        Ok(Self { server, is_open: false, sharding: view.sharding(), names: view.names(), complete: None })
    }

    /// A store has begun that knows nothing of them.
    pub(super) fn begin(&mut self, store: &LocalStore) {
        self.complete = None;
        self.tell(store);
    }

    /// The node listens at this address.
    pub(super) fn open(&mut self, listen: SocketAddr) -> Result {
        if !std::mem::replace(&mut self.is_open, true) {
            self.server.open(&reached_at(listen).to_string())?;
        }
        Ok(())
    }

    /// Their sessions at the address of the node.
    pub(super) fn beside(&self, sessions_max: usize) -> Beside {
        self.server.beside(sessions_max)
    }

    /// The obstacles that operators should know of.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.server.trouble().into_iter().chain(self.server.bucket_trouble()()).collect()
    }

    /// Tells the file server where everything is, and the store which sites have come.
    pub(super) fn look(&mut self, store: &LocalStore, cluster: &Cluster) {
        let (shards, nodes) = store.look(|store| (store.shard_places(), store.known_nodes()));
        if nodes.iter().any(|(node, ..)| !self.names.contains_key(node)) {
            // A node that was added since. Without etcd it has its number for a name.
            let known = cluster.view().map(|view| view.names()).unwrap_or_default();
            let unnamed = nodes.iter().map(|(node, ..)| (*node, node.0.to_string()));
            self.names = unnamed.chain(known).collect();
        }
        let node = |(node, address, is_up): (NodeId, String, bool)| {
            (node, NodeAt { name: self.names.get(&node).cloned().unwrap_or_default(), address, is_up })
        };
        let nodes = nodes.into_iter().map(node).collect();
        let shards = shards.into_iter().map(|(shard, node, to)| (shard, ShardAt { node, to })).collect();
        self.server.set_places(Places { sharding: self.sharding, shards, nodes });
        self.tell(store);
    }

    fn tell(&mut self, store: &LocalStore) {
        let complete: BTreeSet<Shard> = self.server.complete().into_iter().collect();
        if self.complete.as_ref() != Some(&complete) {
            store.tell(|store, now| store.set_complete(now, complete.clone()));
            self.complete = Some(complete);
        }
    }
}

/// The address at which this process reaches itself.
fn reached_at(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The number of a node.
pub(super) fn number_of(view: &View, node: &str) -> Result<NodeId> {
    view.number(node).ok_or_else(|| Error::from("the store has no such node"))
}
