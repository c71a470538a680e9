//! The commands that measure and try it: benchmarks, experiments, demos, torture.

use super::cluster::seconds;
use super::listen_address;
use crate::job::JobName;
use clap::{Args, Subcommand, ValueEnum};
use membership::EtcdUrl;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `thorp bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// The measurement to make.
    #[arg(required_unless_present = "all")]
    pub(crate) case: Option<BenchCase>,
    /// Measures everything.
    #[arg(long, conflicts_with = "case", requires = "out")]
    pub(crate) all: bool,
    /// Writes all lines to `bench.jsonl` in this folder, and plots of them beside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Clients that run at the same time. Only for `commit`, `oo7` and `contend`; without it 1, and 8 for `contend`.
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Option<u32>,
    /// One-way delay of the emulated link, in milliseconds. Only for `oo7`; 20 without it.
    #[arg(long, value_name = "MS", conflicts_with = "all")]
    pub(crate) delay_ms: Option<u64>,
    /// How much to fill the log with, to insert, or to move. Only for `recover`, `load` and `nodes`; 1 without it.
    #[arg(long, value_name = "GIB", conflicts_with = "all")]
    pub(crate) gib: Option<f64>,
    /// An etcd that runs, and a name that no store has there: etcd://HOST:PORT/NAME. Without it `etcd` is started,
    /// which must be in PATH. Only for `nodes`.
    #[arg(long, value_name = "URL", conflicts_with = "all")]
    pub(crate) etcd: Option<EtcdUrl>,
    /// Where the programs run: the file that describes a lab, of two sites for `leased-writers`. Only for `first` and
    /// `leased-writers`, which need it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "all",
        required_if_eq_any = [("case", "first"), ("case", "leased-writers")]
    )]
    pub(crate) lab: Option<PathBuf>,
    /// The caches to compare with, if they are installed. Only for `web`; both without it.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub(crate) beside: Option<Vec<BenchRival>>,
    /// Looks up in the table of a home that is another process, over TCP. Only for `look-up`.
    #[arg(long, conflicts_with_all = ["all", "fabric"])]
    pub(crate) tcp: bool,
    /// Does so by libfabric, with the provider of this name, such as `tcp;ofi_rxm`. Only for `look-up`.
    #[arg(long, value_name = "PROVIDER", conflicts_with = "all")]
    pub(crate) fabric: Option<String>,
    /// Files of the largest directory that is published. Only for `files`; 20000 without it, with which all of it ends
    /// within minutes.
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) files: Option<u64>,
    /// Servers that follow a site. Only for `files`; 10 without it.
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) members: Option<u32>,
    /// The only figure that is measured. Only for `files`; all without it.
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) figure: Option<BenchFigure>,
    /// Where stores are made, so that their disk is the one that is measured; a temporary folder inside it is removed
    /// at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

const BENCH_HELP: &str = "\
Cases and what their ratios compare with, measured in the same run:
  floor     the machine: fdatasync of 4 KiB, a loopback round trip, a HashMap lookup
  read      a cached read; over_hashmap: a lookup in a std HashMap of as many keys
  commit    one client: over_floor: an fdatasync and a round trip
            many clients: over_fdatasync: commits per fdatasync of one thread alone
  fetch     a page that is not cached; over_ping: a bare ping-pong of 8 KiB
  oo7       OO7 medium behind a slow link: seconds, aborts, fetches, bytes, round trips
  first     a new client's first transaction (OO7, one part) in a lab, from its first packet on; over_on_demand: the
            same with single pages, when they are needed; emulated_over_lab: the same over an emulated line
  slow-line 24 MiB committed, and read, over a line of 1 MB/s, to a store and by a redirector; over_line: the time that
            the line needs for it; small transactions of the same client and of another in the meantime, and whether
            all is within bounds
  recover   reading the log after a crash; over_read: the same files read from one end to the other
  load      documents of 1 KiB from several threads; over_sequential: a writer of as many bytes and syncs
  churn     objects created and deleted again and again; over_early: pages of the store over those after 20 rounds
  contend   one counter that 8 threads, and then 8 clients, increment; over_median: the longest wait
  look-up   the version of a stored web response, idle and while every processor marks updates; loaded_over_idle: of p99
            with --tcp: in the table of another process, by 64 clients at a time, and alone; over_ping: a bare ping-pong
            with --fabric: the same without the other process's answer; over_tcp: the same lookups over TCP
  web       hits of `thorp proxy`, with 64 connections, beside nginx and Varnish where they are installed, each with half of
            the processors, in turns; hits_over_theirs, p99_over_theirs: of the time that a hit takes
  entries   memory that `thorp proxy` takes for a million small responses, in memory and on disk; above_bytes: for each, above
            what it has there of body, fields and key
  files     published files, at a store and at --members servers that follow a site, --files of them in the largest
            directory; each figure beside its bound (_max, _min), or only --figure NAME:
            update      the bytes and messages by which a server learns of 100 bytes that changed
            burst       100 files a second: from the return of a publish to the last server that serves it
            spread      a hundredth of the files, to groups: over_changed: bytes over a group's line; the last switch
            ahead       100 MiB of new content over lines of 100 Mbit/s: from the return of a publish to a server that
                        serves it; over_line: the time that a line takes for the content
            publish     few changes, and none; over_find: a walk of the directory with `find`
            first       into a new store; over_rsync: `rsync -a` into an empty directory, and `sync`
            rollback    to a revision with other files, until all servers serve it
            restart     a server that was killed, until it serves again
            hits        requests, with 64 connections, beside nginx with the same files, in turns; over_nginx
            collection  publishes while 90 of 100 revisions are removed; over_before: of p99
  leased-writers
            commits of two sites on a leased space, in a lab: cargo xtask lab --sites 2 --loss 1 -- thorp bench
            leased-writers --lab {lab}; p50 and p99 over the line's round trip
  nodes     a store of three nodes with etcd: commits on one node and on two, over an fdatasync and the round trips
            that they need; 16 clients in opposite roles: the longest wait over the median; a node killed: how
            long commits elsewhere pause, and on its shards after its restart; --gib moved to the other nodes: commits
            that were refused, and p99 over that before; places that the sequencer gives to a node that asks for 64 at
            a time, in a second and in a second of one core; all nodes killed with --gib in their logs: the rate at
            which the logs come back, over that at which the files are read";

/// The measurements of `thorp bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchCase {
    /// The machine itself.
    Floor,
    /// Cached reads.
    Read,
    /// Commits.
    Commit,
    /// Pages that are not cached.
    Fetch,
    /// The OO7 benchmark's medium module.
    Oo7,
    /// A new client's first transaction.
    First,
    /// A large object over a slow line.
    SlowLine,
    /// Recovery after a crash.
    Recover,
    /// Inserts without end.
    Load,
    /// Objects that are created and deleted without end.
    Churn,
    /// One counter that everybody increments.
    Contend,
    /// Lookups of stored web responses in their home's version table.
    LookUp,
    /// Hits of the caching proxy.
    Web,
    /// Memory that the caching proxy takes for small stored responses.
    Entries,
    /// Published files.
    Files,
    /// Commits of two sites on a leased space, in a lab.
    LeasedWriters,
    /// A store of three nodes, which needs etcd in PATH.
    Nodes,
}

