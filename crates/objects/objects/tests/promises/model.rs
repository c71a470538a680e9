//! A database against collections of the standard library's: random transactions over maps, objects, names and cursors,
//! in which operations fail, are committed, aborted and torn apart by panics, on caches of all sizes, across openings.

use crate::scratch::Scratch;
use objects::{Anywhere, Db, Error, Map, Ref, Result, Tx};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Few, so that each is often met in every state.
const MAPS: usize = 2;
const KEYS: u16 = 120;
const NAMES: usize = 3;

/// One operation. Objects are meant by their position among all that were ever created, modulo their number.
#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    CreateBytes(usize),
    Put(usize, usize),
    Get(usize),
    Delete(usize),
    Insert(usize, u16, usize),
    Remove(usize, u16),
    Lookup(usize, u16),
    Halve(usize, u16),
    RemoveRange(usize, u16, u16),
    Clear(usize),
    Scan {
        map: usize,
        from: u16,
        backwards: bool,
        steps: usize,
        between: Option<(u16, usize)>,
    },
    Name(usize, usize),
    Unname(usize),
    Named(usize),
    /// A key that is too long, a map of other types, an object of another type: refused, without effect.
    Fail(usize),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Abort,
    Panic,
}

/// The payload of a panic that a transaction is to raise.
struct Torn;

/// From nothing to chains of several chunks.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..60usize, 4 => 400..700usize, 2 => 3_000..9_000usize, 1 => 60_000..140_000usize]
}

