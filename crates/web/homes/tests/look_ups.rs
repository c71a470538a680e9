//! A responder that sleeps, more lookups than wait, and the lease of a home by the clock of another machine.

use homes::messages::hub::{FromHub, Lease, Reset};
use homes::messages::look_ups::{FromTable, Head, Read, ToTable, Window, Words};
use homes::{Dependency, Found, Home, HomeConfig, LookUps, Proof, Responder, Rule, Wanted};
use machine::{Machine, Message, Output, Parcel, Port};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::limits::{LOOK_UPS_PER_MESSAGE_MAX, LOOK_UPS_WAITING_MAX};
use types::{Broken, SessionId, Time};

fn said<M: Machine, D: Message>(machine: &mut M) -> Vec<D> {
    let outputs = std::iter::from_fn(|| machine.poll_output());
    let messages = outputs.filter_map(|output| if let Output::Send(_, said, _) = output { Some(said) } else { None });
    messages.map(|message| message.open().expect("it says such messages")).collect()
}

const SECOND: u64 = 1_000_000_000;

fn lease(home: &mut Home, now: Time) {
    let lease = Lease { asked: now, lease_ms: 1000 };
    home.handle(now, Port::SERVER, Parcel::new(FromHub::from(lease)));
}

/// Whether a response is proven by a responder that sleeps between its words and its clock, while the home joins again
/// and drops the response.
fn is_proven_asleep(broken: Broken<Rule>) -> bool {
    let mut home = Home::new(HomeConfig { slots: 4, broken, ..HomeConfig::new(7) });
    lease(&mut home, Time::ZERO);
    let table = home.table();
    let ticket = home.ticket(Time::ZERO).unwrap();
    let proof = home.store(Time::ZERO, ticket, &[Dependency::ALL]).unwrap();
    let home = Arc::new(Mutex::new(home));
    let is_greeted = AtomicBool::new(false);
    let clock = move || {
        if !is_greeted.swap(true, Relaxed) {
            return Time::ZERO;
        }
        let later = Time(5 * SECOND);
        let mut home = home.lock().unwrap();
        home.handle(later, Port::SERVER, Parcel::new(FromHub::from(Reset)));
        lease(&mut home, later);
        later
    };
    let mut responder = Responder::new(table, Box::new(clock));
    let mut cache = LookUps::new();
    let mut exchange = |cache: &mut LookUps| {
        for read in said::<_, ToTable>(cache) {
            responder.handle(Time::ZERO, Port::Session(SessionId(1)), Parcel::new(read));
            for words in said::<_, FromTable>(&mut responder) {
                cache.handle(Time::ZERO, Port::SERVER, Parcel::new(words));
            }
        }
    };
    cache.connected(Time::ZERO, Port::SERVER);
    exchange(&mut cache);
    let id = cache.look(Time::ZERO, Wanted::Look(proof));
    exchange(&mut cache);
    cache.take(id) == Some(Found::Current(true))
}

#[test]
fn a_responder_that_sleeps_is_not_helped_by_a_later_lease() {
    assert!(!is_proven_asleep(Broken::NONE));
    assert!(is_proven_asleep(Broken::rule(Rule::ClockAfterWord)), "that is what the rule is for");
}

#[test]
fn so_many_look_ups_wait_and_further_ones_prove_nothing() {
    let mut cache = LookUps::new();
    cache.connected(Time::ZERO, Port::SERVER);
    let look = |cache: &mut LookUps, slot| cache.look(Time::ZERO, Wanted::Look(Proof { generation: 1, word: 1, slot }));
    let head = Head { life: 1, generation: 1, lease: Time(SECOND), now: Time::ZERO, fills: 1 };
    let greeting = FromTable::from(Words { id: 1, head, words: vec![] });
    cache.handle(Time::ZERO, Port::SERVER, Parcel::new(greeting));
    said::<_, ToTable>(&mut cache);
    // These are under way.
    for slot in 0..4 {
        look(&mut cache, slot);
    }
    let waiting: Vec<_> = (0..LOOK_UPS_WAITING_MAX as u32).map(|slot| look(&mut cache, slot)).collect();
    assert!(waiting.iter().all(|&id| cache.take(id).is_none()));
    let beyond = look(&mut cache, 7);
    assert_eq!(cache.take(beyond), Some(Found::Current(false)));
    assert_eq!(said::<_, ToTable>(&mut cache).len(), 4);
    // Nobody answers: all of them have their answer.
    cache.handle_timeout(Time(SECOND));
    assert!(waiting.iter().all(|&id| cache.take(id) == Some(Found::Current(false))));
    let many = Read { id: 1, slots: vec![0; LOOK_UPS_PER_MESSAGE_MAX] };
    assert!(framing::frames_of(homes::messages::look_ups::CACHE, &Parcel::new(ToTable::from(many))).is_ok());
}

