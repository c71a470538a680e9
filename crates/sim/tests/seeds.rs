//! Seeds: a few hundred in a row, those that once found something, and the same one twice.

use sim::{Options, run_seed, run_seeds};
use types::Broken;

#[test]
fn three_hundred_seeds_find_nothing() {
    let summary = run_seeds(0, 300, &Options::default(), |_| {});
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.commits > 10_000, "hardly anything was committed: {summary}");
}

/// Seeds that once found something, or would, with what they find and where it was mended. When scenarios are drawn in
/// another way, a seed becomes another day: then take the mended code out again, look for seeds that notice, and put
/// those here.
const KEPT: [(u64, &str); 20] = [
    // `resume_grant` of the store: a page that is in use is no grant any more.
    (43, "a client took a granted page for empty that was filled by somebody else while it was away"),
    (138, "the same, with a later commit"),
    // `grant_was_filled` of the client.
    (2196, "a client took a granted page for empty that it was told had been filled"),
    (4294, "the same, early on"),
    // `take_page` and `take_released` of the client. With one of them taken out these are other days: they notice when
    // both are, and the conversations `granted-again` and `release-meets-grant` when either is.
    (44469, "a transaction created two objects in one place: a page with its first object counted as empty"),
    (37672, "a release of a page crossed a grant of it, and its holder was listed no more once it was filled"),
    // `begin_anew` of the node: nothing is left of the session before.
    (165, "after a long pause an embedded client and its store never met again"),
    (1649, "the same, in another store"),
    (3345, "the same, later"),
    // `Pending::from` of the redirector.
    (3039, "a reply was to stand for the notice in a session that had not asked for the commit"),
    // `ask_outcome` of the redirector.
    (9131, "a question for an outcome overtook the request, and the redirector gave up what was to commit"),
    // `commit_reply` of the redirector.
    (16203, "a reply that had only been asked for moved a redirector's horizon over a change that was yet to be told"),
    // `resend_commits` of the redirector, and `LapseWithStore`: either is enough for these.
    (202_509, "a redirector sent a request again that its member had been refused elsewhere, before the store crashed"),
    (208_902, "the same, where a member was the redirector"),
    (211_493, "the same, where the member had come back"),
    // `Grants::keep` of the redirector.
    (207_522, "pages that were granted to members and lost on their way piled up, until the store took no rejoin"),
    // `UnderWay::at_least` of the redirector.
    (11905, "a redirector asked a quiet store for the same page for ever"),
    // `is_written_back` of the store.
    (308_794, "a store whose disk was full closed while a grant was on its way to the safe"),
    // `JudgeSinceHeld`.
    (206_348, "a redirector judged a transaction by changes that it was not told, as its group had not held the page"),
    // `ListAbsent`.
    (447_220, "a transaction found a page not to exist, then saw what was committed after the page had been created"),
];

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, found) in KEPT {
        let report = run_seed(seed, Broken::NONE, false);
        assert!(report.violation.is_none(), "seed {seed}, which found that {found}: {:?}", report.violation);
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..40 {
        let (one, other) = (run_seed(seed, Broken::NONE, false), run_seed(seed, Broken::NONE, true));
        assert_eq!((one.hash, one.commits), (other.hash, other.commits), "seed {seed}");
    }
}

#[test]
fn the_summary_does_not_depend_on_the_threads() {
    let with = |threads| run_seeds(500, 20, &Options { threads, ..Options::default() }, |_| {}).to_string();
    assert_eq!(with(1), with(2));
}
