//! `thorp cluster`: creates a store of several nodes in etcd, shows their state, adds nodes, and moves shards.

mod moving;

use crate::Result;
use crate::cli::{ClusterAddArgs, ClusterCommand, ClusterCreateArgs, ClusterStatusArgs};
use crate::output::{self, Output, visible};
use membership::{Cluster, EtcdUrl, LeasedSpaces, NewStore, Status, write_back};
use net::Runtime;
use serde_json::json;
use std::path::Path;
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
    let ClusterCreateArgs { url, nodes, shards, extent, lease, leased, lease_ms, from } = args;
    let new = NewStore {
        nodes: nodes.clone(),
        shards: *shards,
        extent: *extent,
        lease: *lease,
        leased: LeasedSpaces::new(leased.clone(), *lease_ms),
        from: from.clone(),
    };
    if let Some(dir) = from {
        write_all_back(dir)?;
    }
    let store = Cluster::new(url, ANSWER_WITHIN)?.create(&new)?;
    let (first, dir) =
        (&nodes[0], from.as_ref().map_or_else(|| "DIR".into(), |dir| visible(&dir.display().to_string()).into_owned()));
    let json = json!({
        "created": url.to_string(), "store": format!("{store:?}"), "nodes": nodes, "shards": shards, "from": from,
    });
    let start = format!("thorp serve --cluster {url} --node {first} --dir {dir} --listen ADDR");
    let text = format!("created store {store:?}: start its nodes, such as\n  {start}");
    output.line(&json, text)
}

/// Writes everything back in the directory of a store that becomes one of several nodes.
fn write_all_back(dir: &Path) -> Result {
    let mut bar = None;
    write_back(dir, &Runtime::start()?, |progress| {
        let bar = bar.get_or_insert_with(|| output::bar("read (bytes)", progress.bytes_total));
        bar.set_position(progress.bytes);
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(())
}

fn status(url: &EtcdUrl, output: &mut Output) -> Result {
    let status = Status::of(&Cluster::new(url, ANSWER_WITHIN)?.view()?);
    output.line(&serde_json::to_value(&status)?, status.text())
}
