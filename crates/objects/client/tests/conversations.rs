//! Plays the conversations of `testdata/conversations/client-*.txt` with a client and compares what it says, line by
//! line.

mod conversation;
#[path = "../../../../testdata/conversations/play.rs"]
mod play;
#[path = "../../../../testdata/conversations/words.rs"]
mod words;

use types::{Broken, Rule};

#[test]
fn conversations_go_as_written() {
    play::play_all("client-", conversation::Conversation::new);
}

/// Rules whose absence hardly any simulated run notices, and the conversation that does.
const NOTICED_HERE: [(Rule, &str); 13] = [
    (Rule::ComeBack, include_str!("../../../../testdata/conversations/client-no-room.txt")),
    (Rule::DoomOnInstall, include_str!("../../../../testdata/conversations/client-refetch-hides-a-change.txt")),
    (Rule::EmptyAtHorizon, include_str!("../../../../testdata/conversations/client-recycled-page.txt")),
    (Rule::FetchAtLeast, include_str!("../../../../testdata/conversations/client-load-reply-against-invalidation.txt")),
    (Rule::FetchAtLeast, include_str!("../../../../testdata/conversations/client-moved-own-commit.txt")),
    (Rule::ReleaseOnce, include_str!("../../../../testdata/conversations/client-released-once.txt")),
    (Rule::KeepGranted, include_str!("../../../../testdata/conversations/client-release-meets-grant.txt")),
    (Rule::KeepTaken, include_str!("../../../../testdata/conversations/client-taken-page-stays.txt")),
    (Rule::PunctureUnknown, include_str!("../../../../testdata/conversations/client-unknown.txt")),
    (Rule::SendAgain, include_str!("../../../../testdata/conversations/client-resend.txt")),
    (Rule::ShowWhole, include_str!("../../../../testdata/conversations/client-cut-batch.txt")),
    (Rule::KnowLineage, include_str!("../../../../testdata/conversations/client-restored.txt")),
    (Rule::JoinBeforeFetch, include_str!("../../../../testdata/conversations/client-first-flight.txt")),
];

#[test]
fn a_rule_that_is_taken_out_is_noticed() {
    for (rule, script) in NOTICED_HERE {
        let broken = conversation::Conversation::without(Broken::rule(rule));
        assert_ne!(play::play(script, broken), script, "nobody notices that {rule:?} is gone");
    }
}
