//! A hundred files a second: each is written at its time, and a publisher publishes again and again what has been
//! written. The figure is the time from the return of a publish to the last server that serves it.

use super::directory::Directory;
use super::farm::{Farm, publish};
use super::watch::Watch;
use super::{SiteSizes, line};
use crate::floor::SyncFloor;
use crate::{Line, Place, Result, Sample};
use files::Sites;
use fixtures::Process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const FILES: u64 = 1000;
const FILE_BYTES: usize = 1024;
const MEMBERS: usize = 10;

/// The time between two files, and how long they are written.
const EVERY: Duration = Duration::from_millis(10);
const DURING: Duration = Duration::from_secs(10);

/// The pause between two looks at the servers.
const PAUSE: Duration = Duration::from_millis(1);

/// The bound, in milliseconds.
const P99_MAX: f64 = 250.0;

/// A publish that has returned.
struct Returned {
    revision: u64,
    at: Instant,
}

/// The work of the publisher.
#[derive(Debug, Default)]
struct Done {
    files: u64,
    took: Sample,
    elapsed: Duration,
}

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "burst", &[])?;
    let directory = Directory::deep(farm.path("www"), sizes.files_up_to(FILES), FILE_BYTES)?;
    let sites = farm.sites()?;
    let first = publish(&sites, directory.path())?.revision.number;
    progress("start servers of a site");
    let count = sizes.members.min(MEMBERS);
    let start = |number: usize| farm.member(&format!("member-{number}"), farm.address());
    let members = (0..count).map(start).collect::<Result<Vec<Process>>>()?;
    let mut watch = Watch::new(&members);
    watch.wait(first)?;
    progress("100 files a second");
    let mut floor = SyncFloor::new(&place.dir)?;
    let mut sync = Sample::default();
    for _ in 0..100 {
        sync.push(floor.once()?);
    }
    let (during, (sender, receiver)) = (sizes.during(DURING), channel());
    let (sites, directory) = (&sites, &directory);
    let (done, served) = thread::scope(|scope| {
        // The servers are looked at until the sender is gone.
        let publisher = scope.spawn(move || publish_all(sites, directory, during, &sender));
        let served = see_all(&mut watch, &receiver);
        let done = publisher.join().unwrap_or_else(|_| Err("the publisher panicked".into()));
        Ok::<_, crate::Error>((done?, served?))
    })?;
    let p99 = served.millis(0.99);
    Ok(line("burst")
        .count("members", count as u64)
        .figure("files_per_s", done.files as f64 / done.elapsed.as_secs_f64())
        .figure("publishes_per_s", done.took.len() as f64 / done.elapsed.as_secs_f64())
        .figure("publish_ms_p50", done.took.millis(0.5))
        .figure("publish_ms_p99", done.took.millis(0.99))
        .figure("fdatasync_ms_p50", sync.millis(0.5))
        .figure("served_ms_p50", served.millis(0.5))
        .figure("served_ms_p99", p99)
        .figure("served_ms_max", served.millis(1.0))
        .figure("ms_p99_max", P99_MAX)
        .flag("met", p99 <= P99_MAX))
}

/// Writes files at their times, and publishes what has been written.
fn publish_all(sites: &Sites, directory: &Directory, during: Duration, returned: &Sender<Returned>) -> Result<Done> {
    let (begun, mut done) = (Instant::now(), Done::default());
    while begun.elapsed() < during {
        let due = (begun.elapsed().as_nanos() / EVERY.as_nanos()) as u64 + 1;
        for file in done.files..due {
            directory.write(file % directory.files(), file + 1)?;
        }
        done.files = due;
        let published = done.took.time(|| publish(sites, directory.path()))?;
        let revision = published.revision.number;
        // Without a receiver the measurement has failed already, with a reason of its own.
        let _ = returned.send(Returned { revision, at: Instant::now() });
        thread::sleep((EVERY * due as u32).saturating_sub(begun.elapsed()));
    }
    done.elapsed = begun.elapsed();
    Ok(done)
}

/// Looks at the servers until they serve all publishes; returns how long after its return each was served by all.
fn see_all(watch: &mut Watch, returned: &Receiver<Returned>) -> Result<Sample> {
    let (mut served, mut waiting) = (Sample::default(), Vec::new());
    loop {
        if waiting.is_empty() {
            match returned.recv() {
                Ok(publish) => waiting.push(publish),
                Err(_) => return Ok(served),
            }
        }
        waiting.extend(returned.try_iter());
        let oldest = watch.oldest()?;
        waiting.retain(|publish| {
            let is_served = publish.revision <= oldest;
            if is_served {
                served.push(publish.at.elapsed());
            }
            !is_served
        });
        thread::sleep(PAUSE);
    }
}
