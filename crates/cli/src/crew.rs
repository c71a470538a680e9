//! Clients that work on a store while the torture kills and stops what they need, each in a process of its own, and
//! their history.
//!
//! ```text
//!   crew                                 member 1, 2, ...: `thorp member`
//!    | Order: Work, Rest   --stdin---->    transactions, one after the other
//!    | <---stdout--  Word: Event, Rests    each begins and ends at a time of the machine's one clock
//!    v
//!   the history, for the judge; latencies, for the account
//! ```

mod member;
mod words;

pub(crate) use fixtures::Signal;
pub(crate) use member::{Eligible, MemberOptions};
pub(crate) use words::{Counts, Order, Word, now};

use crate::Result;
use crate::history::{Ending, Event};
use crate::job::Work;
use bench::Sample;
use member::Member;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a member may take to connect.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The clients.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    members: Vec<Member>,
    heard: Arc<Heard>,
}

/// The messages that they have sent.
#[derive(Debug, Default)]
struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Of each member.
    said: Vec<Said>,
    half_done: u64,
    failed: Option<String>,
}

/// The messages that one of them has sent.
#[derive(Debug, Default)]
struct Said {
    events: Vec<Event>,
    commits: u64,
    is_ready: bool,
    /// It rests, having counted this.
    rests: Option<Counts>,
}

impl State {
    fn hear(&mut self, member: usize, word: std::result::Result<Word, String>) {
        let said = &mut self.said[member];
        match word {
            Ok(Word::Ready) => said.is_ready = true,
            Ok(Word::Event(event)) => {
                said.commits += u64::from(event.ending == Some(Ending::Committed));
                said.events.push(event);
            }
            Ok(Word::HalfDone(count)) => self.half_done += count,
            Ok(Word::Rests(counts)) => said.rests = Some(counts),
            Err(why) => self.failed = self.failed.take().or(Some(why)),
        }
    }
}

/// A transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction {
    /// When, by [`now`].
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// How it ended.
    pub(crate) ending: Ending,
    /// How long the longest of its calls took.
    pub(crate) longest_call: Duration,
}

impl Transaction {
    /// How long it took, with all its tries.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_nanos(self.ended - self.begun)
    }
}

impl Crew {
    /// How many members there have been.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Takes on a member; gives its number, from 0, once it waits for orders.
    pub(crate) fn hire(&mut self, options: &MemberOptions) -> Result<usize> {
        let member = self.members.len();
        self.state().said.push(Said::default());
        let heard = Arc::clone(&self.heard);
        let hear = move |word| {
            heard.state().hear(member, word);
            heard.changed.notify_all();
        };
        self.members.push(Member::start(member as u32, options, hear)?);
        self.wait("connect", READY_WITHIN, |state| state.said[member].is_ready)?;
        Ok(member)
    }

    /// Tells a member how to work from now on.
    pub(crate) fn work(&mut self, member: usize, work: &Work) -> Result {
        self.state().said[member].rests = None;
        self.members[member].tell(&Order::Work(work.clone()))
    }

    /// Tells members to rest, and waits until they do.
    pub(crate) fn rest(&mut self, members: &[usize], within: Duration) -> Result {
        for &member in members {
            self.members[member].tell(&Order::Rest)?;
        }
        self.wait_rest(members, within)
    }

    /// Waits until members have done everything that they were told to do.
    pub(crate) fn wait_rest(&self, members: &[usize], within: Duration) -> Result {
        self.wait("finish", within, |state| members.iter().all(|&member| state.said[member].rests.is_some()))
    }

    /// Waits until members have had this many more commits acknowledged, all in all.
    pub(crate) fn wait_commits(&self, members: &[usize], more: u64, within: Duration) -> Result {
        let commits = |state: &State| members.iter().map(|&member| state.said[member].commits).sum::<u64>();
        let wanted = commits(&self.state()) + more;
        self.wait("commit", within, |state| commits(state) >= wanted)
    }

