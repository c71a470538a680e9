//! Plays the conversations of `testdata/conversations/file-server-*.txt`, `relay-*.txt`, `member-*.txt` and
//! `publisher-*.txt`, and compares what is said, line by line. `words.rs` has their language. Then the same
//! conversations are played with rules broken, each of which must be heard.

#[path = "../../../../../testdata/conversations/play.rs"]
mod play;

mod member;
mod publisher;
mod relay;
mod server;
mod words;

use member::MemberScript;
use play::play;
use publisher::PublisherScript;
use relay::RelayScript;
use server::ServerScript;
use spread::Way;
use std::fs;
use std::path::Path;
use types::Broken;

#[test]
fn file_servers_say_what_is_written() {
    play::play_all("file-server-", || ServerScript::new(Broken::NONE));
}

#[test]
fn relays_say_what_is_written() {
    play::play_all("relay-", || RelayScript::new(Broken::NONE));
}

#[test]
fn members_say_what_is_written() {
    play::play_all("member-", || MemberScript::new(Broken::NONE));
}

#[test]
fn publishers_say_what_is_written() {
    play::play_all("publisher-", PublisherScript::new);
}

/// A conversation for each way to break a rule, which hears it.
const HEARS: [(Way, &str); 47] = [
    (Way::AnyIdentity, "file-server-lost-answer"),
    (Way::AckEarly, "file-server-publish"),
    (Way::OfferEarly, "file-server-publish"),
    (Way::AnyBase, "file-server-overtaken"),
    (Way::MergeAnyway, "file-server-merge"),
    (Way::OldToken, "file-server-lock-old"),
    (Way::SiteOverP, "file-server-lock-publish"),
    (Way::GrantEarly, "file-server-lock-follows"),
    (Way::SwitchBlind, "file-server-incomplete"),
    (Way::TrustDropped, "file-server-dropped-tree"),
    (Way::SweepAnyway, "file-server-sweep-switch"),
    (Way::RestoreBack, "file-server-restored"),
    (Way::LateOffer, "relay-late-offer"),
    (Way::ForgetSwitch, "member-first"),
    (Way::NoFloor, "member-visitors"),
    (Way::RelayLetsGo, "relay-member-is-cut-off"),
    (Way::MemberLetsGo, "member-page-is-gone"),
    (Way::SessionsLapse, "member-open-file"),
    (Way::CacheLetsGo, "member-part"),
    (Way::NeverRelease, "relay-reports"),
    (Way::KeepAhead, "member-ahead"),
    (Way::PinLater, "file-server-joins-in-between"),
    (Way::FromMemory, "relay-unheld-list"),
    (Way::NewRelay, "file-server-cut-off"),
    (Way::OldList, "file-server-old-list"),
    (Way::SweepAtOnce, "file-server-restarted"),
    (Way::LateRenewal, "file-server-expired"),
    (Way::ForgetAtOnce, "file-server-cut-off"),
    (Way::CountFromAnswer, "member-lease"),
    (Way::CutLease, "file-server-lease"),
    (Way::SameClocks, "file-server-cut-off"),
    (Way::WholeLease, "relay-joins"),
    (Way::Silent, "member-lapsed"),
    (Way::TakeForAnswer, "member-idle"),
    (Way::UnheldAsHeld, "member-part-unheld"),
    (Way::CountConnected, "file-server-cut-off"),
    (Way::ForgetEarlier, "file-server-restarted"),
    (Way::SwitchShared, "file-server-sequential"),
    (Way::ForgetShares, "file-server-sequential-restarted"),
    (Way::ReleaseEarly, "relay-sequential"),
    (Way::ServeReleased, "member-sequential"),
    (Way::ShareReleased, "relay-callback"),
    (Way::SwitchPart, "member-first"),
    (Way::MoveSessions, "member-visitors"),
    (Way::BelieveChunk, "relay-chunks"),
    (Way::StartOver, "member-finishes"),
    (Way::HandOverEarly, "file-server-hand-over"),
];

#[test]
fn a_conversation_hears_each_way_to_break_a_rule() {
    for way in Way::ALL {
        let (_, name) = HEARS.into_iter().find(|(of, _)| *of == way).unwrap_or_else(|| panic!("nothing hears {way:?}"));
        let folder = Path::new("../../../testdata/conversations");
        let script = fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
        let broken = Broken::rule(way);
        let played = match name.split_once('-') {
            Some(("file", _)) => play(&script, ServerScript::new(broken)),
            Some(("relay", _)) => play(&script, RelayScript::new(broken)),
            _ => play(&script, MemberScript::new(broken)),
        };
        assert_ne!(played, script, "{name} does not hear {way:?}");
    }
}

// The outcomes of the ways that `tests/promise` does not notice.

/// Returns whether a member that has served a revision goes back to an older one, which is offered late.
fn goes_back(broken: Broken<Way>) -> bool {
    let script = "\
> starts 1.1=t1
> up connected
> up joined 1.1=t1 asked=0 lease=1000 held=1.1
> up offer 1.3=t3 base=t2
> disk descended
> disk switched 1.3
> up offer 1.2=t2 base=t1
> disk descended
> disk switched 1.2
> served";
    play(script, MemberScript::new(broken)).contains("= 1.2,")
}

