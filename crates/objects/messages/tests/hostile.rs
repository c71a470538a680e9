//! Any input is a message or refused by name: never a panic, and never more memory than bytes that came.

mod common;

use common::{
    commit, encode, end_that_hears, help, in_pieces, invalidations, members, number, piece, reader_of, revalidated,
    samples, status, to_server, welcome,
};
use framing::{Codec, HEADER_BYTES, Header, Inbox, WireError};
use machine::Parcel;
use messages::SERVER;
use types::limits::{
    FRAME_BYTES_MAX, MEMBERS_MAX, PAGES_PER_MESSAGE_MAX, PIECED_BYTES_MAX, PIECED_MESSAGES_MAX, SHARDS_MAX,
    STATUS_CELLS_MAX, STATUS_COLUMNS_MAX, STATUS_TABLES_MAX, STATUS_TEXT_BYTES_MAX, STORE_ADDRESSES_MAX, TXN_BYTES_MAX,
    TXN_CHANGES_MAX,
};

/// A small generator of its own, so that a run can be repeated by its seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Damages a frame. Half of the time the header is made to fit again, so that the damage reaches what lies behind it.
fn damage(frame: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(frame.len());
        match random.below(6) {
            0 => frame[at] ^= 1 << random.below(8),
            1 => frame[at] = [0, 1, 0x7F, 0xFF][random.below(4)],
            2 => frame[at..].fill(0xFF),
            3 => drop(frame.drain(at..)),
            4 => frame.insert(at, random.below(256) as u8),
            _ => frame.extend_from_within(at..),
        }
        if frame.is_empty() {
            frame.push(0);
        }
    }
    if frame.len() > HEADER_BYTES && random.below(2) == 0 {
        let kind = frame[2];
        let payload = (frame.len() - HEADER_BYTES) as u32;
        let body_bytes = u32::from_le_bytes(frame[8..12].try_into().unwrap()).min(payload);
        let header = Header { kind, meta_bytes: payload - body_bytes, body_bytes };
        frame[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}

/// The result of feeding some bytes: how many messages, and the refusal that ended the stream.
fn feed(reader: &'static dyn Codec, bytes: &[u8], random: &mut Random) -> (usize, Option<WireError>) {
    let (mut inbox, mut rest, mut count) = (Inbox::within_session(reader), bytes, 0);
    while !rest.is_empty() {
        let (mut piece, after) = rest.split_at(1 + random.below(rest.len()));
        rest = after;
        loop {
            match inbox.next(&mut piece) {
                Ok(None) => break,
                // An accepted message is valid: it can be encoded again, to the same.
                Ok(Some(message)) => {
                    let again = common::decode(reader, &encode(&message), usize::MAX);
                    assert_eq!(again, Ok(vec![message]));
                    count += 1;
                }
                Err(refused) => return (count, Some(refused)),
            }
        }
    }
    (count, None)
}

#[test]
fn damaged_frames_are_messages_or_refused_by_name() {
    let (samples, mut random) = (samples(), Random(0x7407));
    let mut refusals = std::collections::BTreeMap::<&str, usize>::new();
    let mut taken = 0;
    for _ in 0..40_000 {
        let message = &samples[random.below(samples.len())];
        let mut frame = encode(message);
        damage(&mut frame, &mut random);
        let (count, refused) = feed(reader_of(message), &frame, &mut random);
        taken += count;
        if let Some(refused) = refused {
            *refusals.entry(refused.name()).or_default() += 1;
            assert!(!refused.to_string().is_empty());
        }
    }
    // The run reaches every reason that damage can have, and also the messages behind the checks.
    let names = ["magic", "check", "lengths", "short", "long", "slot", "order", "code", "text", "direction"];
    for name in names {
        assert!(refusals.contains_key(name), "never refused for {name}: {refusals:?}");
    }
    assert!(taken > 1000, "only {taken} taken");
}

#[test]
fn pure_noise_is_refused() {
    let mut random = Random(7);
    for _ in 0..1000 {
        let noise: Vec<u8> = (0..64).map(|_| random.below(256) as u8).collect();
        assert!(feed(SERVER, &noise, &mut random).1.is_some());
    }
}

/// The refusal of a frame with this meta and body.
fn refusal(kind: u8, meta: &[u8], body: &[u8]) -> Option<&'static str> {
    let header = Header { kind, meta_bytes: meta.len() as u32, body_bytes: body.len() as u32 };
    let mut frame = [&header.to_bytes(), meta, body].concat();
    if frame.len() > FRAME_BYTES_MAX {
        frame = in_pieces(7, &frame);
    }
    feed(end_that_hears(kind), &frame, &mut Random(1)).1.map(WireError::name)
}

/// The refusal of frames that come one after the other.
fn refusal_of(reader: &'static dyn Codec, frames: &[Vec<u8>]) -> Option<WireError> {
    feed(reader, &frames.concat(), &mut Random(3)).1
}

