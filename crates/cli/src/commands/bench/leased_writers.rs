//! Writers of two sites on a leased space, over lines that are really long and lose packets: each commit waits for the
//! other site's promise.

use crate::Result;
use crate::cluster::{Cluster, Roles};
use crate::crew::now;
use crate::history::Ending;
use crate::job::{Lists, Work};
use crate::lab::Lab;
use bench::Line;
use std::path::Path;
use std::time::Duration;
use thorp::Db;

/// The sites, each with a redirector and so many writers.
const SITES: u32 = 2;
const WRITERS: u32 = 4;

/// How long leases last, in milliseconds.
const LEASE_MS: u32 = 100;

/// The lists that they append to, one to three at a time.
const KEYS: u64 = 900;

/// How long caches fill, and how long is measured.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(30);

/// How long the last commits may take.
const REST_WITHIN: Duration = Duration::from_secs(60);

/// The bounds, in round trips of the line.
const P50_MAX: f64 = 2.5;
const P99_MAX: f64 = 8.0;

pub(super) fn measure(dir: &Path, file: &Path, progress: &dyn Fn(&str)) -> Result<Line> {
    let lab = Lab::read(file, SITES as usize)?;
    let line = lab.line().ok_or("the lab's file does not say what its lines are like")?;
    let (round_trip, loss_percent) = (line.round_trip(), line.loss_percent);
    let dir = dir.join("store");
    let db = Db::open(&dir)?;
    Lists::create(&db, KEYS, 0)?;
    db.close()?;
    let roles = Roles { groups: SITES, clients: WRITERS, lease_ms: Some(LEASE_MS), patience: None };
    let mut cluster = Cluster::gather(&dir, lab, roles)?;
    let work = |writes| move |member| Work::new(0..KEYS, writes, member as u64);
    progress("fill the caches");
    cluster.work(&work(0.0))?;
    cluster.crew.wait_for(WARM_UP)?;
    progress("write");
    cluster.work(&work(1.0))?;
    cluster.crew.wait_for(WARM_UP)?;
    let since = now();
    cluster.crew.wait_for(MEASURED)?;
    let members = cluster.members();
    cluster.crew.rest(&members, REST_WITHIN)?;
    let commits = cluster.crew.latencies(&members, since);
    let all = cluster.crew.transactions(&members, since);
    let failed = all.iter().filter(|transaction| transaction.ending != Ending::Committed).count();
    let over = |quantile| commits.millis(quantile) / (round_trip.as_secs_f64() * 1e3);
    let met = over(0.5) <= P50_MAX && over(0.99) <= P99_MAX && failed == 0 && !commits.is_empty();
    Ok(Line::new("leased-writers")
        .count("sites", SITES.into())
        .count("writers", members.len() as u64)
        .count("keys", KEYS)
        .count("lease_ms", LEASE_MS.into())
        .figure("round_trip_ms", round_trip.as_secs_f64() * 1e3)
        .figure("loss_percent", loss_percent)
        .count("commits", commits.len() as u64)
        .count("aborts", cluster.crew.counts(&members).aborts)
        .count("failed", failed as u64)
        .figure("commit_ms_p50", commits.millis(0.5))
        .figure("commit_ms_p99", commits.millis(0.99))
        .figure("commit_ms_max", commits.millis(1.0))
        .figure("p50_over_round_trip", over(0.5))
        .figure("p99_over_round_trip", over(0.99))
        .flag("met", met))
}
