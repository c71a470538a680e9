//! Volumes: a few hundred seeds in a row, those that once found something, and the same one twice.

use sim::{Kind, OF_NAMED_VOLUME_TESTS, Options, VolumeRule, run_seeds, run_volume_seed};
use types::Broken;

#[test]
fn five_hundred_seeds_find_nothing() {
    let options = Options { kind: Kind::Volumes, ..Options::default() };
    let summary = run_seeds(0, 500, &options, |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 8_000, "hardly anything was answered: {summary}");
}

/// For each rule that runs put to the test a seed that notices when it is taken out. If one does not any more, days are
/// drawn in another way, and another seed is due.
const KEPT: [(u64, VolumeRule); 31] = [
    (408, VolumeRule::HomeStays),
    (621, VolumeRule::CountStable),
    (8, VolumeRule::AckAtW),
    (1594, VolumeRule::LostLogUncounted),
    (7430, VolumeRule::HoldersKnown),
    (2689, VolumeRule::ReplaceThenForget),
    (701, VolumeRule::SamePartition),
    (9816, VolumeRule::HoldersRefuse),
    (3, VolumeRule::CreditFirst),
    (3, VolumeRule::FlushOrder),
    (73, VolumeRule::FenceHome),
    (3, VolumeRule::JournalWhole),
    (3, VolumeRule::MarkDurable),
    (826, VolumeRule::FreeAfterHome),
    (290, VolumeRule::TrimInOrder),
    (100, VolumeRule::TrimTail),
    (73, VolumeRule::ReadWithinLease),
    (2272, VolumeRule::LeaseFromAsking),
    (3, VolumeRule::WaitOwnerLease),
    (364, VolumeRule::OwnerKnownDead),
    (10, VolumeRule::NumberAttachments),
    (0, VolumeRule::EpochFirst),
    (72, VolumeRule::EnoughLists),
    (1211, VolumeRule::OwnLogIsAList),
    (313, VolumeRule::PassHome),
    (58, VolumeRule::NewestWins),
    (3173, VolumeRule::StopAtGap),
    (936, VolumeRule::RegistryOnward),
    (8843, VolumeRule::LatestLife),
    (312, VolumeRule::WholeLog),
    (94, VolumeRule::WholeList),
];

#[test]
fn each_rule_is_noticed_when_it_is_gone() {
    let is_kept = |rule: &VolumeRule| KEPT.iter().any(|(_, it)| it == rule) || OF_NAMED_VOLUME_TESTS.contains(rule);
    assert!(VolumeRule::ALL.iter().all(is_kept), "each rule has a seed, or a named test");
    let mut others = Vec::new();
    for (seed, rule) in KEPT {
        let whole = Kind::Volumes.run_seed(seed, Broken::NONE, false);
        assert!(whole.violation.is_none(), "seed {seed}: {:?}", whole.violation);
        if run_volume_seed(seed, rule).is_none() {
            others.push((rule, (0..10_000).find(|&seed| run_volume_seed(seed, rule).is_some())));
        }
    }
    assert!(others.is_empty(), "kept seeds do not notice any more that rules are gone, and these do: {others:?}");
}

/// Days on which a fault was found, and what it was.
const MENDED: [(u64, &str); 11] = [
    (5151, "a holder that was to be forgotten, and was not, never counted again"),
    (13_690, "so did another one"),
    (29_316, "a host heard of an owner's heartbeat by an answer that came late, and had waited from before that"),
    (47_802, "a holder that was replaced while it was down kept its copies for good"),
    (20_082, "home went back to before an epoch, and what that had begun without came home from a holder"),
    (71_983, "a registry that had gone back gave the revisions that were lost again, and home no longer noticed"),
    (124_878, "the answer to the opening of a session with a holder was taken for that to the next one"),
    (131_019_011, "the registry's answer to a change that was given up was taken for that to the next one"),
    (1_068_581, "a host heard in a new session with home what that had said in the one before"),
    (1_143_804, "a change of a host that was dead reached a registry that had been put back since"),
    (1_118_024, "a cache had more than a home that was restored, and the checker took that for a return"),
];

#[test]
fn faults_that_were_found_once_stay_mended() {
    for (seed, was) in MENDED {
        let report = Kind::Volumes.run_seed(seed, Broken::NONE, false);
        assert!(report.violation.is_none(), "seed {seed}, on which {was}: {:?}", report.violation);
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..40 {
        let run = |readable| Kind::Volumes.run_seed(seed, Broken::NONE, readable);
        let (one, other) = (run(false), run(true));
        assert_eq!((one.hash, one.commits), (other.hash, other.commits), "seed {seed}");
    }
}