    /// Waits for this long, or until a member has failed.
    pub(crate) fn wait_for(&self, time: Duration) -> Result {
        drop(self.heard.changed.wait_timeout_while(self.state(), time, |state| state.failed.is_none()));
        self.state().failed.take().map_or(Ok(()), |why| Err(why.into()))
    }

    fn wait(&self, what: &str, within: Duration, is_so: impl Fn(&State) -> bool) -> Result {
        let start = Instant::now();
        let mut state = self.state();
        while !is_so(&state) {
            if let Some(why) = state.failed.take() {
                return Err(why.into());
            }
            let Some(left) = within.checked_sub(start.elapsed()) else {
                return Err(format!("clients that were to {what} did not within {} s", within.as_secs()).into());
            };
            state = self.heard.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Stops a member where it is, or lets it continue.
    pub(crate) fn signal(&self, member: usize, signal: Signal) -> Result {
        self.members[member].signal(signal)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, member: usize) -> Result {
        self.members[member].kill()
    }

    /// The members' counts when they last began to rest.
    pub(crate) fn counts(&self, members: &[usize]) -> Counts {
        let state = self.state();
        members.iter().filter_map(|&member| state.said[member].rests).sum()
    }

    /// The transactions of members, one member after the other, from a moment on.
    pub(crate) fn transactions(&self, members: &[usize], since: u64) -> Vec<Transaction> {
        let state = self.state();
        let mut transactions = Vec::new();
        for &member in members {
            // A member begins nothing before it has ended what it has begun.
            for pair in state.said[member].events.chunks_exact(2) {
                let (begun, ended) = (pair[0].at, pair[1].at);
                let longest_call = Duration::from_nanos(pair[1].longest_call);
                if let Some(ending) = pair[1].ending.filter(|_| begun >= since) {
                    transactions.push(Transaction { begun, ended, ending, longest_call });
                }
            }
        }
        transactions
    }

    /// When a member has begun the transaction that it has not ended.
    pub(crate) fn begun(&self, member: usize) -> Option<u64> {
        self.state().said[member].events.last().filter(|event| event.ending.is_none()).map(|event| event.at)
    }

    /// How long it took from a moment to the end of the first commit of a member that began afterwards.
    pub(crate) fn first_commit(&self, member: usize, since: u64) -> Option<Duration> {
        let mut transactions = self.transactions(&[member], since).into_iter();
        let first = transactions.find(|transaction| transaction.ending == Ending::Committed)?;
        Some(Duration::from_nanos(first.ended - since))
    }

    /// How long commits of members took that were begun from a moment on.
    pub(crate) fn latencies(&self, members: &[usize], since: u64) -> Sample {
        let mut sample = Sample::default();
        let committed = |transaction: &Transaction| transaction.ending == Ending::Committed;
        self.transactions(members, since)
            .iter()
            .filter(|&done| committed(done))
            .for_each(|done| sample.push(done.took()));
        sample
    }

    /// The mean of these. One that waited long shows in it, as it should where time is shared out.
    pub(crate) fn mean(&self, members: &[usize], since: u64) -> Duration {
        let took: Vec<_> = self.transactions(members, since).iter().map(Transaction::took).collect();
        took.iter().sum::<Duration>() / (took.len() as u32).max(1)
    }

    /// Everything that anybody did. Of what was under way when its member was killed it is unknown how it ended.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (mut events, state) = (Vec::new(), self.state());
        for said in &state.said {
            events.extend_from_slice(&said.events);
            if let Some(begun) = said.events.last().filter(|event| event.ending.is_none()) {
                events.push(Event { at: now(), ending: Some(Ending::Unknown), ..begun.clone() });
            }
        }
        events
    }

    /// The lists that anybody has visited.
    pub(crate) fn visited(&self) -> BTreeSet<u64> {
        let state = self.state();
        let events = state.said.iter().flat_map(|said| &said.events);
        events.flat_map(|event| &event.steps).map(crate::history::Step::key).collect()
    }

    /// How many things they came by that were half done.
    pub(crate) fn half_done(&self) -> u64 {
        self.state().half_done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.heard.state()
    }
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
