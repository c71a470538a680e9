//! The result: what visitors have seen, how long publishes took to be everywhere, and what crossed the lines.

use super::readers::Tally;
use crate::Result;
use crate::output::Output;
use bench::Sample;
use serde_json::{Value, json};

/// All of it.
pub(super) struct Account {
    pub(super) publishes: u32,
    /// How often a process was killed or stopped.
    pub(super) faults: u32,
    pub(super) visitors: Tally,
    /// If rsync is installed, and was not left out.
    pub(super) rsync: Option<Tally>,
    /// From the return of a publish until every server served it, while everything ran.
    pub(super) quiet: Sample,
    /// Like `quiet`, where a process was killed or stopped.
    pub(super) broken: Sample,
    /// The bytes of the files that were changed.
    pub(super) changed_bytes: u64,
    /// The bytes over each line, behind the first version.
    line_bytes: Vec<u64>,
    pub(super) end: Option<End>,
}

/// The state of the site when everything was over.
pub(super) struct End {
    /// The store's newest revision.
    pub(super) revision: u64,
    /// The first file at a server that was not that of the newest version.
    pub(super) damage: Option<String>,
    /// The chunks of the store that are whole, if all are.
    pub(super) verified: Result<u64>,
}

impl Account {
    /// An account of everything from now on, after these bytes have crossed the lines.
    pub(super) fn new(line_bytes: Vec<u64>) -> Self {
        Self {
            publishes: 0,
            faults: 0,
            visitors: Tally::default(),
            rsync: None,
            quiet: Sample::default(),
            broken: Sample::default(),
            changed_bytes: 0,
            line_bytes,
            end: None,
        }
    }

    /// Everything is over, after these bytes.
    pub(super) fn line_bytes_until(&mut self, now: Vec<u64>) {
        self.line_bytes = now.into_iter().zip(&self.line_bytes).map(|(now, then)| now - then).collect();
    }

    pub(super) fn print(&self, output: &mut Output) -> Result {
        if !output.is_json() {
            output.raw("")?;
        }
        let Tally { pages, mixed, gone_back, stale, concealed, refused, wrong, unanswered, incomplete, .. } =
            &self.visitors;
        let per_byte = |bytes: &u64| rounded(*bytes as f64 / self.changed_bytes.max(1) as f64);
        let mut rows = vec![
            ("publishes", json!(self.publishes)),
            ("faults", json!(self.faults)),
            ("pages", json!(pages)),
            ("mixed_pages", json!(mixed)),
            ("gone_back", json!(gone_back)),
            ("pages_that_said_they_may_be_old", json!(stale)),
            ("pages_old_and_unsaid", json!(concealed)),
            ("answers_refused", json!(refused)),
            ("answers_wrong", json!(wrong)),
            ("requests_unanswered", json!(unanswered)),
            ("pages_incomplete", json!(incomplete)),
            ("rsync_pages", json!(self.rsync.as_ref().map(|it| it.pages))),
            ("rsync_mixed_pages", json!(self.rsync.as_ref().map(|it| it.mixed))),
            ("rsync_gone_back", json!(self.rsync.as_ref().map(|it| it.gone_back))),
            ("everywhere_after_ms_p50", json!(rounded(self.quiet.millis(0.5)))),
            ("everywhere_after_ms_max", json!(rounded(self.quiet.millis(1.0)))),
            ("everywhere_after_a_fault_ms_p50", json!(rounded(self.broken.millis(0.5)))),
            ("everywhere_after_a_fault_ms_max", json!(rounded(self.broken.millis(1.0)))),
            ("changed_bytes", json!(self.changed_bytes)),
            ("bytes_over_each_line", json!(self.line_bytes)),
            ("bytes_over_each_line_per_changed", self.line_bytes.iter().map(per_byte).collect()),
        ];
        if let Some(End { revision, damage, verified }) = &self.end {
            rows.extend([
                ("revision", json!(revision)),
                ("every_server_has_it_whole", json!(damage.is_none())),
                ("chunks_verified", json!(verified.as_ref().ok())),
            ]);
        }
        if !output.is_json() {
            rows.retain(|(_, value)| *value != Value::Null);
        }
        output.table(&rows)
    }

    /// Whether everything was as it is promised.
    ///
    /// # Errors
    /// The first thing that was not.
    pub(super) fn judge(&self) -> Result {
        let Tally { pages, mixed, gone_back, concealed, wrong, finding, .. } = &self.visitors;
        let broken = match (&self.end, finding) {
            (_, Some(finding)) => Some(format!(
                "{mixed} of {pages} pages were mixed, {gone_back} steps back, {concealed} old and unsaid, \
                 {wrong} wrong answers: {finding}"
            )),
            (None, None) => Some("the demo has not come to its end".to_owned()),
            (Some(End { damage: Some(damage), .. }), None) => Some(damage.clone()),
            (Some(End { verified: Err(why), .. }), None) => Some(why.to_string()),
            // The directory's first version is a revision, too.
            (Some(End { revision, .. }), None) if *revision != u64::from(self.publishes) + 1 => {
                Some(format!("the newest revision is {revision} after {} publishes", self.publishes + 1))
            }
            (Some(_), None) if *pages == 0 => Some("no visitor has seen a page".to_owned()),
            (Some(_), None) => None,
        };
        broken.map_or(Ok(()), |broken| Err(format!("{broken}: this is a bug in Thorp").into()))
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let end = End { revision: 5, damage: None, verified: Ok(2100) };
        let visitors = Tally { pages: 10, ..Tally::default() };
        Account { publishes: 4, visitors, end: Some(end), ..Account::new(vec![1, 1]) }
    }

    /// Returns why an account is not accepted.
    fn why(change: impl FnOnce(&mut Account)) -> String {
        let mut account = account();
        change(&mut account);
        account.judge().map_or_else(|why| why.to_string(), |()| "accepted".to_owned())
    }

    #[test]
    fn everything_that_is_promised_is_judged() {
        assert_eq!(why(|_| ()), "accepted");
        let end = |it: &mut Account, change: fn(&mut End)| it.end.iter_mut().for_each(change);
        for (reason, why) in [
            ("1 of 10 pages were mixed", why(|it| it.visitors.mix("page 1".into()))),
            ("1 steps back", why(|it| it.visitors.go_back("page 1".into()))),
            ("1 old and unsaid", why(|it| it.visitors.conceal("page 1".into()))),
            ("1 wrong answers", why(|it| it.visitors.err("500".into()))),
            ("server 2 has another", why(|it| end(it, |it| it.damage = Some("server 2 has another".into())))),
            ("3 chunks", why(|it| end(it, |it| it.verified = Err("3 chunks".into())))),
            ("the newest revision is 4 after 5", why(|it| end(it, |it| it.revision = 4))),
            ("no visitor", why(|it| it.visitors.pages = 0)),
        ] {
            assert!(why.contains(reason) && why.ends_with(": this is a bug in Thorp"), "{why}");
        }
    }
}
