//! Seeds: a few hundred in a row, those that once found something, and the same one twice.

use sim::{Options, run_seed, run_seeds};
use types::Broken;

#[test]
fn three_hundred_seeds_find_nothing() {
    let summary = run_seeds(0, 300, &Options::default(), |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 10_000, "hardly anything was committed: {summary}");
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..40 {
        let (one, other) = (run_seed(seed, Broken::NONE, false), run_seed(seed, Broken::NONE, true));
        assert_eq!((one.hash, one.commits), (other.hash, other.commits), "seed {seed}");
    }
}

#[test]
fn the_summary_does_not_depend_on_the_threads() {
    let with = |threads| run_seeds(500, 20, &Options { threads, ..Options::default() }, |_| {}).to_string();
    assert_eq!(with(1), with(2));
}