/// A figure of `thorp bench files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFigure {
    /// Bytes and messages of a small update.
    Update,
    /// A hundred files a second.
    Burst,
    /// A large update by way of relays.
    Spread,
    /// New content over slow lines.
    Ahead,
    /// Publishes of few changes.
    Publish,
    /// The first publish.
    First,
    /// A rollback.
    Rollback,
    /// A server that was killed.
    Restart,
    /// Requests, over those to nginx.
    Hits,
    /// Publishes during a collection.
    Collection,
    /// Reads of a mounted site, over those of local files.
    Mount,
}

/// A cache that `thorp bench web` measures beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchRival {
    /// nginx with `proxy_cache`.
    Nginx,
    /// Varnish.
    Varnish,
}

/// `thorp experiment`.
#[derive(Debug, Args)]
#[command(after_help = EXPERIMENT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ExperimentArgs {
    /// The paper.
    pub(crate) paper: Paper,
    /// A figure of the paper: 7 to 12 of BuddyCache, 6 to 12 of ActiveCache, 2 of CoopReplica, 4 to 7 of Multicomputer,
    /// 3 to 6 of Publish.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=12))]
    pub(crate) figure: Option<u32>,
    /// A table of the paper, 1 or 2. Of BuddyCache.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) table: Option<u32>,
    /// How long a group does without its redirector. Of BuddyCache.
    #[arg(long)]
    pub(crate) failover: bool,
    /// How long dirty data of a volume lasts, by the number of its copies. Of CoopReplica.
    #[arg(long)]
    pub(crate) reliability: bool,
    /// The time to write back the dirty data of a dead host. Of CoopReplica.
    #[arg(long = "takeover")]
    pub(crate) take_over: bool,
    /// The models with a store and 50 servers, each a process. Of Publish.
    #[arg(long)]
    pub(crate) processes: bool,
    /// The simulated cycles of failure and repairing for each kind of failure. Of CoopReplica.
    #[arg(long, value_name = "COUNT", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub(crate) cycles: u32,
    /// The size of the volumes that are measured, in MiB; each takes several times as much on the disk. Of CoopReplica.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    pub(crate) volume_mib: u32,
    /// All of these.
    #[arg(
        long,
        conflicts_with_all = ["figure", "table", "failover", "reliability", "take_over", "processes"],
        required_unless_present_any = ["figure", "table", "failover", "reliability", "take_over", "processes"]
    )]
    pub(crate) all: bool,
    /// How long it may take, in minutes: it repeats less, or with fewer transactions, where it would take longer, and
    /// says so; with more than usual it repeats more.
    #[arg(long, value_name = "MINUTES", default_value_t = bench::USUAL.as_secs_f64() / 60.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// How long each case is measured, in seconds, if there is time. Of ActiveCache.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) case_s: u32,
    /// The file that describes a lab, of one site: table 1 is measured over its line, which should take 0.1 ms one way,
    /// and everything else at its site. Without it that line is emulated. Of BuddyCache.
    #[arg(long, value_name = "FILE")]
    pub(crate) lab: Option<PathBuf>,
    /// This process is at the lab's site.
    #[arg(long, hide = true, requires = "lab")]
    pub(crate) at_site: bool,
    /// Writes the rows to `PAPER.jsonl` in this folder, and each figure as SVG beside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where the holder's copies are, on a disk of its own, as on another host; else they share the disk of `--dir`. Of
    /// CoopReplica's figure 2.
    #[arg(long, value_name = "DIR")]
    pub(crate) holder_dir: Option<PathBuf>,
    /// Where stores and databases are made; a temporary folder inside it is removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

