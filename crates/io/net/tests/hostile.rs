//! Peers that misbehave: each is ended by a named reason, and everyone else continues.

mod common;

use common::*;
use framing::{HEADER_BYTES, Header, Name, PIECE, PROTOCOL, Preface, preface_frame};
use messages::{Fetch, Ping, Resume, ToClient, ToServer};
use net::{ListenConfig, ListenError, refuse_open_network};
use std::net::TcpStream;
use std::time::Duration;
use types::limits::{FRAME_BYTES_MAX, PIECE_BYTES_MAX, PIECED_MESSAGES_MAX, TXN_BYTES_MAX};
use types::{ClientId, ObjectId, Version};

/// Runs `attack` against a store, then sees that an honest client is served as before.
fn withstands(reason: &str, attack: impl FnOnce(&Server)) {
    let server = server_with(|config| config.hello_within = Duration::from_millis(500));
    let honest = connect(server.address);
    put_surely(&honest, 1, b"before");
    attack(&server);
    assert_eq!(get(&honest, 1).as_deref(), Some(&b"before"[..]));
    put_surely(&honest, 1, b"after");
    assert_eq!(server.host.tally().refusals.get(reason), Some(&1), "{:?}", server.host.tally().refusals);
}

fn ping() -> ToServer {
    ToServer::Ping(Ping { nonce: 1 })
}

#[test]
fn noise_is_no_hello() {
    withstands("magic", |server| {
        let mut raw = Raw::<ToClient>::bare(TcpStream::connect(server.address).unwrap());
        raw.send_bytes(b"GET / HTTP/1.1\r\nHost: thorp\r\n\r\n");
        let (reason, text) = raw.goodbye();
        assert_eq!(reason, "malformed");
        assert!(text.starts_with("expected a Thorp stream"), "{text}");
    });
}

#[test]
fn a_session_begins_with_a_hello() {
    withstands("malformed", |server| {
        let mut raw = Raw::connect(server.address);
        raw.send(&ping());
        assert_eq!(raw.goodbye(), ("malformed", "expected a hello before anything else".into()));
    });
}

#[test]
fn a_connection_begins_with_a_preface() {
    withstands("first", |server| {
        let mut raw = Raw::<ToClient>::bare(TcpStream::connect(server.address).unwrap());
        raw.send(&hello(ClientId(7), 1));
        assert_eq!(raw.goodbye(), ("malformed", "expected a preface first, got a message of number 1".into()));
    });
}

/// The refusal of a connection that begins with this preface.
fn prefaced(server: &Server, preface: &Preface) -> (&'static str, String) {
    let mut raw = Raw::<ToClient>::bare(TcpStream::connect(server.address).unwrap());
    raw.send_bytes(&preface_frame(messages::CLIENT, preface));
    raw.goodbye()
}

#[test]
fn another_version_is_refused_by_name() {
    let ours = || Preface::of(messages::CLIENT);
    for protocol in [(PROTOCOL.1 + 1, PROTOCOL.1 + 9), (1, PROTOCOL.0 - 1), (PROTOCOL.1, PROTOCOL.0 - 1)] {
        withstands("protocol", |server| {
            let (oldest, newest) = protocol;
            let text = format!("expected a protocol from {} to {}, got {oldest} to {newest}", PROTOCOL.0, PROTOCOL.1);
            assert_eq!(prefaced(server, &Preface { protocol, ..ours() }), ("protocol", text));
        });
    }
    // A range that includes our version is welcome.
    let server = server();
    let mut raw = Raw::<ToClient>::bare(TcpStream::connect(server.address).unwrap());
    let preface = Preface { protocol: (PROTOCOL.0 - 1, PROTOCOL.1 + 1), ..ours() };
    raw.send_bytes(&preface_frame(messages::CLIENT, &preface));
    raw.send(&hello(ClientId(7), 1));
    assert!(matches!(raw.next(), Some(ToClient::Welcome(_))));
}

#[test]
fn another_family_and_the_same_end_are_refused_by_name() {
    for (family, end) in [("hub", "home or updater"), ("store", "store or a redirector")] {
        withstands("other_end", |server| {
            let preface = Preface { family: Name::new(family), end: Name::new(end), ..Preface::of(messages::CLIENT) };
            let text = format!("expected a client (family store), got a {end} (family {family})");
            assert_eq!(prefaced(server, &preface), ("malformed", text));
        });
    }
}

