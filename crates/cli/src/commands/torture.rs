//! `thorp torture`: real processes, a real directory, real connections, and SIGKILL.
//!
//! Each round lets clients work, breaks something in the middle of their work, and repairs it. Without groups that is
//! the store, which is killed and started again over what is left. With groups it is one thing after the other: what a
//! group cannot do without, a member of it. In a lab a seed draws what, when and for how long, and what the lines are
//! like. The clients continue by themselves. With several nodes a seed draws which processes are killed or stopped, and
//! which lines between them are cut.
//!
//! ```text
//!   plan: drawn before ──► faults: broken, mended ──► what was taken down ──► history: was it right?
//!                               lines, clients                           └──► progress: did everybody get on?
//! ```
//! In the end every acknowledged commit must be there once, the history must be one that a strictly serializable store
//! could have produced, and nobody must have waited for longer than what was broken explains.

mod fault;
mod faults;
mod membership;
mod nodes;
mod plan;
mod progress;

use crate::Result;
use crate::cli::TortureArgs;
use crate::cluster::{Cluster, Roles, Store};
use crate::crew::{Crew, now};
use crate::error::only_for;
use crate::history::{Ending, Verdict, judge};
use crate::job::{Lists, Work, inspect};
use crate::lab::{Lab, Line};
use crate::nodes::{EtcdChoice, Leases, Lines, Node, Nodes};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, end_processes_on};
use bench::Sample;
use fault::Fault;
use faults::FaultCosts;
use nodes::NodeFault;
use plan::{Asked, Manner, Plan, Round, slowest_mbit_s};
use progress::{Account, BACK_WITHIN, CALL_MARGIN, Client, PATIENCE_USUAL, Progress, Terms, Trouble};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thorp::Db;

/// The lists with a large value that each round has for itself.
const HEAVY_LISTS: u64 = 2;

/// The share of steps that append.
const WRITES: f64 = 0.5;

/// More rounds than fit in a minute, with several nodes.
const ROUNDS_PER_MINUTE_MAX: u32 = 20;

/// How long anything may take that is going to happen, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(args: &TortureArgs, output: &mut Output) -> Result {
    only_for("--leased", args.leased && args.groups == 0, "a torture with groups")?;
    only_for("--lab", args.lab.is_some() && args.groups == 0, "a torture with groups")?;
    let groups = args.groups as usize;
    let lab = args.lab.as_ref().map_or_else(|| Ok(Lab::loopback(groups)), |file| Lab::read(file, groups))?;
    let is_drawn = lab.can_change() || args.nodes.is_some();
    only_for("--seed", args.seed.is_some() && !is_drawn, "a lab whose lines can be changed, and --nodes")?;
    let seed = is_drawn.then(|| args.seed.unwrap_or_else(any_seed));
    // An etcd that is missing is reported before a directory is made.
    let etcd = args.nodes.map(|_| EtcdChoice::of(args.etcd.as_ref())).transpose()?;
    // A second Ctrl-C would leave processes: the first is enough.
    let interrupt = Interrupt::watch_patiently()?;
    end_processes_on(interrupt.clone());
    let mut scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "torture")?;
    if let Some(seed) = seed.filter(|_| !output.is_json()) {
        output.raw(format_args!("drawn from --seed {seed}"))?;
        output.flush()?;
    }
    let outcome = torture(args, lab, seed, etcd.as_ref(), scratch.path()).and_then(|outcome| {
        outcome.print(output)?;
        outcome.verdict()
    });
    outcome.map_err(|why| {
        if interrupt.has_come() {
            return "interrupted: every process has ended".into();
        }
        scratch.keep();
        let again = seed.map(|seed| format!(" (drawn from --seed {seed})")).unwrap_or_default();
        let left = scratch.path().display();
        format!("{why}{again}; the store is left in {left}, with what was done and the history if there is one").into()
    })
}

/// Another one each time.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) & u64::from(u32::MAX)
}