fn ops() -> impl Strategy<Value = Op> {
    let map = || 0..MAPS;
    let key = || 0..KEYS;
    let between = proptest::option::of((key(), sizes()));
    prop_oneof![
        4 => sizes().prop_map(Op::Create),
        2 => sizes().prop_map(Op::CreateBytes),
        4 => (any::<usize>(), sizes()).prop_map(|(object, size)| Op::Put(object, size)),
        4 => any::<usize>().prop_map(Op::Get),
        2 => any::<usize>().prop_map(Op::Delete),
        12 => (map(), key(), sizes()).prop_map(|(map, key, size)| Op::Insert(map, key, size)),
        6 => (map(), key()).prop_map(|(map, key)| Op::Remove(map, key)),
        4 => (map(), key()).prop_map(|(map, key)| Op::Lookup(map, key)),
        3 => (map(), key()).prop_map(|(map, key)| Op::Halve(map, key)),
        1 => (map(), key(), key()).prop_map(|(map, low, high)| Op::RemoveRange(map, low, high)),
        1 => map().prop_map(Op::Clear),
        3 => (map(), key(), any::<bool>(), 1..12usize, between).prop_map(|(map, from, backwards, steps, between)| {
            Op::Scan { map, from, backwards, steps, between }
        }),
        1 => (0..NAMES, any::<usize>()).prop_map(|(name, object)| Op::Name(name, object)),
        1 => (0..NAMES).prop_map(Op::Unname),
        1 => (0..NAMES).prop_map(Op::Named),
        3 => any::<usize>().prop_map(Op::Fail),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<(Vec<Op>, End, bool)>> {
    let end = prop_oneof![4 => Just(End::Commit), 1 => Just(End::Abort), 1 => Just(End::Panic)];
    let reopens = proptest::bool::weighted(0.2);
    proptest::collection::vec((proptest::collection::vec(ops(), 1..25), end, reopens), 1..20)
}

/// The content of an object: a value or bytes, or nothing once it was deleted.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Value(String),
    Bytes(Vec<u8>),
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Model {
    objects: Vec<(Ref<String>, Content)>,
    maps: [BTreeMap<u16, String>; MAPS],
    names: BTreeMap<String, Ref<String>>,
    /// How many contents were made up: no two are the same.
    made: usize,
}

impl Model {
    fn make(&mut self, size: usize) -> String {
        self.made += 1;
        format!("{}{}", self.made, " ".repeat(size))
    }

    fn pick(&self, object: usize) -> Option<usize> {
        object.checked_rem(self.objects.len())
    }
}

struct Run<'a> {
    tx: &'a mut Tx,
    maps: [Map<u16, String>; MAPS],
    model: &'a mut Model,
}

impl Run<'_> {
    fn apply(&mut self, op: &Op) -> Result<()> {
        let Self { tx, maps, model } = self;
        match *op {
            Op::Create(size) => {
                let value = model.make(size);
                let object = tx.create(Anywhere, &value)?;
                model.objects.push((object, Content::Value(value)));
            }
            Op::CreateBytes(size) => {
                let bytes = model.make(size).into_bytes();
                let near = model.objects.last().map(|(object, _)| object.id());
                let object = tx.create_bytes(near, &bytes)?;
                model.objects.push((object.cast(), Content::Bytes(bytes)));
            }
            Op::Put(object, size) => self.put(object, size)?,
            Op::Get(object) => {
                if let Some(at) = model.pick(object) {
                    check_object(tx, &model.objects[at])?;
                }
            }
            Op::Delete(object) => {
                let Some(at) = model.pick(object) else { return Ok(()) };
                let (object, content) = &mut model.objects[at];
                let deleted = tx.delete(*object);
                match content {
                    Content::Gone => gone(&deleted),
                    _ => deleted?,
                }
                *content = Content::Gone;
            }
            Op::Insert(map, key, size) => {
                let value = model.make(size);
                assert_eq!(maps[map].insert(tx, &key, &value)?, model.maps[map].insert(key, value));
            }
            Op::Remove(map, key) => assert_eq!(maps[map].remove(tx, &key)?, model.maps[map].remove(&key)),
            Op::Lookup(map, key) => {
                assert_eq!(maps[map].get(tx, &key)?.as_ref(), model.maps[map].get(&key));
                assert_eq!(maps[map].contains_key(tx, &key)?, model.maps[map].contains_key(&key));
            }
            Op::Halve(map, key) => {
                let halve =
                    |old: Option<String>| old.map(|old| old[..old.len() / 2].to_owned()).filter(|new| !new.is_empty());
                maps[map].update(tx, &key, halve)?;
                if let Some(new) = halve(model.maps[map].remove(&key)) {
                    model.maps[map].insert(key, new);
                }
            }
            Op::RemoveRange(map, low, high) => {
                let before = model.maps[map].len();
                model.maps[map].retain(|key, _| !(low..high).contains(key));
                assert_eq!(maps[map].remove_range(tx, low..high)?, before - model.maps[map].len());
            }
            Op::Clear(map) => {
                maps[map].clear(tx)?;
                model.maps[map].clear();
            }
            Op::Scan { .. } => self.scan(op)?,
            Op::Name(name, object) => {
                let Some(at) = model.pick(object) else { return Ok(()) };
                let (name, object) = (format!("name {name}"), model.objects[at].0);
                tx.set_root(&name, object)?;
                model.names.insert(name, object);
            }
            Op::Unname(name) => {
                let name = format!("name {name}");
                tx.remove_root(&name)?;
                model.names.remove(&name);
            }
            Op::Named(name) => {
                let name = format!("name {name}");
                assert_eq!(tx.root::<String>(&name)?, model.names.get(&name).copied());
            }
            Op::Fail(how) => self.fail(how)?,
        }
        Ok(())
    }

    fn put(&mut self, object: usize, size: usize) -> Result<()> {
        let Self { tx, model, .. } = self;
        let Some(at) = model.pick(object) else { return Ok(()) };
        let value = model.make(size);
        let (object, content) = &mut model.objects[at];
        match content {
            Content::Value(old) => {
                tx.put(*object, &value)?;
                *old = value;
            }
            Content::Bytes(old) => {
                tx.put_bytes(*object, value.as_bytes())?;
                *old = value.into_bytes();
            }
            Content::Gone => gone(&tx.put(*object, &value)),
        }
        Ok(())
    }

    /// A cursor goes its steps; half way something is put in, wherever that is.
    fn scan(&mut self, op: &Op) -> Result<()> {
        let Self { tx, maps, model } = self;
        let Op::Scan { map, from, backwards, steps, between } = *op else { unreachable!("it is a scan") };
        let mut cursor = if backwards { maps[map].range(..from).backwards() } else { maps[map].range(from..) };
        let mut at = from;
        for step in 0..steps {
            if let Some((key, size)) = between.filter(|_| step == steps / 2) {
                let value = model.make(size);
                assert_eq!(maps[map].insert(tx, &key, &value)?, model.maps[map].insert(key, value));
            }
            let entries = &model.maps[map];
            let next = if backwards { entries.range(..at).next_back() } else { entries.range(at..).next() };
            let next = next.map(|(key, value)| (*key, value.clone()));
            assert_eq!(cursor.next(tx)?, next);
            let Some((key, _)) = next else { break };
            at = if backwards { key } else { key + 1 };
        }
        Ok(())
    }

    fn fail(&mut self, how: usize) -> Result<()> {
        let Self { tx, maps, model } = self;
        let map = maps[how % MAPS];
        match how % 5 {
            0 => {
                let long: Map<String, String> = tx.map("long")?;
                let refused = long.insert(tx, &"x".repeat(2_000), &String::new());
                assert!(matches!(refused, Err(Error::KeyTooLong(_))), "{refused:?}");
            }
            1 => {
                let refused = Map::<u32, String>::new(map.root().cast()).insert(tx, &1, &String::new());
                assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
            }
            2 => {
                let refused = tx.put(map.root().cast(), &String::new());
                assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
            }
            3 => {
                let refused = tx.create_bytes(Anywhere, &vec![0; 65 << 20]);
                assert!(matches!(refused, Err(Error::ObjectTooLarge(_))), "{refused:?}");
            }
            _ => {
                let Some(at) = model.pick(how) else { return Ok(()) };
                let (object, content) = &model.objects[at];
                let read = tx.get(object.cast::<u8>());
                let is_refused = match content {
                    Content::Gone => matches!(read, Err(Error::NoSuchObject(_))),
                    Content::Value(_) | Content::Bytes(_) => matches!(read, Err(Error::WrongKind { .. })),
                };
                assert!(is_refused, "{read:?} of {content:?}");
            }
        }
        Ok(())
    }

    fn check_whole(&mut self) -> Result<()> {
        let Self { tx, maps, model } = self;
        for object in &model.objects {
            check_object(tx, object)?;
        }
        for (map, entries) in maps.iter().zip(&model.maps) {
            assert_eq!(map.iter().collect(tx)?, entries.clone().into_iter().collect::<Vec<_>>());
        }
        let named = tx.names()?.into_iter().filter(|name| name.starts_with("name"));
        assert_eq!(named.collect::<Vec<_>>(), model.names.keys().cloned().collect::<Vec<_>>());
        Ok(())
    }
}

