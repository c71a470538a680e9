//! Rules whose absence hardly any simulated run notices: with one of them taken out, the test of it fails.

use crate::{
    commits, driver, follow, grants, groups, lease_waits, losses, moves, nodes, promised, recovery, turns, watch,
    watched_nodes,
};
use std::panic;
use types::{Broken, Rule};

const NOTICED_BY: [(Rule, fn()); 33] = [
    (Rule::FreshSettled, nodes::a_shard_is_named_when_what_was_prepared_there_is_applied),
    (Rule::ForgetMoved, moves::a_shard_that_comes_back_is_judged_by_what_has_changed_elsewhere),
    (Rule::ReleaseUnvoted, watched_nodes::a_transaction_without_a_vote_is_released_with_the_link),
    (Rule::SitesBeforeClose, moves::a_shard_is_not_closed_before_its_sites_are_here),
    (Rule::PlaceBeforeLease, watched_nodes::a_node_that_has_closed_a_shard_gives_no_lease_before_it_has_told_its_place),
    (Rule::TellAbandoned, watched_nodes::a_watcher_learns_that_a_transaction_was_released),
    (Rule::LeasesOutliveOpening, moves::leases_of_the_last_master_outlast_a_move),
    (Rule::CopyAfterClose, moves::a_shard_arrives_with_all_that_its_master_had_as_it_closed),
    (Rule::AnswerWithinLease, nodes::a_node_whose_lease_is_over_answers_nothing),
    (Rule::CleanClose, nodes::a_shard_closes_when_nothing_is_prepared_and_all_is_written_back),
    (Rule::AwaitAllLogs, nodes::a_shard_opens_when_every_log_has_told),
    (Rule::AwaitAppended, nodes::a_record_on_its_way_to_the_log_is_told),
    (Rule::ForgetAfterDecide, nodes::a_node_that_is_back_knows_what_it_has_committed_from_its_log),
    (Rule::FreeAfterHome, nodes::the_log_keeps_what_another_shard_has_not_written_back),
    (Rule::GrantEmpty, grants::an_emptied_page_is_granted_again_with_its_version),
    (Rule::HearBeforeGrant, grants::an_emptied_page_is_granted_again_with_its_version),
    (Rule::FollowUnheld, follow::a_page_that_a_session_holds_does_not_follow),
    (Rule::StayRefused, groups::a_copy_of_a_refused_request_is_refused),
    (Rule::LapseWithStore, groups::a_copy_that_was_sent_before_a_restart_has_lapsed),
    (Rule::TellAskers, groups::a_reply_stands_for_the_invalidation_to_whom_has_the_request),
    (Rule::HearBeforeAnswer, groups::a_reply_stands_for_the_invalidation_to_whom_has_the_request),
    (Rule::CountsInRecord, recovery::a_commit_has_the_count_of_its_record),
    (Rule::LapseAlone, commits::a_request_of_unknown_outcome_has_no_effect_after_that),
    (Rule::SameWrites, groups::another_request_under_the_same_identity_is_no_copy),
    (Rule::AllowDrift, lease_waits::a_lease_is_counted_longer),
    (Rule::LeasesOutliveSession, lease_waits::a_lease_outlives_its_session),
    (Rule::LeasesOutliveStore, lease_waits::a_lease_outlives_the_store),
    (Rule::WaitLocks, lease_waits::the_reads_of_a_waiting_commit_are_not_written),
    (Rule::KeepTurns, turns::nobody_overtakes_it),
    (Rule::KeepPlace, losses::a_client_that_has_lost_often_goes_before_the_winner),
    (Rule::PromiseAnew, promised::more_of_the_lease_ends_what_was_promised),
    (Rule::PromiseOnce, watch::a_watcher_is_asked_for_each_commit),
    (Rule::WarnLeased, lease_waits::a_group_that_gets_a_lease_hears_of_what_is_about_to_change),
];

#[test]
fn a_rule_that_is_taken_out_is_noticed() {
    for (rule, test) in NOTICED_BY {
        driver::TAKEN_OUT.set(Broken::rule(rule));
        assert!(panic::catch_unwind(test).is_err(), "nobody notices that {rule:?} is gone");
        driver::TAKEN_OUT.set(Broken::NONE);
        test();
    }
}
