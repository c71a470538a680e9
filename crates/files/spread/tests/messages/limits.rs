//! The largest message of each kind is taken, and nothing larger is said or heard.

use crate::samples::{HEAD, Sample, TOKEN, hand_over, hash, hear, join, lock, put, refused, switch};
use bytes::Bytes;
use framing::{Header, PIECE, WireError};
use spread::messages::{
    Ahead, Chunk, Consistency, Elsewhere, Enter, FILE_SERVER, HandOver, HandedOver, Have, Join, Joined, KeepLocks,
    Lock, Missing, Offer, Put, Refusal, Refused, Renew, SUBSCRIBER, Standing, Surveyed, Switch, VisitorKey, Want,
    WhenStale,
};
use tree::limits::CHUNK_BYTES_MAX;
use types::Time;
use types::limits::{
    ADDRESS_BYTES_MAX, CHUNKS_PER_PUT_MAX, EDITS_BYTES_MAX, FRAME_BYTES_MAX, HASHES_PER_MESSAGE_MAX,
    HOLDS_PER_SUBSCRIBER_MAX, LOCK_PATH_BYTES_MAX, LOCKS_PER_PUBLISHER_MAX, NOTE_BYTES_MAX, PIECE_BYTES_MAX,
    PUT_BYTES_MAX, REFUSAL_BYTES_MAX, SITE_NAME_BYTES_MAX, SPACE_NAME_BYTES_MAX,
};

/// Messages with this many more things in their lists, and bytes in their bodies, than the most that they may have.
fn with_more(more: usize) -> Vec<Sample> {
    let held = vec![HEAD; HOLDS_PER_SUBSCRIBER_MAX + more];
    let hashes = vec![hash(0xAA); HASHES_PER_MESSAGE_MAX + more];
    let (slot, asked, ticket, lease_ms) = (1, Time(5), 3, 1000);
    let bytes = |count: usize| Bytes::from(vec![7; count + more]);
    let name = |count: usize| "n".repeat(count + more);
    let key = VisitorKey([7; 32]);
    let (consistency, shares, root) = (Consistency::Publish, true, hash(0xAA));
    let joined = Joined {
        slot,
        asked,
        lease_ms,
        number: HEAD,
        root,
        keep: 5,
        key,
        consistency,
        when_stale: WhenStale::Serve,
        shares,
        held: held.clone(),
    };
    let standing = Standing { life: 9, at: HEAD, lease_ms, holds: 2, is_connected: true };
    let offer = Offer {
        slot,
        number: HEAD,
        root: hash(0xAA),
        base: hash(0xAA),
        reports: true,
        answers: false,
        edits: bytes(EDITS_BYTES_MAX),
    };
    vec![
        Sample::to(Join { held: held.clone(), ..join() }),
        Sample::to(Join { space: name(SPACE_NAME_BYTES_MAX), ..join() }),
        Sample::to(Join { site: name(SITE_NAME_BYTES_MAX), ..join() }),
        Sample::to(Switch { space: name(SPACE_NAME_BYTES_MAX), ..switch(None) }),
        Sample::to(Switch { site: name(SITE_NAME_BYTES_MAX), ..switch(None) }),
        Sample::to(Switch { locks: vec![TOKEN; LOCKS_PER_PUBLISHER_MAX + more], ..switch(None) }),
        Sample::to(Enter { space: name(SPACE_NAME_BYTES_MAX) }),
        Sample::to(HandOver { space: name(SPACE_NAME_BYTES_MAX), ..hand_over() }),
        Sample::from(Elsewhere { address: name(ADDRESS_BYTES_MAX) }),
        Sample::from(HandedOver { ticket, term: 8, lease_ms, is_last: true, hashes: hashes.clone() }),
        Sample::to(Lock { space: name(SPACE_NAME_BYTES_MAX), ..lock() }),
        Sample::to(Lock { site: name(SITE_NAME_BYTES_MAX), ..lock() }),
        Sample::to(Lock { path: vec![b'n'; LOCK_PATH_BYTES_MAX + more], ..lock() }),
        Sample::to(KeepLocks { asked, publisher: 7, tokens: vec![TOKEN; LOCKS_PER_PUBLISHER_MAX + more] }),
        Sample::to(Renew { slot, asked, at: HEAD, released: held }),
        Sample::to(Want { hashes: hashes.clone() }),
        Sample::to(Have { ticket, hashes: hashes.clone() }),
        Sample::to(put(vec![(hash(0xAA), Bytes::new()); CHUNKS_PER_PUT_MAX + more])),
        Sample::to(put(vec![(hash(0xAA), bytes(PUT_BYTES_MAX))])),
        Sample::to(Put { space: name(SPACE_NAME_BYTES_MAX), ..put(Vec::new()) }),
        Sample::to(Put { site: name(SITE_NAME_BYTES_MAX), ..put(Vec::new()) }),
        Sample::from(joined),
        Sample::from(offer),
        Sample::from(Chunk { hash: hash(1), bytes: bytes(CHUNK_BYTES_MAX) }),
        Sample::from(Missing { ticket, hashes }),
        Sample::from(Ahead { slot, chunks: vec![(hash(0xAA), u32::MAX); HASHES_PER_MESSAGE_MAX + more] }),
        Sample::from(Surveyed { ticket, head: HEAD, subscribers: vec![standing; HASHES_PER_MESSAGE_MAX + more] }),
    ]
}