const EXPERIMENT_HELP: &str = "\
Experiments of the ActiveCache paper, on an auction shop with RUBiS' interactions (PostgreSQL has to be installed): five
proxies, two applications, a database and a watcher of it, on one half of the processors and on the other:
  figure 6, 7    a look-up of a version that needs the home's processor, and one that does not; while all compute
  figure 8, 9    pages a second, and misses, without a cache, when every update invalidates everything, and with
                 dependency lists; traces 1 (reads alone) to 5 (the most updates)
  figure 10      the same of less and less room for pages, by Zipf's popularity (trace 6)
  figure 11      more and more dependencies of a page
  figure 12      while the back end has more and more other work to do

Experiments of the BuddyCache paper, on the OO7 benchmark's medium module with somewhat larger objects:
  table 1        what fetches and commits take with and without a redirector, over a line of 0.1 ms one way, as the paper's
                 LAN, and on loopback: cargo xtask lab --one-way-ms 0.1 -- thorp experiment buddycache --table 1 --lab {lab}
  table 2        what a page from a peer takes
  figure 7, 8    time of a transaction with cold caches, 40 and 80 ms from the store
  figure 9       what a group saves of it, over the distance
  figure 10, 11  time of a reader's transaction with hot caches while others write, 40 and 80 ms from the store
  figure 12      what a group saves of it, over the distance
  failover       how long members are without a session, and without a commit, when their redirector is killed or hangs,
                 40 ms from the store; in virtual time

