//! The members of a group, as its leader lists them in `thorp status`.

use super::progress::{BACK_WITHIN, Return};
use crate::Result;
use crate::cluster::{Cluster, Group, Store};
use crate::crew::now;
use crate::nodes::Node;
use fixtures::{Process, Program};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How often a redirector is asked while members are missing.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Waits until the members of each group are in it, or should have been for long: everything that they need has been
/// there since `since`.
pub(super) fn await_groups(cluster: &Cluster, since: u64) -> Result<Vec<Return>> {
    let groups = cluster.groups.iter().filter(|group| group.redirector.is_some());
    groups.map(|group| await_group(cluster, group, since)).collect()
}

fn await_group(cluster: &Cluster, group: &Group, since: u64) -> Result<Return> {
    let (name, members) = (group.name.clone(), group.members.len());
    loop {
        let are_in = are_in(group);
        let took = Duration::from_nanos(now() - since);
        if are_in >= members || took > BACK_WITHIN {
            return Ok(Return { group: name, members, are_in, took });
        }
        cluster.crew.wait_for(ASK_EVERY)?;
    }
}

/// How many clients the group's leader has compared everything with: its redirector, or the member that has taken over
/// while the redirector did not reach the store. None if neither answers.
fn are_in(group: &Group) -> usize {
    let leaders = group.redirector.iter().map(Process::address).chain(group.stand_in);
    leaders.map(|leader| are_with(&status(&group.ordinary.program, &leader))).max().unwrap_or_default()
}

/// The clients that a redirector lists as members.
fn are_with(status: &Value) -> usize {
    let members = status["members"].as_array();
    let is_in = |member: &&Value| member["state"] == "member";
    let clients = members.into_iter().flatten().filter(is_in).map(|member| member["client"].to_string());
    clients.collect::<BTreeSet<_>>().len()
}

/// The status of the store, of each of its nodes if it has several, and of the redirectors.
pub(super) fn all(cluster: &Cluster) -> Value {
    let store = match &cluster.store {
        Store::Single(program, server) => status(program, &server.address()),
        Store::Nodes(nodes) => {
            let program = &cluster.groups[0].ordinary.program;
            let of_node = |node: &Node| (node.name.clone(), status(program, &node.address()));
            let mut all: Map<_, _> = nodes.all.iter().map(of_node).collect();
            all.insert("nodes".into(), nodes.describe().into());
            all.into()
        }
    };
    let store = ("store".to_owned(), store);
    let of_group = |group: &Group| {
        Some((group.name.clone(), status(&group.ordinary.program, &group.redirector.as_ref()?.address())))
    };
    let redirectors = cluster.groups.iter().filter_map(of_group);
    Value::Object([store].into_iter().chain(redirectors).collect())
}

/// The status of a store or a redirector; null if it does not answer. It is asked at its own place, so a fault of the
/// line does not matter.
fn status(program: &Program, address: &SocketAddr) -> Value {
    let output = program.command().args(["status", "--json", &address.to_string()]).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}
