//! Byte values against a vector of the standard library's, what they conflict about, and what is stored in their place.

use crate::raw::{read, write};
use crate::scratch::{Scratch, elsewhere};
use crate::server::{Redirector, Server};
use database::{Config, Database};
use objects::{
    Anywhere, AsyncTx, ByteValue, Caller, Db, Error, Map, ObjectId, PageId, Ref, Result, Tx, references, wait_for,
};
use proptest::prelude::*;
use std::fmt::Debug;

const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// The bytes that one table of pages leads to.
const TABLE: u64 = 512 * PAGE;

/// One operation. The model is a vector, so places are near the beginning; but `far` is behind more than one table.
#[derive(Clone, Debug)]
enum Op {
    Write {
        at: u64,
        len: usize,
        byte: u8,
    },
    Read {
        at: u64,
        len: u64,
    },
    SetLen(u64),
    /// Beyond the limit: refused, without effect.
    Fail(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Abort,
}

/// Places around borders of lines, pages and tables.
fn places() -> impl Strategy<Value = u64> {
    let around = |border: u64| (0..80_u64).prop_map(move |by| (border + by).saturating_sub(40));
    prop_oneof![
        4 => 0..3 * PAGE,
        2 => (0..6_u64).prop_flat_map(move |page| around(page * PAGE)),
        1 => around(TABLE),
        1 => around(2 * TABLE + 5 * PAGE),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    // Zeros are bytes as others, and not the same as none.
    let byte = prop_oneof![1 => Just(0_u8), 3 => any::<u8>()];
    let len = prop_oneof![4 => 0..200_usize, 2 => 3_000..9_000_usize, 1 => Just(64), 1 => Just(4096)];
    prop_oneof![
        8 => (places(), len, byte).prop_map(|(at, len, byte)| Op::Write { at, len, byte }),
        4 => (places(), 0..3 * PAGE).prop_map(|(at, len)| Op::Read { at, len }),
        3 => places().prop_map(Op::SetLen),
        1 => Just(Op::SetLen(0)),
        1 => any::<u64>().prop_map(|by| Op::Fail((512 << 30) + 1 + by / 2)),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<(Vec<Op>, End, bool)>> {
    let end = prop_oneof![4 => Just(End::Commit), 1 => Just(End::Abort)];
    proptest::collection::vec((proptest::collection::vec(ops(), 1..12), end, proptest::bool::weighted(0.2)), 1..12)
}

/// Bytes that differ from place to place, all of them zero where `byte` is.
fn content(len: usize, byte: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8 | 1).wrapping_mul(byte)).collect()
}

fn apply(tx: &mut Tx, value: ByteValue, bytes: &mut Vec<u8>, op: &Op) -> Result<()> {
    match *op {
        Op::Write { at, len, byte } => {
            let data = content(len, byte);
            value.write(tx, at, &data)?;
            if len > 0 {
                let at = at as usize;
                bytes.resize(bytes.len().max(at + len), 0);
                bytes[at..at + len].copy_from_slice(&data);
            }
        }
        Op::Read { at, len } => {
            let part = |from: u64| bytes.len().min(from as usize);
            let expected = &bytes[part(at)..part(at + len)];
            assert!(value.read(tx, at..at + len)? == expected, "{at}, {len}");
            let mut buffer = vec![7; len as usize];
            assert_eq!(value.read_into(tx, at, &mut buffer)?, expected.len());
            assert!(buffer[..expected.len()] == *expected, "{at}, {len}");
            assert!(buffer[expected.len()..].iter().all(|&byte| byte == 7));
        }
        Op::SetLen(len) => {
            value.set_len(tx, len)?;
            bytes.resize(len as usize, 0);
        }
        Op::Fail(beyond) => {
            assert!(matches!(value.set_len(tx, beyond), Err(Error::ByteValueTooLong(_))));
            assert!(matches!(value.write(tx, beyond, &[1]), Err(Error::ByteValueTooLong(_))));
        }
    }
    assert_eq!(value.len(tx)?, bytes.len() as u64);
    Ok(())
}

fn check_all(db: &Db, value: ByteValue, model: &[u8]) {
    assert!(db.transact(|tx| value.read(tx, ..)).unwrap() == *model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_byte_value_is_a_vector(transactions in transactions()) {
        let scratch = Scratch::new();
        let mut db = scratch.open();
        let value = db.transact(|tx| tx.bytes("value")).unwrap();
        let mut model = Vec::new();
        for (ops, end, reopens) in transactions {
            let mut changed = model.clone();
            let ended = db.transact(|tx| {
                changed = model.clone();
                ops.iter().try_for_each(|op| apply(tx, value, &mut changed, op))?;
                match end {
                    End::Commit => Ok(()),
                    End::Abort => Err(Error::application("aborted")),
                }
            });
            match end {
                End::Commit => { ended.unwrap(); model = changed; }
                End::Abort => assert!(matches!(ended, Err(Error::Application(_))), "{ended:?}"),
            }
            if reopens {
                db.close().unwrap();
                db = scratch.open();
            }
            check_all(&db, value, &model);
        }
        db.close().unwrap();
        check_all(&scratch.open(), value, &model);
    }
}

/// The value is there, with pages of data from the beginning on, and both clients have all of it in their caches.
fn warm<'a>(dbs: impl IntoIterator<Item = &'a Db>) -> ByteValue {
    let mut found = None;
    for db in dbs {
        let value = db.transact(|tx| tx.bytes("image")).unwrap();
        if found.is_none() {
            db.transact(|tx| value.write(tx, 0, &[1; 3 * PAGE as usize])).unwrap();
        }
        assert_eq!(db.transact(|tx| value.read(tx, ..)).unwrap(), [1; 3 * PAGE as usize]);
        found = Some(value);
    }
    found.unwrap()
}

fn line(db: &Db, value: ByteValue, line: u64) -> Vec<u8> {
    db.transact(|tx| value.read(tx, LINE * line..LINE * (line + 1))).unwrap()
}

/// Checks what two transactions conflict about in one page. They are not run again.
fn lines_are_apart(one: &Db, other: &Db) {
    let value = warm([one, other]);
    // Whole lines, and parts of lines beside each other.
    for (at, len) in [(3 * LINE, LINE), (5 * LINE - 1, 1)] {
        let (mut first, mut second) = (one.begin().unwrap(), other.begin().unwrap());
        value.write(&mut first, at, &vec![2; len as usize]).unwrap();
        value.write(&mut second, at + len, &vec![3; len as usize]).unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
        for db in [one, other] {
            let both = db.transact(|tx| value.read(tx, at..at + 2 * len)).unwrap();
            let (left, right) = both.split_at(len as usize);
            assert!(left.iter().all(|&byte| byte == 2) && right.iter().all(|&byte| byte == 3), "{both:?}");
        }
    }
    // Different bytes of one line.
    let (mut first, mut second) = (one.begin().unwrap(), other.begin().unwrap());
    value.write(&mut first, 20 * LINE, &[4]).unwrap();
    value.write(&mut second, 20 * LINE + 1, &[5]).unwrap();
    first.commit().unwrap();
    let refused = second.commit().unwrap_err();
    assert_eq!(refused.caller(), Some(Caller::Retry), "{refused}");
    for db in [one, other] {
        assert_eq!(line(db, value, 20)[..3], [4, 1, 1]);
    }
    // A write of the bytes that are there changes nothing, and does not conflict.
    let (mut first, mut second) = (one.begin().unwrap(), other.begin().unwrap());
    value.write(&mut first, 21 * LINE, &[1; 64]).unwrap();
    value.write(&mut second, 21 * LINE, &[1; 64]).unwrap();
    assert_eq!(first.commit().unwrap().version, None);
    assert_eq!(second.commit().unwrap().version, None);
}

#[test]
fn lines_of_one_page_are_apart_for_two_clients() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    lines_are_apart(&Db::connect(server.address).unwrap(), &Db::connect(server.address).unwrap());
}

#[test]
fn lines_of_one_page_are_apart_for_two_members_of_a_group() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let group = Redirector::start(&server);
    lines_are_apart(&Db::connect(group.address).unwrap(), &Db::connect(group.address).unwrap());
}

