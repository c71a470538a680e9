//! Clients and a store over real sockets.

mod common;

use client::Client;
use common::*;
use fixtures::Emulator;
use machine::RoleId;
use messages::Outcome;
use net::{HostEnd, UpstreamConfig};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_commit_of_one_client_is_read_by_another() {
    let server = server();
    let (one, two) = (connect(server.address), connect(server.address));
    let outcome = put(&one, 1, b"first");
    assert!(matches!(outcome, Ok(Outcome::Committed { .. })), "{outcome:?}");
    assert_eq!(get(&two, 1).as_deref(), Some(&b"first"[..]));
    // The second client has the page in its cache now, and must learn of the change.
    assert!(matches!(put(&one, 1, b"second"), Ok(Outcome::Committed { .. })));
    let deadline = Instant::now() + PATIENCE;
    while get(&two, 1).as_deref() != Some(b"second") {
        assert!(Instant::now() < deadline, "never heard of it");
    }
    put_surely(&two, 1, b"third");
    put_surely(&one, 2, b"other");
    assert_eq!(get(&two, 2).as_deref(), Some(&b"other"[..]));
    let tally = server.host.tally();
    assert_eq!(tally.sessions, 2);
    assert!(tally.bytes_in > 0 && tally.bytes_out > 0 && tally.messages_in > 0 && tally.messages_out > 0);
}

#[test]
fn large_values_travel_whole() {
    let server = server();
    let (one, two) = (connect(server.address), connect(server.address));
    let value: Vec<u8> = (0..30_000u32).map(|i| (i % 251) as u8).collect();
    put_surely(&one, 1, &value);
    assert_eq!(get(&two, 1), Some(value));
}

#[test]
fn many_clients_increment_one_counter() {
    let server = server();
    let (clients, increments) = (4, 25);
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let host = connect(server.address);
            thread::spawn(move || (0..increments).for_each(|_| increment(&host)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let total = get(&connect(server.address), 1).map(|value| u32::from_le_bytes(value.try_into().unwrap()));
    assert_eq!(total, Some(clients * increments));
}

fn increment(host: &At<Client>) {
    loop {
        let txn = begin(host);
        let done = read(host, txn, 1).and_then(|value| {
            let next = value.map_or(0, |value| u32::from_le_bytes(value.try_into().unwrap())) + 1;
            let value = bytes::Bytes::copy_from_slice(&next.to_le_bytes());
            wait(host, txn, |client| {
                let written = client.write(host.now(), txn, object(1), value.clone())?;
                Ok((written != client::Write::Wait).then_some(()))
            })
        });
        match done.and_then(|()| commit(host, txn)) {
            Ok(Outcome::Committed { .. }) => return,
            _ => host.lock().machine().abort(host.now(), txn),
        }
        host.settle();
    }
}

#[test]
fn an_embedded_client_needs_no_network() {
    let disk = MemoryDisk::new();
    let host = embedded(disk, &runtime());
    put_surely(&host, 1, b"here");
    assert_eq!(get(&host, 1).as_deref(), Some(&b"here"[..]));
    assert_eq!(host.tally().bytes_out, 0);
    host.host.close(RoleId(0));
    assert_eq!(host.wait_end(), HostEnd::Closed);
}

#[test]
fn commits_that_come_during_a_flush_go_with_the_next() {
    let server = server();
    let clients: Vec<_> = (0..8).map(|_| connect(server.address)).collect();
    // Every client has its page before the gate closes.
    for host in &clients {
        assert_eq!(get(host, 0), None);
    }
    let (before, commits) = (server.disk.flushes(), server.disk.commits());
    server.disk.open_gate(false);
    let mut puts = clients.iter().enumerate().map(|(slot, host)| {
        let host = host.clone();
        thread::spawn(move || put(&host, slot as u16, b"x").unwrap())
    });
    let mut threads = vec![puts.next().unwrap()];
    server.disk.wait_flushes(before + 1);
    threads.extend(puts);
    let deadline = Instant::now() + PATIENCE;
    while server.disk.commits() < commits + 8 {
        assert!(Instant::now() < deadline, "a flush under way must not keep others from the queue");
        thread::yield_now();
    }
    server.disk.open_gate(true);
    for thread in threads {
        assert!(matches!(thread.join().unwrap(), Outcome::Committed { .. }));
    }
    assert_eq!(server.disk.flushes() - before, 2, "one for the first, one for all who came in the meantime");
}

#[test]
fn a_store_that_closes_lets_its_clients_know() {
    let server = server();
    let host = connect_impatient(server.address);
    put_surely(&host, 1, b"x");
    server.host.close();
    assert_eq!(server.host.wait_end(), HostEnd::Closed);
    let outcome = put(&host, 1, b"y");
    assert!(!matches!(outcome, Ok(Outcome::Committed { .. })), "{outcome:?}");
}

#[test]
fn a_disk_that_fails_ends_the_node() {
    let server = server();
    let host = connect_impatient(server.address);
    put_surely(&host, 1, b"x");
    server.disk.open_gate(false);
    let waiting = {
        let (host, before) = (host.clone(), server.disk.flushes());
        let waiting = thread::spawn(move || put(&host, 1, b"y"));
        server.disk.wait_flushes(before + 1);
        waiting
    };
    server.disk.fail("write to log-0: input/output error");
    assert_eq!(server.host.wait_end(), HostEnd::Failed("write to log-0: input/output error".into()));
    // The commit is neither acknowledged nor refused, and no request waits for ever.
    let outcome = waiting.join().unwrap();
    assert!(matches!(outcome, Ok(Outcome::Unknown) | Err(client::TxnError::Unreachable)), "{outcome:?}");
    server.disk.open_gate(true);
    assert_eq!(server.host.tally().refusals["disk_failed"], 1);
}

#[test]
fn a_failed_disk_frees_an_embedded_client_too() {
    let disk = MemoryDisk::new();
    let host = embedded(disk.clone(), &runtime());
    put_surely(&host, 1, b"x");
    disk.fail("gone");
    assert!(matches!(put(&host, 1, b"y"), Err(client::TxnError::Stopped(_))));
}

#[test]
fn a_long_line_delays_and_counts() {
    let server = server();
    let line = Emulator::start(server.address, Duration::from_millis(10), None).unwrap();
    let host = connect(line.address());
    drop(get(&host, 1));
    let (before, start) = (line.tally(), Instant::now());
    put_surely(&host, 1, b"x");
    assert!(start.elapsed() >= Duration::from_millis(20), "one round trip");
    let after = line.tally();
    assert_eq!(after.connections, 1);
    assert!(after.messages_up > before.messages_up && after.messages_down > before.messages_down);
    let tally = host.tally();
    assert!(after.bytes_up <= tally.bytes_out && after.bytes_down >= tally.bytes_in);
}

#[test]
fn a_client_that_comes_before_its_store_finds_it() {
    // A port that nobody listens on, for as long as it takes.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let host = At::alone(new_client(), &runtime());
    host.connect(UpstreamConfig::new(messages::CLIENT, address.to_string()));
    let refused = host.wait_connected(Duration::ZERO).unwrap_err();
    assert_eq!(refused.to_string(), format!("no server at {address}: connection refused"));
    let server = server_with(|config| config.address = address);
    host.wait_connected(PATIENCE).unwrap();
    put_surely(&host, 1, b"x");
    drop(server);
}
