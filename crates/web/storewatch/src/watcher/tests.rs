use super::*;
use messages::{Lineage, Resumed, SessionLimits};
use types::{ClusterId, Incarnation, NodeId, Sharding, TxnId};

pub(super) fn ms(milliseconds: u64) -> Time {
    Time(milliseconds * 1_000_000)
}

pub(super) fn welcome(features: u64) -> Welcome {
    Welcome {
        features,
        cluster: ClusterId(1),
        node: NodeId(0),
        incarnation: Incarnation(1),
        lineage: Lineage::default(),
        sharding: Sharding::ONE,
        through: Version::ZERO.into(),
        limits: SessionLimits { silence_ms: 10_000, ..SessionLimits::UNTOLD },
    }
}

/// A watcher that has asked for its first lease, at that time.
fn asked(now: Time, features: u64) -> Watcher {
    let mut watcher = Watcher::new(ClientId(7));
    watcher.connected(now, Port::SERVER);
    watcher.hear(now, At::HOME, welcome(features).into());
    watcher.hear(now, At::HOME, Resumed { through: Version::ZERO.into(), dropped: Vec::new() }.into());
    watcher
}

pub(super) fn leased(nonce: u64) -> ToClient {
    Leased { nonce, lease_ms: 1020, spaces: vec![0] }.into()
}

/// An answer to a ping passes what is before it on a line.
#[test]
fn a_lease_may_come_before_its_answer_and_after_it() {
    for order in [[0, 1], [1, 0]] {
        let mut watcher = asked(ms(1000), WATCH);
        let messages = [leased(1), Pong { nonce: 1 }.into()];
        for at in order {
            watcher.hear(ms(1100), At::HOME, messages[at].clone());
        }
        assert_eq!(watcher.standing(ms(1999)), Standing::CatchingUp);
        assert_eq!(watcher.standing(ms(2000)), Standing::Apart, "it counts from the asking, and drifts");
        assert_eq!(watcher.poll_timeout(), Some(ms(1340)));
    }
}

#[test]
fn a_store_that_gives_none_is_asked_again_and_told_of() {
    let mut watcher = asked(ms(1000), WATCH);
    watcher.hear(ms(1001), At::HOME, Pong { nonce: 1 }.into());
    assert_eq!((watcher.standing(ms(1001)), watcher.poll_timeout()), (Standing::Apart, Some(ms(2000))));
    watcher.handle_timeout(ms(2000));
    assert_eq!(watcher.standing(ms(2000)), Standing::NotLeased);
    watcher.hear(ms(2001), At::HOME, leased(1));
    assert_eq!(watcher.standing(ms(2001)), Standing::NotLeased, "of a ping before");
    watcher.hear(ms(2001), At::HOME, leased(2));
    assert_eq!(watcher.standing(ms(2001)), Standing::CatchingUp);
}

/// The commits that are told before a lease are announced before it, and a lease that was over is no lease.
#[test]
fn a_home_has_more_of_a_lease_behind_what_it_has_to_mark() {
    let mut watcher = asked(ms(1000), WATCH);
    let effects = |watcher: &mut Watcher| std::iter::from_fn(|| watcher.poll_effect()).collect::<Vec<_>>();
    let star = vec![coherence::Dependency::ALL];
    assert_eq!(effects(&mut watcher), [Effect::Update(1, star.clone())]);
    watcher.hear(ms(1000), At::HOME, leased(1));
    watcher.released(1);
    assert_eq!(effects(&mut watcher), [Effect::Lease(ms(2000)), Effect::Visible(1)]);
    assert_eq!(watcher.standing(ms(1999)), Standing::Watching);

    let pages = vec![(types::PageId::new(0, 3), [5].into_iter().collect())];
    let txn = TxnId { client: ClientId(1), number: 1 };
    watcher.handle_timeout(ms(1340));
    watcher.hear(ms(1341), At::HOME, Intent { txn, pages: pages.clone() }.into());
    watcher.hear(ms(1341), At::HOME, Intent { txn, pages }.into());
    watcher.hear(ms(1341), At::HOME, leased(2));
    let names = ["thorp:0/3", "thorp:0/3.5"].map(|name| coherence::Dependency::new(name).unwrap()).to_vec();
    assert_eq!(effects(&mut watcher), [Effect::Update(2, names), Effect::Lease(ms(2340))]);

    // The process slept: the store may have continued without a word.
    watcher.handle_timeout(ms(1680));
    watcher.hear(ms(2341), At::HOME, leased(3));
    assert_eq!(effects(&mut watcher), [Effect::Update(3, star), Effect::Lease(ms(2680))]);
}

