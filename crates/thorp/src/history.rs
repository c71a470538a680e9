//! What clients asked for and what came back, recorded while a store is tormented, and judged afterwards by a checker
//! that knows nothing of Thorp.
//!
//! The history is one of lists, as Elle has them: a transaction reads lists and appends numbers to them that nobody
//! else appends. So every read shows in which order all appends before it took effect, and `adya` finds each cycle that
//! a strictly serializable store could not have produced.

use crate::Result;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A list was read.
    Read {
        /// The list.
        key: u64,
        /// What was in it; `None` before it is known.
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
    /// A transaction that reads a list and, if it writes at all, appends to it.
    pub(crate) fn visit(key: u64, append: Option<u64>) -> Vec<Self> {
        let append = append.map(|value| Self::Append { key, value });
        [Self::Read { key, found: None }].into_iter().chain(append).collect()
    }

    /// Carries a [`Step::visit`] out by `visit`, which is given the list and what is to be appended, and says what was
    /// in the list before.
    pub(crate) fn carry_out_visit(
        steps: &mut [Self],
        visit: impl FnOnce(u64, Option<u64>) -> thorp::Result<Vec<u64>>,
    ) -> thorp::Result<()> {
        let [Self::Read { key, found }, rest @ ..] = steps else { unreachable!("a visit begins with a read") };
        let append = rest.first().and_then(|step| match step {
            Self::Append { value, .. } => Some(*value),
            Self::Read { .. } => None,
        });
        *found = Some(visit(*key, append)?);
        Ok(())
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Read { key, found } => json!(["r", key, found]),
            Self::Append { key, value } => json!(["append", key, value]),
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was acknowledged.
    Committed,
    /// It certainly has no effect.
    Refused,
    /// Nobody knows.
    Unknown,
}

#[derive(Debug, Clone)]
struct Event {
    kind: &'static str,
    process: u64,
    steps: Vec<Step>,
}

/// Takes down what several clients do, in the order in which it happens.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: Mutex<Vec<Event>>,
}

impl History {
    /// A client is about to run a transaction. `process` has none running.
    pub(crate) fn begin(&self, process: u64, steps: &[Step]) {
        self.push(Event { kind: "invoke", process, steps: steps.to_vec() });
    }

    /// It has ended, with these reads. After [`Ending::Unknown`] the client goes on under a new `process`.
    pub(crate) fn end(&self, process: u64, steps: &[Step], ending: Ending) {
        let kind = match ending {
            Ending::Committed => "ok",
            Ending::Refused => "fail",
            Ending::Unknown => "info",
        };
        self.push(Event { kind, process, steps: steps.to_vec() });
    }

    fn push(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Judges the history, given what is in all lists at the end.
    pub(crate) fn judge(&self, lists: &HashMap<u64, Vec<u64>>) -> Result<Verdict> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Verdict { lost: lost(&events, lists), doubled: doubled(lists), anomalies: anomalies(&events)? })
    }
}

/// What is wrong with a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Appends that were acknowledged and are not there: list and number.
    pub(crate) lost: Vec<(u64, u64)>,
    /// Appends that are there twice.
    pub(crate) doubled: Vec<(u64, u64)>,
    /// What a strictly serializable store could not have shown, by the names of Adya and Elle.
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
    let committed = events.iter().filter(|event| event.kind == "ok").flat_map(|event| &event.steps);
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

fn anomalies(events: &[Event]) -> Result<Vec<String>> {
    let lines = events.iter().enumerate().map(|(index, event)| {
        let steps: Vec<Value> = event.steps.iter().map(Step::to_json).collect();
        json!({"index": index, "type": event.kind, "process": event.process, "value": steps}).to_string()
    });
    let history = adya::History::from_json(&lines.collect::<Vec<_>>().join("\n"))?;
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

    fn run(history: &History, process: u64, steps: &[Step]) {
        history.begin(process, steps);
        history.end(process, steps, Ending::Committed);
    }

    #[test]
    fn a_serial_history_is_clean() {
        let history = History::default();
        run(&history, 0, &[append(1, 10)]);
        run(&history, 1, &[read(1, &[10]), append(1, 11)]);
        let lists = HashMap::from([(1, vec![10, 11])]);
        let verdict = history.judge(&lists).unwrap();
        assert!(verdict.is_clean(), "{verdict}");
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_lost() {
        let history = History::default();
        run(&history, 0, &[append(1, 10)]);
        history.begin(1, &[append(1, 11)]);
        history.end(1, &[append(1, 11)], Ending::Unknown);
        let verdict = history.judge(&HashMap::from([(1, vec![])])).unwrap();
        assert_eq!(verdict.lost, [(1, 10)], "of the second nobody knows");
    }

    #[test]
    fn write_skew_and_stale_reads_are_found() {
        let skew = History::default();
        let (left, right) = ([read(1, &[]), append(2, 20)], [read(2, &[]), append(1, 10)]);
        skew.begin(0, &left);
        skew.begin(1, &right);
        skew.end(0, &left, Ending::Committed);
        skew.end(1, &right, Ending::Committed);
        run(&skew, 0, &[read(1, &[10]), read(2, &[20])]);
        let lists = HashMap::from([(1, vec![10]), (2, vec![20])]);
        assert!(!skew.judge(&lists).unwrap().anomalies.is_empty(), "write skew");

        let stale = History::default();
        run(&stale, 0, &[append(1, 10)]);
        run(&stale, 1, &[read(1, &[])]);
        run(&stale, 0, &[read(1, &[10])]);
        assert!(!stale.judge(&HashMap::from([(1, vec![10])])).unwrap().anomalies.is_empty(), "a stale read");
    }
}
