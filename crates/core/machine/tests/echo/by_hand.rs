//! By hand: the test is the driver.

use crate::caller::Caller;
use crate::messages::{Heard, Shout, ToCaller, ToEcho};
use crate::server::Echo;
use machine::{Append, Appended, DiskDone, Event, Hosted, Node, Parcel, Port, Said, UpstreamId};
use std::time::Duration;
use types::{Position, SessionId, Time};

const NOW: Time = Time::ZERO;

/// Everything that a machine wants done now.
fn said(hosted: &mut Hosted<impl machine::Machine>) -> Vec<Said> {
    std::iter::from_fn(|| hosted.poll(NOW)).collect()
}

fn shouted(said: &[Said]) -> Vec<(Port, &str)> {
    said.iter()
        .filter_map(|said| match said {
            Said::Send(port, message) => match message.get() {
                Some(ToEcho::Shout(Shout { text })) => Some((*port, text.as_str())),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

#[test]
fn a_text_is_heard_when_its_record_is_durable_and_not_before() {
    let mut node = Node::new();
    let echo = node.add(Echo::default());
    let caller = node.add(Caller::of_one());
    node.link(caller, echo);
    node.start(NOW);

    node.find_mut::<Caller>().unwrap().shout("hello");
    let said: Vec<_> = std::iter::from_fn(|| node.poll(NOW)).collect();
    let [(role, Said::Disk(work))] = &said[..] else { panic!("expected a record to be appended, got {said:?}") };
    assert_eq!((*role, work.get()), (echo, Some(&Append(Position(1), "hello".to_owned()))));
    assert!(!node.find::<Caller>().unwrap().is_heard());

    node.tell(NOW, echo, Event::Disk(DiskDone::new(Appended::Durable(Position(1)))));
    assert!(matches!(node.poll(NOW), Some((role, Said::Wake(_))) if role == caller));
    assert_eq!(node.find::<Caller>().unwrap().heard(UpstreamId::ONLY), [(1, "hello".to_owned())]);
}

#[test]
fn its_timer_tells_the_count() {
    let mut node = Node::new();
    let echo = node.add(Echo::recovered(7));
    let caller = node.add(Caller::of_one());
    node.link(caller, echo);
    node.start(NOW);
    assert!(node.poll(NOW).is_none());
    let due = node.poll_timeout().unwrap();
    assert_eq!(due, NOW + Duration::from_secs(1));
    node.handle_timeout(due);
    assert!(node.poll(due).is_none(), "messages to the caller stay in the process");
    assert_eq!(node.find::<Caller>().unwrap().count(UpstreamId::ONLY), Some(7));
}

#[test]
fn a_machine_opens_sessions_with_several_servers_and_closes_them() {
    let (one, other) = (UpstreamId(1), UpstreamId(2));
    let mut caller = Hosted::new(Caller::default());
    caller.start(NOW);
    caller.machine().call(one, ["one:7501".to_owned()]);
    caller.machine().call(other, ["other:7501".to_owned()]);
    let opened = said(&mut caller);
    let [Said::Open(id, server), Said::Open(..)] = &opened[..] else { panic!("expected two to open, got {opened:?}") };
    assert_eq!((*id, &server.addresses[..]), (one, &["one:7501".to_owned()][..]));
    assert_eq!(framing::codec_of(server).family(), "echo");

    caller.tell(NOW, Event::Up(Port::Upstream(one)));
    caller.machine().shout("hello");
    assert_eq!(shouted(&said(&mut caller)), [(Port::Upstream(one), "hello")]);
    caller.tell(NOW, Event::Up(Port::Upstream(other)));
    assert_eq!(shouted(&said(&mut caller)), [(Port::Upstream(other), "hello")]);
    let heard = Parcel::new(ToCaller::from(Heard { count: 1, text: "hello".to_owned() }));
    caller.tell(NOW, Event::Message(Port::Upstream(other), heard));
    assert!(!caller.look().is_heard(), "one of them has yet to hear it");

    caller.machine().leave(one);
    assert!(said(&mut caller).iter().any(|said| matches!(said, Said::Close(id) if *id == one)));
    assert!(caller.look().is_heard());
    // A message that was on its way has no effect.
    let late = Parcel::new(ToCaller::from(Heard { count: 1, text: "hello".to_owned() }));
    caller.tell(NOW, Event::Message(Port::Upstream(one), late));
    caller.tell(NOW, Event::Down(Port::Upstream(one)));
    assert!(said(&mut caller).iter().all(|said| matches!(said, Said::Wake(_))));
}

fn hears(echo: &mut Hosted<Echo>, port: Port, text: &str) {
    let shout = Parcel::new(ToEcho::from(Shout { text: text.to_owned() }));
    echo.tell(NOW, Event::Message(port, shout));
}

#[test]
fn a_machine_lives_on_without_its_disk_and_ends_the_sessions_that_waited_for_it() {
    let [writing, idle] = [1, 2].map(|number| Port::Session(SessionId(number)));
    let mut echo = Hosted::new(Echo::default());
    echo.start(NOW);
    for port in [writing, idle] {
        echo.tell(NOW, Event::Up(port));
    }
    hears(&mut echo, writing, "lost");
    assert!(matches!(said(&mut echo)[..], [Said::Disk(_)]));

    echo.tell(NOW, Event::DiskFailed("no".to_owned()));
    let ended = said(&mut echo);
    assert!(matches!(&ended[..], [Said::End(port, _, why)] if *port == writing && why == "no"), "{ended:?}");
    echo.tell(NOW, Event::Down(writing));
    hears(&mut echo, idle, "kept");
    assert!(said(&mut echo).is_empty(), "it waits for the disk");

    // The first record was written all the same.
    echo.tell(NOW, Event::Disk(DiskDone::new(Appended::Reopened(Position(1)))));
    let works = said(&mut echo);
    let [Said::Disk(work)] = &works[..] else { panic!("expected a record to be appended, got {works:?}") };
    assert_eq!(work.get(), Some(&Append(Position(2), "kept".to_owned())));
    echo.tell(NOW, Event::Disk(DiskDone::new(Appended::Durable(Position(2)))));
    assert!(matches!(&said(&mut echo)[..], [Said::Send(port, _)] if *port == idle));
}

/// A machine whose process does not outlive its disk.
#[derive(Debug)]
struct Mortal;

impl machine::Machine for Mortal {
    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, _: Time, _: Port) {}

    fn handle(&mut self, _: Time, _: Port, _: Parcel) {}

    fn stop(&mut self, _: &str) {}

    fn poll_output(&mut self) -> Option<machine::Output> {
        None
    }
}

#[test]
fn a_machine_that_says_nothing_else_ends_with_its_disk() {
    let mut hosted = Hosted::new(Mortal);
    hosted.tell(NOW, Event::DiskFailed("no".to_owned()));
    assert!(matches!(&said(&mut hosted)[..], [Said::Failed(why)] if why == "no"));
}
