//! A crash at every disk operation.

use sim::enumerate_crashes;
use types::Broken;

#[test]
fn nothing_is_lost_wherever_the_store_crashes() {
    for seed in [1, 2] {
        let found = enumerate_crashes(seed, Broken::NONE);
        assert!(found.failures.is_empty(), "{found}");
        assert!(found.operations > 50 && found.runs > found.operations, "{found}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn a_recovery_that_counts_by_itself_is_noticed() {
    let found = enumerate_crashes(1, Broken::rule(types::Rule::CountsInRecord));
    assert!(!found.failures.is_empty(), "{found}");
}