#[test]
fn lines_of_one_page_are_apart_for_two_transactions_of_one_client() {
    let db = Db::in_memory().unwrap();
    lines_are_apart(&db, &db);
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let db = Db::connect(server.address).unwrap();
    lines_are_apart(&db, &db);
}

/// Each thread has a line of a page, where it counts to a thousand. None is ever in another's way.
#[test]
fn threads_count_in_lines_of_one_page() {
    let db = Db::in_memory().unwrap();
    let value = warm([&db]);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let db = &db;
            scope.spawn(move || {
                for count in 0..1_000_u64 {
                    let mut tries = 0;
                    let counted = |tx: &mut Tx| {
                        tries += 1;
                        value.write(tx, LINE * thread, &count.to_le_bytes())
                    };
                    db.transact(counted).unwrap();
                    assert_eq!(tries, 1);
                }
            });
        }
    });
    for thread in 0..4 {
        assert_eq!(line(&db, value, thread)[..8], 999_u64.to_le_bytes());
    }
}

/// Two add different pages at once, below a table that is there.
#[test]
fn pages_are_added_beside_each_other() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let dbs = [Db::connect(server.address).unwrap(), Db::connect(server.address).unwrap()];
    let value = warm(&dbs);
    dbs[0].transact(|tx| value.set_len(tx, TABLE)).unwrap();
    assert_eq!(dbs[1].transact(|tx| value.len(tx)).unwrap(), TABLE);
    let mut txs = dbs.each_ref().map(|db| db.begin().unwrap());
    for (page, tx) in (10..).zip(&mut txs) {
        value.write(tx, page * PAGE, &[page as u8; PAGE as usize]).unwrap();
    }
    for tx in txs {
        tx.commit().unwrap();
    }
    for db in dbs {
        for page in [10, 11] {
            let read = db.transact(|tx| value.read(tx, page * PAGE..(page + 1) * PAGE)).unwrap();
            assert_eq!(read, [page as u8; PAGE as usize]);
        }
    }
}

