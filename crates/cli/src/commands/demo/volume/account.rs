//! The result: whether everything is there that was acknowledged, and what copies cost, with the paper's figures beside
//! ours.

use crate::Result;
use crate::output::Output;
use bench::CopiesCost;
use fixtures::installed::find;
use fixtures::output;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// The word of e2fsck.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    is_clean: bool,
    said: String,
}

impl Verdict {
    /// Checks the file system in a file, and changes nothing.
    pub(super) fn on(file: &str) -> Result<Self> {
        let e2fsck = find("e2fsck").ok_or("e2fsck is not installed")?;
        let ran = output(Command::new(e2fsck).args(["-f", "-n", file]))?;
        let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        Ok(Self { is_clean: ran.status.success(), said })
    }
}

/// The findings behind a workload whose host has died.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    promises: u64,
    took: Duration,
    things: u64,
    bytes: u64,
    lost_bytes: u64,
    /// The first thing that was not as it had to be.
    lost: Option<String>,
    pub(super) file_system: Option<Verdict>,
}

impl Checked {
    /// So many fsyncs, or flushes, were acknowledged while the workload ran; nothing is checked yet.
    pub(super) fn new(promises: u64, took: Duration) -> Self {
        Self { promises, took, ..Self::default() }
    }

    /// The acknowledged bytes that are not there.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Something of this many bytes that had to be there was, or was not.
    pub(super) fn compare(&mut self, bytes: u64, is_there: bool, what: impl FnOnce() -> String) {
        self.things += 1;
        self.bytes += bytes;
        if !is_there {
            self.lost_bytes += bytes;
            self.lost.get_or_insert_with(what);
        }
    }
}

/// All of it.
pub(super) struct Account {
    /// Why no file system was mounted, if none was.
    pub(super) no_file_system: Option<String>,
    not_home_at_kill: u64,
    taken_over_after: Duration,
    checked: Checked,
    pub(super) costs: Vec<CopiesCost>,
}

impl Account {
    pub(super) fn new(not_home_at_kill: u64, taken_over_after: Duration, checked: Checked) -> Self {
        Self { no_file_system: None, not_home_at_kill, taken_over_after, checked, costs: Vec::new() }
    }

    pub(super) fn print(&self, output: &mut Output) -> Result {
        let Checked { promises, took, things, bytes, file_system, .. } = &self.checked;
        let mut rows = vec![
            ("file_system", json!(if self.no_file_system.is_none() { "ext4" } else { "none: raw blocks" })),
            ("acknowledged_fsyncs", json!(promises)),
            ("fsyncs_per_s", json!(rounded(*promises as f64 / took.as_secs_f64()))),
            ("not_home_when_killed", json!(self.not_home_at_kill)),
            ("attached_elsewhere_after_s", json!(rounded(self.taken_over_after.as_secs_f64()))),
            ("checked", json!(things)),
            ("checked_bytes", json!(bytes)),
            ("acknowledged_and_lost_bytes", json!(self.checked.lost_bytes())),
        ];
        if let Some(Verdict { is_clean, .. }) = file_system {
            rows.push(("e2fsck", json!(if *is_clean { "clean" } else { "not clean" })));
        }
        if output.is_json() {
            rows.push(("no_file_system", json!(self.no_file_system)));
            rows.push(("copies_cost", self.costs.iter().map(to_json).collect()));
            return output.table(&rows);
        }
        if !self.costs.is_empty() {
            output.raw("writes, 16 under way       copies             MB/s    lost by copies    in the paper")?;
            for cost in &self.costs {
                output.raw(line(cost))?;
            }
        }
        output.raw("")?;
        output.table(&rows)
    }

    pub(super) fn judge(&self) -> Result {
        if let Some(lost) = &self.checked.lost {
            let bytes = self.checked.lost_bytes();
            return Err(format!("{bytes} acknowledged bytes are lost: {lost}: this is a bug in Thorp").into());
        }
        match &self.checked.file_system {
            Some(Verdict { is_clean: false, said }) => {
                Err(format!("the file system is damaged: {said}: this is a bug in Thorp").into())
            }
            _ => Ok(()),
        }
    }
}

fn line(cost: &CopiesCost) -> String {
    let CopiesCost { load, copies, bytes_per_s, lost_percent, paper_percent } = cost;
    let percent = |figure: &Option<f64>, what: &str| figure.map(|it| format!("{what}{it:.0} %")).unwrap_or_default();
    let (lost, paper) = (percent(lost_percent, ""), percent(paper_percent, "up to "));
    format!("  {load:<24} {copies:<14} {:>8.1}  {lost:>16}  {paper:>14}", bytes_per_s / 1e6)
}

fn to_json(cost: &CopiesCost) -> Value {
    json!({
        "load": cost.load,
        "copies": cost.copies,
        "mb_per_s": rounded(cost.bytes_per_s / 1e6),
        "lost_percent": cost.lost_percent.map(rounded),
        "paper_lost_percent_max": cost.paper_percent,
    })
}

fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
