//! The lines of a site's `_redirects` and `_headers`, and the reports of those that are skipped.

use std::fmt;

/// The bytes of a line, as at Cloudflare.
const LINE_BYTES_MAX: usize = 2000;

/// Lines that are reported one by one; a file in another format has no other.
const REPORTS_MAX: usize = 20;

/// A line of a site's `_redirects` or `_headers` that is skipped. The other lines count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRule {
    /// The name of the file.
    pub file: &'static str,
    /// The number of the line, from 1; 0 for several lines or the whole file.
    pub line: usize,
    /// The reason.
    pub why: String,
}

/// The number of a line that is skipped, and the reason.
pub(super) type SkippedLine = (usize, String);

impl fmt::Display for SkippedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { file, line: 0, why } => write!(f, "{file}: {why}"),
            Self { file, line, why } => write!(f, "{file}: line {line} is skipped: {why}"),
        }
    }
}

/// Reads the lines of a file that are neither empty nor comments, and returns those that `read` refuses.
pub(super) fn read_lines(bytes: &[u8], mut read: impl FnMut(&str) -> Result<(), String>) -> Vec<SkippedLine> {
    let mut skipped = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.len() > LINE_BYTES_MAX {
            skipped.push((number, format!("it has more than {LINE_BYTES_MAX} bytes")));
            continue;
        }
        let Ok(line) = str::from_utf8(line) else {
            skipped.push((number, "it is not UTF-8".to_owned()));
            continue;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(why) = read(line) {
            skipped.push((number, why));
        }
    }
    skipped
}

/// The reports of skipped lines: the first ones, and the number of the others.
pub(super) fn reports(file: &'static str, skipped: Vec<SkippedLine>) -> Vec<SkippedRule> {
    let others = skipped.len().saturating_sub(REPORTS_MAX);
    let mut reports: Vec<_> =
        skipped.into_iter().take(REPORTS_MAX).map(|(line, why)| SkippedRule { file, line, why }).collect();
    if others > 0 {
        reports.push(SkippedRule { file, line: 0, why: format!("{others} more lines are skipped") });
    }
    reports
}
