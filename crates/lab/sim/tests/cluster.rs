//! Several nodes that are one store: many seeds in a row, the same one twice, and how long the last one waits.

use sim::{Kind, Options, opposite_roles, run_seeds};
use types::Broken;

#[test]
fn five_hundred_seeds_find_nothing() {
    let summary = run_seeds(0, 500, &Options { kind: Kind::Cluster, ..Options::default() }, |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 25_000, "hardly anything was committed: {summary}");
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..40 {
        let run = |readable| Kind::Cluster.run_seed(seed, Broken::NONE, readable);
        let (one, other) = (run(false), run(true));
        assert_eq!((one.hash, one.commits), (other.hash, other.commits), "seed {seed}");
    }
}

/// Sixteen clients at two coordinators change the same two objects, one at each node.
#[test]
fn the_last_of_sixteen_waits_at_most_twenty_medians() {
    for seed in 0..5 {
        let waits = opposite_roles(seed);
        let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
        assert!(worst <= 20 * median, "seed {seed}: the median of {} is {median}, the worst {worst}", waits.len());
    }
}
