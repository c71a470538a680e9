//! Mutation of the checkers: each rule of the protocol is taken out of the code, one at a time, and some seed must
//! notice. A rule that can go without anybody noticing is either not checked or not needed.

use crate::Violation;
use crate::runner::{Kind, Options, run_seeds};
use types::{Broken, Rule};

/// The rules that nothing but reordering can put to the test.
const OF_REORDERING: [Rule; 7] = [
    Rule::InSequence,
    Rule::RememberAhead,
    Rule::JoinUp,
    Rule::InstallCovers,
    Rule::HelpInSequence,
    Rule::OwnHorizon,
    Rule::HoldThrough,
];

/// What came of taking one rule out.
#[derive(Debug)]
pub struct Mutant {
    /// The rule.
    pub rule: Rule,
    /// The runs that are to notice.
    pub kind: Kind,
    /// The seed that noticed first, and what it saw; `None` if none did.
    pub caught: Option<(u64, Violation)>,
}

/// Takes out each of `rules`, and runs up to `seeds_max` seeds until one notices.
pub fn mutants(rules: &[Rule], seeds_max: u64, threads: usize) -> impl Iterator<Item = Mutant> {
    rules.iter().map(move |&rule| {
        let kind = if OF_REORDERING.contains(&rule) { Kind::Reorder } else { Kind::Nodes };
        let options = Options { kind, threads, broken: Broken::rule(rule), stop_at_first: true };
        let mut summary = run_seeds(0, seeds_max, &options, |_| {});
        let caught = summary.failures.pop().and_then(|report| Some((report.seed, report.violation?)));
        Mutant { rule, kind, caught }
    })
}