fn torture(args: &TortureArgs, lab: Lab, seed: Option<u64>, etcd: Option<&EtcdChoice>, dir: &Path) -> Result<Outcome> {
    let (rounds, groups, clients) = (args.rounds as usize, args.groups as usize, args.clients as usize);
    let rounds = args.minutes.map_or(rounds, |minutes| (minutes * ROUNDS_PER_MINUTE_MAX) as usize);
    let nodes = args.nodes.unwrap_or(0) as usize;
    let asked = Asked { rounds, groups, clients, leased: args.leased, nodes };
    let mut plan = match seed {
        None => Plan::in_turn(asked),
        Some(seed) if nodes > 0 => Plan::of_nodes(seed, asked),
        Some(seed) => Plan::drawn(seed, asked, lab.line()),
    };
    let (line, light) = (lab.line(), (plan.rounds.len() as u64 + 1) * plan.lists / 2 + plan.lists);
    let roles = Roles { groups: args.groups, clients: args.clients, lease_ms: plan.lease_ms, patience: plan.patience };
    let (cluster, lists) = match etcd {
        Some(etcd) => {
            let leases = Leases { of_nodes: plan.node_lease.unwrap_or_default(), of_groups_ms: plan.lease_ms };
            start_nodes(Nodes::start(dir, etcd, nodes as u32, leases, Lines::ThatCanBeCut)?, roles, light)?
        }
        None => start_store(lab, roles, light, &plan, dir)?,
    };
    let history = dir.join("history.jsonl");
    let mut run = Run {
        line,
        cluster,
        costs: FaultCosts::default(),
        account: Account { began: now(), patience: plan.patience.unwrap_or(PATIENCE_USUAL), ..Account::default() },
        gaps_max: BTreeMap::new(),
        diary: File::create(history.with_file_name("rounds.jsonl"))?,
    };
    let time = args.minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes)));
    if let Err(why) = run.rounds(&mut plan, light, time) {
        run.leave_traces(&history)?;
        return Err(why);
    }
    let members = run.cluster.members();
    if let Err(why) = run.cluster.crew.rest(&members, PATIENCE) {
        run.leave_traces(&history)?;
        return Err(why);
    }
    let Run { mut cluster, costs, mut account, mut gaps_max, .. } = run;
    let crew = std::mem::take(&mut cluster.crew);
    let (events, visited, mut half_done) = (crew.events(), crew.visited(), crew.half_done());
    let client = |number| {
        let transactions = crew.transactions(&[number], 0);
        Client { number, transactions, gaps_max: gaps_max.remove(&number).unwrap_or_default() }
    };
    account.clients = (0..crew.len()).map(client).collect();
    crate::history::leave(events.clone(), &history)?;
    let (found, half_done_at_last) = match &mut cluster.store {
        Store::Single(_, server) => {
            server.kill()?;
            drop(crew);
            inspect(&lists, visited, &Db::open(dir.join("store"))?)?
        }
        Store::Nodes(nodes) => {
            drop(crew);
            let read = |db: &Db| inspect(&lists, visited, db);
            read_at_last(nodes, read).map_err(|why| format!("{why}; {}", nodes.describe()))?
        }
    };
    drop(cluster);
    half_done += half_done_at_last;
    let transactions = account.clients.iter().flat_map(|client| &client.transactions);
    let endings = transactions.map(|transaction| transaction.ending).collect();
    let verdict = judge(events, &found, Some(&history))?;
    let progress = account.judge();
    let patience = account.patience;
    Ok(Outcome { seed, plan, groups, nodes, costs, endings, verdict, half_done, progress, patience })
}

/// Makes the lists in a store of one process, and starts it with its clients.
fn start_store(lab: Lab, roles: Roles, light: u64, plan: &Plan, dir: &Path) -> Result<(Cluster, Lists)> {
    let dir = dir.join("store");
    let db = Db::open(&dir)?;
    let lists = Lists::create(&db, light, plan.rounds.len() as u64 * HEAVY_LISTS)?;
    db.close()?;
    Ok((Cluster::gather(&dir, lab, roles)?, lists))
}

/// Makes the lists in a store of several nodes, and starts its groups and clients.
fn start_nodes(mut nodes: Nodes, roles: Roles, light: u64) -> Result<(Cluster, Lists)> {
    nodes.await_serving(&Crew::default()).map_err(|why| format!("{why}; {}", nodes.describe()))?;
    let home = |node| Db::builder().connect_within(PATIENCE).connect(nodes.addresses(node));
    let homes = (0..nodes.all.len()).map(home).collect::<thorp::Result<Vec<_>>>()?;
    let lists = Lists::create_on(&homes, light)?;
    Ok((Cluster::around(nodes, roles)?, lists))
}

/// Reads the lists from all nodes after a loss of all power, and closes the nodes in order.
fn read_at_last<T>(nodes: &mut Nodes, read: impl FnOnce(&Db) -> Result<T>) -> Result<T> {
    nodes.lose_power(&Crew::default(), Duration::ZERO)?;
    nodes.await_serving(&Crew::default())?;
    let found = read(&Db::builder().connect_within(PATIENCE).connect(nodes.addresses(0))?)?;
    nodes.all.iter_mut().try_for_each(Node::close)?;
    Ok(found)
}

