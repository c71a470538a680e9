//! `thorp torture`: real processes, a real directory, real connections, and SIGKILL.
//!
//! Each round waits until clients have had commits acknowledged, breaks something in the middle of whatever it does, and
//! mends it. Without groups that is the store, which is killed and started again over what is left. With groups it is
//! one thing after the other: what a group cannot do without, a member of it, its line. The clients go on by
//! themselves. In the end every acknowledged commit must be there once, and the history must be one that a strictly
//! serializable store could have produced.

mod faults;

use crate::Result;
use crate::cast::{Cast, Roles};
use crate::cli::TortureArgs;
use crate::error::only_for;
use crate::history::{Ending, Verdict, judge};
use crate::job::{Lists, Work, inspect};
use crate::lab::Lab;
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::Sample;
use faults::{Fault, Toll};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use thorp::Db;

/// Lists that are in use at a time: few, so that transactions meet.
const LISTS_IN_USE: u64 = 8;

/// The share of steps that append.
const WRITES: f64 = 0.5;

/// Commits that the clients must have had acknowledged before something is broken.
const COMMITS_PER_ROUND: u64 = 40;

/// How long leases last, in milliseconds.
const LEASE_MS: u32 = 2000;

/// How long anything may take that is going to happen, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(args: &TortureArgs, output: &mut Output) -> Result {
    only_for("--leased", args.leased && args.groups == 0, "a torture with groups")?;
    only_for("--lab", args.lab.is_some() && args.groups == 0, "a torture with groups")?;
    let mut scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "torture")?;
    let outcome = torture(args, scratch.path()).and_then(|outcome| {
        outcome.print(output)?;
        if outcome.verdict.is_clean() { Ok(()) } else { Err(outcome.verdict.to_string().into()) }
    });
    outcome.map_err(|why| {
        scratch.keep();
        format!("{why}; the store is left in {}, with the history if there is one", scratch.path().display()).into()
    })
}

fn torture(args: &TortureArgs, dir: &Path) -> Result<Outcome> {
    let (groups, rounds) = (args.groups as usize, u64::from(args.rounds));
    let lab = args.lab.as_ref().map_or_else(|| Ok(Lab::loopback(groups)), |file| Lab::read(file, groups))?;
    let faults = Fault::all(groups, lab.can_cut());
    let (dir, history) = (dir.join("store"), dir.join("history.jsonl"));
    let lists = {
        let db = Db::open(&dir)?;
        let lists = Lists::create(&db, (rounds + 1) * LISTS_IN_USE / 2 + LISTS_IN_USE)?;
        db.close()?;
        lists
    };
    let lease_ms = args.leased.then_some(LEASE_MS);
    let mut cast = Cast::gather(&dir, lab, Roles { groups: args.groups, clients: args.clients, lease_ms })?;
    let (mut toll, mut killed) = (Toll::default(), 0);
    let bar = output::bar("break, mend", rounds);
    for (round, &fault) in (0..rounds).zip(faults.iter().cycle()) {
        cast.work(&|member| work(round, member))?;
        cast.crew.wait_commits(&cast.members(), COMMITS_PER_ROUND, PATIENCE)?;
        bar.set_message(fault.name());
        // Another group each time, and another for the same thing the next time.
        let group = (round as usize + round as usize / faults.len()) % groups.max(1);
        fault.inflict(&mut cast, group, &mut toll)?;
        killed += u32::from(fault.kills());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let members = cast.members();
    cast.crew.rest(&members, PATIENCE)?;
    cast.server.kill()?;
    let (events, visited) = (cast.crew.events(), cast.crew.visited());
    let transactions = cast.crew.transactions(&(0..cast.crew.len()).collect::<Vec<_>>(), 0);
    drop(cast);
    let (found, _) = inspect(&lists, visited, &Db::open(&dir)?)?;
    let endings = transactions.iter().map(|transaction| transaction.ending).collect();
    let verdict = judge(events, &found, Some(&history))?;
    Ok(Outcome { rounds: args.rounds, killed, groups, toll, endings, verdict })
}

/// What a member does in a round: each round has its own lists, and shares some with the next.
fn work(round: u64, member: usize) -> Work {
    let first = round * LISTS_IN_USE / 2;
    let seed = round << 32 | member as u64;
    Work { transactions: None, keys: first..first + LISTS_IN_USE, writes: WRITES, seed }
}

/// What came of it.
struct Outcome {
    rounds: u32,
    killed: u32,
    groups: usize,
    toll: Toll,
    endings: Vec<Ending>,
    verdict: Verdict,
}

impl Outcome {
    fn print(&self, output: &mut Output) -> Result {
        let ended = |how| json!(self.endings.iter().filter(|&&ending| ending == how).count());
        let millis = |time: Duration| json!((time.as_secs_f64() * 1e4).round() / 10.0);
        let at = |sample: &Sample, quantile| millis(Duration::from_nanos(sample.nanos(quantile) as u64));
        let (running, stopped) = (&self.toll.beside_running, &self.toll.beside_stopped);
        let mut rows = vec![
            ("rounds", json!(self.rounds)),
            ("kills", json!(self.killed)),
            ("commits_acknowledged", ended(Ending::Committed)),
            ("commits_refused", ended(Ending::Refused)),
            ("commits_unknown", ended(Ending::Unknown)),
            ("restart_ms_max", millis(self.toll.restart_max)),
        ];
        if self.groups > 0 {
            rows.extend([
                ("groups", json!(self.groups)),
                ("failover_killed_ms_max", millis(self.toll.failover_killed_max)),
                ("failover_hung_ms_max", millis(self.toll.failover_hung_max)),
                ("beside_running_ms_p50", at(running, 0.5)),
                ("beside_running_ms_p99", at(running, 0.99)),
                ("beside_stopped_ms_p50", at(stopped, 0.5)),
                ("beside_stopped_ms_p99", at(stopped, 0.99)),
            ]);
        }
        rows.extend([
            ("lost", json!(self.verdict.lost.len())),
            ("doubled", json!(self.verdict.doubled.len())),
            ("anomalies", json!(self.verdict.anomalies.join(", "))),
            ("strictly_serializable", json!(self.verdict.is_clean())),
        ]);
        output.table(&rows)
    }
}