/// Returns whether a relay offers its members an older revision than the one before, as its offer came late.
fn offers_an_older_one(broken: Broken<Way>) -> bool {
    let script = "\
> up connected
> a join asked=0 life=60
> up joined 1.3=t3 asked=0 lease=1000 held=1.3
> a join asked=0 life=60
> up offer 1.2=t2 base=t1";
    play(script, RelayScript::new(broken)).contains("a Offer 1.2")
}

#[test]
fn a_late_offer_needs_its_rule() {
    assert!(!goes_back(Broken::NONE) && !offers_an_older_one(Broken::NONE));
    assert!(goes_back(Broken::rule(Way::LateOffer)) && offers_an_older_one(Broken::rule(Way::LateOffer)));
}

/// Returns whether a revision is dropped that a subscriber was promised after it had written the list of its Join.
fn drops_what_was_promised(broken: Broken<Way>) -> bool {
    let script = "\
> starts life=1 1.1=t1
> at 1020
> a join asked=1000 life=50 at=1.1
> p switch 1 id=7.2 base=t1 root=t2
> disk checked 1 whole
> disk published 2
> p switch 2 id=7.3 base=t2 root=t3
> disk checked 3 whole
> disk published 4
> a join asked=1010 life=50 at=1.1 seen=1.1 held=1.1
> p switch 3 id=7.4 base=t3 root=t4
> disk checked 5 whole
> disk published 6";
    play(script, ServerScript::new(broken)).contains("disk Publish 6 1.4=t4 id=7.4 drops 1.2")
}

#[test]
fn a_list_that_is_old_needs_its_rule() {
    assert!(!drops_what_was_promised(Broken::NONE));
    assert!(drops_what_was_promised(Broken::rule(Way::OldList)));
}

/// Returns whether a member that has asked for the newest revision serves one that was offered before it asked.
fn serves_what_was_on_its_way(broken: Broken<Way>) -> bool {
    let script = "\
> starts idle-after=1 1.1=t1
> up connected
> up joined 1.1=t1 asked=0 lease=1000 held=1.1
> up offer 1.2=t2 base=t1
> up offer 1.3=t3 base=t2
> disk descended
> disk switched 1.2
> at 10
> open
> up offer 1.4=t4 base=t3
> disk descended
> disk switched 1.4
> open since=10";
    play(script, MemberScript::new(broken)).ends_with("= 1.4=t4\n")
}

#[test]
fn an_offer_that_was_on_its_way_is_no_answer() {
    assert!(!serves_what_was_on_its_way(Broken::NONE));
    assert!(serves_what_was_on_its_way(Broken::rule(Way::TakeForAnswer)));
}

/// Returns whether a revision is served as the newest when the lease is over that was long on its way.
fn is_fresh_after_its_lease(broken: Broken<Way>) -> bool {
    let script = "\
> starts 1.1=t1
> up connected
> at 400
> up joined 1.1=t1 asked=0 lease=1000 held=1.1
> at 1001
> served";
    play(script, MemberScript::new(broken)).contains("= 1.1, fresh")
}

#[test]
fn a_lease_that_is_long_on_its_way_needs_its_rule() {
    assert!(!is_fresh_after_its_lease(Broken::NONE));
    assert!(is_fresh_after_its_lease(Broken::rule(Way::CountFromAnswer)));
}

/// Returns whether a publisher is told *everywhere* while the lease of a subscriber with a slower clock still runs. Its
/// lease has 1000 ms, and by its clock 990 ms have passed when 1010 ms have by the clock of the file server.
fn is_everywhere_too_early(broken: Broken<Way>) -> bool {
    let script = "\
> starts life=1 1.1=t1
> at 1020
> a join asked=1000 life=50 at=1.1
> a lost
> p switch 1 id=7.2 base=t1 root=t2 waits
> disk checked 1 whole
> disk published 2
> at 2030";
    let played = play(script, ServerScript::new(broken));
    assert!(played.contains("lease=1000"), "{played}");
    played.contains("Everywhere")
}

#[test]
fn clocks_that_differ_need_their_rule() {
    assert!(!is_everywhere_too_early(Broken::NONE));
    assert!(is_everywhere_too_early(Broken::rule(Way::SameClocks)));
}

/// Returns whether a publish is acknowledged by the home before, after the space was handed over.
fn publishes_after_the_hand_over(broken: Broken<Way>) -> bool {
    let script = "\
> node starts
> adopts 1.1=t1
> p enter main
> p switch 1 id=7.2 base=t1 root=t2
> disk checked 1 whole
> m hand-over 2 1
> disk may-hand-over 3 9
> disk published 2";
    let played = play(script, ServerScript::new(broken));
    let (handed_over, published) = (played.find("HandedOver"), played.find("> disk published"));
    handed_over.expect("it is handed over") < published.expect("it is in the script")
}

#[test]
fn a_space_at_rest_needs_its_rule() {
    assert!(!publishes_after_the_hand_over(Broken::NONE));
    assert!(publishes_after_the_hand_over(Broken::rule(Way::HandOverEarly)));
}
