//! `thorp cluster`: creates a store of several nodes in etcd, shows their state, adds nodes, and moves shards.

mod moving;

use crate::Result;
use crate::cli::{ClusterAddArgs, ClusterCommand, ClusterCreateArgs, ClusterStatusArgs};
use crate::output::Output;
use membership::{Cluster, EtcdUrl, LeasedSpaces, NewStore, Status};
use serde_json::json;
use std::time::Duration;

/// How long each endpoint of etcd has for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn run(command: &ClusterCommand, output: &mut Output) -> Result {
    match command {
        ClusterCommand::Create(args) => create(args, output),
        ClusterCommand::Status(ClusterStatusArgs { url }) => status(url, output),
        ClusterCommand::Add(args) => add(args, output),
        ClusterCommand::Move(args) => moving::move_shard(args, output),
        ClusterCommand::Drain(args) => moving::drain(args, output),
    }
}

fn add(args: &ClusterAddArgs, output: &mut Output) -> Result {
    let ClusterAddArgs { url, node } = args;
    let number = Cluster::new(url, ANSWER_WITHIN)?.add(node)?;
    let start = format!("thorp serve --cluster {url} --node {node} --dir DIR --listen ADDR");
    let text = format!(
        "added node {node}: start it, and move shards there, such as\n  {start}\n  thorp cluster move {url} 0 {node}"
    );
    output.line(&json!({"added": node, "number": number.0}), text)
}

fn create(args: &ClusterCreateArgs, output: &mut Output) -> Result {
    let ClusterCreateArgs { url, nodes, shards, extent, lease, leased, lease_ms } = args;
    let leased = LeasedSpaces::new(leased.clone(), *lease_ms);
    let new = NewStore { nodes: nodes.clone(), shards: *shards, extent: *extent, lease: *lease, leased };
    let store = Cluster::new(url, ANSWER_WITHIN)?.create(&new)?;
    let first = &nodes[0];
    let json = json!({"created": url.to_string(), "store": format!("{store:?}"), "nodes": nodes, "shards": shards});
    let start = format!("thorp serve --cluster {url} --node {first} --dir DIR --listen ADDR");
    let text = format!("created store {store:?}: start its nodes, such as\n  {start}");
    output.line(&json, text)
}

fn status(url: &EtcdUrl, output: &mut Output) -> Result {
    let status = Status::of(&Cluster::new(url, ANSWER_WITHIN)?.view()?);
    output.line(&serde_json::to_value(&status)?, status.text())
}
