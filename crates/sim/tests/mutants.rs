//! Without any one of its rules the protocol does not hold, and the checkers notice.
#![cfg(feature = "mutants")]

use sim::mutants;
use types::Rule;

#[test]
fn every_rule_is_missed_when_it_is_gone() {
    let quiet: Vec<_> =
        mutants(&Rule::ALL, 1000, 2).filter(|mutant| mutant.caught.is_none()).map(|mutant| mutant.rule).collect();
    assert!(quiet.is_empty(), "nobody misses {quiet:?}");
}