#[test]
fn a_reader_of_one_line_is_not_disturbed_by_a_commit_to_another() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let [reader, writer] = [Db::connect(server.address).unwrap(), Db::connect(server.address).unwrap()];
    let value = warm([&reader, &writer]);
    let mut tx = reader.begin().unwrap();
    assert_eq!(value.read(&mut tx, 3 * LINE..4 * LINE).unwrap(), [1; 64]);
    writer.transact(|tx| value.write(tx, 4 * LINE, &[2; 64])).unwrap();
    // The reader's client has learned of the commit.
    assert_eq!(elsewhere(|| line(&reader, value, 4)), [2; 64]);
    assert_eq!(value.read(&mut tx, 3 * LINE..4 * LINE).unwrap(), [1; 64]);
    tx.commit().unwrap();
    // A commit to its own line ends it.
    let mut tx = reader.begin().unwrap();
    assert_eq!(value.read(&mut tx, 3 * LINE..4 * LINE).unwrap(), [1; 64]);
    writer.transact(|tx| value.write(tx, 3 * LINE, &[2; 64])).unwrap();
    assert_eq!(elsewhere(|| line(&reader, value, 3)), [2; 64]);
    let doomed = value.read(&mut tx, 3 * LINE..4 * LINE);
    assert!(matches!(doomed, Err(Error::Doomed)), "{doomed:?}");
}

/// Transactions that append at the same time: each sees the length that the one before it left.
#[test]
fn a_value_grows_by_one_at_a_time() {
    let db = Db::in_memory().unwrap();
    let value = db.transact(|tx| tx.bytes("log")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let db = &db;
            let append = move |tx: &mut Tx| {
                let end = value.len(tx)?;
                value.write(tx, end, &[thread; 100])
            };
            scope.spawn(move || (0..100).for_each(|_| db.transact(append).unwrap()));
        }
    });
    let bytes = db.transact(|tx| value.read(tx, ..)).unwrap();
    for thread in 0..3 {
        assert_eq!(bytes.chunks(100).filter(|entry| **entry == [thread; 100]).count(), 100);
    }
}

