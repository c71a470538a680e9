//! The commands of a store of several nodes.

use clap::{Args, Subcommand};
use membership::EtcdUrl;
use std::path::PathBuf;
use std::time::Duration;

/// Help by example.
pub(crate) const CLUSTER_HELP: &str = "\
Example, with etcd on this machine:
  thorp cluster create etcd://127.0.0.1:2379/main --nodes n1,n2,n3
  thorp serve --cluster etcd://127.0.0.1:2379/main --node n1 --dir n1 --listen 127.0.0.1:7411
  thorp serve --cluster etcd://127.0.0.1:2379/main --node n2 --dir n2 --listen 127.0.0.1:7412
  thorp serve --cluster etcd://127.0.0.1:2379/main --node n3 --dir n3 --listen 127.0.0.1:7413
  thorp cluster status etcd://127.0.0.1:2379/main

The nodes serve once all of them have been started, and clients name any of them. To move everything to a new node, and
stop the old one:
  thorp cluster add etcd://127.0.0.1:2379/main n4
  thorp serve --cluster etcd://127.0.0.1:2379/main --node n4 --dir n4 --listen 127.0.0.1:7414
  thorp cluster drain etcd://127.0.0.1:2379/main n1";

/// The commands for a store of several nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Creates a store of several nodes in etcd, before its nodes are started
    Create(ClusterCreateArgs),
    /// Prints the nodes, the state of their shards and how far those are that move, and the sequencer
    Status(ClusterStatusArgs),
    /// Adds a node to the store, before it is started. It has no shards until some are moved there
    Add(ClusterAddArgs),
    /// Moves a shard to another node, while clients read and commit
    Move(ClusterMoveArgs),
    /// Moves all shards of a node to the others, those with the fewest shards first
    Drain(ClusterDrainArgs),
}

/// `thorp cluster create`.
#[derive(Debug, Args)]
pub(crate) struct ClusterCreateArgs {
    /// The etcd, and the store's name in it: etcd://HOST:PORT[,HOST:PORT]/NAME, such as etcd://10.0.0.1:2379/main.
    #[arg(value_name = "URL")]
    pub(crate) url: EtcdUrl,
    /// The names of the nodes, separated by commas. Each node is started with `thorp serve --cluster URL --node NAME`.
    #[arg(long, value_name = "NODES", value_delimiter = ',', required = true)]
    pub(crate) nodes: Vec<String>,
    /// The number of shards, the parts of the store that nodes are masters of. It cannot be changed later.
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) shards: u16,
    /// The number of neighboring pages that are in one shard. It cannot be changed later.
    #[arg(long, value_name = "PAGES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) extent: u32,
    /// How long a node serves without having reached etcd, in seconds: 2s to 60s. The other nodes wait this long before
    /// they replace a sequencer that was killed.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub(crate) lease: Duration,
    /// Spaces whose coherence is leased, by their numbers, such as 0,3: groups validate read-only transactions on them
    /// without asking the store, and watchers learn of each commit there. It cannot be changed later.
    #[arg(long, value_name = "SPACES", value_delimiter = ',')]
    pub(crate) leased: Vec<u32>,
    /// How long a lease on these spaces lasts, in milliseconds. Only with --leased.
    #[arg(long, value_name = "MS", default_value_t = 2000, requires = "leased")]
    #[arg(value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub(crate) lease_ms: u32,
    /// The directory of a store of one process, which is stopped. It becomes the directory of the first node, with
    /// everything that is in it. Shards go to the other nodes by `thorp cluster move`.
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
}

/// `thorp cluster status`.
#[derive(Debug, Args)]
pub(crate) struct ClusterStatusArgs {
    /// The etcd, and the store's name in it: etcd://HOST:PORT[,HOST:PORT]/NAME.
    #[arg(value_name = "URL")]
    pub(crate) url: EtcdUrl,
}

/// `thorp cluster add`.
#[derive(Debug, Args)]
pub(crate) struct ClusterAddArgs {
    /// The etcd, and the store's name in it: etcd://HOST:PORT[,HOST:PORT]/NAME.
    #[arg(value_name = "URL")]
    pub(crate) url: EtcdUrl,
    /// The name of the new node.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
}

/// `thorp cluster move`.
#[derive(Debug, Args)]
pub(crate) struct ClusterMoveArgs {
    /// The etcd, and the store's name in it: etcd://HOST:PORT[,HOST:PORT]/NAME.
    #[arg(value_name = "URL")]
    pub(crate) url: EtcdUrl,
    /// The shard's number, as `thorp cluster status --json` lists it.
    #[arg(value_name = "SHARD")]
    pub(crate) shard: u16,
    /// The node that it moves to. The node that it is at ends a move that is under way.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Returns at once. The nodes carry on by themselves, as they do when the command is stopped.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// `thorp cluster drain`.
#[derive(Debug, Args)]
pub(crate) struct ClusterDrainArgs {
    /// The etcd, and the store's name in it: etcd://HOST:PORT[,HOST:PORT]/NAME.
    #[arg(value_name = "URL")]
    pub(crate) url: EtcdUrl,
    /// The node whose shards move.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// Returns at once. The nodes carry on by themselves, as they do when the command is stopped.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

/// A length in whole seconds, such as `5s`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse().ok().filter(|seconds| (2..=60).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "expected whole seconds from 2s to 60s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(["2s", "60"].map(|text| seconds(text).unwrap().as_secs()), [2, 60]);
        assert!(["", "s", "1s", "61s", "2.5s", "-2s", "5m"].into_iter().all(|text| seconds(text).is_err()));
    }
}
