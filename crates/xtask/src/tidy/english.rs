//! Habits of translated English, counted by `crates/xtask/english.py` and held to a limit for each group of texts. A
//! change may lower a limit and never raise it.

use crate::{Result, root};
use std::process::Command;

/// The groups of texts, and the findings that are left in each.
const LIMITS: [(&str, u32); 5] = [("docs", 585), ("help", 231), ("rustdoc", 2925), ("comments", 727), ("layout", 264)];

pub(super) fn check() -> Result<Vec<String>> {
    let mut checker = Command::new("python3");
    checker.current_dir(root()).args(["crates/xtask/english.py", "."]);
    checker.args(LIMITS.iter().flat_map(|(group, limit)| ["--max".to_owned(), format!("{group}={limit}")]));
    let output = checker.output().map_err(|error| format!("python3 crates/xtask/english.py: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(Vec::new()),
        Some(1) => Ok(said.lines().map(str::to_owned).collect()),
        _ => Err(format!("python3 crates/xtask/english.py: {said}")),
    }
}
