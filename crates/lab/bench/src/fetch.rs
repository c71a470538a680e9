//! Pages that are not cached, one at a time, against a bare ping-pong of their size.

use crate::floor::{PingPong, Shuffle};
use crate::{Line, Place, Result, Sample};
use objects::{Anywhere, Db, Ref};

/// Objects that have a page each.
const OBJECTS: usize = 2000;
const OBJECT_BYTES: usize = 8000;

/// A request for one page, and a page with its header, as they are on the wire.
const REQUEST_BYTES: usize = 40;
const PAGE_BYTES: usize = 8192;

pub(crate) fn measure(place: &Place) -> Result<Line> {
    let server = place.serve("store")?;
    let mut objects = create(&Db::connect(server.address())?)?;
    Shuffle::new().order(&mut objects);
    // Every read is one round trip for one page.
    let db = Db::builder().prefetch_pages(0).connect(server.address())?;
    let mut pings = PingPong::new(REQUEST_BYTES, PAGE_BYTES)?;
    let (mut fetch, mut ping) = (Sample::default(), Sample::default());
    db.transact(|tx| {
        for &object in &objects {
            let bytes = fetch.time(|| tx.read(object, <[u8]>::len))?;
            assert_eq!(bytes, Some(OBJECT_BYTES), "an object is not what was written");
            ping.push(pings.once().map_err(objects::Error::application)?);
        }
        Ok(())
    })?;
    let line = Line::new("fetch")
        .count("fetches", db.stats().fetches)
        .figure("fetch_us_p50", fetch.micros(0.5))
        .figure("fetch_us_p99", fetch.micros(0.99))
        .figure("ping_us_p50", ping.micros(0.5))
        .figure("over_ping", fetch.micros(0.5) / ping.micros(0.5));
    Ok(line)
}

fn create(db: &Db) -> Result<Vec<Ref<[u8]>>> {
    let mut objects = Vec::new();
    while objects.len() < OBJECTS {
        let batch: Vec<Ref<[u8]>> =
            db.transact(|tx| (0..100).map(|_| tx.create_bytes(Anywhere, &[7; OBJECT_BYTES])).collect())?;
        objects.extend(batch);
    }
    Ok(objects)
}