/// Bytes that were never written take no room, however long the value is.
#[test]
fn a_sparse_value_is_small() {
    let db = Db::in_memory().unwrap();
    let value = db.transact(|tx| tx.bytes("sparse")).unwrap();
    let end = 512 << 30;
    db.transact(|tx| value.set_len(tx, end)).unwrap();
    let places = [0, 3 * TABLE - 1, 5 << 30, 300 << 30, end - 1];
    db.transact(|tx| places.iter().try_for_each(|&at| value.write(tx, at, &[9]))).unwrap();
    db.transact(|tx| value.write(tx, 100 << 30, &vec![0; 1 << 20])).unwrap();
    // The directory and the root, the pages, and tables of three levels.
    assert!(db.stats().cache_pages <= 1 + 5 + 1 + 5 + 5, "{:?}", db.stats());
    db.transact(|tx| {
        for at in places {
            let around = value.read(tx, at.saturating_sub(70)..at + 71)?;
            let bytes: Vec<_> = around.iter().copied().filter(|&byte| byte != 0).collect();
            assert_eq!(bytes, [9], "{at}");
        }
        assert_eq!(value.len(tx)?, end);
        assert!(matches!(value.read(tx, ..), Err(Error::ReadTooLong(bytes)) if bytes == end));
        assert!(matches!(value.write(tx, end, &[1]), Err(Error::ByteValueTooLong(_))));
        assert!(matches!(value.write(tx, u64::MAX, &[1]), Err(Error::ByteValueTooLong(_))));
        assert_eq!(value.read(tx, u64::MAX..)?, [0_u8; 0]);
        value.write(tx, u64::MAX, &[])
    })
    .unwrap();
    // Down over every border, and up again: nothing comes back.
    for (left, &len) in places.iter().enumerate().rev() {
        db.transact(|tx| {
            value.set_len(tx, len)?;
            value.set_len(tx, end)?;
            for (i, at) in places.into_iter().enumerate() {
                assert_eq!(value.read(tx, at..=at)?, [if i < left { 9 } else { 0 }], "{len}, {at}");
            }
            Ok(())
        })
        .unwrap();
    }
}

/// An emptied value gives its pages back, and its root when that is deleted.
#[test]
fn an_emptied_value_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let mut highest = 0;
    for turn in 0..40 {
        let (value, page) = db
            .transact(|tx| {
                let value = ByteValue::create(tx, Anywhere)?;
                value.write(tx, 0, &vec![7; 1 << 20])?;
                Ok((value, tx.create_bytes(Anywhere, &[1; 8_000])?.id().page.number))
            })
            .unwrap();
        db.transact(|tx| {
            value.set_len(tx, 0)?;
            assert!(value.is_empty(tx)?);
            tx.delete(value.root())
        })
        .unwrap();
        assert!(matches!(db.transact(|tx| value.len(tx)), Err(Error::NoSuchObject(_))));
        highest = highest.max(page);
        assert!(highest < 5_000, "turn {turn} takes page {page}");
    }
}

/// A page that was zeroed belongs to the value: the store does not grant it, not even after it was written back.
#[test]
fn a_page_of_zeros_is_not_given_to_others() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let value = warm([&db]);
    db.transact(|tx| value.write(tx, 0, &[0; 3 * PAGE as usize])).unwrap();
    db.close().unwrap();
    let db = scratch.open();
    for _ in 0..20 {
        db.transact(|tx| (0..100).try_for_each(|_| tx.create_bytes(Anywhere, &[7; 7_000]).map(drop))).unwrap();
    }
    assert_eq!(db.transact(|tx| value.read(tx, ..)).unwrap(), [0; 3 * PAGE as usize]);
    db.transact(|tx| value.write(tx, 0, &[2; 3 * PAGE as usize])).unwrap();
    assert_eq!(db.transact(|tx| value.read(tx, ..)).unwrap(), [2; 3 * PAGE as usize]);
}

/// A long read takes a few round trips, and not one for each page.
#[test]
fn pages_are_fetched_together() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let bytes = content(4 << 20, 5);
    let writer = Db::connect(server.address).unwrap();
    let value = writer.transact(|tx| tx.bytes("image")).unwrap();
    writer.transact(|tx| value.write(tx, 0, &bytes)).unwrap();
    let reader = Db::connect(server.address).unwrap();
    assert!(reader.transact(|tx| value.read(tx, ..)).unwrap() == bytes);
    let stats = reader.stats();
    assert!(stats.fetches < 40, "{stats:?}");
    // Nor does a write of parts of them all, by a client that has none.
    let changer = Db::connect(server.address).unwrap();
    changer.transact(|tx| value.write(tx, 1, &bytes[..bytes.len() - 1])).unwrap();
    assert!(changer.stats().fetches < 40, "{:?}", changer.stats());
    let read = reader.transact(|tx| value.read(tx, ..)).unwrap();
    assert!(read[1..] == bytes[..bytes.len() - 1] && read[0] == bytes[0]);
}