Experiments of the CoopReplica paper, which planned the first and could not do it:
  reliability    the mean time until dirty data of a volume is lost, f(t) and R(t), bytes lost a year, by the number of its
                 copies: a Monte Carlo run with the machines that place copies and take volumes over, beside a Markov chain
                 where that is exact, by published failure rates, and beside RAIDs
  figure 2       throughput of writes without copies, with asynchronous and with synchronous ones, and of a plain device:
                 128 MiB sequential, and 4 KiB random, with the flush that makes them safe; and what a synchronous one takes
                 over an fdatasync and a round trip; on a store with homes, a holder and an owner, processes of their own on
                 one disk
  take-over      the time from the death of a host that has 1 GiB that is not home until all of it is home and the volume
                 attached elsewhere, without that which it takes to find out, beside a sequential writer on home's disk

Experiments of the Multicomputer paper, with whole nodes of a store in virtual time, 1 to 128 of them, on the paper's
machine and on one of today; also with the figures that the paper omits halved and doubled:
  figure 4       time of 10 transactions a node, each of 20 writes on different pages
  figure 5       speed-up of 1,024 such transactions, and of work that fills 128 nodes
  figure 6, 7    wait for the sequencer in the same runs, also with a sequencer on a node of its own

Experiments of the Publish paper, with the real machines in virtual time, on one line that carries a message at a time;
PC is publish consistency, AFS its callbacks, SC sequential consistency:
  figure 3       messages for an update and server; reads of a file that its writer had not closed
  figure 4       latency of reads of a camera's pictures, 64 KiB a minute, at up to 500 servers
  figure 5       the use of the line by a stock ticker, 100 bytes a second, at up to 200 servers; latency of its reads
  figure 6       the use of the line by how often the ticker is read
  processes      messages and latency with a store and 50 servers, each a process, on a line of 100 Mb/s

The columns: what the paper says, what its model says with the costs of this machine, what we measure, and the share of the processors that other programs used. A figure that is compared with a baseline of its own is called unsteady, and
not met, if that differs by more than 25 % between its repetitions. Costs are
measured on sockets when the command begins; curves run in virtual time with these costs, and some points of them on
sockets as well, over an emulated distance. Behind them stand the objects that a transaction reads, r, the pages that it
fetches, and how many of those were missing because others had changed them. docs/experiments.md says why the experiments
are what they are, and what came out.";

/// A paper whose experiments can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// BuddyCache: transactional caching for groups far from their store.
    Buddycache,
    /// ActiveCache: coherent caching of web responses with many dependencies.
    Activecache,
    /// CoopReplica: write-back caches whose dirty data has copies in the caches of others.
    Coopreplica,
    /// Multicomputer: a store of several nodes, which are its clients, too.
    Multicomputer,
    /// Publish: files of Web servers that change, pushed to all of them.
    Publish,
}

