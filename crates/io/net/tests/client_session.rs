//! How a client finds a store, and tells why it has none.

mod common;

use client::Client;
use common::*;
use machine::Goodbye;
use messages::{ToClient, ToServer};
use net::{ConnectError, Runtime, UpstreamConfig, UpstreamState};
use std::io::Write;
use std::net::TcpListener;
use std::slice;
use std::time::Duration;
use types::GoodbyeReason;

fn dial(addresses: &[String]) -> At<Client> {
    let host = At::alone(new_client(), &runtime());
    host.connect(UpstreamConfig { addresses: addresses.to_vec(), ..UpstreamConfig::new(messages::CLIENT, "") });
    host
}

#[test]
fn another_protocol_is_told_at_once() {
    let address = listen(|mut raw| drop(raw.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    let refused = dial(slice::from_ref(&address)).wait_connected(PATIENCE).unwrap_err();
    assert!(matches!(&refused, ConnectError::NotThorp { .. }), "{refused}");
    assert!(
        refused.to_string().starts_with(&format!("what answers at {address} is not a Thorp store or redirector: "))
    );
}

#[test]
fn a_server_that_hangs_up_without_a_word_is_no_store() {
    let address = listen(|mut raw| {
        hello_of(&mut raw);
    });
    let refused = dial(&[address]).wait_connected(PATIENCE).unwrap_err();
    assert!(matches!(&refused, ConnectError::NotThorp { .. }), "{refused}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let mut kept = Vec::new();
    let address = listen(move |raw| kept.push(raw));
    let host = At::alone(new_client(), &runtime());
    host.connect(UpstreamConfig {
        attempt_within: Duration::from_millis(50),
        ..UpstreamConfig::new(messages::CLIENT, address)
    });
    // A store that was stopped, or that is only starting, may answer later: a patient caller continues trying.
    let refused = host.wait_connected(Duration::ZERO).unwrap_err();
    assert!(matches!(&refused, ConnectError::Silent { .. }), "{refused}");
}

#[test]
fn a_store_that_refuses_for_good_is_not_tried_again() {
    let goodbye = |reason, text: &str| ToClient::Goodbye(Goodbye { reason, text: text.into() });
    let mut connections = 0;
    let address = listen(move |mut raw| {
        connections += 1;
        assert_eq!(connections, 1);
        hello_of(&mut raw);
        raw.send(&goodbye(GoodbyeReason::Protocol, "expected protocol 7 to 9, got 2 to 2"));
    });
    let host = dial(slice::from_ref(&address));
    let refused = host.wait_connected(PATIENCE).unwrap_err();
    let text = format!(
        "the store or redirector at {address} refuses the session (protocol): expected protocol 7 to 9, got 2 to 2"
    );
    assert_eq!(refused.to_string(), text);
    assert_eq!(host.state(), UpstreamState::Over(refused));
    assert!(matches!(put(&host, 1, b"x"), Err(client::TxnError::Refused(GoodbyeReason::Protocol, _))));
}

#[test]
fn a_lost_session_is_opened_again_with_the_next_epoch() {
    let (epochs, seen) = std::sync::mpsc::channel();
    let address = listen(move |mut raw| {
        epochs.send(hello_of(&mut raw).epoch).unwrap();
        raw.send(&group::welcome(0));
        // The resume comes, and the connection breaks.
        assert!(matches!(raw.next(), Some(ToServer::Resume(_))));
    });
    let host = dial(&[address]);
    let epochs: Vec<u64> = seen.iter().take(3).collect();
    assert_eq!(epochs, [1, 2, 3]);
    assert!(host.tally().sessions >= 3);
}

#[test]
fn addresses_are_tried_in_turn() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = server();
    let host = dial(&[nobody.clone(), server.address.to_string()]);
    host.wait_connected(PATIENCE).unwrap();
    assert_eq!(host.state(), UpstreamState::Up(server.address.to_string()));
    let refused = dial(&[nobody.clone(), nobody.clone()]).wait_connected(Duration::ZERO).unwrap_err();
    assert_eq!(refused.to_string(), format!("no server at {nobody}, {nobody}: connection refused"));
}

#[test]
fn a_host_that_ends_leaves_no_connection_behind() {
    let (server, threads) = (server(), Runtime::start().unwrap());
    for _ in 0..100 {
        let host = At::alone(new_client(), &threads);
        host.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
        host.wait_connected(PATIENCE).unwrap();
    }
    group::eventually("all are forgotten", || format!("{threads:?}").contains("Reactor { links: 0"));
}

#[test]
fn an_address_that_does_not_answer_does_not_keep_from_the_next() {
    let mut kept = Vec::new();
    let silent = listen(move |raw| kept.push(raw));
    let server = server();
    let host = dial(&[silent, server.address.to_string()]);
    host.wait_connected(Duration::ZERO).unwrap();
    assert_eq!(host.state(), UpstreamState::Up(server.address.to_string()));
}

#[test]
fn a_refusal_is_told_rather_than_the_silence_of_others() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let other = listen(|mut raw| drop(raw.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    let refused = dial(&[other.clone(), nobody]).wait_connected(Duration::ZERO).unwrap_err();
    assert!(matches!(&refused, ConnectError::NotThorp { address, .. } if *address == other), "{refused}");
}