/// Two machines with clocks of their own, which run differently fast, and a responder's answer between them. Times are
/// of nobody, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// The clocks at the beginning, and what they gain in a second, in thousandths.
    reader: (u64, u64),
    home: (u64, u64),
    /// How long after the question the home has read its clock, and how long after that the answer was heard.
    there: u64,
    back: u64,
    /// The length of what is left of the lease, by the home's clock.
    left: u64,
}

impl Clocks {
    fn reads((begun, gains): (u64, u64), at: u64) -> Time {
        Time(begun + at + (u128::from(at) * u128::from(gains) / 1000) as u64)
    }

    /// By how much the home's lease was over when the reader's was, by the home's clock.
    fn overrun(self, broken: Broken<Rule>) -> Duration {
        let Self { reader, home, there, back, left } = self;
        let mut cache = LookUps::without(broken).reading_window();
        let asked = Self::reads(reader, 0);
        cache.connected(asked, Port::SERVER);
        let now = Self::reads(home, there);
        let lease = now + Duration::from_nanos(left);
        let words = Words { id: 1, head: Head { life: 1, generation: 1, lease, now, fills: 1 }, words: vec![] };
        let window = Window { name: vec![1], base: 0, key: 0, slots: 1 };
        for message in [FromTable::from(words), FromTable::from(window)] {
            cache.handle(Self::reads(reader, there + back), Port::SERVER, Parcel::new(message));
        }
        let (_, until) = cache.window().unwrap();
        // The moment at which the reader's clock says that.
        let over = until.since(asked).as_nanos() * 1000 / (1000 + u128::from(reader.1));
        Self::reads(home, over as u64).since(lease)
    }
}

fn clocks() -> impl Strategy<Value = Clocks> {
    let (second, long) = (0..SECOND, 0..100 * SECOND);
    let begun = 0..1_000_000 * SECOND;
    (begun.clone(), begun, 0..=20_u64, second.clone(), second, long).prop_map(
        |(one, other, drift, there, back, left)| {
            // Either may be the faster one.
            let gains = if one % 2 == 0 { (0, drift) } else { (drift, 0) };
            Clocks { reader: (one, gains.0), home: (other, gains.1), there, back, left }
        },
    )
}

proptest! {
    #[test]
    fn a_reader_from_afar_is_never_past_the_lease_of_its_home(clocks in clocks()) {
        // As far as whole nanoseconds tell.
        prop_assert!(clocks.overrun(Broken::NONE) <= Duration::from_nanos(2));
    }
}

#[test]
fn both_rules_of_a_lease_are_missed_by_a_reader_from_afar() {
    let clocks = Clocks { reader: (7, 0), home: (70_000, 20), there: SECOND / 10, back: SECOND / 5, left: 10 * SECOND };
    assert_eq!(clocks.overrun(Broken::NONE), Duration::ZERO);
    assert!(clocks.overrun(Broken::rule(Rule::LeaseFromAsking)) > Duration::from_millis(190));
    assert!(clocks.overrun(Broken::rule(Rule::AllowDrift)) > Duration::from_millis(90));
}

#[test]
fn a_reader_of_the_window_asks_for_the_lease_before_it_is_over() {
    let mut cache = LookUps::new().reading_window();
    cache.connected(Time::ZERO, Port::SERVER);
    assert!(cache.window().is_none());
    let mut now = Time::ZERO;
    for _ in 0..10 {
        let [ToTable::Read(Read { id, slots })] = &said::<_, ToTable>(&mut cache)[..] else { panic!("it asks") };
        assert!(slots.is_empty());
        let head = Head { life: 1, generation: 1, lease: now + Duration::from_secs(1), now, fills: 1 };
        let words = FromTable::from(Words { id: *id, head, words: vec![] });
        cache.handle(now, Port::SERVER, Parcel::new(words));
        let window = FromTable::from(Window { name: vec![1], base: 0, key: 0, slots: 1 });
        cache.handle(now, Port::SERVER, Parcel::new(window));
        now = cache.poll_timeout().unwrap();
        assert!(now < cache.window().unwrap().1, "the lease that it knows of is over");
        cache.handle_timeout(now);
    }
    // Nobody answers: the session is over, and the window with it.
    cache.handle_timeout(now + Duration::from_secs(1));
    assert!(cache.window().is_none());
}
