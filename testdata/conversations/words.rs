//! Words that the scripts of several roles have in common.

use machine::UpstreamId;
use messages::{Advance, NodeAt, Placement, ShardAt};
use types::{ClientId, NodeId, Opening, PageId, Shard, TxnId, Vector, Version};

/// `1/3`
pub(crate) fn page(word: &str) -> Option<PageId> {
    let (space, number) = word.split_once('/')?;
    Some(PageId::new(space.parse().ok()?, number.parse().ok()?))
}

/// `v7` or `7`
pub(crate) fn version(word: &str) -> Option<Version> {
    word.trim_start_matches('v').parse().ok().map(Version)
}

/// The value behind `name=` among some words.
pub(crate) fn named<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// `1/3:4->6`
pub(crate) fn advance(word: &str) -> Option<Advance> {
    let (of, versions) = word.split_once(':')?;
    let (prev, next) = versions.split_once("->")?;
    Some(Advance { page: page(of)?, prev: version(prev)?, version: version(next)? })
}

/// `5`, or by shard `0:5,1:7`
pub(crate) fn vector(word: &str) -> Option<Vector> {
    if !word.contains(':') {
        return Some(version(word)?.into());
    }
    let count = |word: &str| {
        let (shard, count) = word.split_once(':')?;
        Some((Shard(shard.parse().ok()?), version(count)?))
    };
    word.split(',').map(count).collect()
}

/// `n1@there:1`, or `n1/3@there:1` since its third start.
fn node_at(word: &str) -> Option<NodeAt> {
    let (name, address) = word.split_once('@')?;
    let (name, start) = name.split_once('/').unwrap_or((name, "0"));
    Some(NodeAt { node: node(name)?, start: start.parse().ok()?, address: address.into() })
}

/// `n1`, or `n1/3` in its third opening.
fn shard_at(word: &str) -> Option<ShardAt> {
    let (name, opening) = word.split_once('/').unwrap_or((word, "0"));
    Some((node(name)?, Opening(opening.parse().ok()?)))
}

fn node(word: &str) -> Option<NodeId> {
    word.strip_prefix('n')?.parse().ok().map(NodeId)
}

/// `4`, or `4@1` if node 1 coordinates it.
pub(crate) fn txn(client: ClientId, word: &str) -> Option<TxnId> {
    let (count, node) = word.split_once('@').unwrap_or((word, "0"));
    Some(TxnId::at(client, NodeId(node.parse().ok()?), count.parse().ok()?))
}

/// Nodes as `n1@there:1`, then the node of each shard as `shards=n0,n1`.
pub(crate) fn placement(words: &[&str]) -> Option<Placement> {
    let (shards, nodes) = words.split_last()?;
    Some(Placement {
        nodes: nodes.iter().map(|word| node_at(word)).collect::<Option<_>>()?,
        shards: named(&[shards], "shards")?.split(',').map(shard_at).collect::<Option<_>>()?,
    })
}

/// The number of a connection.
pub(crate) fn upstream(word: &str) -> Option<UpstreamId> {
    word.parse().ok().map(UpstreamId)
}
