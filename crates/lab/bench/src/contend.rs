//! All clients increment one counter: one that loses to others must have its turn before long.

use crate::{Line, Place, Result, Sample};
use objects::{Anywhere, Db, Ref};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// How long they do.
const TIME: Duration = Duration::from_secs(10);

/// The longest wait for a commit, over the median.
const WORST_MAX: f64 = 50.0;

/// Measures so many threads of one database, embedded and of a server, and so many clients of one server.
pub(crate) fn measure(
    place: &Place,
    contenders: u32,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    progress("threads of one database");
    let embedded = Db::open(place.dir.join("embedded"))?;
    found(contend("threads", &vec![embedded.clone(); contenders as usize])?)?;
    embedded.close()?;
    let server = place.serve("server")?;
    progress("threads of one client");
    found(contend("threads of a client", &vec![Db::connect(server.address())?; contenders as usize])?)?;
    progress("clients of one server");
    let clients = (0..contenders).map(|_| Ok(Db::connect(server.address())?)).collect::<Result<Vec<_>>>()?;
    found(contend("clients", &clients)?)
}

/// Each database has a thread of its own that increments the counter.
fn contend(by: &str, contenders: &[Db]) -> Result<Line> {
    let counter = contenders[0].transact(|tx| tx.create(Anywhere, &0_u64))?;
    let aborts = || contenders.iter().map(|db| db.stats().refused + db.stats().doomed).sum::<u64>();
    let aborts_before = aborts();
    let (together, stop) = (Barrier::new(contenders.len()), AtomicBool::new(false));
    let samples = thread::scope(|scope| {
        let work = |db| {
            let (together, stop) = (&together, &stop);
            scope.spawn(move || increment(db, counter, together, stop))
        };
        let workers: Vec<_> = contenders.iter().map(work).collect();
        thread::sleep(TIME);
        stop.store(true, SeqCst);
        workers
            .into_iter()
            .map(|worker| worker.join().expect("incrementing does not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut all = Sample::default();
    for sample in &samples {
        all.extend(sample);
    }
    let count = contenders[0].transact(|tx| tx.get(counter))?;
    let over_median = all.nanos(1.0) / all.nanos(0.5);
    let fewest = samples.iter().map(Sample::len).min().unwrap_or_default();
    Ok(Line::new("contend")
        .word("by", by)
        .count("contenders", contenders.len() as u64)
        .count("commits", all.len() as u64)
        .count("fewest", fewest as u64)
        .count("aborts", aborts() - aborts_before)
        .figure("wait_us_p50", all.micros(0.5))
        .figure("wait_us_p99", all.micros(0.99))
        .figure("wait_us_max", all.micros(1.0))
        .figure("over_median", over_median)
        .flag("met", over_median <= WORST_MAX && count == all.len() as u64))
}

fn increment(db: &Db, counter: Ref<u64>, together: &Barrier, stop: &AtomicBool) -> Result<Sample> {
    let mut sample = Sample::default();
    together.wait();
    while !stop.load(SeqCst) {
        sample.time(|| db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1)))))?;
    }
    Ok(sample)
}
