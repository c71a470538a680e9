//! `thorp torture`: real processes, a real directory, real connections, and SIGKILL.
//!
//! Each round lets clients work, breaks something in the middle of their work, and repairs it. Without groups that is
//! the store, which is killed and started again over what is left. With groups it is one thing after the other: what a
//! group cannot do without, a member of it. In a lab a seed draws what, when and for how long, and what the lines are
//! like. The clients continue by themselves.
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
mod plan;
mod progress;

use crate::Result;
use crate::cli::TortureArgs;
use crate::cluster::{Cluster, Roles};
use crate::crew::now;
use crate::error::only_for;
use crate::history::{Ending, Verdict, judge};
use crate::job::{Lists, Work, inspect};
use crate::lab::{Lab, Line};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::Sample;
use faults::FaultCosts;
use plan::{Asked, Manner, Plan, Round, slowest_mbit_s};
use progress::{Account, BACK_WITHIN, CALL_MARGIN, Client, PATIENCE_USUAL, Progress, Terms, Trouble};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thorp::Db;

/// The lists with a large value that each round has for itself.
const HEAVY_LISTS: u64 = 2;

/// The share of steps that append.
const WRITES: f64 = 0.5;

/// How long anything may take that is going to happen, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(args: &TortureArgs, output: &mut Output) -> Result {
    only_for("--leased", args.leased && args.groups == 0, "a torture with groups")?;
    only_for("--lab", args.lab.is_some() && args.groups == 0, "a torture with groups")?;
    let groups = args.groups as usize;
    let lab = args.lab.as_ref().map_or_else(|| Ok(Lab::loopback(groups)), |file| Lab::read(file, groups))?;
    only_for("--seed", args.seed.is_some() && !lab.can_change(), "a lab whose lines can be changed")?;
    let seed = lab.can_change().then(|| args.seed.unwrap_or_else(any_seed));
    let mut scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "torture")?;
    let outcome = torture(args, lab, seed, scratch.path()).and_then(|outcome| {
        outcome.print(output)?;
        outcome.verdict()
    });
    outcome.map_err(|why| {
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

fn torture(args: &TortureArgs, lab: Lab, seed: Option<u64>, dir: &Path) -> Result<Outcome> {
    let (rounds, groups, clients) = (args.rounds as usize, args.groups as usize, args.clients as usize);
    let asked = Asked { rounds, groups, clients, leased: args.leased };
    let plan = seed.map_or_else(|| Plan::in_turn(asked), |seed| Plan::drawn(seed, asked, lab.line()));
    let (dir, history) = (dir.join("store"), dir.join("history.jsonl"));
    let light = (rounds as u64 + 1) * plan.lists / 2 + plan.lists;
    let lists = {
        let db = Db::open(&dir)?;
        let lists = Lists::create(&db, light, rounds as u64 * HEAVY_LISTS)?;
        db.close()?;
        lists
    };
    let roles = Roles { groups: args.groups, clients: args.clients, lease_ms: plan.lease_ms, patience: plan.patience };
    let mut run = Run {
        line: lab.line(),
        cluster: Cluster::gather(&dir, lab, roles)?,
        costs: FaultCosts::default(),
        account: Account { began: now(), patience: plan.patience.unwrap_or(PATIENCE_USUAL), ..Account::default() },
        gaps_max: BTreeMap::new(),
        diary: File::create(history.with_file_name("rounds.jsonl"))?,
    };
    let bar = output::bar("break, mend", rounds as u64);
    let gone_on = plan.rounds.iter().enumerate().try_for_each(|(number, round)| {
        bar.set_message(round.fault.name());
        run.round(number, round, &plan, light)?;
        bar.inc(1);
        Ok(())
    });
    bar.finish_and_clear();
    if let Err(why) = gone_on {
        run.leave_traces(&history)?;
        return Err(why);
    }
    let Run { mut cluster, costs, mut account, mut gaps_max, .. } = run;
    let members = cluster.members();
    cluster.crew.rest(&members, PATIENCE)?;
    cluster.server.kill()?;
    let (events, visited, mut half_done) = (cluster.crew.events(), cluster.crew.visited(), cluster.crew.half_done());
    let client = |number| {
        let transactions = cluster.crew.transactions(&[number], 0);
        Client { number, transactions, gaps_max: gaps_max.remove(&number).unwrap_or_default() }
    };
    account.clients = (0..cluster.crew.len()).map(client).collect();
    drop(cluster);
    let (found, half_done_at_last) = inspect(&lists, visited, &Db::open(&dir)?)?;
    half_done += half_done_at_last;
    let transactions = account.clients.iter().flat_map(|client| &client.transactions);
    let endings = transactions.map(|transaction| transaction.ending).collect();
    let verdict = judge(events, &found, Some(&history))?;
    let progress = account.judge();
    let patience = account.patience;
    Ok(Outcome { seed, plan, groups, costs, endings, verdict, half_done, progress, patience })
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
            lease: Duration::from_millis(plan.lease_ms.unwrap_or(0).into()),
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
        let mut rows = vec![("rounds", json!(self.plan.rounds.len())), ("kills", json!(kills))];
        if let Some(seed) = self.seed {
            rows.extend([("seed", json!(seed)), ("lease_ms", json!(self.plan.lease_ms))]);
        }
        rows.extend([
            ("commits_acknowledged", ended(Ending::Committed)),
            ("commits_refused", ended(Ending::Refused)),
            ("commits_unknown", ended(Ending::Unknown)),
            ("restart_ms_max", millis(self.costs.restart_max)),
        ]);
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
