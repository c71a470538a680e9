//! The result: the paper's figures beside ours, and whether all is well.

use super::base::Base;
use super::buddy::Buddy;
use super::faults::Faults;
use crate::Result;
use crate::history::Verdict;
use crate::output::Output;
use serde_json::{Value, json};
use std::time::Duration;

/// All of it.
pub(super) struct Account {
    pub(super) base: Base,
    pub(super) buddy: Buddy,
    pub(super) faults: Faults,
    pub(super) checked: Checked,
}

/// The check at the end: is every acknowledged commit there, once and whole, and was the history right?
#[derive(Default)]
pub(super) struct Checked {
    pub(super) acknowledged: usize,
    pub(super) half_done: u64,
    pub(super) verdict: Verdict,
}

impl Checked {
    pub(super) fn rows(&self) -> [(&'static str, Value); 5] {
        [
            ("acknowledged", json!(self.acknowledged)),
            ("acknowledged_and_lost", json!(self.verdict.lost.len())),
            ("doubled", json!(self.verdict.doubled.len())),
            ("half_done", json!(self.half_done)),
            ("strictly_serializable", json!(self.verdict.anomalies.is_empty())),
        ]
    }

    pub(super) fn judge(&self) -> Result {
        match (self.verdict.is_clean(), self.half_done) {
            (true, 0) => Ok(()),
            (_, torn) => Err(format!("{}; {torn} transactions half done: this is a bug in Thorp", self.verdict).into()),
        }
    }
}

/// A case of the paper's that was played.
struct Comparison {
    case: &'static str,
    /// The saving in the paper, in percent (figures 7 and 10).
    paper: f64,
    base: Duration,
    buddy: Duration,
}

impl Comparison {
    /// The share of a transaction's time that the group saves, in percent.
    fn saved(&self) -> f64 {
        100.0 * (1.0 - self.buddy.as_secs_f64() / self.base.as_secs_f64())
    }
}

impl Account {
    fn comparisons(&self) -> [Comparison; 3] {
        let Self { base, buddy, .. } = self;
        [
            Comparison { case: "cold readers, groups of 3", paper: 39.0, base: base.cold, buddy: buddy.cold },
            Comparison {
                case: "hot readers in the writer's group",
                paper: 62.0,
                base: base.hot,
                buddy: buddy.beside_the_writer,
            },
            Comparison { case: "hot readers elsewhere", paper: 30.0, base: base.hot, buddy: buddy.elsewhere },
        ]
    }

    pub(super) fn print(&self, output: &mut Output) -> Result {
        let rounded = |figure: f64| (figure * 10.0).round() / 10.0;
        let millis = |time: Duration| rounded(time.as_secs_f64() * 1e3);
        let mut rows = Vec::new();
        if output.is_json() {
            let comparisons = self.comparisons().map(|one| {
                json!({
                    "case": one.case,
                    "base_ms": millis(one.base),
                    "buddy_ms": millis(one.buddy),
                    "saved_percent": rounded(one.saved()),
                    "paper_percent": one.paper,
                })
            });
            rows.push(("comparisons", json!(comparisons)));
        } else {
            output.raw("\nms a transaction                        Base    Buddy     saved   in the paper")?;
            for one in self.comparisons() {
                let (case, saved, paper) = (one.case, one.saved(), one.paper);
                let (base, buddy) = (millis(one.base), millis(one.buddy));
                output.raw(format_args!("  {case:<34} {base:>7.1}  {buddy:>7.1}  {saved:>6.1} %  {paper:>11.0} %"))?;
            }
            output.raw("")?;
        }
        let Faults { beside_stopped, failover, restart, restart_records } = &self.faults;
        rows.extend([
            ("pages_from_peers", json!(self.buddy.counts.pages_from_peers)),
            ("pages_in_all", json!(self.buddy.counts.pages_fetched)),
            ("cached_reads", json!(self.buddy.counts.cached_reads)),
            ("aborts", json!(self.buddy.counts.aborts)),
            ("beside_stopped_ms_p50", json!(rounded(beside_stopped.millis(0.5)))),
            ("beside_stopped_ms_max", json!(rounded(beside_stopped.millis(1.0)))),
            ("failover_ms", json!(millis(*failover))),
            ("restart_ms", json!(millis(*restart))),
            ("restart_records", json!(restart_records)),
        ]);
        rows.extend(self.checked.rows());
        output.table(&rows)
    }
}
