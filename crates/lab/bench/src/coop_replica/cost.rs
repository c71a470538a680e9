//! The cost of copies in short, for the demo: few turns of each kind of volume.

use super::house::{Attaching, House, Load};
use super::throughput::KINDS;
use crate::sample::median;
use crate::{Place, Result};

const TURNS: usize = 3;

/// The sizes of the volumes.
const SIZE: u64 = 256 << 20;

/// The names of the loads.
const LOADS: [&str; 2] = ["1 MiB, in sequence", "4 KiB, at random"];

/// A kind of volume under a load.
#[derive(Clone, Debug)]
pub struct CopiesCost {
    /// The load.
    pub load: &'static str,
    /// The copies beside the own one.
    pub copies: &'static str,
    /// The throughput.
    pub bytes_per_s: f64,
    /// The share of it that is lost beside a volume without copies that answers at the same moment, in percent; `None`
    /// of one without.
    pub lost_percent: Option<f64>,
    /// The most that the paper lost, in percent.
    pub paper_percent: Option<f64>,
}

/// Measures write throughput without copies, with asynchronous and with synchronous ones: so many MiB, at most 64, in
/// sequence, and a quarter of that at random places.
///
/// # Errors
/// Something does not start, or a write is refused.
pub fn copies_cost(place: &Place, mib: u32, progress: &dyn Fn(&str)) -> Result<Vec<CopiesCost>> {
    let mib = mib.clamp(1, 64) as usize;
    let dirty_mib = if mib <= 8 { 64 } else { 256 };
    let over = SIZE / 2;
    let loads = [
        Load { bytes: 1 << 20, count: mib, depth: 16, is_random: false, is_synced: false, over },
        Load { bytes: 4096, count: mib * 64, depth: 16, is_random: true, is_synced: false, over },
    ];
    let house = House::start(place, "cost", 1024, None)?;
    for (volume, kind) in KINDS.iter().enumerate() {
        house.create(volume, SIZE, kind.copies)?;
    }
    let mut rates = vec![Vec::new(); KINDS.len()];
    for turn in 0..TURNS {
        for step in 0..KINDS.len() {
            // None is always the first.
            let volume = (turn + step) % KINDS.len();
            let kind = KINDS[volume];
            progress(&format!("{} copies, turn {} of {TURNS}", kind.name, turn + 1));
            let mut owner = house.attach(Attaching { volume, copies: kind.copies, ack: kind.ack, dirty_mib })?;
            // The first writes go to blocks of the log that were never used.
            owner.run(Load { count: 64, ..loads[1] }, turn)?;
            let of_turn = [owner.run(loads[0], turn)?.bytes_per_s, owner.run(loads[1], turn)?.bytes_per_s];
            owner.detach()?;
            rates[volume].push(of_turn);
        }
    }
    let cost = |at: usize, which: usize| {
        let of = |which: usize| rates[which].iter().map(move |turn: &[f64; 2]| turn[at]);
        // Each kind with copies follows the one without.
        let lost =
            || median(of(which).zip(of(which - 1)).map(|(with, without)| 100.0 * (1.0 - with / without)).collect());
        let lost = (KINDS[which].copies > 1).then(lost);
        let paper = lost.map(|_| if KINDS[which].ack == "write" { 65.0 } else { 40.0 });
        CopiesCost {
            load: LOADS[at],
            copies: KINDS[which].name,
            bytes_per_s: median(of(which).collect()),
            lost_percent: lost,
            paper_percent: paper,
        }
    };
    let cases = (0..loads.len()).flat_map(|at| (0..KINDS.len()).map(move |which| (at, which)));
    Ok(cases.map(|(at, which)| cost(at, which)).collect())
}
