//! The CoopReplica paper's figure 2: write throughput without copies, with asynchronous and with synchronous ones.
//!
//! The kinds of volumes take turns, each turn with an attachment of its own, after which everything goes home; a figure is the
//! median of the turns, and a ratio that of each turn's own.

use super::house::{Attaching, House, Load, Outcome};
use crate::experiment::Target;
use crate::floor::{PingPong, SyncFloor};
use crate::sample::median;
use crate::{Place, Result, Row, Sample};
use std::path::Path;

/// The figure of the paper that is an experiment which can be repeated.
pub const COOPREPLICA_FIGURE: u32 = 2;

const TURNS: usize = 5;

/// The volumes' size; writes at random places go to its first quarter.
const SIZE: u64 = 1 << 30;

/// A kind of volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) copies: u8,
    /// When a write is answered.
    pub(super) ack: &'static str,
}

/// Each kind with copies stands behind the one without that answers at the same moment.
pub(super) const KINDS: [Kind; 4] = [
    Kind { name: "none", copies: 1, ack: "flush" },
    Kind { name: "asynchronous", copies: 2, ack: "flush" },
    Kind { name: "none, synced", copies: 1, ack: "write" },
    Kind { name: "synchronous", copies: 2, ack: "write" },
];

const SEQUENTIAL: usize = 0;
const RANDOM: usize = 1;
const LONE: usize = 2;

const LOADS: [Load; 3] = [
    Load { name: "128 MiB sequential", bytes: 1 << 20, count: 128, depth: 16, is_random: false, over: SIZE / 4 },
    Load { name: "4 KiB random, depth 16", bytes: 4096, count: 8192, depth: 16, is_random: true, over: SIZE / 4 },
    Load { name: "4 KiB random, depth 1", bytes: 4096, count: 1000, depth: 1, is_random: true, over: SIZE / 4 },
];

/// Runs the experiment; the holder's copies are on `disk`, if they are to be on another one than the rest. `progress` hears
/// what is being done, `found` each row as soon as it is known.
///
/// # Errors
/// Something does not start, or a write is refused.
pub fn coopreplica(
    place: &Place,
    disk: Option<&Path>,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let house = House::start(place, "2G", disk)?;
    house.on_host(|| compare(&house, progress, found))
}

fn compare(house: &House, progress: &dyn Fn(&str), found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    for (number, kind) in KINDS.iter().enumerate() {
        house.create(number, SIZE, kind.copies)?;
    }
    let mut outcomes: Vec<Vec<[Outcome; LOADS.len()]>> = vec![Vec::new(); KINDS.len()];
    let (mut floor, mut line) = (SyncFloor::new(house.dir())?, PingPong::new(4096, 64)?);
    let (mut syncs, mut trips) = (Sample::default(), Sample::default());
    for turn in 0..TURNS {
        for step in 0..KINDS.len() {
            // None is always the first.
            let which = (turn + step) % KINDS.len();
            let kind = KINDS[which];
            progress(&format!("{} copies, turn {} of {TURNS}", kind.name, turn + 1));
            let mut owner =
                house.attach(Attaching { volume: which, copies: kind.copies, ack: kind.ack, dirty: "1G" })?;
            // The first writes go to blocks of the log and the home that were never used.
            owner.run(Load { count: 256, ..LOADS[RANDOM] }, 0)?;
            let mut of = Vec::new();
            for load in LOADS {
                of.push(owner.run(load, turn)?);
            }
            owner.detach()?;
            outcomes[which].push(of.try_into().map_err(|_| "a load is missing")?);
        }
        for _ in 0..200 {
            syncs.push(floor.once()?);
            trips.push(line.once()?);
        }
    }
    let of = |kind: usize, load: usize, figure: fn(&Outcome) -> f64| {
        median(outcomes[kind].iter().map(|turn| figure(&turn[load])).collect())
    };
    for (at, load) in LOADS.iter().enumerate() {
        for (which, kind) in KINDS.iter().enumerate() {
            let case = format!("{}, {} copies", load.name, kind.name);
            found(Row::new("2", case, "MB/s", of(which, at, |it| it.bytes_per_s) / 1e6))?;
        }
    }
    for load in [SEQUENTIAL, RANDOM] {
        for (with, without, paper, most) in [(1, 0, 40.0, 5.0), (3, 2, 65.0, 15.0)] {
            let turns = outcomes[with].iter().zip(&outcomes[without]);
            let lost =
                median(turns.map(|(with, without)| 1.0 - with[load].bytes_per_s / without[load].bytes_per_s).collect());
            let case = format!("{}, lost to {} copies", LOADS[load].name, KINDS[with].name);
            found(Row::new("2", case, "%", lost * 100.0).paper(paper).target(Target::AtMost(most)))?;
        }
    }
    let floor_us = syncs.micros(0.5) + trips.micros(0.5);
    found(Row::new("2", "one fdatasync and one round trip", "us", floor_us))?;
    found(Row::new("2", "synchronous write, p50", "us", of(3, LONE, |it| it.p50_us)))?;
    let over = of(3, LONE, |it| it.p50_us) / floor_us;
    found(Row::new("2", "synchronous write over that", "times", over).target(Target::AtMost(1.4)))
}
