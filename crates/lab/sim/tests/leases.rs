//! The races under leases find nothing, but where the rule is taken out that each is about.

use sim::{Kind, Options, Race, run_seeds};
use types::{Broken, Rule};

fn noticed_where_it_is_missing(rule: Rule, race: Race) {
    let kind = Kind::Steered(race);
    let summary = run_seeds(0, 20, &Options { kind, ..Options::default() }, |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    let options = Options { kind, broken: Broken::rule(rule), stop_at_first: true, ..Options::default() };
    let summary = run_seeds(0, 1000, &options, |_| {});
    assert!(!summary.failures.is_empty(), "nobody notices that {rule:?} is taken out: {summary}");
}

#[test]
fn a_lease_that_is_measured_on_a_clock_that_stops_is_noticed() {
    noticed_where_it_is_missing(Rule::RunOnAsleep, Race::SleepOn);
}

#[test]
fn a_store_that_forgets_the_leases_of_earlier_lives_is_noticed() {
    noticed_where_it_is_missing(Rule::AwaitEarlierLives, Race::GiveLess);
}