fn shown(value: impl Debug) -> String {
    format!("{value:?}")
}

#[test]
fn a_name_is_of_one_kind() {
    let db = Db::in_memory().unwrap();
    let value = db.transact(|tx| tx.bytes("image")).unwrap();
    let refused = |result: Result<String>, text: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }) && error.to_string().ends_with(text), "{error}");
    };
    refused(db.transact(|tx| tx.map::<u8, u8>("image").map(shown)), "'image' is a byte value, and a map was asked for");
    refused(
        db.transact(|tx| tx.root::<u8>("image").map(shown)),
        "'image' is a byte value, and an object was asked for",
    );
    let object = db.transact(|tx| tx.create(Anywhere, &1_u8)).unwrap();
    refused(
        db.transact(|tx| tx.set_root("image", object).map(shown)),
        "'image' is a byte value, and an object was asked for",
    );
    db.transact(|tx| tx.set_root("object", object)).unwrap();
    let map: Map<u8, u8> = db.transact(|tx| tx.map("map")).unwrap();
    refused(db.transact(|tx| tx.bytes("map").map(shown)), "'map' is a map, and a byte value was asked for");
    refused(
        db.transact(|tx| tx.find_bytes("object").map(shown)),
        "'object' is an object, and a byte value was asked for",
    );
    assert_eq!(db.transact(|tx| tx.find_bytes("nothing")).unwrap(), None);
    assert_eq!(db.transact(|tx| tx.find_bytes("image")).unwrap(), Some(value));
    // The handles do not pass for each other either.
    let of = |root: Ref<()>| ByteValue::new(root.cast());
    refused(
        db.transact(|tx| of(map.root().cast()).read(tx, ..).map(shown)),
        "is a map, and a byte value was asked for",
    );
    refused(
        db.transact(|tx| of(object.cast()).write(tx, 0, &[1]).map(shown)),
        "is a whole number, and a byte value was asked for",
    );
    let wrong: Map<u8, u8> = Map::new(value.root().cast());
    refused(
        db.transact(|tx| wrong.get(tx, &1).map(shown)),
        "is a byte value of 0 bytes, and objects::map::Map<u8, u8> was asked for",
    );
    refused(
        db.transact(|tx| tx.put(value.root().cast(), &1_u8).map(shown)),
        "is a byte value of 0 bytes, and an object to overwrite was asked for",
    );
    refused(
        db.transact(|tx| tx.get_bytes(value.root()).map(shown)),
        "is a byte value of 0 bytes, and bytes was asked for",
    );
    // A listing shows it.
    db.transact(|tx| value.write(tx, 0, &[1; 5])).unwrap();
    let stored = db.transact(Tx::stored).unwrap();
    let shown: Vec<_> = stored.iter().map(|stored| (&*stored.name, &*stored.what)).collect();
    let image = ("image", "a byte value of 5 bytes");
    assert_eq!(shown, [image, ("map", "a map with keys of type u8"), ("object", "a whole number")]);
    // It is a value itself.
    let kept = db.transact(|tx| tx.create(value, &Some(value))).unwrap();
    assert_eq!(db.transact(|tx| tx.get(kept)?.unwrap().read(tx, 1..3)).unwrap(), [1, 1]);
}

#[test]
fn futures_do_the_same() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let db = Db::connect(server.address).unwrap();
    let work = async |mut tx: AsyncTx| {
        let value = tx.bytes("image").await?;
        value.write(&mut tx, 5, &[1; 10_000]).await?;
        value.set_len(&mut tx, 9_000).await?;
        let mut buffer = [0; 100];
        assert_eq!(value.read_into(&mut tx, 8_950, &mut buffer).await?, 50);
        value.read(&mut tx, ..10).await
    };
    assert_eq!(wait_for(db.transact_async(work)).unwrap(), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
}

