//! A store of three nodes over a real etcd: nodes are killed, stopped and continued; etcd is killed and restored.

use crate::program::{Ran, program, ran, start, thorp, tool};
use crate::raw::Raw;
use fixtures::{Etcd, Folder, Process, Signal, lasting_address, until};
use messages::{CommitRequest, Fetch, Grant, Outcome, PageReads, Resume, ToClient, ToServer};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use types::{ClientId, Delta, Incarnation, ObjectPage, PageId, Sharding, SlotChange, TxnId, Vector, Version};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
pub(crate) const SHARDS: u64 = 6;
const LEASE: Duration = Duration::from_secs(3);

/// A store of three nodes, and its etcd.
pub(crate) struct Farm {
    // The folder goes when all processes have ended.
    nodes: [Option<Process>; 3],
    pub(crate) etcd: Etcd,
    pub(crate) folder: Folder,
    pub(crate) url: String,
    pub(crate) addresses: [SocketAddr; 3],
}

impl Farm {
    /// An etcd in which there is no store; none if no etcd is installed.
    pub(crate) fn empty() -> Option<Self> {
        let (program, folder) = (tool("bin/etcd")?, Folder::new());
        let etcd = Etcd::start(&program, folder.path()).unwrap();
        let url = etcd.url("main");
        let addresses = NODES.map(|_| lasting_address().unwrap());
        Some(Self { etcd, folder, url, addresses, nodes: [None, None, None] })
    }

    /// A store without its nodes.
    pub(crate) fn new() -> Option<Self> {
        Self::with(&[])
    }

    /// The same, created with these options as well.
    fn with(options: &[&str]) -> Option<Self> {
        let farm = Self::empty()?;
        let (url, shards, lease) = (&farm.url, SHARDS.to_string(), format!("{}s", LEASE.as_secs()));
        let words =
            ["cluster", "create", url, "--nodes", "n1,n2,n3", "--shards", &shards, "--extent", "1", "--lease", &lease];
        thorp(words.iter().copied().chain(options.iter().copied())).ok();
        Some(farm)
    }

    /// The same with all nodes, which serve all shards.
    pub(crate) fn started() -> Option<Self> {
        Self::started_with(&[])
    }

    /// The same, created with these options as well.
    pub(crate) fn started_with(options: &[&str]) -> Option<Self> {
        let mut farm = Self::with(options)?;
        (0..3).for_each(|node| farm.start(node));
        farm.wait_serving();
        Some(farm)
    }

    pub(crate) fn dir(&self, node: usize) -> String {
        self.folder.file(NODES[node])
    }

    pub(crate) fn command(&self, name: &str, dir: &str, listen: SocketAddr) -> std::process::Command {
        let mut command = program().command();
        command.args(["serve", "--cluster", &self.url, "--node", name, "--dir", dir, "--json"]);
        command.args(["--listen", &listen.to_string()]);
        command
    }

    /// Starts a node, and waits until it listens.
    pub(crate) fn start(&mut self, node: usize) {
        self.start_with(node, &[]);
    }

    /// The same with more options.
    pub(crate) fn start_with(&mut self, node: usize, more: &[&str]) {
        let mut command = self.command(NODES[node], &self.dir(node), self.addresses[node]);
        command.args(more);
        let process = Process::spawn(command, NODES[node]).unwrap();
        process.hear_until(|line| line["node"] == NODES[node]).unwrap();
        self.nodes[node] = Some(process);
    }

    /// Runs a node that is refused, to its end.
    fn refused(&self, name: &str, dir: &str) -> String {
        let mut command = self.command(name, dir, "127.0.0.1:0".parse().unwrap());
        let Ran { code, stderr, .. } = ran(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!(code, Some(1), "{stderr}");
        serde_json::from_str::<Value>(&stderr).unwrap()["error"].as_str().unwrap().to_owned()
    }

    fn node(&mut self, node: usize) -> &mut Process {
        self.nodes[node].as_mut().unwrap()
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].take().unwrap().kill().unwrap();
    }