/// Else the store would give it leases for which commits wait, and nobody would promise.
#[test]
fn a_watcher_that_leaves_asks_for_no_lease_any_more() {
    let mut watcher = asked(ms(1000), WATCH);
    watcher.hear(ms(1000), At::HOME, leased(1));
    while watcher.poll_output().is_some() {}
    let said = |watcher: &mut Watcher| std::iter::from_fn(|| watcher.poll_output()).collect::<Vec<_>>();
    let is_end = |output: &Output| matches!(output, Output::End(Port::SERVER, GoodbyeReason::Done, _));
    watcher.leave();
    assert_eq!(said(&mut watcher).iter().filter(|output| is_end(output)).count(), 1);
    assert_eq!((watcher.poll_timeout(), watcher.standing(ms(1001))), (None, Standing::Apart));
    watcher.disconnected(ms(1002), Port::SERVER);
    watcher.connected(ms(1100), Port::SERVER);
    let again = said(&mut watcher);
    assert!(again.iter().any(is_end) && !again.iter().any(|it| matches!(it, Output::Send(..))), "{again:?}");
    assert_eq!(watcher.poll_timeout(), None);
}

/// A store may report as much as it likes: so much of it waits to be done.
#[test]
fn a_hub_that_hangs_does_not_fill_the_watcher() {
    let mut watcher = asked(ms(1000), WATCH);
    watcher.hear(ms(1000), At::HOME, leased(1));
    while watcher.poll_output().is_some() {}
    let intent = |number, slot| {
        let txn = TxnId { client: ClientId(1), number };
        Intent { txn, pages: vec![(types::PageId::new(0, 3), [slot].into_iter().collect())] }
    };
    for number in 0..=EFFECTS_MAX as u64 {
        let message = ToClient::from(intent(1, (number % 1024) as u16));
        watcher.handle(ms(1001), Port::SERVER, Parcel::new(message));
        watcher.under_way.applied(Part { at: At::HOME, txn: TxnId { client: ClientId(1), number: 1 } });
    }
    let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
    let ends = said.iter().filter(|it| matches!(it, Output::End(_, GoodbyeReason::TooMuch, _))).count();
    assert_eq!(ends, 1);
}

/// Rule StarWhenMany: a store with many writers reports more commits than are marked one by one, in each session
/// again.
#[test]
fn more_commits_than_are_marked_have_everything_marked() {
    let mut watcher = asked(ms(1000), WATCH);
    watcher.hear(ms(1000), At::HOME, leased(1));
    watcher.released(1);
    while watcher.poll_effect().is_some() || watcher.poll_output().is_some() {}
    let txn = |number| TxnId { client: ClientId(1), number };
    let tell = |watcher: &mut Watcher, number: usize| {
        let page = types::PageId::new(0, number as u32);
        let intent = Intent { txn: txn(number as u64), pages: vec![(page, [5].into_iter().collect())] };
        watcher.handle(ms(1001), Port::SERVER, Parcel::new(ToClient::from(intent)));
    };
    let promised = |watcher: &mut Watcher| {
        let is_end = |output: &Output| matches!(output, Output::End(..));
        let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
        assert!(!said.iter().any(is_end), "it does not hang up");
        said.iter().filter(|output| matches!(output, Output::Send(..))).count()
    };
    for number in 0..MARKED_MAX + 3 {
        tell(&mut watcher, number);
    }
    let updates: Vec<_> = std::iter::from_fn(|| watcher.poll_effect()).collect();
    let star = 2 + MARKED_MAX as u64;
    assert_eq!(updates.len(), MARKED_MAX + 1);
    assert_eq!(updates.last(), Some(&Effect::Update(star, vec![coherence::Dependency::ALL])));
    assert_eq!(promised(&mut watcher), 0);
    watcher.released(star);
    assert_eq!((promised(&mut watcher), watcher.standing(ms(1001))), (3, Standing::CatchingUp));
    tell(&mut watcher, MARKED_MAX + 3);
    assert_eq!(promised(&mut watcher), 1, "everything is marked already");
    for number in MARKED_MAX..MARKED_MAX + 4 {
        assert_eq!((watcher.poll_effect(), watcher.is_caught_up()), (None, false));
        watcher.under_way.applied(Part { at: At::HOME, txn: txn(number as u64) });
    }
    assert_eq!((watcher.poll_effect(), watcher.is_caught_up()), (Some(Effect::Visible(star)), true));
}

#[test]
fn a_redirector_is_no_store_to_watch() {
    let mut watcher = asked(ms(1000), messages::GROUP);
    let said: Vec<_> = std::iter::from_fn(|| watcher.poll_output()).collect();
    let is_end = |output: &Output| matches!(output, Output::End(_, GoodbyeReason::Protocol, text) if text.contains("own address"));
    assert!(said.iter().any(is_end), "{said:?}");
}
