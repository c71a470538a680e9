//! Cached reads, against lookups in a hash map of as many keys.

use crate::floor::{HashMapFloor, Shuffle};
use crate::sample::median;
use crate::{Line, Place, Result};
use objects::{Anywhere, Db, Ref, Tx};
use std::hint::black_box;
use std::time::Instant;

/// As many as a medium OO7 module has atomic parts, and of their size.
const OBJECTS: u64 = 100_000;
const OBJECT_BYTES: usize = 100;

/// Reads and lookups, in turns.
const TURNS: usize = 21;

pub(crate) fn measure(place: &Place) -> Result<Line> {
    let server = place.serve("store")?;
    let db = Db::connect(server.address())?;
    let mut objects = create(&db)?;
    let mut keys: Vec<u64> = (0..OBJECTS).collect();
    Shuffle::new().order(&mut objects);
    Shuffle::new().order(&mut keys);
    let map = HashMapFloor::new(&keys);
    let turns = db.transact(|tx| {
        // Everything is fetched and noted as read before the first turn.
        read_ns(tx, &objects)?;
        (0..TURNS).map(|_| Ok((read_ns(tx, &objects)?, map.lookup_ns(&keys)))).collect::<objects::Result<Vec<_>>>()
    })?;
    let ratios = turns.iter().map(|(read, lookup)| read / lookup).collect();
    let (reads, lookups): (Vec<f64>, Vec<f64>) = turns.into_iter().unzip();
    let line = Line::new("read")
        .count("objects", OBJECTS)
        .figure("cached_read_ns", median(reads))
        .figure("hashmap_ns", median(lookups))
        .figure("over_hashmap", median(ratios));
    Ok(line)
}

fn create(db: &Db) -> Result<Vec<Ref<[u8]>>> {
    let mut objects = Vec::new();
    while objects.len() < OBJECTS as usize {
        let batch = |tx: &mut Tx| (0..5000).map(|_| tx.create_bytes(Anywhere, &[7; OBJECT_BYTES])).collect();
        let batch: Vec<Ref<[u8]>> = db.transact(batch)?;
        objects.extend(batch);
    }
    Ok(objects)
}

/// Nanoseconds for one read, over all objects in their order.
fn read_ns(tx: &mut Tx, objects: &[Ref<[u8]>]) -> objects::Result<f64> {
    let start = Instant::now();
    let mut sum = 0_u64;
    for &object in objects {
        sum += tx.read(object, |bytes| u64::from(bytes[0]))?.unwrap_or(0);
    }
    assert_eq!(black_box(sum), 7 * objects.len() as u64, "an object is not what was written");
    Ok(start.elapsed().as_nanos() as f64 / objects.len() as f64)
}
