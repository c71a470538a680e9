//! How a store or a redirector stands, asked from outside.

mod common;

use common::group::eventually;
use common::*;
use framing::{Answer, OPERATOR, Preface, Wants, preface_frame};
use machine::{Cell, Status};
use messages::{Ping, ToServer};
use net::{ConnectError, ListenConfig, ask_status};
use redirector::{Config, Redirector};
use std::io::Write;
use std::time::Duration;
use types::ClientId;

/// A fact of a table's first row.
#[track_caller]
fn fact(status: &Status, table: &str, column: &str) -> Cell {
    let table = status.tables.iter().find(|it| it.name == table).expect("there is such a table");
    let at = table.columns.iter().position(|it| it == column).expect("there is such a column");
    table.rows[0][at].clone()
}

#[test]
fn a_store_says_how_it_stands_and_nothing_changes() {
    let server = server();
    let client = connect(server.address);
    put_surely(&client, 1, b"first");
    let ask = || ask_status(&server.address.to_string(), PATIENCE).unwrap();
    let first = ask();
    assert_eq!(fact(&first, "store", "commits"), Cell::Count(1));
    assert_eq!(fact(&first, "store", "sessions"), Cell::Count(1));
    assert!(matches!(fact(&first, "sessions", "client"), Cell::Text(name) if name.starts_with('c')));
    for _ in 0..100 {
        ask();
    }
    // No session was opened, and none is left.
    eventually("told again", || fact(&ask(), "links", "bytes_in") != fact(&first, "links", "bytes_in"));
    assert_eq!(server.host.tally().sessions, 1);
    assert_eq!(server.host.tally().refusals, std::collections::BTreeMap::new());
    assert_eq!(fact(&ask(), "store", "sessions"), Cell::Count(1));
}

#[test]
fn a_question_is_the_only_one_of_its_connection() {
    let server = server();
    let mut raw = Raw::<Answer>::bare(std::net::TcpStream::connect(server.address).unwrap());
    raw.send_bytes(&preface_frame(OPERATOR, &Preface { wants: Wants::Status, ..Preface::of(OPERATOR) }));
    raw.send(&ToServer::Ping(Ping { nonce: 1 }));
    assert!(matches!(raw.next(), Some(Answer::Status(_))));
    assert_eq!(raw.goodbye().0, "done");
    let client = connect(server.address);
    put_surely(&client, 1, b"the store goes on");
}

#[test]
fn a_server_that_is_not_thorps_is_reported() {
    let ask = |address: &str, within| ask_status(address, within).unwrap_err();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert_eq!(ask(&nobody, PATIENCE).to_string(), format!("no server at {nobody}: connection refused"));
    let other = listen(|mut raw| drop(raw.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    assert!(matches!(ask(&other, PATIENCE), ConnectError::NotThorp { .. }));
    let mute = listen(drop);
    assert!(matches!(ask(&mute, PATIENCE), ConnectError::NotThorp { .. } | ConnectError::Lost { .. }));
    let mut kept = Vec::new();
    let silent = listen(move |raw| kept.push(raw));
    let text = ask(&silent, Duration::from_millis(50)).to_string();
    assert!(text.ends_with("nothing was said within 50 ms"), "{text}");
}

#[test]
fn a_redirector_that_seeks_its_store_says_so() {
    let config = Config { group: "site".into(), address: "a:1".into(), ..Config::default() };
    let host = At::alone(Redirector::new(config, ClientId(1)), &runtime());
    let address = host.listen(ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap())).unwrap();
    let status = ask_status(&address.to_string(), PATIENCE).unwrap();
    assert_eq!(fact(&status, "redirector", "state"), Cell::Text("without_store".into()));
    assert_eq!(fact(&status, "redirector", "epoch"), Cell::Nothing);
}
