//! Requests, as bytes: what is refused and how, and that the next is read whatever came before.

use bytes::Bytes;
use nbd::numbers::{REQUEST_MAGIC, command, flag};
use nbd::{Errno, Form, Geometry, Operation};
use nbd::{Item, PAYLOAD_BYTES_MAX, Requests, Session};

pub(crate) const SIZE: u64 = 1 << 20;

pub(crate) const PLAIN: Session = Session { export: 0, structured: false, allocation: false };
pub(crate) const FULL: Session = Session { export: 0, structured: true, allocation: true };

pub(crate) fn geometry() -> Geometry {
    Geometry { block_min: 512, ..Geometry::new(SIZE) }
}

pub(crate) fn request(command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Vec<u8> {
    let kind = [flags, command].map(u16::to_be_bytes);
    let place = [7, offset].map(u64::to_be_bytes);
    let magic = REQUEST_MAGIC.to_be_bytes();
    [&magic[..], kind.as_flattened(), place.as_flattened(), &len.to_be_bytes(), payload].concat()
}

fn first(session: Session, geometry: &Geometry, bytes: Vec<u8>) -> Item {
    Requests::new(session).next(geometry, &mut Bytes::from(bytes))
}

fn errno(item: &Item) -> Option<Errno> {
    match item {
        Item::Refused(_, errno, _) => Some(*errno),
        _ => None,
    }
}

#[test]
fn requests_become_operations() {
    use command::{BLOCK_STATUS, CACHE, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
    let take = |command, flags, len: u32, payload: &[u8]| match first(
        FULL,
        &geometry(),
        request(command, flags, 512, len, payload),
    ) {
        Item::Request(request) => (request.operation, request.ticket.form),
        other => panic!("{other:?}"),
    };
    let (offset, len) = (512, 1024);
    let data = Bytes::from(vec![5; 512]);
    assert_eq!(take(READ, 0, 512, &[]), (Operation::Read { offset, len: 512 }, Form::Chunks));
    assert_eq!(take(READ, flag::DF | flag::FUA, 512, &[]), (Operation::Read { offset, len: 512 }, Form::OneChunk));
    let write = Operation::Write { offset, data: data.clone(), fua: true };
    assert_eq!(take(WRITE, flag::FUA, 512, &data), (write, Form::Status));
    assert_eq!(take(TRIM, 0, 1024, &[]), (Operation::Trim { offset, len, fua: false }, Form::Status));
    assert_eq!(take(CACHE, 0, 1024, &[]), (Operation::Cache { offset, len }, Form::Status));
    let zero = |may_trim, fast| Operation::Zero { offset, len, may_trim, fast, fua: false };
    assert_eq!(take(WRITE_ZEROES, 0, 1024, &[]).0, zero(true, false));
    assert_eq!(take(WRITE_ZEROES, flag::NO_HOLE | flag::FAST_ZERO, 1024, &[]).0, zero(false, true));
    let extents = |one| Operation::Extents { offset, len, one };
    assert_eq!(take(BLOCK_STATUS, 0, 1024, &[]), (extents(false), Form::Extents));
    assert_eq!(take(BLOCK_STATUS, flag::REQ_ONE, 1024, &[]), (extents(true), Form::OneExtent));
    let flush = first(PLAIN, &geometry(), request(FLUSH, flag::FUA, 0, 0, &[]));
    assert!(matches!(flush, Item::Request(it) if it.operation == Operation::Flush && it.ticket.form == Form::Simple));
}

#[test]
fn a_request_that_makes_no_sense_has_its_error_and_the_next_is_read() {
    use Errno::{Invalid, NoSpace, NotPermitted};
    use command::{BLOCK_STATUS, CACHE, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
    let read_only = Geometry { read_only: true, ..geometry() };
    let end = SIZE - 512;
    let cases = [
        (FULL, geometry(), 8, 0, 0, 512, Invalid, "resize is not known"),
        (FULL, geometry(), 999, 0, 0, 512, Invalid, "an unknown command"),
        (FULL, geometry(), READ, flag::NO_HOLE, 0, 512, Invalid, "a flag of another command"),
        (FULL, geometry(), WRITE, 1 << 5, 0, 512, Invalid, "a payload length, which was not agreed on"),
        (PLAIN, geometry(), READ, flag::DF, 0, 512, Invalid, "chunks were not agreed on"),
        (PLAIN, geometry(), BLOCK_STATUS, 0, 0, 512, Invalid, "nor extents"),
        (FULL, read_only, WRITE, 0, 0, 512, NotPermitted, "a write"),
        (FULL, read_only, TRIM, 0, 0, 512, NotPermitted, "a trim"),
        (FULL, read_only, WRITE_ZEROES, 0, 0, 512, NotPermitted, "zeros"),
        (FULL, geometry(), FLUSH, 0, 512, 0, Invalid, "a flush with an offset"),
        (FULL, geometry(), FLUSH, 0, 0, 512, Invalid, "a flush with a length"),
        (FULL, geometry(), READ, 0, 0, 0, Invalid, "nothing to read"),
        (FULL, geometry(), WRITE, 0, 0, 0, Invalid, "nothing to write"),
        (FULL, geometry(), READ, 0, end, 1024, Invalid, "a read beyond the end"),
        (FULL, geometry(), TRIM, 0, end, 1024, Invalid, "a trim beyond the end"),
        (FULL, geometry(), CACHE, 0, end, 1024, Invalid, "a hint beyond the end"),
        (FULL, geometry(), BLOCK_STATUS, 0, end, 1024, Invalid, "extents beyond the end"),
        (FULL, geometry(), WRITE, 0, end, 1024, NoSpace, "a write beyond the end"),
        (FULL, geometry(), WRITE_ZEROES, 0, end, 1024, NoSpace, "zeros beyond the end"),
        (FULL, geometry(), WRITE, 0, u64::MAX - 511, 1024, NoSpace, "an end beyond all numbers"),
        (FULL, geometry(), READ, 0, 1, 512, Invalid, "an offset off the block"),
        (FULL, geometry(), WRITE, 0, 0, 511, Invalid, "a length off the block"),
    ];
    for (session, geometry, command, flags, offset, len, error, what) in cases {
        let payload = vec![1; if command == WRITE { len as usize } else { 0 }];
        let next = request(READ, 0, 512, 512, &[]);
        let mut input = Bytes::from([request(command, flags, offset, len, &payload), next].concat());
        let mut requests = Requests::new(session);
        let item = requests.next(&geometry, &mut input);
        assert_eq!(errno(&item), Some(error), "{what}: {item:?}");
        let next = requests.next(&geometry, &mut input);
        assert!(
            matches!(&next, Item::Request(it) if it.operation == Operation::Read { offset: 512, len: 512 }),
            "{what}"
        );
        assert!(matches!(requests.next(&geometry, &mut input), Item::More(28)));
    }
}

#[test]
fn a_payload_is_bounded_and_other_lengths_are_not() {
    let large = Geometry::new(1 << 40);
    let item = |command, len| first(FULL, &large, request(command, 0, 0, len, &[]));
    assert!(matches!(item(command::READ, PAYLOAD_BYTES_MAX), Item::Request(_)));
    assert_eq!(errno(&item(command::READ, PAYLOAD_BYTES_MAX + 1)), Some(Errno::Invalid));
    assert!(
        matches!(item(command::WRITE, PAYLOAD_BYTES_MAX), Item::More(missing) if missing == PAYLOAD_BYTES_MAX as usize)
    );
    assert_eq!(errno(&item(command::WRITE, PAYLOAD_BYTES_MAX + 1)), Some(Errno::Invalid));
    for command in [command::TRIM, command::WRITE_ZEROES, command::CACHE, command::BLOCK_STATUS] {
        assert!(matches!(item(command, u32::MAX), Item::Request(_)), "{command}");
    }
}

/// The payload of a refused write is passed over as it comes, and never kept.
#[test]
fn a_refused_payload_is_passed_over() {
    let mut requests = Requests::new(FULL);
    let len = PAYLOAD_BYTES_MAX + 512;
    let mut input = Bytes::from(request(command::WRITE, 0, 0, len, &[]));
    assert_eq!(errno(&requests.next(&geometry(), &mut input)), Some(Errno::NoSpace));
    let mut left = len as usize;
    while left > 0 {
        let Item::More(missing) = requests.next(&geometry(), &mut input) else { panic!("it goes on") };
        assert_eq!(missing, 1, "whatever comes is passed over");
        let some = left.min(1 << 20);
        input = Bytes::from(vec![0xFF; some]);
        left -= some;
    }
    assert!(matches!(requests.next(&geometry(), &mut input), Item::More(28)));
    input = Bytes::from(request(command::DISC, 0, 0, 0, &[]));
    assert!(matches!(requests.next(&geometry(), &mut input), Item::Disconnect));
}

#[test]
fn a_stream_that_is_none_ends() {
    assert!(matches!(first(FULL, &geometry(), vec![0; 28]), Item::OutOfStep));
    assert!(matches!(first(FULL, &geometry(), vec![0; 27]), Item::More(1)));
}
