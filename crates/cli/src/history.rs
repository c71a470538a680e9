//! The history of a torture: the clients' requests and their results, written by each client while the store is
//! tormented, and judged afterwards by a checker that knows nothing of Thorp.
//!
//! The history is one of lists, as Elle has them: a transaction reads lists and appends numbers to them that nobody
//! else appends. So every read shows in which order all appends before it took effect, and `adya` finds each cycle that
//! a strictly serializable store could not have produced.

use crate::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A list was read.
    Read {
        /// The list.
        key: u64,
        /// The list's content; `None` before it is known.
        found: Option<Vec<u64>>,
    },
    /// A number was appended to a list.
    Append {
        /// The list.
        key: u64,
        /// A number that nobody else appends.
        value: u64,
    },
}

impl Step {
    /// The list.
    pub(crate) fn key(&self) -> u64 {
        match self {
            Self::Read { key, .. } | Self::Append { key, .. } => *key,
        }
    }

    fn to_json(&self, is_judged: bool) -> Value {
        match self {
            Self::Read { key, found } => json!(["r", key, found.as_ref().filter(|_| is_judged)]),
            Self::Append { key, value } => json!(["append", key, value]),
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// It was acknowledged.
    Committed,
    /// It certainly has no effect.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// A transaction begins, or ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// When, in nanoseconds of the machine's monotonic clock: not after it began, not before it ended.
    pub(crate) at: u64,
    /// The client that runs it: one that has no other running. After [`Ending::Unknown`] a client continues under a new
    /// number.
    pub(crate) process: u64,
    /// How it ended; `None` when it begins.
    pub(crate) ending: Option<Ending>,
    /// Its steps; what was read is known when it has ended.
    pub(crate) steps: Vec<Step>,
    /// How long the longest of its calls took, in nanoseconds; known when it has ended.
    pub(crate) longest_call: u64,
}

impl Event {
    fn is_committed(&self) -> bool {
        self.ending == Some(Ending::Committed)
    }

    /// As the checker reads it.
    fn to_json(&self, index: usize) -> Value {
        let kind = match self.ending {
            None => "invoke",
            Some(Ending::Committed) => "ok",
            Some(Ending::Refused) => "fail",
            Some(Ending::Unknown) => "info",
        };
        // Of what may not have been committed, what was read may never have been validated.
        let is_judged = self.ending != Some(Ending::Unknown);
        let steps: Vec<Value> = self.steps.iter().map(|step| step.to_json(is_judged)).collect();
        json!({"index": index, "type": kind, "process": self.process, "time": self.at, "value": steps})
    }
}

/// Judges the history, in any order of its events, given the content of all lists at the end. The checker's input is
/// left in `file`, for others to judge.
pub(crate) fn judge(events: Vec<Event>, lists: &HashMap<u64, Vec<u64>>, file: Option<&Path>) -> Result<Verdict> {
    let events = in_order(events);
    let lines = lines(&events);
    file.map_or(Ok(()), |file| std::fs::write(file, &lines))?;
    Ok(Verdict { lost: lost(&events, lists), doubled: doubled(lists), anomalies: anomalies(&lines)? })
}

/// Leaves what happened in a file, as the checker reads it.
pub(crate) fn leave(events: Vec<Event>, file: &Path) -> Result {
    Ok(std::fs::write(file, lines(&in_order(events)))?)
}

/// Of what happens at one moment nobody knows the order: beginnings first, so that they are concurrent.
fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| (event.at, event.ending.is_some()));
    events
}

/// As the checker reads them.
fn lines(events: &[Event]) -> String {
    let lines: Vec<String> = events.iter().enumerate().map(|(index, event)| event.to_json(index).to_string()).collect();
    lines.join("\n")
}

/// The verdict on a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Appends that were acknowledged and are not there: list and number.
    pub(crate) lost: Vec<(u64, u64)>,
    /// Appends that are there twice.
    pub(crate) doubled: Vec<(u64, u64)>,
    /// The anomalies that a strictly serializable store could not have shown, by the names of Adya and Elle.
    pub(crate) anomalies: Vec<String>,
}

impl Verdict {
    /// Whether nothing is.
    pub(crate) fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} acknowledged commits lost, {} doubled, ", self.lost.len(), self.doubled.len())?;
        match self.anomalies.as_slice() {
            [] => write!(f, "strictly serializable"),
            found => write!(f, "not strictly serializable: {}", found.join(", ")),
        }
    }
}

fn lost(events: &[Event], lists: &HashMap<u64, Vec<u64>>) -> Vec<(u64, u64)> {
    let present: HashSet<(u64, u64)> = appends_in(lists).collect();
    let committed = events.iter().filter(|event| event.is_committed()).flat_map(|event| &event.steps);
    let acknowledged = committed.filter_map(|step| match step {
        Step::Append { key, value } => Some((*key, *value)),
        Step::Read { .. } => None,
    });
    acknowledged.filter(|append| !present.contains(append)).collect()
}