    /// Stops a node by SIGTERM. Returns its last words.
    pub(crate) fn stop(&mut self, node: usize) -> String {
        let ended = self.nodes[node].take().unwrap().end_by(Signal::TERM).unwrap();
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&thorp(["cluster", "status", "--json", &self.url]).ok()).unwrap()
    }

    /// Waits until the state of all nodes is so.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        until(what, || is_so(&self.status()));
    }

    #[track_caller]
    pub(crate) fn wait_serving(&self) {
        self.wait("all shards are served", |status| serving(status, None) == SHARDS && status["sequencer"].is_string());
    }

    /// A client's session with a node.
    fn session(&self, node: usize, client: u64) -> Raw {
        let mut raw = Raw::greet(self.addresses[node], ClientId(client), 1);
        raw.send(&ToServer::Resume(Resume {
            horizon: Vector::new(),
            pages: vec![],
            grants: vec![],
            last: true,
            missed: 0,
        }));
        while !matches!(raw.next().expect("it is welcome"), ToClient::Resumed(_)) {}
        raw
    }
}

/// Shards that are served, by all nodes or by one.
pub(crate) fn serving(status: &Value, node: Option<&str>) -> u64 {
    let shards = status["placement"].as_array().unwrap().iter();
    let is_its = |shard: &&Value| node.is_none_or(|node| shard["node"] == node) && shard["state"] == "serving";
    shards.filter(is_its).count() as u64
}

fn state(status: &Value, node: usize) -> String {
    status["nodes"][node]["state"].as_str().unwrap().to_owned()
}

/// A request to a node, on a session that may have ended.
fn ask(raw: &mut Raw, node: usize) {
    raw.send(&ToServer::Fetch(Fetch { pages: vec![page_at(node)], at_least: Vector::new(), number: 1, follow: None }));
}

/// Says that a session has ended by name, and that nothing was said before.
#[track_caller]
fn assert_cut_off(raw: &mut Raw) {
    match raw.next() {
        Some(ToClient::Goodbye(goodbye)) => {
            assert_eq!(goodbye.reason.name(), "cut_off", "{}", goodbye.text);
            assert!(goodbye.text.contains("the lease of this node"), "{}", goodbye.text);
        }
        other => panic!("expected a goodbye, got {other:?}"),
    }
}

#[test]
fn three_nodes_serve_every_shard_and_one_that_was_killed_opens_again() {
    let Some(mut farm) = Farm::new() else { return };
    let status = farm.status();
    assert_eq!((state(&status, 0), &status["epoch"]), ("new".into(), &0.into()));
    let exists = thorp(["cluster", "create", &farm.url, "--nodes", "a"]).error();
    assert!(exists.contains("the store 'main' exists"), "{exists}");
    // A shard opens when the logs of all nodes have told.
    farm.start(2);
    farm.wait("it waits", |status| status["nodes"][2]["waits_for"] == serde_json::json!(["n1", "n2"]));
    assert_eq!(serving(&farm.status(), None), 0);
    farm.start(0);
    farm.start(1);
    farm.wait_serving();
    let before = farm.status();
    assert_eq!((&before["sequencer"], &before["epoch"]), (&"n3".into(), &1.into()), "{before}");
    let mut session = farm.session(1, 7);
    ask(&mut session, 1);

    farm.kill(1);
    let text = thorp(["cluster", "status", &farm.url]).ok();
    let expected = ["sequencer n3, epoch 1", "n2: ", "; log 0 % full"];
    assert!(expected.iter().all(|words| text.contains(words)), "{text}");
    // The name is in use until the lease of the process that was killed ends.
    farm.start(1);
    farm.wait_serving();
    let after = farm.status();
    let opening = |status: &Value, shard: usize| status["placement"][shard]["opening"].as_u64().unwrap();
    assert_eq!((opening(&after, 1), opening(&after, 0)), (opening(&before, 1) + 1, opening(&before, 0)), "{after}");
}

#[test]
fn a_node_that_was_stopped_opens_without_the_others() {
    let Some(mut farm) = Farm::started() else { return };
    farm.kill(0);
    farm.kill(2);
    let said = farm.stop(1);
    assert!(said.contains("\"closed\""), "{said}");
    let status = farm.status();
    assert_eq!(status["nodes"][1]["shards"], serde_json::json!({"closed": 2}), "{status}");
    assert_eq!(state(&status, 1), "away", "it has left at once");
    farm.start(1);
    farm.wait("it serves alone", |status| serving(status, Some("n2")) == 2);
    // The others were not stopped in order, so they wait for each other.
    farm.start(0);
    farm.wait("one waits", |status| status["nodes"][0]["waits_for"] == serde_json::json!(["n3"]));
    let text = thorp(["cluster", "status", &farm.url]).ok();
    assert!(text.contains("waits for the logs of n3"), "{text}");
    farm.start(2);
    farm.wait_serving();
}

