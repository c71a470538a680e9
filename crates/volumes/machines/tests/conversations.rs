//! Plays the conversations of `testdata/conversations/volume-*.txt`, and compares what is said, line by line. A write
//! is named by its epoch and its number, with its flush epoch behind: `2.5/f3`.
//!
//! ```text
//! > at 500                      the time, in milliseconds: what is due by then is done
//! > p7 counted live=3           a message of the holder of partition 7 to an owner or a take-over
//! > a copy 1.3/f1 0+4096        a message on the link `a` to a holder
//! p7 Open 1 home=1.0/f0         a message to the holder
//! answer 4: ok                  something else that the machine wants done
//! = 1.3/f1                      the answer to a call
//! ```

#[path = "../../../../testdata/conversations/play.rs"]
mod play;

mod conversation;

use conversation::{CacheScript, HolderScript, HomeScript, KnownHomeScript, LifeScript, OwnerScript, TakeOverScript};
use machines::Rule;
use std::fs;
use types::Broken;

#[test]
fn owners_say_what_is_written() {
    play::play_all("volume-owner-", || OwnerScript::new(Broken::NONE));
}

#[test]
fn holders_say_what_is_written() {
    play::play_all("volume-holder-", || HolderScript::new(Broken::NONE));
}

#[test]
fn take_overs_say_what_is_written() {
    play::play_all("volume-takeover-", || TakeOverScript::new(Broken::NONE));
}

#[test]
fn homes_say_what_is_written() {
    play::play_all("volume-home-", || HomeScript::new(Broken::NONE));
}

#[test]
fn homes_are_remembered_as_is_written() {
    play::play_all("volume-known-home", || KnownHomeScript::new(Broken::NONE));
}

#[test]
fn lives_begin_as_is_written() {
    play::play_all("volume-life", || LifeScript::new(Broken::NONE));
}

#[test]
fn caches_are_known_as_is_written() {
    play::play_all("volume-cache", || CacheScript::new(Broken::NONE));
    let expected = fs::read_to_string("../../../testdata/conversations/volume-cache.txt").unwrap();
    for rule in [Rule::NumberAttachments, Rule::WholeLog] {
        assert_ne!(play::play(&expected, CacheScript::new(Broken::rule(rule))), expected, "{rule:?}");
    }
}

/// A conversation for each rule that goes otherwise without it.
const NOTICED_BY: [(Rule, &str); 36] = [
    (Rule::CountStable, "volume-holder-counts"),
    (Rule::AckAtW, "volume-owner-copies"),
    (Rule::LostLogUncounted, "volume-owner-lost-log"),
    (Rule::HoldersKnown, "volume-owner-replaces"),
    (Rule::ReplaceThenForget, "volume-owner-replaces"),
    (Rule::SamePartition, "volume-takeover-lost-device"),
    (Rule::HoldersRefuse, "volume-holder-old-owner"),
    (Rule::EpochRegistered, "volume-holder-unregistered"),
    (Rule::LatestLife, "volume-life"),
    (Rule::WholeLog, "volume-life"),
    (Rule::EpochStable, "volume-holder-old-owner"),
    (Rule::CreditFirst, "volume-owner-credit"),
    (Rule::FlushOrder, "volume-owner-joins"),
    (Rule::FenceHome, "volume-home-fence"),
    (Rule::JournalWhole, "volume-home-joined"),
    (Rule::MarkDurable, "volume-home-fence"),
    (Rule::HomeStays, "volume-known-home"),
    (Rule::HomeHasFreed, "volume-takeover-older-home"),
    (Rule::FreeAfterHome, "volume-owner-copies"),
    (Rule::TrimInOrder, "volume-holder-trim"),
    (Rule::TrimTail, "volume-owner-resizes"),
    (Rule::ReadWithinLease, "volume-owner-cut-off"),
    (Rule::LeaseFromAsking, "volume-owner-cut-off"),
    (Rule::WaitOwnerLease, "volume-takeover-two"),
    (Rule::OwnerKnownDead, "volume-takeover-own-copied"),
    (Rule::NumberAttachments, "volume-takeover-own-outdated"),
    (Rule::AllowDrift, "volume-takeover-two"),
    (Rule::EpochFirst, "volume-takeover-two"),
    (Rule::EnoughLists, "volume-takeover-lists"),
    (Rule::WholeList, "volume-takeover-holder-back"),
    (Rule::OwnLogIsAList, "volume-takeover-own-log-cut"),
    (Rule::PassHome, "volume-takeover-lists"),
    (Rule::StopAtGap, "volume-takeover-loss"),
    (Rule::HomeConfirms, "volume-owner-registry-back"),
    (Rule::RegistryOnward, "volume-takeover-registry-back"),
    (Rule::NewestWins, "volume-takeover-lists"),
];

#[test]
fn each_rule_is_noticed_when_it_is_gone() {
    for rule in Rule::ALL {
        let (_, name) = NOTICED_BY.iter().find(|(it, _)| *it == rule).expect("each rule has its conversation");
        let expected = fs::read_to_string(format!("../../../testdata/conversations/{name}.txt")).unwrap();
        let broken = Broken::rule(rule);
        let played = if name.starts_with("volume-owner") {
            play::play(&expected, OwnerScript::new(broken))
        } else if name.starts_with("volume-holder") {
            play::play(&expected, HolderScript::new(broken))
        } else if name.starts_with("volume-takeover") {
            play::play(&expected, TakeOverScript::new(broken))
        } else if name.starts_with("volume-life") {
            play::play(&expected, LifeScript::new(broken))
        } else if name.starts_with("volume-known") {
            play::play(&expected, KnownHomeScript::new(broken))
        } else {
            play::play(&expected, HomeScript::new(broken))
        };
        assert_ne!(played, expected, "{name} does not notice that {rule:?} is gone");
    }
}