#[test]
fn an_identity_that_nobody_can_check_is_refused() {
    withstands("count", |server| {
        let preface = Preface { identity: vec![1], ..Preface::of(messages::CLIENT) };
        let text = "expected at most 0 bytes of an identity, got 1".into();
        assert_eq!(prefaced(server, &preface), ("malformed", text));
    });
}

#[test]
fn a_silent_peer_is_dropped() {
    withstands("silent", |server| {
        let mut raw = Raw::connect(server.address);
        raw.send_bytes(&frame(&hello(ClientId(7), 1))[..20]);
        assert_eq!(raw.goodbye(), ("silent", "nothing was said within 500 ms".into()));
    });
}

#[test]
fn a_length_that_no_message_has_ends_the_session() {
    withstands("lengths", |server| {
        let mut raw = Raw::greet(server.address, ClientId(7), 1);
        raw.send_bytes(&Header { kind: 12, meta_bytes: 40, body_bytes: u32::MAX }.to_bytes());
        assert_eq!(raw.goodbye().0, "malformed");
    });
}

#[test]
fn a_damaged_header_ends_the_session() {
    withstands("check", |server| {
        let mut raw = Raw::greet(server.address, ClientId(7), 1);
        let mut bytes = frame(&ping());
        bytes[5] ^= 1;
        raw.send_bytes(&bytes);
        assert_eq!(raw.goodbye().0, "malformed");
    });
}

#[test]
fn a_message_that_only_a_store_sends_ends_the_session() {
    withstands("direction", |server| {
        let mut raw = Raw::greet(server.address, ClientId(7), 1);
        raw.send_bytes(&Header { kind: 9, meta_bytes: 28, body_bytes: 8 }.to_bytes());
        assert_eq!(raw.goodbye().0, "malformed");
    });
}

#[test]
fn a_message_that_is_cut_off_is_nothing() {
    let server = server();
    let honest = connect(server.address);
    let bytes = frame(&hello(ClientId(7), 1));
    for cut in [1, HEADER_BYTES, HEADER_BYTES + 1, bytes.len() - 1] {
        Raw::connect(server.address).send_bytes(&bytes[..cut]);
    }
    let mut greeted = Raw::greet(server.address, ClientId(7), 1);
    greeted.send_bytes(&frame(&ping())[..18]);
    drop(greeted);
    put_surely(&honest, 1, b"x");
    assert_eq!(server.host.tally().sessions, 2);
}

/// One piece of the message with this number.
fn piece(number: u64, part: &[u8]) -> Vec<u8> {
    let header = Header { kind: PIECE, meta_bytes: 8, body_bytes: part.len() as u32 };
    [&header.to_bytes()[..], &number.to_le_bytes(), part].concat()
}

/// The beginning of a commit whose values come to so much.
fn begun(body_bytes: u32) -> [u8; HEADER_BYTES] {
    Header { kind: 12, meta_bytes: 40, body_bytes }.to_bytes()
}

#[test]
fn pieces_that_make_no_message_end_the_session() {
    let ping = frame(&ping());
    let too_many = (0..=PIECED_MESSAGES_MAX as u64).flat_map(|number| piece(number, &begun(100_000))).collect();
    let too_much = (0..4).flat_map(|number| piece(number, &begun(TXN_BYTES_MAX as u32))).collect();
    let too_large = Header { kind: PIECE, meta_bytes: 8, body_bytes: PIECE_BYTES_MAX as u32 + 1 }.to_bytes();
    let attacks: [(&str, Vec<u8>); 8] = [
        ("pieced", too_many),
        ("pieced_bytes", too_much),
        ("lengths", too_large.into()),
        ("whole", begun(FRAME_BYTES_MAX as u32).into()),
        ("empty", piece(1, b"")),
        ("nested", piece(1, &piece(1, b"x"))),
        ("long", [piece(1, &ping[..20]), piece(2, &ping), piece(1, &[&ping[20..], b"x"].concat())].concat()),
        // The first message is complete; what continues with its number begins another.
        ("magic", [piece(1, &ping), piece(1, &[0; HEADER_BYTES])].concat()),
    ];
    for (reason, attack) in attacks {
        withstands(reason, |server| {
            let mut raw = Raw::greet(server.address, ClientId(7), 1);
            raw.send_bytes(&attack);
            assert_eq!(raw.goodbye().0, "malformed", "{reason}");
        });
    }
}