#[test]
fn the_largest_messages_come_through() {
    for sample in with_more(0) {
        let frame = sample.encode().unwrap();
        assert!(sample.hear(&frame) == Ok(Some(sample)), "it is another one");
    }
}

#[test]
fn larger_messages_are_not_said() {
    for sample in with_more(1) {
        let refused = sample.encode().map_err(WireError::name);
        assert!(refused == Err("count"), "{refused:?}");
    }
}

/// A frame with this meta and body, in pieces if it is large.
fn frame(kind: u8, meta: &[u8], body: &[u8]) -> Vec<u8> {
    let header = |kind, meta, body| Header { kind, meta_bytes: meta as u32, body_bytes: body as u32 }.to_bytes();
    let whole = [&header(kind, meta.len(), body.len())[..], meta, body].concat();
    if whole.len() <= FRAME_BYTES_MAX {
        return whole;
    }
    let piece = |part: &[u8]| [&header(PIECE, 8, part.len())[..], &7_u64.to_le_bytes(), part].concat();
    whole.chunks(PIECE_BYTES_MAX).flat_map(piece).collect()
}

/// The frames of the messages above, put together by hand.
#[test]
fn larger_messages_are_not_heard() {
    let text = |bytes: usize| [&(bytes as u16).to_le_bytes()[..], &vec![b'n'; bytes]].concat();
    let number = |count: usize| vec![7; 16 * count];
    let hashes = |count: usize| vec![7; 32 * count];
    let join =
        |space: usize, site: usize, held: usize| [&[0; 52][..], &text(space), &text(site), &number(held)].concat();
    let holds = HOLDS_PER_SUBSCRIBER_MAX;
    let to = |kind: u8, meta: Vec<u8>, body: usize, name: &str| {
        let heard = hear(FILE_SERVER, &frame(kind, &meta, &vec![7; body]));
        assert_eq!(heard.as_ref().map_err(|refused| refused.name()), Err(name), "{kind}");
    };
    // Names that are too long, and the room of names that are short, taken by holds.
    to(1, join(SPACE_NAME_BYTES_MAX + 1, 4, 0), 0, "count");
    to(1, join(4, SITE_NAME_BYTES_MAX + 1, 0), 0, "count");
    to(1, join(0, 0, holds + 1), 0, "count");
    to(1, join(SPACE_NAME_BYTES_MAX, SITE_NAME_BYTES_MAX, holds + 1), 0, "lengths");
    to(2, [vec![0; 28], number(holds + 1)].concat(), 0, "lengths");
    to(5, hashes(HASHES_PER_MESSAGE_MAX + 1), 0, "lengths");
    to(6, [vec![0; 8], hashes(HASHES_PER_MESSAGE_MAX + 1)].concat(), 0, "lengths");
    let names = |space: usize, site: usize| [vec![0; 8], text(space), text(site)].concat();
    let heads = |count: usize| [names(0, 0), vec![0; 36 * count]].concat();
    to(7, names(SPACE_NAME_BYTES_MAX + 1, 4), 0, "count");
    to(7, names(4, SITE_NAME_BYTES_MAX + 1), 0, "count");
    to(7, heads(CHUNKS_PER_PUT_MAX + 1), 0, "count");
    let largest = names(SPACE_NAME_BYTES_MAX, SITE_NAME_BYTES_MAX);
    to(7, [largest, vec![0; 36 * (CHUNKS_PER_PUT_MAX + 1)]].concat(), 0, "lengths");
    to(7, heads(1), PUT_BYTES_MAX + 1, "lengths");
    // Bytes that no chunk of the list has, and a chunk without its bytes.
    to(7, heads(1), 1, "long");
    to(7, [names(0, 0), 5_u32.to_le_bytes().to_vec(), hashes(1)].concat(), 4, "short");
    let locks = LOCKS_PER_PUBLISHER_MAX as u32;
    let switch = |locks: u32, tokens: usize| {
        [vec![0; 24], text(0), text(0), vec![0; 104], locks.to_le_bytes().to_vec(), number(tokens)].concat()
    };
    to(8, switch(locks + 1, LOCKS_PER_PUBLISHER_MAX + 1), 0, "count");
    // Tokens that are announced, and not there.
    to(8, switch(2, 1), 0, "short");
    let lock = |path: usize| [vec![0; 16], text(0), text(0), vec![b'n'; path]].concat();
    to(14, lock(LOCK_PATH_BYTES_MAX + 1), 0, "count");
    to(15, [vec![0; 16], number(LOCKS_PER_PUBLISHER_MAX + 1)].concat(), 0, "lengths");
    let from = |kind: u8, meta: Vec<u8>, body: usize| {
        let heard = hear(SUBSCRIBER, &frame(kind, &meta, &vec![7; body]));
        assert_eq!(heard.as_ref().map_err(|refused| refused.name()), Err("lengths"), "{kind}");
    };
    from(19, [vec![0; 4], vec![0; 36 * (HASHES_PER_MESSAGE_MAX + 1)]].concat(), 0);
    from(20, [vec![0; 108], number(holds + 1)].concat(), 0);
    from(22, vec![0; 92], EDITS_BYTES_MAX + 1);
    from(26, vec![0; 32], CHUNK_BYTES_MAX + 1);
    from(28, [vec![0; 8], hashes(HASHES_PER_MESSAGE_MAX + 1)].concat(), 0);
    from(34, [vec![0; 24], vec![0; 36 * (HASHES_PER_MESSAGE_MAX + 1)]].concat(), 0);
    from(35, vec![b't'; 28 + REFUSAL_BYTES_MAX + 1], 0);
}

/// Texts for people are cut, and not refused.
#[test]
fn long_notes_and_reasons_are_cut() {
    let note = "ß".repeat(NOTE_BYTES_MAX);
    let sample = Sample::to(Switch { note, ..switch(None) });
    let heard = sample.hear(&sample.encode().unwrap()).unwrap().unwrap();
    let cut = Switch { note: "ß".repeat(NOTE_BYTES_MAX / 2), ..switch(None) };
    assert_eq!(heard, Sample::to(cut));
    let text = "ß".repeat(REFUSAL_BYTES_MAX);
    let sample = Sample::from(Refused { text, ..refused(Refusal::NoRoom) });
    let heard = sample.hear(&sample.encode().unwrap()).unwrap().unwrap();
    let cut = Refused { text: "ß".repeat(REFUSAL_BYTES_MAX / 2), ..refused(Refusal::NoRoom) };
    assert_eq!(heard, Sample::from(cut));
}