fn doubled(lists: &HashMap<u64, Vec<u64>>) -> Vec<(u64, u64)> {
    let mut seen = HashSet::new();
    appends_in(lists).filter(|append| !seen.insert(*append)).collect()
}

fn appends_in(lists: &HashMap<u64, Vec<u64>>) -> impl Iterator<Item = (u64, u64)> {
    lists.iter().flat_map(|(&key, list)| list.iter().map(move |&value| (key, value)))
}

fn anomalies(lines: &str) -> Result<Vec<String>> {
    let history = adya::History::from_json(lines)?;
    let report = adya::check(&history, adya::Workload::ListAppend, &adya::Opts::default());
    Ok(report.anomaly_types)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: u64, found: &[u64]) -> Step {
        Step::Read { key, found: Some(found.to_vec()) }
    }

    fn append(key: u64, value: u64) -> Step {
        Step::Append { key, value }
    }

    /// A history, an event each nanosecond.
    #[derive(Default)]
    struct History(Vec<Event>);

    impl History {
        fn push(&mut self, process: u64, steps: &[Step], ending: Option<Ending>) {
            self.0.push(Event { at: self.0.len() as u64, process, ending, steps: steps.to_vec(), longest_call: 0 });
        }

        fn begin(&mut self, process: u64, steps: &[Step]) {
            self.push(process, steps, None);
        }

        fn commit(&mut self, process: u64, steps: &[Step]) {
            self.push(process, steps, Some(Ending::Committed));
        }

        fn run(&mut self, process: u64, steps: &[Step]) {
            self.begin(process, steps);
            self.commit(process, steps);
        }

        fn judge(self, lists: impl Into<HashMap<u64, Vec<u64>>>) -> Verdict {
            judge(self.0, &lists.into(), None).unwrap()
        }
    }

    #[test]
    fn a_serial_history_is_clean() {
        let mut history = History::default();
        history.run(0, &[append(1, 10)]);
        history.run(1, &[read(1, &[10]), append(1, 11)]);
        let verdict = history.judge([(1, vec![10, 11])]);
        assert!(verdict.is_clean(), "{verdict}");
    }

    #[test]
    fn an_acknowledged_append_that_is_gone_is_lost() {
        let mut history = History::default();
        history.run(0, &[append(1, 10)]);
        history.begin(1, &[append(1, 11)]);
        history.push(1, &[append(1, 11)], Some(Ending::Unknown));
        assert_eq!(history.judge([(1, vec![])]).lost, [(1, 10)], "of the second nobody knows");
    }

    #[test]
    fn write_skew_and_stale_reads_are_found() {
        let mut skew = History::default();
        let (left, right) = ([read(1, &[]), append(2, 20)], [read(2, &[]), append(1, 10)]);
        skew.begin(0, &left);
        skew.begin(1, &right);
        skew.commit(0, &left);
        skew.commit(1, &right);
        skew.run(0, &[read(1, &[10]), read(2, &[20])]);
        assert!(!skew.judge([(1, vec![10]), (2, vec![20])]).anomalies.is_empty(), "write skew");

        let mut stale = History::default();
        stale.run(0, &[append(1, 10)]);
        stale.run(1, &[read(1, &[])]);
        stale.run(0, &[read(1, &[10])]);
        assert!(!stale.judge([(1, vec![10])]).anomalies.is_empty(), "a stale read");
    }

    #[test]
    fn reads_of_a_transaction_that_may_not_have_committed_are_not_judged() {
        let mut history = History::default();
        history.run(0, &[append(1, 10)]);
        let stale = [read(1, &[]), append(2, 20)];
        history.begin(1, &stale);
        history.push(1, &stale, Some(Ending::Unknown));
        let verdict = history.judge([(1, vec![10]), (2, vec![])]);
        assert!(verdict.is_clean(), "{verdict}");
    }

    #[test]
    fn the_order_is_that_of_the_clock_and_not_that_of_the_telling() {
        let event =
            |at, process, ending, steps: &[Step]| Event { at, process, ending, steps: steps.to_vec(), longest_call: 0 };
        let committed = Some(Ending::Committed);
        let told = |read_begins_at| {
            // Read nothing: allowed while the append is under way, a stale read once it has been acknowledged.
            vec![
                event(read_begins_at, 1, None, &[read(1, &[])]),
                event(30, 1, committed, &[read(1, &[])]),
                event(10, 0, None, &[append(1, 10)]),
                event(20, 0, committed, &[append(1, 10)]),
                event(40, 2, None, &[read(1, &[10])]),
                event(50, 2, committed, &[read(1, &[10])]),
            ]
        };
        let judge = |events| judge(events, &HashMap::from([(1, vec![10])]), None).unwrap();
        assert!(judge(told(20)).is_clean(), "at the same moment is at the same time");
        assert!(!judge(told(21)).is_clean(), "afterwards");
    }
}
