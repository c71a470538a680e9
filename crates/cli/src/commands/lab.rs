//! `thorp lab up`: a store of several nodes on this machine, with its etcd and redirectors, to try things with.

use crate::Result;
use crate::cli::{LabCommand, LabUpArgs};
use crate::cluster::{Group, Roles};
use crate::crew::Crew;
use crate::nodes::{EtcdChoice, Leases, Lines, Nodes};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, end_processes_on};
use fixtures::Process;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often the processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn run(command: &LabCommand, output: &mut Output) -> Result {
    match command {
        LabCommand::Up(args) => up(args, output),
    }
}

fn up(args: &LabUpArgs, output: &mut Output) -> Result {
    // An etcd that is missing is reported before a directory is made.
    let etcd = EtcdChoice::of(args.etcd.as_ref())?;
    // A second Ctrl-C would leave processes: the first is enough.
    let interrupt = Interrupt::watch_patiently()?;
    end_processes_on(interrupt.clone());
    let scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "lab")?;
    let ended = start(args, &etcd, scratch.path()).and_then(|(mut nodes, groups)| {
        say_ready(&nodes, &groups, scratch.path(), output)?;
        watch(&mut nodes, &groups, &interrupt)
    });
    if interrupt.has_come() {
        return output.line(&json!({"ended": scratch.path()}), "every process has ended");
    }
    ended
}

fn start(args: &LabUpArgs, etcd: &EtcdChoice, dir: &Path) -> Result<(Nodes, Vec<Group>)> {
    let spinner = output::spinner("starting");
    let leases = Leases { of_nodes: args.lease, of_groups_ms: None };
    let mut nodes = Nodes::start(dir, etcd, args.nodes, leases, Lines::Direct)?;
    nodes.await_serving(&Crew::default())?;
    let roles = Roles { groups: args.groups, clients: 0, lease_ms: None, patience: None };
    let groups = Group::all_of(&nodes, &roles, &mut Crew::default())?;
    spinner.finish_and_clear();
    Ok((nodes, groups))
}

fn say_ready(nodes: &Nodes, groups: &[Group], dir: &Path, output: &mut Output) -> Result {
    let address = |group: &Group| Some((group.name.clone(), group.redirector.as_ref()?.address()));
    let groups: Vec<_> = groups.iter().filter_map(address).collect();
    let (etcd, first) = (nodes.url(), nodes.all[0].address());
    let of_nodes: Map<_, _> = nodes.all.iter().map(|node| (node.name.clone(), json!(node.address()))).collect();
    let of_groups: Map<_, Value> = groups.iter().map(|(name, address)| (name.clone(), json!(address))).collect();
    let nodes = nodes.all.iter().map(|node| format!("  {}      {}", node.name, node.address()));
    let groups = groups
        .iter()
        .map(|(name, address)| format!("  {name}  {address}  a group: its members connect to {address},{first}"));
    let lines: Vec<_> = [etcd.to_string()].into_iter().chain(nodes).chain(groups).collect();
    let text = format!(
        "{}\nready, in {}. Try it:\n  thorp cluster status {etcd}\n  thorp put --server {first} greeting '\"hello\"'\n\
         Ctrl-C ends all of it.",
        lines.join("\n"),
        dir.display()
    );
    output.line(&json!({"etcd": etcd.to_string(), "nodes": of_nodes, "groups": of_groups, "dir": dir}), text)?;
    output.flush()
}

/// Waits until the user wants to stop, or a process has ended.
fn watch(nodes: &mut Nodes, groups: &[Group], interrupt: &Interrupt) -> Result {
    while !interrupt.has_come() {
        nodes.check()?;
        let ended = |process: &&Process| process.stdout().is_over();
        if let Some(redirector) = groups.iter().filter_map(|group| group.redirector.as_ref()).find(ended) {
            return Err(redirector.fails("has ended by itself"));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
