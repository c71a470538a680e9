//! `thorp torture`: the real process, a real directory, real connections, and SIGKILL.
//!
//! Each round waits until clients have had commits acknowledged, kills the store in the middle of whatever it does, and
//! starts it again over what is left. The clients go on by themselves. In the end every acknowledged commit must be
//! there once, and the history must be one that a strictly serializable store could have produced.

use crate::Result;
use crate::cli::TortureArgs;
use crate::crew::{Crew, Job, Tally};
use crate::history::{Step, Verdict};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::{Server, ServerOptions, lasting_address};
use serde_json::json;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use thorp::{Anywhere, Db, Ref, Tx};
use workloads::Random;

/// Lists that are in use at a time: few, so that transactions meet.
const LISTS_IN_USE: u64 = 8;

/// Commits that the clients must have had acknowledged before the kill.
const COMMITS_PER_ROUND: u64 = 40;

/// How long they may take for that, or something is wrong.
const ROUND_AT_MOST: Duration = Duration::from_secs(60);

type List = Ref<Vec<u64>>;

pub(super) fn run(args: TortureArgs, output: &mut Output) -> Result {
    let mut scratch = Scratch::new(args.dir, &std::env::temp_dir(), "torture")?;
    let mut options = ServerOptions::new(std::env::current_exe()?, scratch.path().join("store"));
    options.listen = lasting_address()?;
    let outcome = torture(&options, args.rounds, args.clients)?;
    outcome.print(output)?;
    if outcome.verdict.is_clean() {
        return Ok(());
    }
    scratch.keep();
    Err(format!("{}; the store is left in {}", outcome.verdict, scratch.path().display()).into())
}

/// What came of it.
struct Outcome {
    rounds: u32,
    tally: Tally,
    restart_ms_max: f64,
    verdict: Verdict,
}

impl Outcome {
    fn print(&self, output: &mut Output) -> Result {
        output.table(&[
            ("kills", json!(self.rounds)),
            ("commits_acknowledged", json!(self.tally.committed.len())),
            ("commits_refused", json!(self.tally.refused)),
            ("commits_unknown", json!(self.tally.unknown)),
            ("restart_ms_max", json!(self.restart_ms_max.round())),
            ("lost", json!(self.verdict.lost.len())),
            ("doubled", json!(self.verdict.doubled.len())),
            ("anomalies", json!(self.verdict.anomalies.join(", "))),
            ("strictly_serializable", json!(self.verdict.is_clean())),
        ])
    }
}

fn torture(options: &ServerOptions, rounds: u32, clients: u32) -> Result<Outcome> {
    let mut server = Server::start(options)?;
    let address = server.address();
    let (lists, crew) = (Lists::create(address, u64::from(rounds) + 1)?, Crew::default());
    let mut restart_ms_max = 0.0_f64;
    let tally = std::thread::scope(|scope| {
        let work = |seed| crew.work(&Db::connect(address)?, &lists, seed);
        let workers: Vec<_> = (0..clients).map(|number| scope.spawn(move || work(number.into()))).collect();
        let bar = output::bar("kill, restart", rounds.into());
        let killed = (0..rounds).try_for_each(|_| -> Result {
            crew.wait(COMMITS_PER_ROUND, ROUND_AT_MOST);
            let start = Instant::now();
            restart(&mut server, options)?;
            restart_ms_max = restart_ms_max.max(start.elapsed().as_secs_f64() * 1e3);
            crew.next_round();
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        crew.stop();
        let mut total = Tally::default();
        for worker in workers {
            total.add(&worker.join().map_err(|_| "a client panicked")??);
        }
        killed.map(|()| total)
    })?;
    restart(&mut server, options)?;
    let verdict = crew.history.judge(&lists.read(address)?)?;
    Ok(Outcome { rounds, tally, restart_ms_max, verdict })
}

/// Kills the store and starts it again over what is left.
fn restart(server: &mut Server, options: &ServerOptions) -> Result {
    server.kill()?;
    *server = Server::start(options)?;
    Ok(())
}

/// The lists that the clients read and append to. Each round has its own, and shares some with the next.
struct Lists(Vec<List>);

impl Lists {
    fn create(address: SocketAddr, rounds: u64) -> Result<Self> {
        let db = Db::connect(address)?;
        let count = rounds * LISTS_IN_USE / 2 + LISTS_IN_USE;
        Ok(Self(db.transact(|tx| (0..count).map(|_| tx.create(Anywhere, &Vec::new())).collect())?))
    }

    /// What is in all of them, as a client finds it that has cached nothing.
    fn read(&self, address: SocketAddr) -> Result<HashMap<u64, Vec<u64>>> {
        let db = Db::connect(address)?;
        Ok(db.transact(|tx| (0..).zip(&self.0).map(|(key, &list)| Ok((key, tx.get(list)?))).collect())?)
    }

    fn step(&self, tx: &mut Tx, step: &mut Step) -> thorp::Result<()> {
        match step {
            Step::Read { key, found } => *found = Some(tx.get(self.0[*key as usize])?),
            Step::Append { key, value } => {
                let list = self.0[*key as usize];
                let mut values = tx.get(list)?;
                values.push(*value);
                tx.put(list, &values)?;
            }
        }
        Ok(())
    }
}

impl Job for Lists {
    /// One to three steps on lists that the others use too.
    fn plan(&self, crew: &Crew, random: &mut Random) -> Vec<Step> {
        let first = crew.round() * LISTS_IN_USE / 2;
        let step = |random: &mut Random| {
            let key = first + random.below(LISTS_IN_USE as usize) as u64;
            if random.chance(0.5) {
                Step::Read { key, found: None }
            } else {
                Step::Append { key, value: crew.number() }
            }
        };
        (0..=random.below(3)).map(|_| step(random)).collect()
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<()> {
        db.transact(|tx| steps.iter_mut().try_for_each(|step| self.step(tx, step)))
    }
}