fn check_object(tx: &mut Tx, (object, content): &(Ref<String>, Content)) -> Result<()> {
    match content {
        Content::Value(value) => assert_eq!(&tx.get(*object)?, value),
        Content::Bytes(bytes) => assert_eq!(tx.get_bytes(*object)?.as_ref(), Some(bytes)),
        Content::Gone => gone(&tx.get(*object)),
    }
    Ok(())
}

#[track_caller]
fn gone<T>(result: &Result<T>) {
    assert!(matches!(result, Err(Error::NoSuchObject(_))), "it is there again");
}

/// Runs one transaction on the database and on the model; the model is as it was if it does not commit.
fn transact(db: &Db, model: &mut Model, ops: &[Op], end: End) {
    let mut after = model.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        db.transact(|tx| {
            after.clone_from(model);
            let maps = [tx.map("map 0")?, tx.map("map 1")?];
            let mut run = Run { tx, maps, model: &mut after };
            ops.iter().try_for_each(|op| run.apply(op))?;
            run.check_whole()?;
            match end {
                End::Commit => Ok(()),
                End::Abort => Err(Error::application("abort")),
                End::Panic => std::panic::resume_unwind(Box::new(Torn)),
            }
        })
    }));
    match (ran, end) {
        (Ok(Ok(())), End::Commit) => *model = after,
        (Ok(Err(Error::Application(_))), End::Abort) => {}
        (Err(panic), End::Panic) if panic.is::<Torn>() => {}
        (Err(panic), _) => std::panic::resume_unwind(panic),
        (Ok(ran), _) => panic!("{ran:?} at {end:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_database_is_its_model(
        transactions in transactions(),
        cache_bytes in prop_oneof![Just(0), Just(64 << 10), Just(1 << 20)],
        prefetch_pages in prop_oneof![Just(0), Just(16)],
    ) {
        let scratch = Scratch::new();
        let open = || {
            let settings = Scratch::builder().cache_bytes(cache_bytes).prefetch_pages(prefetch_pages);
            settings.open(scratch.path()).unwrap()
        };
        let mut db = open();
        let mut model = Model::default();
        for (ops, end, reopens) in &transactions {
            transact(&db, &mut model, ops, *end);
            if *reopens {
                db.close().unwrap();
                db = open();
            }
            transact(&db, &mut model, &[], End::Commit);
        }
    }
}
