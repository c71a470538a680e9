//! Plays the conversations of `testdata/conversations/redirector-*.txt` with a redirector and compares what it says,
//! line by line.

mod conversation;
#[path = "../../../../testdata/conversations/play.rs"]
mod play;
#[path = "../../../../testdata/conversations/words.rs"]
mod words;

use types::{Broken, Rule};

#[test]
fn conversations_go_as_written() {
    play::play_all("redirector-", conversation::Conversation::new);
}

/// Rules whose absence hardly any simulated run notices, and the conversation that does.
const NOTICED_HERE: [(Rule, &str); 29] = [
    (Rule::CompareAhead, include_str!("../../../../testdata/conversations/redirector-made-up-counts.txt")),
    (Rule::HelpRecent, include_str!("../../../../testdata/conversations/redirector-knows-less.txt")),
    (Rule::ListGranted, include_str!("../../../../testdata/conversations/redirector-granted-and-left-out.txt")),
    (Rule::ListHelped, include_str!("../../../../testdata/conversations/redirector-helped-and-left-out.txt")),
    (Rule::CompareAgain, include_str!("../../../../testdata/conversations/redirector-compared-again.txt")),
    (Rule::WholeWhenJoined, include_str!("../../../../testdata/conversations/redirector-whole-when-joined.txt")),
    (Rule::CountLateHelp, include_str!("../../../../testdata/conversations/redirector-late-help.txt")),
    (Rule::HearAtLeast, include_str!("../../../../testdata/conversations/redirector-knows-less.txt")),
    (Rule::SpoilCopies, include_str!("../../../../testdata/conversations/redirector-copy-was-spoiled.txt")),
    (Rule::TellMissed, include_str!("../../../../testdata/conversations/redirector-upstream-breaks.txt")),
    (Rule::TellDropped, include_str!("../../../../testdata/conversations/redirector-upstream-breaks.txt")),
    (Rule::HearBeforeGrant, include_str!("../../../../testdata/conversations/redirector-recycled-page.txt")),
    (Rule::KeepGranted, include_str!("../../../../testdata/conversations/redirector-release-meets-grant.txt")),
    (Rule::KeepClaimed, include_str!("../../../../testdata/conversations/redirector-lost-grants.txt")),
    (Rule::ReplyToSession, include_str!("../../../../testdata/conversations/redirector-forgotten-commit.txt")),
    (Rule::AnswerByReply, include_str!("../../../../testdata/conversations/redirector-asked-on-its-way.txt")),
    (Rule::AskedMovesNothing, include_str!("../../../../testdata/conversations/redirector-asked-on-its-way.txt")),
    (Rule::ReplyAhead, include_str!("../../../../testdata/conversations/redirector-no-copy.txt")),
    (Rule::ResendForPresent, include_str!("../../../../testdata/conversations/redirector-left-behind.txt")),
    (Rule::ContestAgain, include_str!("../../../../testdata/conversations/redirector-contested-again.txt")),
    (Rule::JudgeSinceHeld, include_str!("../../../../testdata/conversations/redirector-lease-since-held.txt")),
    (Rule::KeepForComing, include_str!("../../../../testdata/conversations/redirector-resume.txt")),
    (Rule::LeaseFromNow, include_str!("../../../../testdata/conversations/redirector-lease-from-now.txt")),
    (Rule::KeepPromise, include_str!("../../../../testdata/conversations/redirector-keep-promise.txt")),
    (Rule::KeepPromise, include_str!("../../../../testdata/conversations/redirector-promise-after-release.txt")),
    (Rule::LeaseWithUpstream, include_str!("../../../../testdata/conversations/redirector-lease-with-upstream.txt")),
    (Rule::KnowLineage, include_str!("../../../../testdata/conversations/redirector-restored.txt")),
    (Rule::HearReply, include_str!("../../../../testdata/conversations/redirector-several-nodes.txt")),
    (Rule::FreshSinceAsked, include_str!("../../../../testdata/conversations/redirector-fresh.txt")),
];

#[test]
fn a_rule_that_is_taken_out_is_noticed() {
    for (rule, script) in NOTICED_HERE {
        let broken = conversation::Conversation::without(Broken::rule(rule));
        assert_ne!(play::play(script, broken), script, "nobody notices that {rule:?} is gone");
    }
}
