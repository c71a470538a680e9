//! Peers send each other pages directly, or by way of their redirector where they cannot.

mod common;

use common::group::*;
use common::*;
use framing::Header;
use messages::{Fetch, Hello, Members, PeerHello, Ping, Reachable, Resume, ToClient, ToPeer, ToServer};
use net::{UpstreamConfig, UpstreamState};
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use types::limits::PEERS_MAX;
use types::{ClientId, PageId, PeerKey, Version};

fn page(number: u32) -> PageId {
    PageId::new(1, number)
}

/// An address where nobody listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Reads page 0 at the second member from the cache of the first, and waits until they are connected.
fn introduce(group: &Group, helper: &Member, requester: &Member) {
    let connections = requester.host.tally().peers;
    assert_eq!(helper.read(page(0)), value(page(0)));
    assert_eq!(requester.read(page(0)), value(page(0)));
    eventually("connected", || requester.host.tally().peers > connections);
    assert_eq!(group.state().relayed, 1, "the first page does not wait for a connection");
}

#[test]
fn a_page_travels_directly() {
    let group = Group::start();
    let (helper, requester) = (group.join(), group.join());
    introduce(&group, &helper, &requester);
    for number in [1, LARGE] {
        assert_eq!(helper.read(page(number)), value(page(number)));
        assert_eq!(requester.read(page(number)), value(page(number)));
    }
    group.wait("arrived", |state| state.arrived == 3);
    assert_eq!(group.state().relayed, 1);
    assert_eq!((helper.pages(), requester.pages()), ((3, 0, 3), (3, 3, 0)));
    assert_eq!((helper.host.tally().peers, requester.host.tally().peers), (1, 1), "one connection for all of it");
}

#[test]
fn a_peer_that_cannot_be_reached_is_helped_by_way_of_the_redirector() {
    let group = Group::start();
    let (helper, requester) = (group.join(), group.join());
    group.state().way = Way::By(nowhere().to_string());
    for number in 0..3 {
        assert_eq!(helper.read(page(number)), value(page(number)));
        assert_eq!(requester.read(page(number)), value(page(number)));
    }
    assert_eq!((group.state().relayed, helper.host.tally().peers), (3, 0));
    // An address that is none does no more harm.
    group.state().way = Way::By("no address".into());
    let another = group.join();
    assert_eq!(another.read(page(0)), value(page(0)));
    assert_eq!(another.pages(), (1, 1, 0));
}

/// The fetch that a member waits with.
fn held(group: &Group) -> (ClientId, Fetch) {
    group.wait("a fetch", |state| !state.held.is_empty());
    group.state().held.pop().unwrap()
}

#[test]
fn half_a_page_is_none() {
    let group = Group::start();
    let requester = group.join();
    group.state().way = Way::Held;
    let reading = requester.begin_read(page(LARGE));
    let (client, fetch) = held(&group);
    let bytes = frame(&peer_page(client, page(LARGE), fetch.number));
    let mut dying = Raw::peer(group.door_of(&requester));
    dying.send_bytes(&bytes[..bytes.len() / 2]);
    drop(dying);
    // Another helps; the one before has left nothing behind.
    let mut helper = Raw::peer(group.door_of(&requester));
    helper.send(&peer_page(client, page(LARGE), fetch.number));
    assert_eq!(reading(), value(page(LARGE)));
    assert_eq!(requester.host.tally().peers, 2);
}

/// The key with which a member that is no host lets peers in.
const KEY: PeerKey = PeerKey::new([0xE1; PeerKey::BYTES]);

/// A member that is no host: it says what the test says.
fn raw_member(group: &Group, id: ClientId, address: SocketAddr) -> Raw {
    let mut raw = Raw::connect(group.address);
    raw.send(&ToServer::Hello(Hello { features: 0, cluster: None, client: id, epoch: 1 }));
    raw.send(&ToServer::Resume(Resume {
        horizon: Version(0).into(),
        pages: vec![],
        grants: vec![],
        last: true,
        missed: 0,
    }));
    raw.send(&ToServer::Reachable(Reachable { address: address.to_string(), key: KEY, eligible: String::new() }));
    group.wait("reachable", |state| state.members.get(&id).is_some_and(|seat| seat.said > 0));
    raw
}