#[test]
fn pieces_are_put_together_with_care() {
    let start = |kind: u8, body_bytes| Header { kind, meta_bytes: 40, body_bytes }.to_bytes().to_vec();
    let of = |number, bytes: &[u8]| piece(number, bytes);
    let refused = |frames: &[Vec<u8>]| refusal_of(SERVER, frames).map(WireError::name);
    // A frame that should have come in pieces, a piece of nothing, a piece of a piece.
    assert_eq!(refused(&[start(number("Commit"), FRAME_BYTES_MAX as u32)]), Some("whole"));
    assert_eq!(refused(&[of(1, b"")]), Some("empty"));
    assert_eq!(refused(&[of(1, &of(1, b"x"))]), Some("nested"));
    // The message inside may not be for the other end, have impossible lengths, or lack a header.
    assert_eq!(
        refused(&[of(1, &Header { kind: number("Invalidations"), meta_bytes: 8, body_bytes: 0 }.to_bytes())]),
        Some("direction")
    );
    assert_eq!(refused(&[of(1, &start(number("Commit"), u32::MAX))]), Some("lengths"));
    assert_eq!(refused(&[of(1, &[0; HEADER_BYTES])]), Some("magic"));
    // More than it announces, in one piece and over two.
    let ping = encode(&to_server(messages::Ping { nonce: 1 }));
    assert_eq!(refused(&[of(1, &[&ping[..], b"x"].concat())]), Some("long"));
    assert_eq!(refused(&[of(1, &ping[..20]), of(1, &[&ping[20..], b"x"].concat())]), Some("long"));
    // The first message, in pieces or not, opens a session.
    let mut fresh = Inbox::new(SERVER);
    assert_eq!(fresh.next(&mut &of(1, &ping)[..]).map_err(WireError::name), Err("first"));
}

#[test]
fn messages_in_pieces_are_few_and_bounded_together() {
    let start = |body_bytes| Header { kind: number("Commit"), meta_bytes: 40, body_bytes }.to_bytes();
    let begun = |count: u64, bytes: u32| (0..count).map(|number| piece(number, &start(bytes))).collect::<Vec<_>>();
    let refused = |frames: &[Vec<u8>]| refusal_of(SERVER, frames).map(WireError::name);
    let max = PIECED_MESSAGES_MAX as u64;
    assert_eq!((refused(&begun(max, 100_000)), refused(&begun(max + 1, 100_000))), (None, Some("pieced")));
    let many = (PIECED_BYTES_MAX / TXN_BYTES_MAX) as u64;
    assert_eq!(refused(&begun(many, TXN_BYTES_MAX as u32)), None);
    assert_eq!(refused(&begun(many + 1, TXN_BYTES_MAX as u32)), Some("pieced_bytes"));
    // One that is complete makes room for another.
    let ping = encode(&to_server(messages::Ping { nonce: 1 }));
    let done: Vec<_> = (0..2 * max).map(|number| piece(number, &ping)).collect();
    assert_eq!(refused(&done), None);
}

/// The meta and body of a message, to be changed by hand.
fn parts(message: &Parcel) -> (Vec<u8>, Vec<u8>) {
    let frame = encode(message);
    let meta = u32::from_le_bytes(frame[4..8].try_into().unwrap()) as usize;
    (frame[HEADER_BYTES..][..meta].to_vec(), frame[HEADER_BYTES + meta..].to_vec())
}

