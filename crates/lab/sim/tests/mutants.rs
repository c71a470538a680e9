//! Mutants: each rule that runs put to the test is taken out of the code, and some seed notices.

use sim::{OF_NAMED_TESTS, Options, mutants};
use types::Rule;

/// The seeds within which every mutant must be caught.
const SEEDS_MAX: u64 = 2000;

#[test]
fn some_seed_notices_each_mutant() {
    let rules: Vec<_> = Rule::ALL.into_iter().filter(|rule| !OF_NAMED_TESTS.contains(rule)).collect();
    let missed = mutants(&rules, SEEDS_MAX, Options::default().threads).filter(|mutant| mutant.caught.is_none());
    let missed: Vec<_> = missed.map(|mutant| format!("{:?} ({})", mutant.rule, mutant.kind)).collect();
    assert!(missed.is_empty(), "not caught within {SEEDS_MAX} seeds: {}", missed.join(", "));
}
