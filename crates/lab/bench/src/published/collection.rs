//! Publishes while the chunks of 90 of 100 revisions are removed, over the same publishes before.

use super::directory::Directory;
use super::farm::{Farm, publish, site};
use super::{SiteSizes, line};
use crate::{Line, Place, Result, Sample};
use files::{SiteSettings, Sites};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The files of the site, each of them another one in every revision.
const FILES: u64 = 1000;
const FILE_BYTES: usize = 1024;

/// Revisions of the site, and those that are left.
const REVISIONS: u64 = 100;
const KEPT: u32 = 10;
const TRIAL_REVISIONS: u64 = 20;

/// Short leases, and how long they take to end: a store drops no revision in the first one after its start, and keeps
/// for one what a publisher has sent whose session has ended.
const LEASES: &[&str] = &["--site-lease-ms", "500"];
const LEASES_END: Duration = Duration::from_secs(2);

/// How long publishes are measured before.
const BEFORE: Duration = Duration::from_secs(3);

/// The bound, of p99 over that before.
const OVER_BEFORE_MAX: f64 = 2.0;

pub(super) fn measure(place: &Place, sizes: SiteSizes, progress: &dyn Fn(&str)) -> Result<Line> {
    let farm = Farm::start(place, "collection", LEASES)?;
    let directory = Directory::deep(farm.path("www"), sizes.files_up_to(FILES), FILE_BYTES)?;
    let revisions = if sizes.is_trial() { TRIAL_REVISIONS } else { REVISIONS };
    make_revisions(&farm.sites()?, &directory, revisions, progress)?;
    let (sites, collector) = (farm.sites()?, farm.sites()?);
    thread::sleep(LEASES_END);
    progress("publish without a collection");
    let mut version = revisions;
    let mut before = Sample::default();
    let mut once = |sample: &mut Sample| -> Result<()> {
        version += 1;
        directory.write(version % directory.files(), version)?;
        sample.time(|| publish(&sites, directory.path()))?;
        Ok(())
    };
    let begun = Instant::now();
    while begun.elapsed() < sizes.during(BEFORE) {
        once(&mut before)?;
    }
    progress("publish during a collection");
    sites.set(&site(), SiteSettings { keep: Some(KEPT), ..SiteSettings::default() })?;
    // The next publish drops the revisions that are no longer kept.
    once(&mut Sample::default())?;
    let (is_over, mut during) = (AtomicBool::new(false), Sample::default());
    let (collected, took) = thread::scope(|scope| {
        let collecting = scope.spawn(|| collect(&collector, &is_over));
        while !is_over.load(SeqCst) {
            once(&mut during)?;
        }
        collecting.join().unwrap_or_else(|_| Err("the collection panicked".into()))
    })?;
    // The files of each revision that is gone, and some directories.
    let least = (revisions - u64::from(KEPT)) * directory.files();
    let over_before = during.millis(0.99) / before.millis(0.99);
    Ok(line("collection")
        .count("revisions", revisions)
        .count("kept", KEPT.into())
        .count("removed_chunks", collected)
        .count("removed_chunks_min", least)
        .figure("collection_ms", took.as_secs_f64() * 1e3)
        .count("publishes", during.len() as u64)
        .count("publishes_before", before.len() as u64)
        .figure("publish_ms_p50", during.millis(0.5))
        .figure("before_ms_p50", before.millis(0.5))
        .figure("publish_ms_p99", during.millis(0.99))
        .figure("before_ms_p99", before.millis(0.99))
        .figure("over_before", over_before)
        .figure("over_before_max", OVER_BEFORE_MAX)
        .met(over_before <= OVER_BEFORE_MAX && collected >= least, &before.thirds()))
}

/// Publishes all revisions, in a session that ends: while a publisher's session lasts, what it has sent stays.
fn make_revisions(sites: &Sites, directory: &Directory, revisions: u64, progress: &dyn Fn(&str)) -> Result<()> {
    sites.create(&site(), SiteSettings { keep: Some(revisions as u32), ..SiteSettings::default() })?;
    for revision in 1..=revisions {
        progress(&format!("publish revision {revision} of {revisions}"));
        (0..directory.files()).try_for_each(|file| directory.write(file, revision))?;
        publish(sites, directory.path())?;
    }
    Ok(())
}

/// Removes the chunks that no revision needs. Returns how many, and how long that took.
fn collect(sites: &Sites, is_over: &AtomicBool) -> Result<(u64, Duration)> {
    let begun = Instant::now();
    let collected = sites.collect();
    let took = begun.elapsed();
    is_over.store(true, SeqCst);
    Ok((collected?.chunks, took))
}
