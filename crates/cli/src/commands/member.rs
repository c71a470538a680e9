//! `thorp member`: a client of the demo or the torture, in a process of its own. It does what it is told on its
//! standard input, and says on its standard output what it does.

use crate::cli::MemberArgs;
use crate::crew::{Order, Word, now};
use crate::history::{Ending, Event, Step};
use crate::job::{Calls, Job, Numbers, Work};
use crate::{Error, Result};
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use thorp::Db;
use workloads::Random;

/// How long it continues trying to connect: the other end may be down just now.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn run(args: &MemberArgs) -> Result {
    let orders = orders();
    let db = connect(args)?;
    let job = args.job.find(&db)?;
    let mut member = Member { db, job, numbers: Numbers::of(args.number), process: u64::from(args.number) << 32 };
    say(&Word::Ready)?;
    let mut next = orders.recv().ok();
    while let Some(order) = next {
        let told = match order {
            Order::Work(work) => member.work(&work, &orders)?,
            Order::Rest => None,
        };
        if told.is_none() {
            say(&Word::Rests(member.db.stats().into()))?;
        }
        next = told.or_else(|| orders.recv().ok());
    }
    Ok(())
}

fn connect(args: &MemberArgs) -> Result<Db> {
    let mut builder = Db::builder().connect_within(CONNECT_WITHIN).insecure(args.insecure);
    if args.on_demand {
        builder = builder.prefetch_pages(0).read_ahead(false);
    }
    if let Some(millis) = args.patience_ms {
        builder = builder.patience(Duration::from_millis(millis));
    }
    if let Some(group) = &args.group {
        builder = builder.group(group);
    }
    if let (Some(listen), Some(store)) = (args.eligible, &args.store) {
        builder = builder.eligible(listen, store);
    }
    Ok(builder.connect(&args.server)?)
}

/// The orders that come on standard input. When that ends, the process that started us has gone, and we end too.
fn orders() -> Receiver<Order> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(std::result::Result::ok);
        let understood = lines.map_while(|line| serde_json::from_str(&line).ok());
        understood.for_each(|order| drop(sender.send(order)));
        std::process::exit(0);
    });
    orders
}

/// Says a word at once: we may be killed the next moment.
fn say(word: &Word) -> Result {
    let mut line = serde_json::to_string(word)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

struct Member {
    db: Db,
    job: Box<dyn Job>,
    numbers: Numbers,
    /// Under which number the history has what it does now.
    process: u64,
}

impl Member {
    /// Works as it is told, until it has done all of it or is told otherwise; gives what it is told, unless that is to
    /// rest.
    fn work(&mut self, work: &Work, orders: &Receiver<Order>) -> Result<Option<Order>> {
        let mut random = Random::new(work.seed);
        let mut left = work.transactions.unwrap_or(u64::MAX);
        let mut pause = Duration::ZERO;
        while left > 0 {
            if let Ok(told) = orders.recv_timeout(pause) {
                return Ok(Some(told).filter(|order| *order != Order::Rest));
            }
            self.transaction(work, &mut random)?;
            left -= 1;
            if let Some(millis) = &work.pause_ms {
                let longer = random.below((millis.end - millis.start) as usize) as u64;
                pause = Duration::from_millis(millis.start + longer);
            }
        }
        Ok(None)
    }

    fn transaction(&mut self, work: &Work, random: &mut Random) -> Result {
        let mut steps = self.job.plan(work, &mut self.numbers, random);
        self.say_event(&steps, None, Duration::ZERO)?;
        let mut calls = Calls::begin();
        let outcome = self.job.carry_out(&self.db, &mut steps, &mut calls);
        let ending = ending(&outcome);
        self.say_event(&steps, Some(ending), calls.longest())?;
        if ending == Ending::Unknown {
            self.process += 1;
        }
        match outcome {
            Ok(0) => Ok(()),
            Ok(half_done) => say(&Word::HalfDone(half_done)),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(Error::from(error)),
        }
    }

    fn say_event(&self, steps: &[Step], ending: Option<Ending>, longest_call: Duration) -> Result {
        let (steps, longest_call) = (steps.to_vec(), longest_call.as_nanos() as u64);
        say(&Word::Event(Event { at: now(), process: self.process, ending, steps, longest_call }))
    }
}

/// The meaning of an outcome for the history. Where nobody could be reached the commit was never sent.
fn ending<T>(outcome: &thorp::Result<T>) -> Ending {
    use thorp::Error;
    match outcome {
        Ok(_) => Ending::Committed,
        Err(Error::Contended { .. } | Error::Refused(_) | Error::Doomed | Error::Unreachable) => Ending::Refused,
        Err(_) => Ending::Unknown,
    }
}

/// Whether a client may meet this error while what it needs is killed again and again, and cut off from it.
fn is_passing(error: &thorp::Error) -> bool {
    use thorp::Error;
    let is_over = matches!(error, Error::Contended { .. } | Error::Refused(_) | Error::Doomed);
    is_over || matches!(error, Error::OutcomeUnknown(_) | Error::Unreachable)
}