#[test]
fn messages_in_pieces_that_take_turns_are_told_apart() {
    let server = server();
    let mut raw = Raw::greet(server.address, ClientId(7), 1);
    let pings = [1, 2].map(|nonce| frame(&ToServer::Ping(Ping { nonce })));
    let middle = pings[0].len() / 2;
    for part in [0..middle, middle..pings[0].len()] {
        for (number, ping) in (1..).zip(&pings) {
            raw.send_bytes(&piece(number, &ping[part.clone()]));
        }
    }
    let pong = |raw: &mut Raw| raw.next().map(|message| matches!(message, ToClient::Pong(_)));
    assert_eq!((pong(&mut raw), pong(&mut raw)), (Some(true), Some(true)));
}

#[test]
fn a_message_in_pieces_that_never_ends_holds_nobody_up() {
    let server = server();
    let honest = connect(server.address);
    let many: Vec<_> = (0..20)
        .map(|client| {
            let mut raw = Raw::greet(server.address, ClientId(1000 + client), 1);
            raw.send_bytes(&piece(1, &begun(TXN_BYTES_MAX as u32)));
            raw.send_bytes(&piece(1, &[0; 1000]));
            raw
        })
        .collect();
    put_surely(&honest, 1, b"x");
    assert!(server.host.tally().refusals.is_empty(), "{:?}", server.host.tally().refusals);
    drop(many);
}

#[test]
fn an_old_session_cannot_be_replayed() {
    let server = server();
    let mut new = Raw::greet(server.address, ClientId(7), 5);
    let mut old = Raw::connect(server.address);
    old.send(&hello(ClientId(7), 4));
    assert_eq!(old.goodbye().0, "superseded");
    new.send(&ToServer::Resume(Resume {
        horizon: Version(0).into(),
        pages: vec![],
        grants: vec![],
        last: true,
        missed: 0,
    }));
    assert!(matches!(new.next(), Some(ToClient::Resumed(_))), "the newer session lives");
    let mut newer = Raw::greet(server.address, ClientId(7), 6);
    assert_eq!(new.goodbye().0, "superseded");
    newer.send(&ping());
    assert!(matches!(newer.next(), Some(ToClient::Pong(_))));
}

#[test]
fn a_second_hello_ends_the_session() {
    let server = server();
    let mut raw = Raw::greet(server.address, ClientId(7), 5);
    raw.send(&hello(ClientId(7), 5));
    assert_eq!(raw.goodbye().0, "malformed");
}

#[test]
fn a_peer_that_asks_and_never_listens_is_given_up() {
    withstands("too_much", |server| {
        put_surely(&connect(server.address), 2, &vec![7; 30_000]);
        let mut raw = Raw::greet(server.address, ClientId(7), 1);
        raw.send(&ToServer::Resume(Resume {
            horizon: Version(0).into(),
            pages: vec![],
            grants: vec![],
            last: true,
            missed: 0,
        }));
        let fetch = frame(&ToServer::Fetch(Fetch {
            pages: vec![ObjectId::root(0).page],
            at_least: Version(0).into(),
            number: 0,
            follow: None,
        }));
        let batch = fetch.repeat(100);
        // Well past what may wait, and what the sockets hold; the store stops reading when it has had enough.
        for _ in 0..100 {
            raw.send_bytes(&batch);
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        while server.host.tally().refusals.is_empty() {
            assert!(std::time::Instant::now() < deadline, "never given up");
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_full_store_says_so() {
    let server = server_with(|config| config.sessions_max = 2);
    let honest = connect(server.address);
    let second = Raw::greet(server.address, ClientId(7), 1);
    let mut third = Raw::connect(server.address);
    assert_eq!(third.goodbye(), ("full", "no more sessions are taken here".into()));
    // Another address has room of its own.
    let other = ListenConfig { sessions_max: 1, ..ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap()) };
    Raw::greet(server.host.listen(other).unwrap(), ClientId(9), 1);
    put_surely(&honest, 1, b"x");
    // A session that leaves makes room.
    drop(second);
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let mut next = Raw::connect(server.address);
        next.send(&hello(ClientId(8), 1));
        if matches!(next.next(), Some(ToClient::Welcome(_))) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "no room was made");
    }
}

#[test]
fn the_open_network_is_refused_and_told_why() {
    let open = "0.0.0.0:7411".parse().unwrap();
    let refused = refuse_open_network(open, false).unwrap_err();
    assert!(matches!(refused, ListenError::Open(address) if address == open));
    let text = refused.to_string();
    assert!(text.contains("neither encrypted nor authenticated") && text.contains("--insecure"), "{text}");
    assert!(refuse_open_network(open, true).is_ok());
    assert!(refuse_open_network("127.0.0.1:7411".parse().unwrap(), false).is_ok());
    assert!(refuse_open_network("[::1]:7411".parse().unwrap(), false).is_ok());
}
