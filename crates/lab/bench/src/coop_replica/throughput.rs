//! The CoopReplica paper's figure 2: write throughput without copies, with asynchronous and with synchronous ones.
//!
//! The kinds of volumes take turns, each turn with an attachment of its own, after which everything goes home; a figure
//! is the median of the turns, and a ratio that of each turn's own. A load is over when all of it is safe where the
//! volume says so. Beside them stands a plain device: a file on the owner's disk without a cache or copies, served by
//! the same door.

use super::house::{Attaching, House, Load, Outcome, Owner, Plain};
use crate::experiment::Target;
use crate::floor::{PingPong, SyncFloor};
use crate::machine::Watch;
use crate::pace::Pace;
use crate::sample::median;
use crate::{Place, Result, Row, Sample};
use std::path::Path;

/// The figure of the paper that is an experiment which can be repeated.
pub const COOPREPLICA_FIGURE: u32 = 2;

const TURNS: usize = 5;

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) copies: u8,
    /// When a write is answered.
    pub(super) ack: &'static str,
}

/// Each kind with copies follows the one without that answers at the same moment.
pub(super) const KINDS: [Kind; 4] = [
    Kind { name: "none", copies: 1, ack: "flush" },
    Kind { name: "asynchronous", copies: 2, ack: "flush" },
    Kind { name: "none, synced", copies: 1, ack: "write" },
    Kind { name: "synchronous", copies: 2, ack: "write" },
];

/// The plain device: answered when it is in memory, and when it is durable.
const PLAIN: [&str; 2] = ["plain device", "plain device, synced"];

/// The subjects: the kinds of volumes, and behind them the plain device in both ways.
const SUBJECTS: usize = KINDS.len() + PLAIN.len();

/// A kind with copies, the one without that answers at the same moment, and the plain device that does so; what the
/// paper lost at most, in percent, and what should be lost.
const LOST: [(usize, usize, usize, f64, f64); 2] = [(1, 0, 4, 40.0, 5.0), (3, 2, 5, 65.0, 15.0)];

const SYNCHRONOUS: usize = 3;

const SEQUENTIAL: usize = 0;
const RANDOM: usize = 1;
const LONE: usize = 2;

/// The loads on volumes of this many MiB: an eighth of that in sequence, and blocks at random places of the first
/// quarter, several and one at a time.
fn loads(volume_mib: u64) -> [Load; 3] {
    let blocks =
        Load { bytes: 4096, count: 8192, depth: 16, is_random: true, is_synced: false, over: (volume_mib << 20) / 4 };
    let sequential = Load { bytes: 1 << 20, count: volume_mib as usize / 8, is_random: false, ..blocks };
    [sequential, blocks, Load { count: 1000, depth: 1, ..blocks }]
}

/// The time that the experiment takes on a quiet machine, in seconds.
pub(crate) const THROUGHPUT_S: f64 = 120.0;

/// Runs the experiment, its turns as often as the time of its part allows; the holder's copies are on `disk`, if they
/// should be on another one than the rest. `found` hears each row as soon as it is known.
///
/// # Errors
/// Something does not start, or a write is refused.
pub(super) fn throughput(
    place: &Place,
    volume_mib: u64,
    disk: Option<&Path>,
    pace: &Pace,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let house = House::start(place, "throughput", 2 * volume_mib, disk)?;
    let measured = house.on_host(|| measure(&house, volume_mib, pace))?;
    measured.rows().into_iter().try_for_each(found)
}

/// The outcomes of all loads on a subject, in one turn.
type Turn = [Outcome; 3];

/// The measurements.
struct Measured {
    volume_mib: u64,
    /// Of each subject, turn by turn.
    outcomes: Vec<Vec<Turn>>,
    /// Bare syncs of a block, and round trips of one, in microseconds.
    syncs: Sample,
    trips: Sample,
    others: Option<f64>,
}

