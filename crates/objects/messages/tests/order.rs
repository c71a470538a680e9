//! The order of departure: large messages in pieces, and the messages that pass them.

mod common;

use bytes::Bytes;
use common::{drain, encode, in_pieces, number, to_client, to_server};
use framing::{Batch, Codec, Inbox, Outbox};
use machine::Parcel;
use messages::*;
use std::collections::VecDeque;
use types::limits::{FRAME_BYTES_MAX, PIECE_BYTES_MAX};
use types::*;

/// Both ends of a connection, with nothing between them.
struct Wire {
    out: Outbox,
    inbox: Inbox,
    arrived: Vec<Parcel>,
}

impl Wire {
    fn to_server() -> Self {
        Self::between(CLIENT, SERVER)
    }

    fn to_client() -> Self {
        Self::between(SERVER, CLIENT)
    }

    fn between(speaker: &'static dyn Codec, reader: &'static dyn Codec) -> Self {
        Self { out: Outbox::new(speaker), inbox: Inbox::within_session(reader), arrived: Vec::new() }
    }

    fn push(&mut self, message: &Parcel) {
        self.out.push(message).unwrap();
    }

    /// The next batch leaves, and arrives.
    fn pass(&mut self) {
        let mut batch = Batch::default();
        self.out.next(&mut batch);
        let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
        let mut bytes = &bytes[..];
        while let Some(message) = self.inbox.next(&mut bytes).unwrap() {
            self.arrived.push(message);
        }
    }

    fn pass_all(&mut self) {
        while !self.out.is_empty() {
            self.pass();
        }
    }
}

fn commit(number: u64, bytes: usize) -> Parcel {
    let value = |at: usize| Bytes::from(vec![number as u8; at.min(60_000)]);
    let delta = |at: usize| Delta {
        page: PageId::new(1, at as u32),
        changes: vec![SlotChange { slot: 0, value: Some(value(bytes - at * 60_000)) }],
    };
    to_server(CommitRequest {
        txn: TxnId { client: ClientId(1), number },
        incarnation: Incarnation(1),
        answered: 1,
        reads: vec![],
        writes: (0..bytes.div_ceil(60_000)).map(delta).collect(),
    })
}

fn fetch(number: u64) -> Parcel {
    to_server(Fetch { pages: vec![PageId::new(1, 1)], at_least: Version(0).into(), number, follow: None })
}

fn ack(through: u64) -> Parcel {
    to_server(Ack { through: Version(through).into() })
}

fn ask(number: u64) -> Parcel {
    to_server(AskOutcome { txn: TxnId { client: ClientId(1), number } })
}

fn ping(nonce: u64) -> Parcel {
    to_server(Ping { nonce })
}

fn left_out(number: u64) -> Parcel {
    to_client(LeftOut { page: PageId::new(1, 1), number, damage: None })
}

/// Large, and nothing but a heartbeat passes it.
fn members() -> Parcel {
    let text = "x".repeat(200);
    let member = |client| Member { client: ClientId(client), address: text.clone() };
    let members = (0..1000).map(member).collect();
    to_client(Members { group: "site".into(), epoch: 1, address: text.clone(), store: vec![], members })
}

#[test]
fn a_message_that_fits_a_frame_leaves_as_one() {
    let mut out = Outbox::new(CLIENT);
    let messages = [fetch(1), commit(2, 60_000), ack(3), fetch(4)];
    for message in &messages {
        out.push(message).unwrap();
    }
    assert_eq!(drain(&mut out), messages.iter().flat_map(encode).collect::<Vec<_>>());
}

#[test]
fn where_messages_pass_others_no_more_leaves_than_a_piece() {
    let mut wire = Wire::to_client();
    for at in 0..100 {
        wire.push(&left_out(at));
    }
    wire.push(&members());
    let before = wire.out.bytes();
    wire.pass();
    assert!(before - wire.out.bytes() <= 2 * PIECE_BYTES_MAX);
}