/// `thorp torture`.
#[derive(Debug, Args)]
#[command(after_help = TORTURE_HELP)]
pub(crate) struct TortureArgs {
    /// How often to break something.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// How long to break things, in minutes, instead of a number of rounds. Only with --nodes.
    #[arg(
        long,
        value_name = "MINUTES",
        requires = "nodes",
        conflicts_with_all = ["rounds", "lab"],
        value_parser = clap::value_parser!(u32).range(1..=1440)
    )]
    pub(crate) minutes: Option<u32>,
    /// The nodes of the store, each a process, which meet in etcd; without it, the store is one process.
    #[arg(long, value_name = "COUNT", conflicts_with = "lab", value_parser = clap::value_parser!(u32).range(2..=8))]
    pub(crate) nodes: Option<u32>,
    /// An etcd that runs, and a name that no store has there: etcd://HOST:PORT/NAME. Without it `etcd` is started,
    /// which must be in PATH. Only with --nodes.
    #[arg(long, value_name = "URL", requires = "nodes", conflicts_with = "lab")]
    pub(crate) etcd: Option<EtcdUrl>,
    /// Clients that commit in the meantime; with groups, of each.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) clients: u32,
    /// Groups that the clients are in; with 0 they speak to the store.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub(crate) groups: u32,
    /// The store grants groups leases on what they hold: reads are validated in the group. In a lab and
    /// with nodes it is drawn otherwise.
    #[arg(long, requires = "groups")]
    pub(crate) leased: bool,
    /// Where the processes run, if not on loopback: the file that describes a lab.
    #[arg(long, value_name = "FILE", requires = "groups")]
    pub(crate) lab: Option<PathBuf>,
    /// The seed from which everything in a lab, or of several nodes, is drawn; another one each time if there is none.
    /// The same seed draws the same.
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// The store's directory, which must not exist yet or be empty; a temporary one if there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const TORTURE_HELP: &str = "\
Faults, one a round:
  without groups   the store is killed, and started again over what is left
  with groups      that; a member is stopped for longer than it may be silent; a redirector is killed and replaced at
                   once; is killed, and a member takes over; hangs, and a member takes over; a member is killed
  with a lab       that, in an order and for times that are drawn; all traffic of a group's line vanishes, in one
                   direction or both. Also drawn: how much each line loses (up to 3 %) and carries (1 to 100 Mbit/s),
                   leases, which clients pause, and which read and write large values (up to 48 MiB, as the lines allow)
  with nodes       in an order and for times that are drawn: a node is killed, the sequencer's is, two are, all are with
                   etcd (power loss); a node is stopped in order; is stopped where it is, for longer than its lease, and
                   continues; etcd is killed for longer than a lease; a node is cut off from etcd; the line between two
                   nodes is cut, in one direction or both; a shard moves; a node is killed while a shard moves. With
                   groups also their faults, and leases of groups are drawn

Checks:
  history          every acknowledged commit is there, once; all reads are such as a strictly serializable store can
                   show; large values are whole
  progress         members are in their group again 10 s after their redirector, its store and the line are there; a
                   client that is not cut off has a commit acknowledged every so often, as the lines and its own values
                   allow; no call outlasts the client's patience (8 s in a lab and with nodes) by more than 1 s
  with nodes       a node without a lease says so, and all nodes serve again by themselves once everything is there; the
                   lists are read from the nodes after a last loss of all power; then every node closes in order

  thorp torture --nodes 3 --minutes 30
  thorp torture --nodes 3 --groups 2 --clients 3 --minutes 30
  cargo xtask lab --sites 2 --one-way-ms 20 -- thorp torture --groups 2 --clients 3 --lab {lab}

docs/lab.md describes a lab's file. The course of the rounds is left beside the store as rounds.jsonl, and the history
as history.jsonl.";

/// `thorp newcomer`.
#[derive(Debug, Args)]
pub(crate) struct NewcomerArgs {
    /// The store.
    pub(crate) server: SocketAddr,
    /// Which part it traverses.
    pub(crate) seed: u64,
    /// Fetches single pages, when they are needed.
    #[arg(long)]
    pub(crate) on_demand: bool,
}

/// `thorp lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Starts etcd, the nodes of a new store and the redirectors of groups, prints their addresses, and runs until
    /// Ctrl-C, which ends all of them.
    #[command(after_help = LAB_UP_HELP)]
    Up(LabUpArgs),
}