/// Writes that the transaction has no room for, which turns out half-way.
#[test]
fn an_operation_that_fails_has_no_effect() {
    let db = Db::in_memory().unwrap();
    let value = warm([&db]);
    db.transact(|tx| {
        value.write(tx, 100, &[2; 50])?;
        let failed = value.write(tx, PAGE + 7, &content(90 << 20, 3));
        assert!(matches!(failed, Err(Error::TransactionTooLarge)), "{failed:?}");
        assert_eq!(value.len(tx)?, 3 * PAGE);
        assert_eq!(value.read(tx, PAGE..)?, [1; 2 * PAGE as usize]);
        value.write(tx, 200, &[3; 50])
    })
    .unwrap();
    let read = db.transact(|tx| value.read(tx, ..)).unwrap();
    assert_eq!((&read[100..150], &read[200..250]), (&[2; 50][..], &[3; 50][..]));
    assert!(read.len() as u64 == 3 * PAGE && read[250..].iter().all(|&byte| byte == 1));
}

/// The store holds what no program of ours has written: all of it is refused by name, whatever is done with it.
#[test]
fn damaged_values_are_refused_by_name() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let db = Db::connect(server.address).unwrap();
    let hostile = Database::connect(&server.address.to_string(), &Config::default()).unwrap();
    let value = db.transact(|tx| tx.bytes("image")).unwrap();
    let [ones, twos] = [1, 2].map(|byte| vec![byte; 5 * PAGE as usize]);
    db.transact(|tx| value.write(tx, 0, &ones)).unwrap();
    let root = read(&hostile, value.id()).unwrap();
    let mut top = Vec::new();
    references(&root, &mut |object| top.push(object));
    let table = top[0];
    let entry = ObjectId::new(table.page, 3);
    let page = read(&hostile, entry).unwrap();
    let page = PageId::new(0, u32::from_le_bytes(page[1..].try_into().unwrap()));
    // The root with one byte changed.
    let with = |at: usize, byte: u8| {
        let mut changed = root.to_vec();
        changed[at] = byte;
        changed
    };
    let (shorter, longer) = (root[..root.len() - 1].to_vec(), [&root[..], &[0]].concat());
    let too_long = [&[0x28][..], &[1; 65]].concat();
    let roots = [shorter, longer, with(13, 4), with(12, 1), with(14, 1), with(23, 1), with(13, 0)];
    let heads = roots.into_iter().map(|bytes| (value.id(), bytes));
    let entries = [vec![0x28, 1, 0, 0], vec![0x28, 0, 0, 0, 0], vec![0x28], vec![0x20, 0, 0, 0, 0, 1], Vec::new()];
    let entries = entries.into_iter().map(|bytes| (entry, bytes));
    let line = ObjectId::new(page, 7);
    let lines = [too_long, vec![0x20, 0, 0, 0, 0, 1], vec![0x29], Vec::new()].map(|bytes| (line, bytes));
    for (object, bytes) in heads.chain(entries).chain(lines) {
        let before = read(&hostile, object).unwrap();
        write(&hostile, object, &bytes);
        let is_named = |result: Result<()>| match result {
            Err(Error::Damaged { object: named, .. }) => assert_eq!(named, object),
            other => panic!("{object}, {bytes:?}: {other:?}"),
        };
        is_named(db.transact(|tx| value.read(tx, ..).map(drop)));
        is_named(db.transact(|tx| value.write(tx, 0, &twos)));
        if object != line {
            is_named(db.transact(|tx| value.set_len(tx, 0)));
        }
        write(&hostile, object, &before);
        // An error may be of the moment before.
        let whole = std::iter::repeat_with(|| db.transact(|tx| value.read(tx, ..))).find_map(Result::ok).unwrap();
        assert!(whole == ones);
    }
    // A table whose entries all lead to one page, whose entries all lead to one page: more than a transaction frees.
    let lead = |from: PageId, to: PageId| {
        let bytes = [&[0x28][..], &to.number.to_le_bytes()].concat();
        (1..=512).for_each(|slot| write(&hostile, ObjectId::new(from, slot), &bytes));
    };
    let lowest = db.transact(|tx| Ok(tx.create_bytes(Anywhere, &[0; 8_000])?.id().page)).unwrap();
    lead(table.page, page);
    lead(page, lowest);
    lead(lowest, lowest);
    write(&hostile, value.id(), &with(13, 3));
    let cut = db.transact(|tx| value.set_len(tx, 0));
    assert!(matches!(cut, Err(Error::TransactionTooLarge)), "{cut:?}");
    hostile.close().unwrap();
}
