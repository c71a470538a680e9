//! Mutation of the checkers: each rule of the protocol is taken out of the code, one at a time, and some seed must
//! notice. A rule that no seed misses is either not checked or not needed.

use crate::Violation;
use crate::runner::{Kind, Options, run_each, run_seeds};
use crate::scenario::Race;
use crate::volumes;
use types::{Broken, Rule};

/// The rules that nothing but reordering can put to the test.
const OF_REORDERING: [Rule; 6] =
    [Rule::InSequence, Rule::RememberAhead, Rule::JoinUp, Rule::InstallCovers, Rule::HelpInSequence, Rule::HoldThrough];

/// The rules of commits over the shards of several nodes.
const OF_CLUSTERS: [Rule; 25] = [
    Rule::ReplyFirst,
    Rule::StartAtLeast,
    Rule::FreshSettled,
    Rule::HearReply,
    Rule::OneCoordinator,
    Rule::CleanClose,
    Rule::AskWhenServed,
    Rule::ForgetMoved,
    Rule::CopyAfterClose,
    Rule::DropMoved,
    Rule::AcknowledgeAgain,
    Rule::WaitUndecided,
    Rule::EpochInCount,
    Rule::HeldPasses,
    Rule::PrepareReads,
    Rule::ReadersMeetPrepared,
    Rule::ApplyInOrder,
    Rule::VoidBehindPrepared,
    Rule::CountAboveVotes,
    Rule::ReleaseReaders,
    Rule::AwaitAllLogs,
    Rule::FencePrepared,
    Rule::AwaitAppended,
    Rule::CompareWithHome,
    Rule::ForgetAfterDecide,
];

/// The rules that only a store of several shards puts to the test.
const OF_SHARDS: [Rule; 1] = [Rule::OwnHorizon];

/// The rules that hardly any run puts to the test: named tests of the roles notice their absence, each run both ways
/// (`NOTICED_HERE` and `NOTICED_BY` in the roles' `tests` folders).
pub const OF_NAMED_TESTS: [Rule; 48] = [
    Rule::FencePrepared,
    Rule::ForgetMoved,
    Rule::ReleaseUnvoted,
    Rule::SitesBeforeClose,
    Rule::LeasesOutliveOpening,
    Rule::PlaceBeforeLease,
    Rule::TellAbandoned,
    Rule::HearReply,
    Rule::WaitUndecided,
    Rule::AnswerWithinLease,
    Rule::AcknowledgeAgain,
    Rule::FetchAtLeast,
    Rule::ShowWhole,
    Rule::CompareAhead,
    Rule::HelpRecent,
    Rule::ListGranted,
    Rule::ListHelped,
    Rule::DoomOnInstall,
    Rule::StayRefused,
    Rule::PunctureUnknown,
    Rule::HearAtLeast,
    Rule::SpoilCopies,
    Rule::ReplyToSession,
    Rule::AnswerByReply,
    Rule::AskedMovesNothing,
    Rule::SameWrites,
    Rule::ReplyAhead,
    Rule::ComeBack,
    Rule::ResendForPresent,
    Rule::KeepClaimed,
    Rule::KeepTaken,
    Rule::WarnLeased,
    Rule::LeasesOutliveStore,
    Rule::AllowDrift,
    Rule::LeaseWithUpstream,
    Rule::ContestAgain,
    Rule::LeaseFromNow,
    Rule::LapseWithStore,
    Rule::LapseAlone,
    Rule::JudgeSinceHeld,
    Rule::LeasesOutliveSession,
    Rule::KeepForComing,
    Rule::TellAskers,
    Rule::HearBeforeAnswer,
    Rule::FreshSinceAsked,
    Rule::JoinBeforeFetch,
    Rule::ReleaseOnce,
    Rule::PromiseOnce,
];

/// The races that put a rule to the test which freely drawn runs reach too seldom.
const STEERED: [(Rule, Race); 17] = [
    (Rule::GrantEmpty, Race::Recycle),
    (Rule::KeepVersion, Race::Recycle),
    (Rule::HearBeforeGrant, Race::Recycle),
    (Rule::EmptyAtHorizon, Race::Recycle),
    (Rule::KeepGranted, Race::LoseGrants),
    (Rule::ClaimUnused, Race::LoseGrants),
    (Rule::LoseFilled, Race::LoseGrants),
    (Rule::CompareAgain, Race::ComeInParts),
    (Rule::WholeWhenJoined, Race::ComeInParts),
    (Rule::WaitLocks, Race::ContestReads),
    (Rule::ContestOwn, Race::ContestReads),
    (Rule::KeepTurns, Race::ContestReads),
    (Rule::PromiseAnew, Race::ContestReads),
    (Rule::KeepPromise, Race::ContestReads),
    (Rule::RunOnAsleep, Race::SleepOn),
    (Rule::AwaitEarlierLives, Race::GiveLess),
    (Rule::FollowUnheld, Race::LetGo),
];

impl Kind {
    /// The runs that put a rule to the test.
    pub fn of_rule(rule: Rule) -> Self {
        let steered = STEERED.iter().find(|(steered, _)| *steered == rule).map(|(_, race)| Self::Steered(*race));
        match rule {
            rule if OF_REORDERING.contains(&rule) => Self::Reorder,
            rule if OF_CLUSTERS.contains(&rule) => Self::Cluster,
            rule if OF_SHARDS.contains(&rule) => Self::Shards,
            _ => steered.unwrap_or(Self::Nodes),
        }
    }
}

/// The result of taking one rule out.
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
        let kind = Kind::of_rule(rule);
        let options = Options { kind, threads, broken: Broken::rule(rule), stop_at_first: true };
        let mut summary = run_seeds(0, seeds_max, &options, |_| {});
        let caught = summary.failures.pop().and_then(|report| Some((report.seed, report.violation?)));
        Mutant { rule, kind, caught }
    })
}

/// The rules of volumes that hardly any run puts to the test: named tests of the machines notice their absence.
/// (`crates/volumes/machines/tests/conversations.rs`).
pub const OF_NAMED_VOLUME_TESTS: [machines::Rule; 6] = [
    machines::Rule::EpochRegistered,
    machines::Rule::EpochStable,
    machines::Rule::AllowDrift,
    machines::Rule::StopAtGap,
    machines::Rule::HomeHasFreed,
    machines::Rule::HomeConfirms,
];

/// The result of taking a rule of volumes out.
#[derive(Debug)]
pub struct VolumeMutant {
    /// The rule.
    pub rule: machines::Rule,
    /// The seed that noticed first, and what it saw; `None` if none did.
    pub caught: Option<(u64, Violation)>,
}

/// Runs one seed of a volume without this rule.
pub fn run_volume_seed(seed: u64, without: machines::Rule) -> Option<Violation> {
    volumes::run_seed(seed, Broken::rule(without), false).violation
}

/// Takes out each of these rules of volumes, and runs up to `seeds_max` seeds until one notices.
pub fn volume_mutants(rules: &[machines::Rule], seeds_max: u64, threads: usize) -> impl Iterator<Item = VolumeMutant> {
    rules.iter().map(move |&rule| {
        let run = |seed| volumes::run_seed(seed, Broken::rule(rule), false);
        let reports = run_each(0..seeds_max, threads, true, run, |_| {});
        let caught = reports.into_iter().find_map(|report| Some((report.seed, report.violation?)));
        VolumeMutant { rule, caught }
    })
}