/// `thorp lab up`.
#[derive(Debug, Args)]
pub(crate) struct LabUpArgs {
    /// The nodes of the store, each a process.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) nodes: u32,
    /// Groups, each with a redirector that members can connect to.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub(crate) groups: u32,
    /// How long a node serves without having reached etcd, in seconds: 2s to 60s.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub(crate) lease: Duration,
    /// An etcd that runs, and a name that no store has there: etcd://HOST:PORT/NAME. Without it `etcd` is started,
    /// which must be in PATH.
    #[arg(long, value_name = "URL")]
    pub(crate) etcd: Option<EtcdUrl>,
    /// The directory of all of it, which must not exist yet or be empty, and stays; without it one in the temporary
    /// folder, which is removed.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const LAB_UP_HELP: &str = "\
The store has 12 shards, and neighboring pages are on different nodes. All processes listen on this machine only.

  thorp lab up --nodes 3 --groups 2
  thorp cluster drain etcd://127.0.0.1:PORT/lab n2     in another terminal, with the address that it prints

`thorp cluster --help` lists what can be done with the nodes. `thorp demo cluster` shows what they survive.";

/// `thorp member`.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// The job that the store was prepared for.
    #[arg(long)]
    pub(crate) job: JobName,
    /// The client's number, which no other has.
    #[arg(long)]
    pub(crate) number: u32,
    /// The servers to connect to: one or several addresses.
    #[arg(long, value_name = "ADDR")]
    pub(crate) server: String,
    /// The group to join.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Where it listens when it takes over as the group's redirector.
    #[arg(long, value_name = "ADDR", requires_all = ["group", "store"])]
    pub(crate) eligible: Option<SocketAddr>,
    /// The store, for when it takes over: one or several addresses.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<String>,
    /// Fetches single pages, when they are needed.
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// How long it waits for an answer, in milliseconds, if not as long as usual.
    #[arg(long, value_name = "MS")]
    pub(crate) patience_ms: Option<u64>,
    /// May listen on other addresses than loopback.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// `thorp demo`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    /// Another demo than that of the store.
    #[command(subcommand)]
    pub(crate) scene: Option<DemoScene>,
    /// A design (IFC, STEP) to run on instead of OO7.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The store's directory, which must not exist yet or be empty, and is left. Without it the demo uses a new one in
    /// the temporary folder, and removes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Transactions of each client in each part of the comparison.
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) visits: u32,
}

/// The demos that are not of the store.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoScene {
    /// Shows the web front end: a shop on PostgreSQL, a watcher of its database, two proxies, readers and writers,
    /// beside nginx and Varnish with a time to live of one second. Then everything is killed and stopped in turn; every
    /// response is checked.
    Web(DemoWebArgs),
    /// Shows the block front end: a volume with two copies, ext4 on it, programs that fsync. Then its host is killed
    /// and its disk is gone; attached on another host, the file system is whole and everything acknowledged is there.
    /// In the end, what copies cost.
    Volume(DemoVolumeArgs),
    /// Shows published files: a site that is published again and again to two groups 40 ms away, while visitors go from
    /// server to server, and a server, a redirector and the store are killed. Every page is checked; beside it a
    /// directory that rsync copies.
    Files(DemoFilesArgs),
    /// Shows a store of several nodes: two groups commit on three nodes while each process is killed in turn, a shard
    /// moves, and all power is lost. Every acknowledged commit must be there, and the history must be right.
    Cluster(DemoClusterArgs),
}

/// `thorp demo cluster`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_CLUSTER_HELP)]
pub(crate) struct DemoClusterArgs {
    /// An etcd that runs, and a name that no store has there: etcd://HOST:PORT/NAME. It is not killed. Without it
    /// `etcd` is started, which must be in PATH.
    #[arg(long, value_name = "URL")]
    pub(crate) etcd: Option<EtcdUrl>,
    /// The directory of all nodes, which must not exist yet or be empty, and stays; without it one in the temporary
    /// folder, which is removed.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_CLUSTER_HELP: &str = "\
It takes about half a minute. The nodes have leases of 2 s. A node that was killed waits for the rest of its last lease
before it opens its shards; commits on shards of the others continue.