/// The first page of a node's first shard.
fn page_at(node: usize) -> PageId {
    let sharding = Sharding::new(NonZeroU16::new(SHARDS as u16).unwrap(), NonZeroU32::MIN);
    let mut pages = (0..).map(|number| PageId::new(0, number));
    pages.find(|page| usize::from(sharding.of(*page).0) == node).unwrap()
}

/// Makes pages at a node.
fn make_pages(raw: &mut Raw) {
    raw.send(&ToServer::Grant(Grant { space: 0, count: 64 }));
    while !matches!(raw.next().unwrap(), ToClient::Granted(_)) {}
}

/// The version and the value of a page, at its node.
fn read(farm: &Farm, node: usize) -> (Version, Vec<u8>) {
    let mut raw = farm.session(node, 100 + node as u64);
    raw.send(&ToServer::Fetch(Fetch { pages: vec![page_at(node)], at_least: Vector::new(), number: 1, follow: None }));
    loop {
        if let ToClient::Page(page) = raw.next().unwrap() {
            let value = ObjectPage::parse(page.image).unwrap().get(0).map(<[u8]>::to_vec);
            return (page.version, value.unwrap_or_default());
        }
    }
}

/// Writes a value to a page of each node in one transaction, by way of one of them. Returns whether it was committed.
fn write(farm: &Farm, by: usize, number: u64, value: &'static str) -> bool {
    let mut raw = farm.session(by, number);
    let txn = TxnId { client: ClientId(number), number: 1 };
    let mut known: Vec<_> = (0..3).map(|node| (page_at(node), read(farm, node).0)).collect();
    known.sort_unstable();
    let reads = |&(page, evidence): &(PageId, Version)| PageReads {
        page,
        slots: [0].into_iter().collect(),
        evidence,
        exceptions: Vec::new(),
    };
    let writes = |&(page, _): &(PageId, Version)| Delta {
        page,
        changes: vec![SlotChange { slot: 0, value: Some(value.into()) }],
    };
    raw.send(&ToServer::Commit(CommitRequest {
        txn,
        incarnation: Incarnation(u64::MAX),
        answered: 1,
        reads: known.iter().map(reads).collect(),
        writes: known.iter().map(writes).collect(),
    }));
    loop {
        if let ToClient::CommitReply(reply) = raw.next().unwrap() {
            return matches!(reply.outcome, Outcome::Committed { .. });
        }
    }
}

#[test]
fn what_was_committed_on_all_nodes_outlasts_stops_and_kills() {
    let Some(mut farm) = Farm::started() else { return };
    (0..3).for_each(|node| make_pages(&mut farm.session(node, 1)));
    let mut number = 10;
    until("the nodes commit together", || {
        number += 1;
        write(&farm, 0, number, "first")
    });
    let values = |farm: &Farm| (0..3).map(|node| read(farm, node).1).collect::<Vec<_>>();
    assert_eq!(values(&farm), [b"first"; 3]);
    farm.stop(1);
    farm.kill(0);
    farm.kill(2);
    farm.start(1);
    farm.wait("it serves alone", |status| serving(status, Some("n2")) == 2);
    let alone = read(&farm, 1);
    assert_eq!((alone.1, alone.0 > Version::ZERO), (b"first".to_vec(), true));
    farm.start(0);
    farm.start(2);
    farm.wait_serving();
    assert_eq!(values(&farm), [b"first"; 3]);
    let mut number = 20;
    until("they commit in the next epoch", || {
        number += 1;
        write(&farm, 2, number, "second")
    });
    assert_eq!(values(&farm), [b"second"; 3]);
}

/// A client names one node, or some. It creates objects at the first that answers, and reads those of all.
#[test]
fn the_command_line_names_any_node_and_uses_all() {
    let Some(mut farm) = Farm::started() else { return };
    let at = |farm: &Farm, node: usize| farm.addresses[node].to_string();
    let put = |farm: &Farm, node: usize, name: &str| {
        thorp(["put", name, &format!("[{node}]"), "--server", &at(farm, node)]).ok();
    };
    let get = |farm: &Farm, node: usize, name: &str| thorp(["get", name, "--server", &at(farm, node)]).ok();
    let check = |farm: &Farm, names: &[String]| {
        for (by, name) in names.iter().enumerate() {
            (0..3).for_each(|node| assert_eq!(get(farm, node, name).trim(), format!("[{}]", by % 3)));
        }
    };
    let mut names: Vec<_> = NODES.iter().map(|node| format!("docs/{node}")).collect();
    names.iter().enumerate().for_each(|(node, name)| put(&farm, node, name));
    check(&farm, &names);
    // The node at the first address is away, and its pages wait for it.
    farm.kill(1);
    let some = format!("{},{}", at(&farm, 1), at(&farm, 0));
    farm.start(1);
    farm.wait_serving();
    names.push("docs/later".into());
    thorp(["put", "docs/later", "[0]", "--server", &some]).ok();
    check(&farm, &names);
}

