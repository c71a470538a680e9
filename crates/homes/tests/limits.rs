//! A busy updater, and a hub with more names under way than it keeps.

use homes::{Dependency, Hub, HubConfig, Updater};
use node::{Machine, Output, Port};
use protocol::homes::{FromHub, Join, ToHub};
use protocol::{Message, Parcel};
use types::limits::{MARKED_BYTES_MAX, UPDATES_PER_UPDATER_MAX};
use types::{SessionId, Time};

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
    updater.connected(Time::ZERO, Port::Server);
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