#[test]
fn a_requester_that_dies_in_the_middle_of_a_page_is_helped_otherwise_when_it_comes_back() {
    let group = Group::start();
    let helper = group.join();
    assert_eq!(helper.read(page(LARGE)), value(page(LARGE)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let id = ClientId(7);
    let mut requester = raw_member(&group, id, listener.local_addr().unwrap());
    group.state().ask(helper.id, id, page(LARGE), 1);
    let mut connection = Raw::<ToPeer>::over(listener.accept().unwrap().0);
    assert!(
        matches!(connection.next(), Some(ToPeer::PeerHello(hello)) if (hello.client, hello.key) == (helper.id, KEY))
    );
    // The first page went by the redirector, while there was no connection yet. Of the next one it takes a piece.
    group.wait("relayed", |state| state.relayed == 1);
    group.state().ask(helper.id, id, page(LARGE), 2);
    connection.stream.read_exact(&mut [0; 1000]).unwrap();
    drop((connection, listener));
    for number in 3.. {
        group.state().ask(helper.id, id, page(LARGE), number);
        thread::sleep(Duration::from_millis(1));
        if group.state().relayed > 1 {
            break;
        }
        assert!(number < 10_000, "the helper goes on sending to nobody");
    }
    let relayed = std::iter::from_fn(|| requester.next()).find_map(|message| match message {
        ToClient::PeerPage(page) if page.page.number > 1 => Some(page.page.image),
        _ => None,
    });
    assert_eq!(relayed, Some(image(page(LARGE))));
}

/// Runs `attack` against a member's door for peers, then sees that it is refused by name, and that the member is
/// helped as before.
fn withstands(reason: &str, attack: impl FnOnce((SocketAddr, PeerKey))) {
    let group = Group::start();
    let (helper, requester) = (group.join(), group.join());
    introduce(&group, &helper, &requester);
    attack(group.door_of(&requester));
    let refusals = requester.host.tally().refusals;
    assert_eq!(refusals.into_iter().collect::<Vec<_>>(), [(reason, 1)]);
    assert_eq!(helper.read(page(1)), value(page(1)));
    assert_eq!(requester.read(page(1)), value(page(1)));
    assert_eq!((group.state().relayed, requester.pages()), (1, (2, 2, 0)));
}

/// Says some bytes instead of a peer's hello; gives the answer.
fn say(address: SocketAddr, bytes: &[u8]) -> (&'static str, String) {
    let mut raw = Raw::<ToPeer>::over(TcpStream::connect(address).unwrap());
    raw.send_bytes(bytes);
    raw.goodbye()
}

#[test]
fn noise_is_no_peer() {
    withstands("magic", |(address, _)| assert_eq!(say(address, b"GET / HTTP/1.1\r\n\r\n").0, "malformed"));
}

#[test]
fn a_client_is_no_peer() {
    withstands("direction", |(address, _)| {
        let told = say(address, &frame(&hello(ClientId(7), 1)));
        assert_eq!(told, ("malformed", "expected a message for a peer, got Hello".into()));
    });
}

#[test]
fn a_page_before_a_word_is_refused() {
    withstands("stranger", |(address, _)| {
        assert_eq!(say(address, &frame(&peer_page(ClientId(7), page(1), 1))).0, "stranger");
    });
}

/// The stranger knows all but the key: the member that is asked for a page, and the fetch.
#[test]
fn a_stranger_is_refused_before_anything_else_is_believed() {
    let group = Group::start();
    let requester = group.join();
    group.state().way = Way::Held;
    let reading = requester.begin_read(page(1));
    let (client, fetch) = held(&group);
    let (address, key) = group.door_of(&requester);
    let mut almost = key.bytes();
    almost[PeerKey::BYTES - 1] ^= 1;
    for (count, guess) in [(1, PeerKey::default()), (2, PeerKey::new(almost))] {
        let mut stranger = Raw::peer((address, guess));
        stranger.send(&peer_page(client, page(1), fetch.number));
        let text = "expected a peer with the key that my redirector gives, got another".into();
        assert_eq!(stranger.goodbye(), ("stranger", text));
        assert_eq!(requester.host.tally().refusals["stranger"], count);
    }
    assert_eq!((requester.host.tally().peers, requester.pages()), (0, (0, 0, 0)), "the node has not heard of it");
    Raw::peer((address, key)).send(&peer_page(client, page(1), fetch.number));
    assert_eq!(reading(), value(page(1)));
    assert_eq!(requester.host.tally().refusals.len(), 1);
}

/// Each member has a key of its own.
#[test]
fn a_peer_of_one_is_a_stranger_to_another() {
    let group = Group::start();
    let (one, other) = (group.join(), group.join());
    let ((_, key), (address, _)) = (group.door_of(&one), group.door_of(&other));
    assert_eq!(Raw::peer((address, key)).goodbye().0, "stranger");
}

#[test]
fn a_peer_that_says_nothing_is_dropped() {
    withstands("silent", |(address, _)| {
        assert_eq!(say(address, b"Th"), ("silent", "nothing was said within 2000 ms".into()));
    });
}

#[test]
fn a_peer_sends_nothing_but_pages() {
    withstands("direction", |door| {
        let mut raw = Raw::peer(door);
        raw.send(&ToServer::Ping(Ping { nonce: 1 }));
        assert_eq!(raw.goodbye(), ("malformed", "expected a message for a peer, got Ping".into()));
    });
}

#[test]
fn no_page_is_longer_than_a_page() {
    withstands("lengths", |door| {
        let mut raw = Raw::peer(door);
        raw.send_bytes(&Header { kind: 22, meta_bytes: 40, body_bytes: u32::MAX }.to_bytes());
        assert_eq!(raw.goodbye().0, "malformed");
    });
}

#[test]
fn a_page_that_nobody_asked_for_changes_nothing() {
    let group = Group::start();
    let requester = group.join();
    let mut raw = Raw::peer(group.door_of(&requester));
    for (client, number) in [(ClientId(7), 1), (requester.id, 0), (requester.id, 1)] {
        raw.send(&peer_page(client, page(1), number));
    }
    raw.send(&ToPeer::Goodbye(machine::Goodbye { reason: types::GoodbyeReason::Done, text: String::new() }));
    assert_eq!(raw.next(), None);
    assert_eq!((requester.pages(), requester.host.tally().messages_in), ((0, 0, 0), 2 + 5));
}

#[test]
fn a_receiver_of_pages_has_nothing_to_say() {
    let group = Group::start();
    let helper = group.join();
    assert_eq!(helper.read(page(1)), value(page(1)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _requester = raw_member(&group, ClientId(7), listener.local_addr().unwrap());
    group.state().ask(helper.id, ClientId(7), page(1), 1);
    let mut connection = Raw::<ToPeer>::over(listener.accept().unwrap().0);
    assert!(matches!(connection.next(), Some(ToPeer::PeerHello(_))));
    connection.send(&ToPeer::PeerHello(PeerHello { client: ClientId(7), key: KEY }));
    assert_eq!(connection.goodbye(), ("malformed", "expected nothing but a Goodbye of who is sent pages".into()));
    assert_eq!(helper.host.tally().refusals["direction"], 1);
}

#[test]
fn there_is_room_for_so_many_peers_and_no_more() {
    let group = Group::start();
    let requester = group.take(Member::reading_ahead(&runtime(), 32));
    let door = group.door_of(&requester);
    let mut peers: Vec<_> = (0..PEERS_MAX).map(|_| Raw::peer(door)).collect();
    let mut one_more = Raw::peer(door);
    assert_eq!(one_more.goodbye(), ("full", "no more peers are taken here".into()));
    // All of them are served at once.
    group.state().way = Way::Held;
    let all: Vec<PageId> = (0..PEERS_MAX as u32).map(page).collect();
    for chunk in all.chunks(32) {
        let host = &requester.host;
        assert!(host.lock().machine().fetch_ahead(host.now(), chunk));
        host.settle();
        let (client, fetch) = held(&group);
        for (&page, raw) in chunk.iter().zip(peers.drain(..32).collect::<Vec<_>>().iter_mut()) {
            raw.send(&peer_page(client, page, fetch.number));
        }
        eventually("all pages", || requester.pages().1 == u64::from(chunk.last().unwrap().number) + 1);
    }
    // A peer that leaves makes room.
    eventually("room", || {
        let mut next = Raw::peer(door);
        next.stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        next.stream.read(&mut [0]).is_err()
    });
}

#[test]
fn many_members_help_each_other() {
    let group = Group::start();
    let members: Vec<_> = (0..12).map(|_| group.join()).collect();
    for (number, member) in members.iter().enumerate() {
        assert_eq!(member.read(page(number as u32)), value(page(number as u32)));
    }
    let reading: Vec<_> =
        members.iter().flat_map(|member| (0..12).map(|number| (number, member.begin_read(page(number))))).collect();
    for (number, read) in reading {
        assert_eq!(read(), value(page(number)));
    }
    for member in &members {
        assert_eq!(member.pages(), (12, 11, 11));
        eventually("all connected", || member.host.tally().peers == 22);
    }
}

#[test]
fn help_does_not_wait_for_the_application() {
    let group = Group::start();
    let (helper, requester) = (group.join(), group.join());
    introduce(&group, &helper, &requester);
    let (stop, (tell, computing)) = (AtomicBool::new(false), channel());
    thread::scope(|scope| {
        scope.spawn(|| {
            (1..20).for_each(|number| drop(helper.read_here(page(number))));
            tell.send(()).unwrap();
            let begun = Instant::now();
            while !stop.load(SeqCst) && begun.elapsed() < 2 * PATIENCE {
                std::hint::spin_loop();
            }
        });
        computing.recv_timeout(PATIENCE).unwrap();
        let took = (1..20).map(|number| {
            let begun = Instant::now();
            assert_eq!(requester.read(page(number)), value(page(number)));
            begun.elapsed()
        });
        let mut took: Vec<_> = took.collect();
        stop.store(true, SeqCst);
        took.sort_unstable();
        // Other work on the machine can only make it longer, so most of them show what the hosts do.
        assert!(took[10] < Duration::from_millis(5), "{took:?}");
    });
    assert_eq!((helper.pages().2, group.state().relayed), (20, 1));
}

#[test]
fn the_connections_of_peers_end_with_their_host() {
    let group = Group::start();
    let (helper, requester) = (group.join(), group.join());
    introduce(&group, &helper, &requester);
    let address = group.address_of(&requester);
    let mut raw = Raw::peer(group.door_of(&requester));
    eventually("taken", || requester.host.tally().peers == 2);
    drop(requester);
    assert_eq!(raw.next(), None);
    eventually("closed", || TcpStream::connect(address).is_err());
    // The helper has noticed, and sends by way of the redirector.
    let another = group.join();
    group.state().way = Way::By(address.to_string());
    assert_eq!(another.read(page(0)), value(page(0)));
    assert_eq!(group.state().relayed, 2);
}

#[test]
fn another_way_to_the_redirector_is_another_address() {
    let (here, there) = (Group::start(), Group::at("[::1]:0"));
    let member = Member::new(&runtime());
    let addresses = vec![here.address.to_string(), there.address.to_string()];
    member.host.connect(UpstreamConfig { addresses, ..UpstreamConfig::new(messages::CLIENT, "") });
    here.wait("reachable", |state| state.members.get(&member.id).is_some_and(|seat| seat.said == 1));
    let first = here.address_of(&member);
    // The same way again: peers find it where they did.
    here.cut(&member);
    here.wait("back", |state| state.members.get(&member.id).is_some_and(|seat| seat.said == 2));
    assert_eq!(here.address_of(&member), first);
    drop(TcpStream::connect(first).unwrap());
    here.close();
    there.wait("reachable", |state| state.members.get(&member.id).is_some_and(|seat| seat.said > 0));
    let second = there.address_of(&member);
    assert_eq!(second.ip(), there.address.ip());
    eventually("the old door is closed", || TcpStream::connect(first).is_err());
    drop(TcpStream::connect(second).unwrap());
}

#[test]
fn a_member_goes_where_its_group_goes() {
    let (here, there) = (Group::start(), Group::start());
    let member = here.join();
    let next = messages::Member { client: ClientId(7), address: there.address.to_string() };
    let (group, address) = ("site".into(), here.address.to_string());
    let members = Members { group, epoch: 1, address, store: vec![], members: vec![next] };
    here.state().tell(member.id, &ToClient::Members(members));
    assert_eq!(member.read(page(1)), value(page(1)));
    here.close();
    there.wait("reachable", |state| state.members.get(&member.id).is_some_and(|seat| seat.said == 1));
    assert_eq!(member.host.state(), UpstreamState::Up(there.address.to_string()));
}
