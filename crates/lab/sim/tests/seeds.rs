//! Seeds: a few hundred in a row, those that once found something, and the same one twice.

use sim::{Kind, Options, Race, run_seeds};
use types::{Broken, Rule};

#[test]
fn three_hundred_seeds_find_nothing() {
    let summary = run_seeds(0, 300, &Options::default(), |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 10_000, "hardly anything was committed: {summary}");
}

#[test]
fn three_hundred_seeds_of_several_shards_find_nothing() {
    let summary = run_seeds(0, 300, &Options { kind: Kind::Shards, ..Options::default() }, |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 10_000, "hardly anything was committed: {summary}");
}

/// Seeds that notice a fault that was once there, with the rule whose absence lets it happen again. When scenarios are
/// drawn in another way a seed becomes another day: one that notices nothing any more fails here, and another is due.
const KEPT: [(Kind, u64, Rule, &str); 16] = [
    (Kind::Steered(Race::LoseGrants), 0, Rule::ClaimUnused, "a granted page that somebody else had filled was empty"),
    (
        Kind::Steered(Race::LoseGrants),
        6,
        Rule::LoseFilled,
        "a granted page was empty that was told to have been filled",
    ),
    (
        Kind::Steered(Race::LoseGrants),
        23,
        Rule::KeepGranted,
        "a release crossed a grant, and its holder was not listed",
    ),
    (Kind::Steered(Race::ContestReads), 14, Rule::KeepTurns, "a commit that waited lost to one that came later"),
    (Kind::Steered(Race::ContestReads), 0, Rule::KeepPromise, "what somebody changed on an earlier promise was judged"),
    (Kind::Steered(Race::ComeInParts), 4, Rule::CompareAgain, "a member joined beyond changes that it never heard of"),
    (Kind::Steered(Race::ComeInParts), 5, Rule::WholeWhenJoined, "a member was asked for help before it had joined"),
    (
        Kind::Cluster,
        439,
        Rule::HeldPasses,
        "a commit waited in line behind a reader that waited for what it had prepared",
    ),
    (
        Kind::Cluster,
        755,
        Rule::ReplyFirst,
        "a group heard of a horizon beyond its own commit before the reply that stood for the commit's changes",
    ),
    (Kind::Cluster, 447, Rule::AskWhenServed, "a commit waited for a shard that moved, and was not asked for again"),
    (Kind::Cluster, 11, Rule::FreshSettled, "a fresh transaction missed what a master had prepared and not applied"),
    (Kind::Cluster, 11, Rule::CopyAfterClose, "a shard that had moved lacked what was written back as it closed"),
    (Kind::Cluster, 11, Rule::DropMoved, "a client kept pages of a shard that had moved, and was not told of changes"),
    (Kind::Nodes, 1, Rule::CountsInRecord, "a commit that had been written back got a later count after a restart"),
    (Kind::Nodes, 50, Rule::ListAbsent, "a page that did not exist was created, and nobody told who had looked"),
    (
        Kind::Nodes,
        798,
        Rule::KnowLineage,
        "a transaction went on with a copy that lacked what it had read, and let go of",
    ),
];

#[test]
fn faults_that_were_found_once_are_noticed() {
    let mut due = Vec::new();
    for (kind, seed, rule, found) in KEPT {
        let mended = kind.run_seed(seed, Broken::NONE, false);
        assert!(mended.violation.is_none(), "{kind} seed {seed}, which found that {found}: {:?}", mended.violation);
        if !invalidations(kind, seed, rule) {
            let other = (0..1000).find(|&seed| invalidations(kind, seed, rule));
            due.push(format!("{kind} seed {seed} does not notice any more that {found}; {other:?} does"));
        }
    }
    assert!(due.is_empty(), "{}", due.join("\n"));
}

/// Whether the run ends with a violation once the rule is taken out.
fn invalidations(kind: Kind, seed: u64, without: Rule) -> bool {
    kind.run_seed(seed, Broken::rule(without), false).violation.is_some()
}

/// Days on which the fault was the simulator's own.
const HARMLESS: [(Kind, u64, &str); 13] = [
    (Kind::Nodes, 1_001_151, "timers that others had taken the place of set new ones, and there were more and more"),
    (Kind::Steered(Race::Recycle), 81, "a redirector passed on what was new before what it had missed"),
    (Kind::Nodes, 6_008_659, "a place that was kept again for other slots was taken for the one before"),
    (Kind::Nodes, 1_011_452, "a thread's patience ended before an answer could be there, every time"),
    (Kind::Nodes, 20_040_531, "what was refused on one branch was looked for on another"),
    (Kind::Nodes, 20_088_310, "a line was so long that a client was forgotten while it came back"),
    (Kind::Nodes, 30_058_282, "a commit whose sessions had gone was taken for one that waits its turn"),
    (Kind::Nodes, 50_084_494, "a commit that nobody waited for kept its place, and was taken for one without"),
    (Kind::Nodes, 30_007_825, "a few large records filled the log for good, as a segment held so many of any size"),
    (
        Kind::Nodes,
        40_037_549,
        "a group was to drop more granted pages than a restored store lists of those it does not know",
    ),
    (Kind::Nodes, 60_078_839, "such a group had released some of them"),
    (Kind::Nodes, 90_011_775, "the store was started so often that a client took it for a copy, and began again"),
    (Kind::Nodes, 70_015_587, "a place was given up and kept again within one batch, and was taken for the one before"),
];

#[test]
fn harmless_days_find_nothing() {
    for (kind, seed, was) in HARMLESS {
        let report = kind.run_seed(seed, Broken::NONE, false);
        assert!(report.violation.is_none(), "{kind} seed {seed}, on which {was}: {:?}", report.violation);
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..40 {
        let (one, other) =
            (Kind::Nodes.run_seed(seed, Broken::NONE, false), Kind::Nodes.run_seed(seed, Broken::NONE, true));
        assert_eq!((one.hash, one.commits), (other.hash, other.commits), "seed {seed}");
    }
}

#[test]
fn the_summary_does_not_depend_on_the_threads() {
    let with = |threads| run_seeds(500, 20, &Options { threads, ..Options::default() }, |_| {}).to_string();
    assert_eq!(with(1), with(2));
}
