//! How long it takes to bring home what a dead host has left: a takeover, beside a sequential writer on home's disk.
//!
//! An owner is killed and its cache removed when it has a whole volume that is not written back. This process attaches
//! the volume again, as another host would. Its time has two parts: the *detection*, until the owner's lease is over
//! and the volume this host's, and the way home. Of one turn to the next the volume, the log and the copies are new.

use super::house::{Attaching, House, Load, volume};
use crate::experiment::Target;
use crate::machine::Watch;
use crate::pace::Pace;
use crate::sample::median;
use crate::{Place, Result, Row};
use attach::{AttachConfig, Attached, Degraded, StoredVolume, TakeOverWord};
use fixtures::nbd_client::{Client, Command as Ask};
use nbd::{Address, Export, Server, ServerConfig};
use net::Runtime;
use registry::{StoreRegistry, domain};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const TURNS: usize = 3;

/// The time that the experiment takes on a quiet machine, in seconds.
pub(crate) const TAKE_OVER_S: f64 = 60.0;

/// The way home may take this many times what a writer takes to write as much there.
const TIMES_MAX: f64 = 1.2;

/// The parts of a takeover.
struct Took {
    detection: Duration,
    home: Duration,
}

/// Runs the experiment, its turns as often as the time of its part allows. `found` hears each row as soon as it is
/// known.
///
/// # Errors
/// Something does not start, or what was promised is not there.
pub(super) fn take_overs(
    place: &Place,
    volume_mib: u64,
    pace: &Pace,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let house = House::start(place, "take-over", 4 * volume_mib, None)?;
    house.on_host(|| measure(&house, volume_mib, pace, found))
}

fn measure(house: &House, mib: u64, pace: &Pace, found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    let writes =
        Load { bytes: 1 << 20, count: mib as usize, depth: 16, is_random: false, is_synced: false, over: mib << 20 };
    let (mut detection, mut home, mut writer, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (watch, turns) = (Watch::begin(), pace.repetitions(TURNS));
    let most = turns.most();
    for turn in turns {
        pace.say(format!("take-over of {mib} MiB, turn {} of {most}", turn + 1))?;
        house.create(turn, mib << 20, 2)?;
        let mut owner = house.attach(Attaching { volume: turn, copies: 2, ack: "flush", dirty_mib: mib + mib / 2 })?;
        owner.run(writes, turn)?;
        owner.kill()?;
        std::fs::remove_dir_all(house.dir().join(format!("cache-{turn}")))?;
        let took = take_over(house, mib, turn)?;
        let wrote = write(&house.dir().join("writer"), mib)?;
        detection.push(took.detection.as_secs_f64());
        home.push(took.home.as_secs_f64());
        writer.push(wrote.as_secs_f64());
        times.push(took.home.as_secs_f64() / wrote.as_secs_f64());
        house.call(&["remove", &volume(turn)])?;
    }
    let others = watch.others_percent();
    let row =
        |case: &str, unit, figures: &[f64]| Row::new("take-over", case, unit, median(figures.to_vec())).beside(others);
    found(row("detection", "s", &detection))?;
    found(row(&format!("from then on, until {mib} MiB are home and the volume attached"), "s", &home))?;
    found(row(&format!("{mib} MiB written to home's disk and synced"), "s", &writer))?;
    let over = row("the one over the other", "times", &times).target(Target::AtMost(TIMES_MAX));
    found(over.baseline(&writer))
}

/// Attaches a volume whose owner is gone, and looks whether all of it is there.
fn take_over(house: &House, mib: u64, turn: usize) -> Result<Took> {
    let runtime = Runtime::start()?;
    let registry = Arc::new(StoreRegistry::connect(house.store(), "the experiment")?);
    let stored = StoredVolume {
        volume: registry.find(&volume(turn))?.id,
        registry,
        runtime,
        domain: domain("another"),
        spare_holders: 0,
        more_copies_after: 0,
        degraded: Degraded::WriteThrough,
        silence: Duration::from_secs(5),
        replace_after: Duration::from_secs(30),
        lease_patience: Duration::from_secs(60),
    };
    let config = AttachConfig {
        clean_bytes: 0,
        log_bytes: 64 << 20,
        ..AttachConfig::new("".into(), house.dir().join(format!("after-{turn}")))
    };
    let (begun, mut claimed) = (Instant::now(), None);
    let mut hear = |word: TakeOverWord| {
        if matches!(word, TakeOverWord::Claimed(_)) {
            claimed = Some(Instant::now());
        }
    };
    let attached = Arc::new(Attached::attach_stored(&stored, &config, &AtomicBool::new(false), &mut hear)?);
    let claimed = claimed.ok_or("the volume was taken over without a claim")?;
    let took = Took { detection: claimed.duration_since(begun), home: claimed.elapsed() };
    check(house, mib, turn, &attached)?;
    Ok(took)
}

/// Reads the volume through its new owner, and detaches it.
fn check(house: &House, mib: u64, turn: usize, attached: &Arc<Attached>) -> Result<()> {
    let address = Address::Unix(house.dir().join("nbd-after"));
    let export = Export { name: String::new(), description: String::new(), device: attached.clone() };
    let server = Server::start(&ServerConfig::new(address.clone()), vec![export])?;
    let mut client = Client::connect(&address, "")?;
    for piece in 0..mib {
        let read = client.call(&Ask::Read { offset: piece << 20, len: 1 << 20, whole: false })?;
        if read.error != 0 || read.data.iter().any(|byte| *byte != turn as u8 + 1) {
            return Err(format!("of the MiB at {piece} something that was promised is not there").into());
        }
    }
    client.disconnect()?;
    server.stop(Duration::from_secs(5));
    Ok(attached.detach()?)
}

/// Writes as much, sequentially, and syncs it.
fn write(path: &Path, mib: u64) -> Result<Duration> {
    let (piece, begun) = (vec![1; 1 << 20], Instant::now());
    let mut file = File::create(path)?;
    (0..mib).try_for_each(|_| file.write_all(&piece))?;
    file.sync_data()?;
    let took = begun.elapsed();
    std::fs::remove_file(path)?;
    Ok(took)
}