#[test]
fn a_commit_is_taken_apart_with_care() {
    let (meta, body) = parts(&commit());
    assert_eq!(refusal(number("Commit"), &meta, &body), None);
    let with = |at: usize, bytes: &[u8]| {
        let mut meta = meta.clone();
        meta[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(number("Commit"), &meta, &body)
    };
    // The counts of reads and writes.
    assert_eq!(with(32, &u32::MAX.to_le_bytes()), Some("count"));
    assert_eq!(with(36, &u32::MAX.to_le_bytes()), Some("count"));
    assert_eq!(with(36, &1_000_000u32.to_le_bytes()), Some("short"));
    assert_eq!(with(32, &1u32.to_le_bytes()), Some("short"));
    // The words of the first page's slots, its exceptions, and the exception's slot.
    assert_eq!(with(56, &17u16.to_le_bytes()), Some("slot"));
    assert_eq!(with(58, &u16::MAX.to_le_bytes()), Some("short"));
    assert_eq!(with(84, &1024u16.to_le_bytes()), Some("slot"));
    // The first delta's page after the second's, the slot of its first change after its second, or none of a page's.
    let delta = meta.len() - 4 - 10 - 8 - 10;
    assert_eq!(with(delta, &[9]), Some("order"));
    assert_eq!(with(delta + 8, &0u16.to_le_bytes()), Some("count"));
    assert_eq!(with(delta + 10, &66u16.to_le_bytes()), Some("order"));
    assert_eq!(with(delta + 14, &1024u16.to_le_bytes()), Some("slot"));
    // Values longer than the body, and shorter.
    assert_eq!(with(delta + 12, &4u16.to_le_bytes()), Some("short"));
    assert_eq!(with(delta + 12, &2u16.to_le_bytes()), Some("long"));
    assert_eq!(with(delta + 12, &0xFFF8u16.to_le_bytes()), Some("short"));
}

#[test]
fn a_batch_of_invalidations_is_taken_apart_with_care() {
    let (meta, body) = parts(&invalidations());
    assert_eq!(refusal(number("Invalidations"), &meta, &body), None);
    assert_eq!(refusal(number("Invalidations"), &meta[..meta.len() - 1], &body), Some("short"));
    assert_eq!(refusal(number("Invalidations"), &meta, b"xyz"), Some("long"));
    // More changes in all than a message may have: each page alone keeps to what a page can have.
    let one = [&[0; 40][..], &0u16.to_le_bytes(), &1024u16.to_le_bytes()].concat();
    let changes: Vec<u8> =
        (0..1024u16).flat_map(|slot| [slot.to_le_bytes(), u16::MAX.to_le_bytes()].concat()).collect();
    let many = [&[0; 2][..], &[one, changes].concat().repeat(TXN_CHANGES_MAX / 1024 + 1)].concat();
    assert_eq!(refusal(number("Invalidations"), &many, b""), Some("count"));
    let empty = [[0; 40], [0; 40]].concat();
    let many = [&[0; 2][..], &[&empty[..40], &[0, 0, 0xFF, 0xFF]].concat().repeat(16 * 1024 + 1)].concat();
    assert_eq!(refusal(number("Invalidations"), &many, b""), Some("count"));
}

/// The refusals of a message's meta with some bytes of it replaced.
fn with(message: &Parcel, kind: u8, at: usize, bytes: &[u8]) -> Option<&'static str> {
    let (mut meta, body) = parts(message);
    assert_eq!(refusal(kind, &meta, &body), None);
    meta[at..at + bytes.len()].copy_from_slice(bytes);
    refusal(kind, &meta, &body)
}