  killed     commits that began and were acknowledged without the process; the time from its start until all shards are
             served and every client has committed
  failover   from the end of a redirector to the first commit of each of its members that began afterwards: the longest
  move       the time until the shard is served by the other node, and the longest commit in it
  power      kill -9 to all nodes and etcd at once

It fails if an acknowledged commit is not there once, or if no strictly serializable store could have shown what the
clients have read. `thorp torture --nodes 3` does that for as long as you like.";

/// `thorp demo files`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_FILES_HELP)]
pub(crate) struct DemoFilesArgs {
    /// How often the site is published after its first version. A publish takes about 1.5 s, with the pause behind it.
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) publishes: u32,
    /// How many processes are killed or stopped, one after another; without it one of each kind is killed.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..10_000))]
    pub(crate) faults: Option<u32>,
    /// Leaves rsync out.
    #[arg(long)]
    pub(crate) alone: bool,
    /// The directory of all of it, which must not exist yet or be empty, and stays; without it one in the temporary
    /// folder, which is removed.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_FILES_HELP: &str = "\
The site has 2,000 files: 100 pages with links, and 19 parts of each page. A page names the version of each of its
parts. Each publish changes all pages and one part of each. Visitors open pages (Sec-Fetch-Mode: navigate) and fetch
their parts (no-cors) from two servers by turns. Where file systems can be mounted, as root with FUSE, programs read
pages and their parts in the mounts, below .thorp/newest. During some publishes, a process is killed with kill -9 and
started again 1.5 s later: a server, the redirector of the other group, the store, a mount. With more --faults, one of
each is then stopped with kill -STOP for 1.5 s, then others are killed, and so on.

Checks:
  mixed pages    no page comes with a part of another version, whichever servers answer
  gone back      no visitor gets a page that is older than the last one
  old, unsaid    no page is older than the last publish that had returned a lease (1 s) before, without saying so
  at the end     every server and mount has every file of the newest version, and `thorp site verify` finds every chunk
                 whole

Also counted:
  old            pages that said that they may not be the newest, behind a broken redirector or store: with Thorp-Stale,
                 or in .thorp/status
  refused        answers of servers that were behind the visitor (503); the visitor then asks another one
  everywhere     from the return of a publish, or with a fault from the return of the process, until every server and
                 mount has the version
  bytes          over each line, in both directions, beside the bytes of the files that were changed
  rsync          pages with a part of another version in a directory that `rsync -a --delete` copies, on this machine

It fails if a check does, and says with what. Ctrl-C ends everything and removes the folder.";

/// `thorp demo volume`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_VOLUME_HELP)]
pub(crate) struct DemoVolumeArgs {
    /// How long programs write before the host is killed, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) work_s: u32,
    /// The MiB that each kind of volume is written in the comparison; 0 leaves it out.
    #[arg(long, value_name = "COUNT", default_value_t = 48, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) table_mib: u32,
    /// Writes raw blocks even where a file system could be mounted.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The directory of all of it, which must not exist yet or be empty, and stays; without it one in the temporary
    /// folder, which is removed.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_VOLUME_HELP: &str = "\
ext4 is mounted by nbdfuse and a loop device, which takes root, FUSE and loop devices, and nbdfuse (libnbd-bin) and e2fsprogs
installed. Where something of that is missing it says so, and writes raw blocks. Ctrl-C undoes everything.";

/// `thorp demo web`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_WEB_HELP)]
pub(crate) struct DemoWebArgs {
    /// How long each cache has its turn in the comparison, in seconds.
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) turn_s: u32,
    /// How many things break; without it each kind of fault comes once.
    #[arg(long, value_name = "COUNT", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) faults: Option<u32>,
    /// How long to break things, one after another.
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub(crate) minutes: Option<f64>,
    /// Leaves nginx and Varnish out.
    #[arg(long)]
    pub(crate) alone: bool,
    /// Runs without a watcher, with pages kept for a second: the check must find stale pages, and the command fails.
    #[arg(long, conflicts_with_all = ["faults", "minutes", "alone"])]
    pub(crate) unwatched: bool,
    /// Where the database and all the rest are made; a temporary folder without it. Removed in the end unless it is
    /// named.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_WEB_HELP: &str = "\
Faults, in this order, again and again:
  killed     a proxy with its home; the watcher with the hub; the database; the application; all are started again
  stopped    the same, for 3 s, which is longer than a lease (SIGSTOP)
  restarted  the database

Checks, of every response:
  told       it has everything that a writer had been told is done when it was asked for
  seen       it has everything that anybody had been shown when it was asked for, by whichever proxy

It fails if a page is stale, or if hits on both proxies and updates do not go on within 40 s of a fault.";

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.01..=1440.0).contains(minutes));
    minutes.ok_or_else(|| "expected minutes, 0.01 to 1440".into())
}

