//! In one process, by hand: a caller whose echo is beside it.

use echo::{Caller, Echo};
use machine::{Append, Durable, Event, Node, Said};
use std::time::Duration;
use types::{Position, Time};

#[test]
fn a_text_is_heard_when_its_record_is_durable_and_not_before() {
    let mut node = Node::new();
    let echo = node.add(Echo::default());
    let caller = node.add(Caller::default());
    node.link(caller, echo);
    node.start(Time::ZERO);

    node.find_mut::<Caller>().unwrap().shout("hello");
    let said: Vec<_> = std::iter::from_fn(|| node.poll(Time::ZERO)).collect();
    let [(role, Said::Disk(work))] = &said[..] else { panic!("expected a record to be appended, got {said:?}") };
    assert_eq!((*role, work.get()), (echo, Some(&Append(Position(1), "hello".to_owned()))));
    assert!(!node.find::<Caller>().unwrap().is_heard());

    node.tell(Time::ZERO, echo, Event::Disk(machine::DiskDone::new(Durable(Position(1)))));
    assert!(matches!(node.poll(Time::ZERO), Some((role, Said::Wake(_))) if role == caller));
    assert_eq!(node.find::<Caller>().unwrap().heard(), [(1, "hello".to_owned())]);
}

#[test]
fn its_timer_tells_the_count() {
    let mut node = Node::new();
    let echo = node.add(Echo::recovered(7));
    let caller = node.add(Caller::default());
    node.link(caller, echo);
    node.start(Time::ZERO);
    assert!(node.poll(Time::ZERO).is_none());
    let due = node.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + Duration::from_secs(1));
    node.handle_timeout(due);
    assert!(node.poll(due).is_none(), "what is for the caller stays in the process");
    assert_eq!(node.find::<Caller>().unwrap().count(), Some(7));
}