#[test]
fn the_pieces_of_a_message_are_its_frame() {
    let (message, mut out) = (commit(1, 200_000), Outbox::new(CLIENT));
    out.push(&message).unwrap();
    let pieces = drain(&mut out);
    // Undone by hand: each piece is a header of sixteen bytes, a number, and its part of the frame.
    let parts: Vec<&[u8]> = pieces.chunks(24 + PIECE_BYTES_MAX).map(|piece| &piece[24..]).collect();
    let frame = parts.concat();
    assert!(pieces.len() > FRAME_BYTES_MAX && pieces == in_pieces(1, &frame));
    let header = framing::Header::parse(frame[..16].try_into().unwrap()).unwrap();
    assert_eq!((header.kind, header.frame_bytes()), (number("Commit"), frame.len()));
    assert_eq!(common::decode(SERVER, &pieces, 1000), Ok(vec![message]));
}

#[test]
fn a_large_commit_lets_others_pass_after_each_piece() {
    let mut wire = Wire::to_server();
    wire.push(&commit(1, 1_000_000));
    wire.pass();
    for message in [ack(2), fetch(3), ask(4), ping(5), commit(6, 10)] {
        wire.push(&message);
    }
    wire.pass();
    assert_eq!(wire.arrived, [ping(5)]);
    wire.pass();
    assert_eq!(wire.arrived[1..], [fetch(3), commit(6, 10)]);
    wire.pass_all();
    assert_eq!(wire.arrived[3..], [commit(1, 1_000_000), ack(2), ask(4)]);
}

#[test]
fn large_commits_take_turns() {
    let mut wire = Wire::to_server();
    wire.push(&commit(1, 2_000_000));
    wire.pass();
    wire.push(&commit(2, 100_000));
    wire.push(&commit(3, 400_000));
    wire.push(&ack(4));
    wire.pass_all();
    assert_eq!(wire.arrived, [commit(2, 100_000), commit(3, 400_000), commit(1, 2_000_000), ack(4)]);
}

#[test]
fn more_large_commits_than_the_other_end_takes_wait_for_a_place() {
    let mut wire = Wire::to_server();
    let (small, huge) = (40, 5);
    for number in 0..small + huge {
        wire.push(&commit(number, if number < small { 100_000 } else { 70 << 20 }));
    }
    wire.pass_all();
    assert_eq!(wire.arrived.len() as u64, small + huge);
}

#[test]
fn small_messages_without_end_do_not_hold_a_large_one_up() {
    let mut wire = Wire::to_server();
    wire.push(&commit(1, 1_000_000));
    let mut passes = 0;
    while !wire.arrived.contains(&commit(1, 1_000_000)) {
        for number in 0..2000 {
            wire.push(&fetch(number));
        }
        wire.pass();
        passes += 1;
        assert!(passes < 200, "the large one never leaves");
    }
}

#[test]
fn an_ordered_message_is_passed_by_signs_of_life_alone() {
    let (mut wire, pong) = (Wire::to_client(), to_client(Pong { nonce: 3 }));
    wire.push(&left_out(1));
    wire.push(&members());
    wire.push(&left_out(2));
    wire.pass();
    wire.pass();
    wire.push(&pong);
    wire.push(&left_out(4));
    wire.pass_all();
    assert_eq!(wire.arrived, [left_out(1), pong, members(), left_out(2), left_out(4)]);
}

/// For any messages, pushed and sent at any time: those that arrive are those that were sent, and each has passed only
/// what it may.
#[test]
fn nothing_passes_what_it_may_not() {
    let mut random = 0x7407_u64;
    let mut below = move |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut passed = 0;
    for _ in 0..60 {
        let (mut wire, mut said) = (Wire::to_server(), VecDeque::new());
        for number in 1..80 {
            let message = match below(8) {
                0 => commit(number, 70_000 + below(300_000) as usize),
                1 => commit(number, below(2000) as usize),
                2 => ack(number),
                3 => ask(number),
                4 => ping(number),
                _ => fetch(number),
            };
            wire.push(&message);
            said.push_back(message);
            for _ in 0..below(3) {
                wire.pass();
            }
        }
        wire.pass_all();
        assert_eq!(wire.arrived.len(), said.len());
        for arrived in &wire.arrived {
            let place = said.iter().position(|said| said == arrived).expect("it was said, and arrives once");
            for earlier in said.iter().take(place) {
                assert!(arrived.pace().may_pass(earlier.pace()), "{arrived:?} has passed {earlier:?}");
                passed += 1;
            }
            said.remove(place);
        }
    }
    assert!(passed > 1000, "only {passed} have passed another");
}