#[test]
fn a_vector_is_taken_apart_with_care() {
    let count = |shard: u16, count: u64| [&shard.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let vector = |shards: usize, counts: &[Vec<u8>]| [&(shards as u16).to_le_bytes()[..], &counts.concat()].concat();
    let ack = |counts: &[Vec<u8>]| refusal(number("Ack"), &vector(counts.len(), counts), b"");
    assert_eq!(ack(&[count(1, 5), count(3, 1)]), None);
    assert_eq!(ack(&[count(3, 1), count(1, 5)]), Some("order"));
    assert_eq!(ack(&[count(1, 1), count(1, 5)]), Some("order"));
    assert_eq!(ack(&[count(1, 0)]), Some("code"));
    assert_eq!(refusal(number("Ack"), &vector(2, &[count(1, 5)]), b""), Some("short"));
    assert_eq!(refusal(number("Ack"), &vector(1, &[count(1, 5), count(3, 1)]), b""), Some("long"));
    assert_eq!(refusal(number("Invalidations"), &vector(SHARDS_MAX + 1, &[]), b""), Some("count"));
}

#[test]
fn a_sharding_is_taken_apart_with_care() {
    let with = |at, bytes: &[u8]| with(&welcome(), number("Welcome"), at, bytes);
    assert_eq!(with(30, &(SHARDS_MAX as u16).to_le_bytes()), None);
    assert_eq!(with(30, &(SHARDS_MAX as u16 + 1).to_le_bytes()), Some("count"));
    assert_eq!(with(30, &[0; 2]), Some("code"));
    assert_eq!(with(32, &[0; 4]), Some("code"));
}

#[test]
fn a_request_for_help_is_taken_apart_with_care() {
    let with = |at, bytes: &[u8]| with(&help(), number("Help"), at, bytes);
    // The length of the address: longer than one may be, longer than everything that is there, and into the pages.
    assert_eq!(with(44, &257u16.to_le_bytes()), Some("count"));
    assert_eq!(with(44, &200u16.to_le_bytes()), Some("short"));
    assert_eq!(with(44, &14u16.to_le_bytes()), Some("long"));
    assert_eq!(with(46, &[0xFF]), Some("text"));
    // The room of a long address, taken by pages.
    let many = [&[0; 36][..], &[0; 8].repeat(PAGES_PER_MESSAGE_MAX + 1)].concat();
    assert_eq!(refusal(number("Help"), &many, b""), Some("count"));
    assert_eq!(refusal(number("Help"), &many[..many.len() - 8], b""), None);
}

#[test]
fn lists_of_changes_are_taken_apart_with_care() {
    let with = |at, bytes: &[u8]| with(&revalidated(), number("Revalidated"), at, bytes);
    // How many pages to drop.
    assert_eq!(with(8, &u64::MAX.to_le_bytes()), Some("count"));
    assert_eq!(with(8, &4096u64.to_le_bytes()), Some("short"));
    assert_eq!(with(8, &2u64.to_le_bytes()), Some("short"));
    // The words of the invalidation's slots, and the length of its value.
    assert_eq!(with(64, &17u16.to_le_bytes()), Some("slot"));
    assert_eq!(with(78, &3u16.to_le_bytes()), Some("short"));
    assert_eq!(with(78, &1u16.to_le_bytes()), Some("long"));
}

#[test]
fn the_members_of_a_group_are_taken_apart_with_care() {
    let with = |at, bytes: &[u8]| with(&members(), number("Members"), at, bytes);
    let count = |count: usize| (count as u32).to_le_bytes();
    // How many addresses the store has, and how many members the group: more than may be, and more than are there.
    assert_eq!(with(8, &count(STORE_ADDRESSES_MAX + 1)), Some("count"));
    assert_eq!(with(12, &count(MEMBERS_MAX + 1)), Some("count"));
    assert_eq!(with(12, &count(MEMBERS_MAX)), Some("short"));
    assert_eq!(with(12, &count(1)), Some("long"));
    // The length of the group's name, of its redirector's address, of the store's first, of the first member's.
    assert_eq!(with(16, &65u16.to_le_bytes()), Some("count"));
    for address in [22, 27, 45] {
        assert_eq!(with(address, &257u16.to_le_bytes()), Some("count"));
    }
}

#[test]
fn a_status_is_taken_apart_with_care() {
    let with = |at, bytes: &[u8]| with(&status(), number("Status"), at, bytes);
    let (count16, count32) = (|count: usize| (count as u16).to_le_bytes(), |count: usize| (count as u32).to_le_bytes());
    // How many tables: more than may be, more than are there, fewer.
    assert_eq!(with(0, &count16(STATUS_TABLES_MAX + 1)), Some("count"));
    assert_eq!(with(0, &count16(3)), Some("short"));
    assert_eq!(with(0, &count16(1)), Some("long"));
    // The length of the first table's name; its columns; its rows; what its first cell is.
    assert_eq!(with(2, &count16(STATUS_TEXT_BYTES_MAX + 1)), Some("count"));
    assert_eq!(with(9, &count16(STATUS_COLUMNS_MAX + 1)), Some("count"));
    assert_eq!(with(27, &count32(STATUS_CELLS_MAX / 2 + 1)), Some("count"));
    assert_eq!(with(27, &count32(STATUS_CELLS_MAX / 2)), Some("short"));
    assert_eq!(with(31, &[3]), Some("code"));
    // Rows of no cells, which take no bytes, are no way to take memory.
    let rows = |count| [&count16(1)[..], &count16(0), &count16(0), &count32(count)].concat();
    assert_eq!(refusal(number("Status"), &rows(STATUS_CELLS_MAX + 1), b""), Some("count"));
    assert_eq!(refusal(number("Status"), &rows(2), b""), Some("short"));
}

#[test]
fn the_largest_status_comes_through_and_no_larger_one_is_sent() {
    use machine::{Cell, Status, Table};
    let answer = |status: Status| Parcel::new(framing::Answer::from(status));
    let text = "ß".repeat(STATUS_TEXT_BYTES_MAX);
    let table = |rows| {
        let columns = vec![text.clone(); STATUS_COLUMNS_MAX];
        let rows = vec![vec![Cell::Text(text.clone()); STATUS_COLUMNS_MAX]; rows];
        Table { name: text.clone(), columns, rows }
    };
    let mut status = Status { tables: vec![table(0); STATUS_TABLES_MAX] };
    status.tables[0] = table(STATUS_CELLS_MAX / STATUS_COLUMNS_MAX);
    let frame = encode(&answer(status.clone()));
    let got = common::decode(framing::OPERATOR, &frame, 100_000).unwrap();
    let [got] = &got[..] else { panic!("one message") };
    let Some(framing::Answer::Status(got)) = got.get() else { panic!("a status") };
    assert_eq!(got.tables[0].name, "ß".repeat(STATUS_TEXT_BYTES_MAX / 2), "what is too long is cut");
    status.tables[1] = table(1);
    let refused =
        |status: &Status| framing::Outbox::new(framing::NODE).push(&answer(status.clone())).map_err(WireError::name);
    assert_eq!(refused(&status), Err("count"));
    let mut uneven = Status { tables: vec![table(1)] };
    uneven.tables[0].rows[0].pop();
    assert_eq!(refused(&uneven), Err("count"));
}
