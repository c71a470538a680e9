//! The result: the caches beside each other, what broke, and whether all is well.

use super::PLAIN_TTL_S;
use super::faults::{Broken, Fault};
use crate::Result;
use crate::output::Output;
use bench::{Sample, Tally};
use serde_json::{Value, json};
use std::time::Duration;

/// A cache under the load.
pub(super) struct Turn {
    pub(super) name: &'static str,
    pub(super) tally: Tally,
    pub(super) took: Duration,
}

/// All of it.
pub(super) struct Account {
    /// Our proxies are plain caches this time, which the check has to notice.
    unwatched: bool,
    /// Ours is the last.
    pub(super) turns: Vec<Turn>,
    pub(super) under_faults: Tally,
    pub(super) faults_took: Duration,
    faults: Vec<Broken>,
}

impl Turn {
    fn pages_per_s(&self) -> f64 {
        self.tally.pages as f64 / self.took.as_secs_f64()
    }

    fn hits_percent(&self) -> f64 {
        100.0 * self.tally.hits as f64 / (self.tally.pages as f64).max(1.0)
    }

    fn is_ours(&self) -> bool {
        self.name == "thorp"
    }

    fn to_json(&self) -> Value {
        let Tally { older_than_told, older_than_seen, updates, took, .. } = &self.tally;
        json!({
            "cache": self.name,
            "pages_per_s": rounded(self.pages_per_s()),
            "hits_percent": rounded(self.hits_percent()),
            "ms_p50": rounded(took.millis(0.5)),
            "ms_p99": rounded(took.millis(0.99)),
            "updates": updates,
            "stale": self.tally.stale(),
            "older_than_told": older_than_told,
            "older_than_seen": older_than_seen,
        })
    }
}

impl Account {
    pub(super) fn new(unwatched: bool) -> Self {
        let (turns, faults) = (Vec::new(), Vec::new());
        Self { unwatched, turns, under_faults: Tally::default(), faults_took: Duration::ZERO, faults }
    }

    pub(super) fn broken(&mut self, broken: Broken) {
        self.faults.push(broken);
    }

    /// The caches beside each other, for people.
    pub(super) fn tell_turns(&self, output: &mut Output) -> Result {
        if output.is_json() {
            return Ok(());
        }
        output.raw("each cache under the same load     pages/s    hits   p50 ms   p99 ms   stale pages")?;
        for turn in &self.turns {
            let name = match turn.name {
                "thorp" => "thorp, watched".to_owned(),
                name => format!("{name}, {PLAIN_TTL_S} s to live"),
            };
            let (pages, hits, stale) = (turn.pages_per_s(), turn.hits_percent(), turn.tally.stale());
            let (p50, p99) = (turn.tally.took.millis(0.5), turn.tally.took.millis(0.99));
            output
                .raw(format_args!("  {name:<30} {pages:>9.0}  {hits:>4.0} %  {p50:>7.2}  {p99:>7.2}  {stale:>12}"))?;
        }
        output.flush()
    }

    pub(super) fn print(&self, output: &mut Output) -> Result {
        let mut rows = Vec::new();
        if output.is_json() {
            rows.push(("caches", self.turns.iter().map(Turn::to_json).collect()));
        } else {
            output.raw("")?;
        }
        let Tally { pages, hits, failed, updates, failed_updates, .. } = &self.under_faults;
        if !self.faults.is_empty() {
            let mut went_on = Sample::default();
            self.faults.iter().for_each(|broken| went_on.push(broken.went_on));
            rows.extend([
                ("faults", json!(self.faults.len())),
                ("kinds_of_faults", json!(self.faults.len().min(Fault::ALL.len()))),
                ("minutes_of_faults", json!(rounded(self.faults_took.as_secs_f64() / 60.0))),
                ("went_on_after_s_p50", json!(rounded(went_on.millis(0.5) / 1e3))),
                ("went_on_after_s_max", json!(rounded(went_on.millis(1.0) / 1e3))),
                ("pages_under_faults", json!(pages)),
                ("hits_under_faults", json!(hits)),
                ("failed_requests_under_faults", json!(failed)),
                ("updates_under_faults", json!(updates)),
                ("updates_unknown_under_faults", json!(failed_updates)),
            ]);
        }
        let ours = self.ours();
        rows.extend([
            ("checked_pages", json!(ours.pages)),
            ("older_than_a_writer_was_told", json!(ours.older_than_told)),
            ("older_than_somebody_was_shown", json!(ours.older_than_seen)),
        ]);
        output.table(&rows)
    }

    /// Everything that our proxies have answered.
    fn ours(&self) -> Tally {
        let mut sum = self.under_faults.clone();
        self.turns.iter().filter(|turn| turn.is_ours() || self.unwatched).for_each(|turn| sum.add(turn.tally.clone()));
        sum
    }

    pub(super) fn judge(&self) -> Result {
        let ours = self.ours();
        let Some(finding) = ours.findings.first() else { return Ok(()) };
        let (thing, shown, known, seconds) =
            (&finding.thing, finding.shown, finding.known, finding.known_for.as_secs_f64());
        let example = format!("{thing} in version {shown}, {seconds:.3} s after {known} was known");
        let stale = ours.stale();
        let whose = if self.unwatched { "nobody has told the proxies what changes" } else { "this is a bug in Thorp" };
        Err(format!("{stale} pages were stale, such as one with {example}: {whose}").into())
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}