/// A torture under way.
struct Run {
    /// The line of each site as it was made.
    line: Option<Line>,
    cluster: Cluster,
    costs: FaultCosts,
    account: Account,
    /// How long each client may go without a commit, from a moment on.
    gaps_max: BTreeMap<usize, Vec<(u64, Duration)>>,
    /// The log of the run, with times, for finding out why something went wrong.
    diary: File,
}

impl Run {
    /// Carries out a plan. If the time is over before, the rest of it is left out, but for the last round.
    fn rounds(&mut self, plan: &mut Plan, light: u64, time: Option<Duration>) -> Result {
        let (bar, begun, mut number) = (output::bar("break, mend", plan.rounds.len() as u64), Instant::now(), 0);
        while number < plan.rounds.len() {
            if time.is_some_and(|time| begun.elapsed() > time) {
                plan.rounds.drain(number..plan.rounds.len() - 1);
            }
            let round = &plan.rounds[number];
            bar.set_message(round.fault.name());
            self.round(number, round, plan, light)?;
            bar.inc(1);
            number += 1;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn round(&mut self, number: usize, round: &Round, plan: &Plan, light: u64) -> Result {
        for (site, &weather) in round.weather.iter().enumerate() {
            self.cluster.lab.set_weather(site, weather)?;
        }
        let begun = now();
        for (member, manner) in self.cluster.members().into_iter().zip(&round.manners) {
            let gap_max = self.terms(round, manner, plan).gap_max();
            self.gaps_max.entry(member).or_default().push((begun, gap_max));
            let keys = Keys { round: number as u64, lists: plan.lists, light };
            self.cluster.crew.work(member, &work(&keys, member, manner))?;
        }
        writeln!(self.diary, "{}", json!({"round": number, "drawn": round, "begun_ms": self.millis_at(begun)}))?;
        self.cluster.crew.wait_for(round.works_for)?;
        self.cluster.crew.wait_commits(&self.cluster.members(), round.commits, PATIENCE)?;
        let trouble = round.inflict(&mut self.cluster, &mut self.costs)?;
        let Trouble { from, mended, over, .. } = trouble;
        let [broken_ms, mended_ms, over_ms] = [from, mended, over].map(|at| self.millis_at(at));
        let in_group_ms: Vec<_> = trouble.returns.iter().map(|back| back.took.as_millis() as u64).collect();
        let done = json!({"round": number, "broken_ms": broken_ms, "mended_ms": mended_ms, "in_group_ms": in_group_ms,
            "over_ms": over_ms});
        writeln!(self.diary, "{done}")?;
        self.account.troubles.push(trouble);
        Ok(())
    }

    /// It has not come to its end: leaves all files for finding out why.
    fn leave_traces(&mut self, history: &Path) -> Result {
        let at = now();
        let since = |client: &usize| Some((*client, self.millis_at(self.cluster.crew.begun(*client)?)));
        let under_way: BTreeMap<_, _> = self.cluster.members().iter().filter_map(since).collect();
        let stuck = json!({"stuck_ms": self.millis_at(at), "transactions_begun_ms": under_way,
            "status": membership::all(&self.cluster)});
        writeln!(self.diary, "{stuck}")?;
        crate::history::leave(self.cluster.crew.events(), history)
    }

    /// A moment, in milliseconds from the beginning on.
    fn millis_at(&self, at: u64) -> u64 {
        at.saturating_sub(self.account.began) / 1_000_000
    }

    /// The conditions that make commits of a client that works so take long.
    fn terms(&self, round: &Round, manner: &Manner, plan: &Plan) -> Terms {
        let loses = |line: Line| line.loss_percent > 0.0;
        let is_lossy = round.weather.iter().any(|weather| weather.loss_percent.is_some());
        Terms {
            round_trip: self.line.map_or(Duration::ZERO, Line::round_trip),
            lease: Duration::from_millis(plan.lease_ms.unwrap_or(0).into()) + plan.node_lease.unwrap_or_default(),
            pause: manner.pause_ms.as_ref().map_or(Duration::ZERO, |millis| Duration::from_millis(millis.end)),
            bits_per_s: self.line.map(|_| slowest_mbit_s(&round.weather, self.line) * 1e6),
            loses: self.line.is_some_and(loses) || is_lossy,
            value_bytes_max: round.manners.iter().map(Manner::value_bytes_max).max().unwrap_or(0),
            own_value_bytes_max: manner.value_bytes_max(),
        }
    }
}

/// Which lists are visited in a round: it shares half of those without a large value with the next.
struct Keys {
    round: u64,
    /// How many of those without one are visited in it.
    lists: u64,
    /// How many of them there are; those with one come behind.
    light: u64,
}

/// A member's work in a round.
fn work(keys: &Keys, member: usize, manner: &Manner) -> Work {
    let Keys { round, lists, light } = *keys;
    let (first, heavy) = (round * lists / 2, light + round * HEAVY_LISTS);
    Work {
        pause_ms: manner.pause_ms.clone(),
        heavy: manner.heavy(heavy..heavy + HEAVY_LISTS),
        ..Work::new(first..first + lists, WRITES, round << 32 | member as u64)
    }
}

/// The outcome of a torture.
struct Outcome {
    /// The seed that it was drawn from, if it was.
    seed: Option<u64>,
    plan: Plan,
    groups: usize,
    nodes: usize,
    costs: FaultCosts,
    endings: Vec<Ending>,
    verdict: Verdict,
    /// Large values that were not those of their lists.
    half_done: u64,
    progress: Progress,
    patience: Duration,
}

impl Outcome {
    /// Whether all is well, or what is not.
    fn verdict(&self) -> Result {
        let mut findings = Vec::new();
        if !self.verdict.is_clean() {
            findings.push(self.verdict.to_string());
        }
        if self.half_done > 0 {
            findings.push(format!("{} large values are not those of their lists", self.half_done));
        }
        findings.extend(self.progress.findings.iter().cloned());
        if findings.is_empty() { Ok(()) } else { Err(findings.join("; ").into()) }
    }

    fn print(&self, output: &mut Output) -> Result {
        let ended = |how| json!(self.endings.iter().filter(|&&ending| ending == how).count());
        let millis = |time: Duration| json!((time.as_secs_f64() * 1e4).round() / 10.0);
        let at = |sample: &Sample, quantile| millis(Duration::from_nanos(sample.nanos(quantile) as u64));
        let (running, stopped) = (&self.costs.beside_running, &self.costs.beside_stopped);
        let kills = self.plan.rounds.iter().filter(|round| round.fault.kills()).count();
        let rounds = self.plan.rounds.iter().filter(|round| round.fault != Fault::Node(NodeFault::Nothing)).count();
        let mut rows = vec![("rounds", json!(rounds)), ("kills", json!(kills))];
        if let Some(seed) = self.seed {
            rows.extend([("seed", json!(seed)), ("lease_ms", json!(self.plan.lease_ms))]);
        }
        rows.extend([
            ("commits_acknowledged", ended(Ending::Committed)),
            ("commits_refused", ended(Ending::Refused)),
            ("commits_unknown", ended(Ending::Unknown)),
            ("restart_ms_max", millis(self.costs.restart_max)),
        ]);
        if self.nodes > 0 {
            rows.extend([
                ("nodes", json!(self.nodes)),
                ("node_lease_ms", json!(self.plan.node_lease.map(|lease| lease.as_millis() as u64))),
                ("serving_ms_max", millis(self.costs.serving_max)),
            ]);
        }
        if self.groups > 0 {
            rows.extend([
                ("groups", json!(self.groups)),
                ("failover_killed_ms_max", millis(self.costs.failover_killed_max)),
                ("failover_hung_ms_max", millis(self.costs.failover_hung_max)),
                ("beside_running_ms_p50", at(running, 0.5)),
                ("beside_running_ms_p99", at(running, 0.99)),
                ("beside_stopped_ms_p50", at(stopped, 0.5)),
                ("beside_stopped_ms_p99", at(stopped, 0.99)),
                ("in_group_ms_max", millis(self.progress.in_group_max)),
                ("in_group_ms_allowed", millis(BACK_WITHIN)),
            ]);
        }
        rows.extend([
            ("gap_ms_max", millis(self.progress.gap_max)),
            ("gap_over_allowed_max", json!((self.progress.gap_over_allowed_max * 1e3).round() / 1e3)),
            ("call_ms_max", millis(self.progress.call_max)),
            ("call_ms_allowed", millis(self.patience + CALL_MARGIN)),
            ("stalls", json!(self.progress.findings)),
            ("half_done", json!(self.half_done)),
            ("lost", json!(self.verdict.lost.len())),
            ("doubled", json!(self.verdict.doubled.len())),
            ("anomalies", json!(self.verdict.anomalies.join(", "))),
            ("strictly_serializable", json!(self.verdict.is_clean())),
        ]);
        output.table(&rows)
    }
}
