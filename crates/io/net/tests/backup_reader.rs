//! While readers wait for a slow disk, the backup reader does what they would do.

mod common;

use client::Client;
use common::*;
use messages::{Outcome, Ping, ToClient, ToServer};
use net::{ListenConfig, Runtime};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use types::ClientId;

/// How often in a row the backup reader takes the place of the readers.
const ROUNDS: u32 = 60;

/// Readers of a runtime's own: as many as it starts.
fn readers() -> usize {
    thread::available_parallelism().unwrap().get().div_ceil(2)
}

/// A store on these threads.
fn server_on(threads: &Runtime) -> Server {
    let disk = MemoryDisk::new();
    let host = At::with_disk(store(), disk.clone(), threads);
    let address = host.listen(ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap())).unwrap();
    Server { host, disk, address }
}

/// Has a commit wait for the store's disk; the thread that has read it waits with it.
fn begin_flush(server: &Server, client: &At<Client>) -> JoinHandle<Outcome> {
    let (client, before) = (client.clone(), server.disk.flushes());
    server.disk.open_gate(false);
    let put = thread::spawn(move || put(&client, 1, b"slow").unwrap());
    server.disk.wait_flushes(before + 1);
    put
}

#[track_caller]
fn end_flush(server: &Server, put: JoinHandle<Outcome>) {
    server.disk.open_gate(true);
    assert!(matches!(put.join().unwrap(), Outcome::Committed { .. }));
}

#[track_caller]
fn assert_answers(raw: &mut Raw, nonce: u64) {
    raw.send(&ToServer::Ping(Ping { nonce }));
    loop {
        match raw.next() {
            Some(ToClient::Pong(pong)) if pong.nonce == nonce => return,
            Some(_) => {}
            None => panic!("the session has ended"),
        }
    }
}

/// Every reader leads the flush of another store: each of these stores continues reading and answering, and what is
/// committed there in the meantime is in its queue.
#[test]
fn all_sockets_are_served_while_every_reader_waits_for_a_disk() {
    let threads = Runtime::start().unwrap();
    let servers: Vec<_> = (0..readers()).map(|_| server_on(&threads)).collect();
    let clients: Vec<_> = servers.iter().map(|server| connect(server.address)).collect();
    for client in &clients {
        put_surely(client, 1, b"before");
    }
    let slow: Vec<_> = servers.iter().zip(&clients).map(|(server, client)| begin_flush(server, client)).collect();
    let further: Vec<_> = servers
        .iter()
        .map(|server| {
            let mut raw = Raw::greet(server.address, ClientId(0xA0), 1);
            assert_answers(&mut raw, 1);
            let (other, commits) = (connect(server.address), server.disk.commits());
            assert_eq!(get(&other, 2), None);
            let further = thread::spawn(move || put(&other, 2, b"behind").unwrap());
            group::eventually("it is queued", || server.disk.commits() > commits);
            further
        })
        .collect();
    for ((server, slow), further) in servers.iter().zip(slow).zip(further) {
        end_flush(server, slow);
        assert!(matches!(further.join().unwrap(), Outcome::Committed { .. }));
    }
}

/// The backup reader sleeps while nobody is away: each time it is woken, or has not gone to sleep yet.
#[test]
fn the_backup_reader_steps_in_each_time_that_all_readers_are_away() {
    let threads = Runtime::start().unwrap();
    let servers: Vec<_> = (0..readers()).map(|_| server_on(&threads)).collect();
    let clients: Vec<_> = servers.iter().map(|server| connect(server.address)).collect();
    let mut raws: Vec<_> = servers.iter().map(|server| Raw::greet(server.address, ClientId(0xA0), 1)).collect();
    for round in 0..ROUNDS {
        let slow: Vec<_> = servers.iter().zip(&clients).map(|(server, client)| begin_flush(server, client)).collect();
        for raw in &mut raws {
            assert_answers(raw, u64::from(round));
        }
        servers.iter().zip(slow).for_each(|(server, slow)| end_flush(server, slow));
        // So long that the backup reader does not sleep yet, is about to, or sleeps.
        thread::sleep(Duration::from_micros(500) * (round % 8));
    }
}