/// A group has a session with each node: its members read and write through it, while a node is killed and back.
#[test]
fn members_of_a_group_use_all_nodes() {
    let Some(mut farm) = Farm::started() else { return };
    let all: Vec<_> = farm.addresses.iter().map(SocketAddr::to_string).collect();
    let group = start(&["group", "--name", "site", "--store", &all.join(","), "--listen", "127.0.0.1:0"]);
    let site = group.address().to_string();
    let get = |server: &str, name: &str| thorp(["get", name, "--server", server]).ok().trim().to_owned();
    thorp(["put", "docs/near", "[1]", "--server", &site]).ok();
    thorp(["put", "docs/far", "[2]", "--server", &all[2]]).ok();
    assert_eq!((get(&all[1], "docs/near"), get(&site, "docs/far")), ("[1]".into(), "[2]".into()));
    farm.kill(0);
    farm.start(0);
    farm.wait_serving();
    thorp(["put", "docs/near", "[3]", "--server", &site]).ok();
    assert_eq!((get(&all[0], "docs/near"), get(&site, "docs/near")), ("[3]".into(), "[3]".into()));
    assert!(group.end_by(Signal::TERM).unwrap().status.success());
}

#[test]
fn without_etcd_nodes_serve_while_their_leases_last_and_resume_by_themselves() {
    let Some(mut farm) = Farm::started() else { return };
    let mut sessions = [0, 1, 2].map(|node| farm.session(node, 7));
    // A restart of etcd that is shorter than a lease ends nothing.
    farm.etcd.start_again().unwrap();
    for (node, session) in sessions.iter_mut().enumerate() {
        ask(session, node);
        assert!(matches!(session.next(), Some(ToClient::Page(_))));
    }
    farm.etcd.process.kill().unwrap();
    for (node, session) in sessions.iter_mut().enumerate() {
        assert_cut_off(session);
        let over = farm.node(node).hear_until(|line| line["lease_over"].is_string()).unwrap();
        assert!(over["lease_over"].as_str().unwrap().contains("check it with 'curl http://"), "{over}");
    }
    let away = thorp(["cluster", "status", &farm.url]).error();
    assert!(away.contains("cannot be reached"), "{away}");
    farm.etcd.start_again().unwrap();
    for (node, name) in NODES.iter().enumerate() {
        farm.node(node).hear_until(|line| line["node"] == *name).unwrap();
    }
    farm.wait_serving();
    farm.session(1, 8);
    // A node without a lease cannot record that it was closed.
    farm.etcd.process.kill().unwrap();
    farm.node(0).hear_until(|line| line["lease_over"].is_string()).unwrap();
    let ended = farm.nodes[0].take().unwrap().end_by(Signal::TERM).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("stopped without a lease"), "{}", ended.stderr);
}

#[test]
fn a_node_that_was_stopped_beyond_its_lease_answers_nothing_until_it_has_begun_again() {
    let Some(mut farm) = Farm::started() else { return };
    let mut session = farm.session(1, 7);
    farm.node(1).signal(Signal::STOP).unwrap();
    farm.wait("its lease is over", |status| state(status, 1) == "away");
    ask(&mut session, 1);
    farm.node(1).signal(Signal::CONT).unwrap();
    assert_cut_off(&mut session);
    farm.node(1).hear_until(|line| line["lease_over"].is_string()).unwrap();
    farm.node(1).hear_until(|line| line["node"] == "n2").unwrap();
    farm.wait_serving();
    let mut session = farm.session(1, 8);
    ask(&mut session, 1);
    assert!(matches!(session.next(), Some(ToClient::Page(_))));
}