fn measure(house: &House, volume_mib: u64, pace: &Pace) -> Result<Measured> {
    let loads = loads(volume_mib);
    for (number, kind) in KINDS.iter().enumerate() {
        house.create(number, volume_mib << 20, kind.copies)?;
    }
    let mut plain = house.plain(volume_mib << 20)?;
    let mut outcomes = vec![Vec::new(); SUBJECTS];
    let (mut floor, mut line) = (SyncFloor::new(house.dir())?, PingPong::new(4096, 64)?);
    let (mut syncs, mut trips) = (Sample::default(), Sample::default());
    let (watch, turns) = (Watch::begin(), pace.repetitions(TURNS));
    let most = turns.most();
    for turn in turns {
        for step in 0..SUBJECTS {
            // None is always the first.
            let which = (turn + step) % SUBJECTS;
            let name = KINDS.get(which).map_or("plain device", |kind| kind.name);
            pace.say(format!("{name}, turn {} of {most}", turn + 1))?;
            outcomes[which].push(match KINDS.get(which) {
                Some(kind) => {
                    let Kind { copies, ack, .. } = *kind;
                    let attaching = Attaching { volume: which, copies, ack, dirty_mib: volume_mib };
                    of_volume(house.attach(attaching)?, &loads, turn)?
                }
                None => of_plain(&mut plain, &loads, which > KINDS.len(), turn)?,
            });
        }
        for _ in 0..200 {
            syncs.push(floor.once()?);
            trips.push(line.once()?);
        }
    }
    Ok(Measured { volume_mib, outcomes, syncs, trips, others: watch.others_percent() })
}

/// Runs all loads on a volume, and brings them home.
fn of_volume(mut owner: Owner, loads: &[Load; 3], turn: usize) -> Result<Turn> {
    // The first writes go to blocks of the log and the home that were never used.
    owner.run(Load { count: 256, ..loads[RANDOM] }, 0)?;
    let turn = all(loads, |load| owner.run(load, turn))?;
    owner.detach()?;
    Ok(turn)
}

fn of_plain(plain: &mut Plain, loads: &[Load; 3], is_synced: bool, turn: usize) -> Result<Turn> {
    plain.run(Load { count: 256, ..loads[RANDOM] }, 0)?;
    all(loads, |load| plain.run(Load { is_synced, ..load }, turn))
}

fn all(loads: &[Load; 3], run: impl FnMut(Load) -> Result<Outcome>) -> Result<Turn> {
    let outcomes = loads.iter().copied().map(run).collect::<Result<Vec<_>>>()?;
    outcomes.try_into().map_err(|_| "a load is missing".into())
}

impl Measured {
    /// A figure of a load on a subject, in each turn.
    fn of(&self, subject: usize, load: usize, figure: fn(&Outcome) -> f64) -> Vec<f64> {
        self.outcomes[subject].iter().map(|turn| figure(&turn[load])).collect()
    }

    /// The throughput of a load on a subject, in each turn.
    fn rates(&self, subject: usize, load: usize) -> Vec<f64> {
        self.of(subject, load, |outcome| outcome.bytes_per_s)
    }

    /// The share that is lost of a load beside another subject, in percent: the median of each turn's own.
    fn lost(&self, case: String, load: usize, subject: usize, beside: usize) -> Row {
        let (with, without) = (self.rates(subject, load), self.rates(beside, load));
        let lost = median(with.iter().zip(&without).map(|(with, without)| 1.0 - with / without).collect());
        Row::new("2", case, "%", lost * 100.0).baseline(&without)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let sequential = format!("{} MiB sequential", self.volume_mib / 8);
        let loads = [&sequential, "4 KiB random, depth 16", "4 KiB random, depth 1"];
        let subjects = KINDS.iter().map(|kind| format!("{} copies", kind.name)).chain(PLAIN.map(str::to_owned));
        let subjects: Vec<String> = subjects.collect();
        for (load, subject) in (0..loads.len()).flat_map(|load| (0..SUBJECTS).map(move |subject| (load, subject))) {
            let case = format!("{}, {}", loads[load], subjects[subject]);
            rows.push(Row::new("2", case, "MB/s", median(self.rates(subject, load)) / 1e6));
        }
        for load in [SEQUENTIAL, RANDOM] {
            for (with, without, plain, paper, most) in LOST {
                let case = format!("{}, lost to {}", loads[load], subjects[with]);
                let beside = format!("{case}, beside the {}", subjects[plain]);
                let row = self.lost(case, load, with, without).paper(paper);
                rows.extend([row.target(Target::AtMost(most)), self.lost(beside, load, with, plain)]);
            }
        }
        let floor_us = self.syncs.micros(0.5) + self.trips.micros(0.5);
        let synchronous_us = median(self.of(SYNCHRONOUS, LONE, |outcome| outcome.p50_us));
        let over = Row::new("2", "synchronous write over that", "times", synchronous_us / floor_us);
        rows.extend([
            Row::new("2", "one fdatasync and one round trip", "us", floor_us),
            Row::new("2", "synchronous write, p50", "us", synchronous_us),
            over.target(Target::AtMost(1.4)).baseline(&self.syncs.thirds()),
        ]);
        rows.into_iter().map(|row| row.beside(self.others)).collect()
    }
}