/// `thorp shop`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = SHOP_HELP)]
pub(crate) struct ShopArgs {
    /// Where its database is, as for `thorp watch`.
    #[arg(value_name = "DATABASE", required_unless_present = "map")]
    pub(crate) database: Option<bench::shop::Database>,
    /// Where to listen for visitors. Port 0 takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Prints the map from rows to dependencies, for `thorp watch --map`, and ends.
    #[arg(long, conflicts_with_all = ["database", "setup", "items", "users", "categories", "regions", "seed"])]
    pub(crate) map: bool,
    /// Makes the shop's tables in an empty database, fills them, and ends.
    #[arg(long)]
    pub(crate) setup: bool,
    /// Items on offer. This and the following options go with --setup.
    #[arg(long, value_name = "COUNT", default_value_t = bench::shop::Stock::SMALL.items, requires = "setup", value_parser = stock)]
    pub(crate) items: u32,
    /// Users.
    #[arg(long, value_name = "COUNT", default_value_t = bench::shop::Stock::SMALL.users, requires = "setup", value_parser = stock)]
    pub(crate) users: u32,
    /// Categories.
    #[arg(long, value_name = "COUNT", default_value_t = bench::shop::Stock::SMALL.categories, requires = "setup", value_parser = stock)]
    pub(crate) categories: u32,
    /// Regions.
    #[arg(long, value_name = "COUNT", default_value_t = bench::shop::Stock::SMALL.regions, requires = "setup", value_parser = stock)]
    pub(crate) regions: u32,
    /// The seed that everything is drawn from.
    #[arg(long, value_name = "SEED", default_value_t = bench::shop::Stock::SMALL.seed, requires = "setup")]
    pub(crate) seed: u32,
    /// Names no dependencies: every page depends on everything.
    #[arg(long)]
    pub(crate) nameless: bool,
    /// For how long a cache may keep a page that does not change, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86_400)]
    pub(crate) max_age: u32,
    /// Stops the shop when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

const SHOP_HELP: &str = "\
Users, items, bids, comments and purchases, with the interactions of RUBiS. Each page names in Cache-Groups the rows that it
shows, and those whose coming or going would change it. Before it, in this order:
  thorp shop postgres://postgres@127.0.0.1/shop --setup
  thorp shop --map > map.toml
  thorp watch postgres://postgres@127.0.0.1/shop --map map.toml --setup
  thorp watch postgres://postgres@127.0.0.1/shop --map map.toml
  thorp shop postgres://postgres@127.0.0.1/shop
  thorp proxy --origin http://127.0.0.1:8000 --hub 127.0.0.1:7413";

/// How many rows of a kind a shop is filled with.
fn stock(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|count| (1..=10_000_000).contains(count)).ok_or_else(|| "expected 1 to 10000000".into())
}