#[test]
fn another_node_takes_the_next_epoch_when_the_sequencers_is_killed() {
    let Some(mut farm) = Farm::started() else { return };
    let before = farm.status();
    let sequencer = NODES.iter().position(|node| before["sequencer"] == *node).unwrap();
    farm.kill(sequencer);
    let killed = Instant::now();
    let next = before["epoch"].as_u64().unwrap() + 1;
    farm.wait("another is elected", |status| status["epoch"] == next && status["sequencer"].is_string());
    assert!(killed.elapsed() < LEASE + Duration::from_secs(1), "after {:?}", killed.elapsed());
    assert_ne!(farm.status()["sequencer"], NODES[sequencer]);
    // A sequencer's node that is stopped leaves at once.
    let after = farm.status();
    let second = NODES.iter().position(|node| after["sequencer"] == *node).unwrap();
    farm.stop(second);
    let stopped = Instant::now();
    farm.wait("the last is elected", |status| status["epoch"] == next + 1 && status["sequencer"].is_string());
    assert!(stopped.elapsed() < Duration::from_secs(1), "after {:?}", stopped.elapsed());
}

fn copy(from: &str, to: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), Path::new(to).join(entry.file_name())).unwrap();
    }
}

#[test]
fn processes_and_directories_that_are_not_the_nodes_are_refused() {
    let Some(mut farm) = Farm::new() else { return };
    let unknown = farm.refused("n9", &farm.dir(0));
    assert!(unknown.contains("the store has no node 'n9': expected one of n1, n2, n3"), "{unknown}");
    farm.start(0);
    farm.start(1);
    let in_use = farm.refused("n1", &farm.dir(0));
    assert!(in_use.contains("is in use by process"), "{in_use}");
    let others = farm.refused("n3", &farm.dir(1));
    assert!(others.contains("is the directory of node 'n2'"), "{others}");
    let empty = farm.refused("n1", &farm.folder.file("empty"));
    assert!(empty.contains("is not the directory of node 'n1', which has another"), "{empty}");
    thorp(["put", "--dir", &farm.folder.file("alone"), "a", "1"]).ok();
    let alone = farm.refused("n3", &farm.folder.file("alone"));
    assert!(alone.contains("belongs to store"), "{alone}");
    // A copy of the directory of a node that runs, and later of one that has run since.
    let copied = farm.folder.file("copy");
    copy(&farm.dir(0), &copied);
    let live = farm.refused("n1", &copied);
    assert!(live.contains("another process runs as node 'n1' at"), "{live}");
    farm.kill(0);
    farm.start(0);
    let old = farm.refused("n1", &copied);
    assert!(old.contains("is an old copy of the directory of node 'n1': it knows 1 starts"), "{old}");
    let own = farm.url.clone();
    farm.url = farm.etcd.url("other");
    let other = farm.refused("n1", &farm.dir(2));
    assert!(other.contains("there is no store 'other' in this etcd"), "{other}");
    farm.url = format!("etcd://{}/main", farm.addresses[0]);
    let not_etcd = farm.refused("n3", &farm.dir(2));
    assert!(not_etcd.contains("check"), "{not_etcd}");
    farm.url = own;
    farm.kill(1);
    let single = thorp(["put", "--dir", &farm.dir(1), "a", "1"]).error();
    assert!(single.contains("is the directory of a node of a store of several"), "{single}");
    // The leased spaces are the store's, not a node's.
    let (url, dir) = (farm.url.clone(), farm.dir(2));
    let words = ["serve", "--cluster", &url, "--node", "n3", "--dir", &dir, "--leased", "0"];
    assert!(thorp(words).usage().contains("`thorp cluster create --leased` names them"));
    assert_eq!(thorp(["serve", "--dir", &dir, "--node", "n3"]).code, Some(2));
}

#[test]
fn an_etcd_that_was_restored_to_an_older_state_is_refused() {
    let Some(mut farm) = Farm::new() else { return };
    let saved = farm.folder.file("saved");
    farm.etcd.save(Path::new(&saved)).unwrap();
    (0..3).for_each(|node| farm.start(node));
    farm.wait_serving();
    farm.etcd.restore(Path::new(&saved)).unwrap();
    for node in 0..3 {
        let ended = farm.nodes[node].take().unwrap().ended().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.contains("etcd was restored to an older state: /thorp/main/"), "{}", ended.stderr);
        assert!(ended.stderr.contains("etcdctl put"), "{}", ended.stderr);
    }
    let again = farm.refused("n1", &farm.dir(0));
    assert!(again.contains("etcd was restored to an older state"), "{again}");
}
