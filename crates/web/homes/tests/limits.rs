//! A busy updater, a hub with more names under way than it keeps, a home with more of them than it has room for, and a
//! cache that takes no answers.

use homes::messages::caches::{Attach, Describe, ToHome};
use homes::messages::hub::{FromHub, Join, Lease, ToHub};
use homes::{Dependency, Home, HomeConfig, Hub, HubConfig, NotStored, Updater};
use machine::{Machine, Message, Output, Parcel, Port};
use types::limits::{DEPENDENCIES_KEPT_MAX, MARKED_BYTES_MAX, UPDATES_PER_UPDATER_MAX};
use types::{GoodbyeReason, SessionId, Time};

fn said<M: Machine, D: Message>(machine: &mut M) -> Vec<D> {
    let outputs = std::iter::from_fn(|| machine.poll_output());
    let messages =
        outputs.filter_map(|output| if let Output::Send(_, message, _) = output { Some(message) } else { None });
    messages.map(|message| message.open().expect("it says such messages")).collect()
}

#[test]
fn an_updater_says_so_many_updates_at_a_time() {
    let mut updater = Updater::new(1);
    for _ in 0..UPDATES_PER_UPDATER_MAX + 2 {
        updater.update(vec![Dependency::ALL]);
    }
    updater.connected(Time::ZERO, Port::SERVER);
    assert_eq!(said::<_, ToHub>(&mut updater).len(), 1 + UPDATES_PER_UPDATER_MAX, "and its introduction");
    // One that the hub does not know of yet is given up, another one is over.
    updater.visible(UPDATES_PER_UPDATER_MAX as u64 + 1);
    updater.visible(7);
    let said = said::<_, ToHub>(&mut updater);
    assert!(
        matches!(&said[..], [ToHub::Visible(_), ToHub::Update(next)] if next.id == UPDATES_PER_UPDATER_MAX as u64 + 2)
    );
}

#[test]
fn names_beyond_what_a_hub_keeps_are_everything() {
    let mut hub = Hub::new(HubConfig { succeeds: None, ..HubConfig::default() });
    let port = Port::Session(SessionId(1));
    hub.handle(Time::ZERO, port, Parcel::new(ToHub::from(Join { life: 1, asked: Time::ZERO })));
    said::<_, FromHub>(&mut hub);
    let long = Dependency::new(vec![b'a'; 256]).unwrap();
    let names = vec![long; 1000];
    let mut last = None;
    for _ in 0..=MARKED_BYTES_MAX / 256 / 1000 {
        last = Some(hub.update(Time::ZERO, names.clone()));
    }
    let marks = said::<_, FromHub>(&mut hub);
    let is_all = |message: &FromHub| matches!(message, FromHub::Mark(mark) if mark.dependencies == [Dependency::ALL]);
    assert!(!is_all(&marks[0]) && marks.last().is_some_and(is_all));
    // There is room again when one is over.
    hub.visible(last.unwrap());
    for update in 1..10 {
        hub.visible(homes::UpdateId(update));
    }
    said::<_, FromHub>(&mut hub);
    hub.update(Time::ZERO, names);
    assert!(!said::<_, FromHub>(&mut hub).iter().any(is_all));
}

fn leased_home() -> Home {
    let mut home = Home::new(HomeConfig { slots: 1000, ..HomeConfig::new(7) });
    let lease = FromHub::from(Lease { asked: Time::ZERO, lease_ms: 1000 });
    home.handle(Time::ZERO, Port::SERVER, Parcel::new(lease));
    home
}

/// As many names as a home keeps of a response, of the longest, which no other response has.
fn longest(response: usize) -> Vec<Dependency> {
    let name = |number| Dependency::new(format!("{response}.{number}.").into_bytes().repeat(256)[..256].to_vec());
    (0..DEPENDENCIES_KEPT_MAX).map(|number| name(number).unwrap()).collect()
}

#[test]
fn a_home_has_room_for_so_many_names() {
    let mut home = leased_home();
    let ticket = home.ticket(Time::ZERO).unwrap();
    let store = |home: &mut Home, response| home.store(Time::ZERO, ticket, &longest(response));
    let stored: Vec<_> = (0..1000).map_while(|response| store(&mut home, response).ok()).collect();
    let bytes = stored.len() * DEPENDENCIES_KEPT_MAX * 256;
    assert!((8 << 20..16 << 20).contains(&bytes), "{bytes} bytes of names");
    assert_eq!(store(&mut home, 1000).unwrap_err(), NotStored::Full);
    // There is room again when one leaves, and for everything when all do.
    home.free(stored[0]);
    assert!(store(&mut home, 1000).is_ok());
    assert_eq!(store(&mut home, 1001).unwrap_err(), NotStored::Full);
    home.lapse_all();
    assert!((0..stored.len()).all(|response| store(&mut home, response).is_ok()));
}

#[test]
fn a_cache_takes_its_answers() {
    let mut home = leased_home();
    let ticket = home.ticket(Time::ZERO).unwrap();
    let proof = home.store(Time::ZERO, ticket, &longest(1)).unwrap();
    let port = Port::Session(SessionId(1));
    home.handle(Time::ZERO, port, Parcel::new(ToHome::from(Attach { asked: Time::ZERO })));
    // Returns what is wanted of the line: whether its room is waited for, and whether it ends.
    let describe = |home: &mut Home| {
        home.handle(Time::ZERO, port, Parcel::new(ToHome::from(Describe { id: 1, proof })));
        let outputs: Vec<_> = std::iter::from_fn(|| home.poll_output()).collect();
        let awaits = outputs.iter().any(|output| matches!(output, Output::AwaitRoom(_)));
        let ends = outputs.iter().any(|output| matches!(output, Output::End(_, GoodbyeReason::TooMuch, _)));
        (awaits, ends)
    };
    for _ in 0..100 {
        assert_eq!(describe(&mut home), (true, false));
        home.has_room(port);
    }
    let taken = (0..100).take_while(|_| !describe(&mut home).1).count();
    assert_eq!(taken, (4 << 20) / (256 * 1024 + 64));
}
