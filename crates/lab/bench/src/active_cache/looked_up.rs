//! Figures 6 and 7: a lookup of a version that needs the home's processor, and one that does not.
//!
//! The paper reads the version over InfiniBand without the home's processor, against a round trip of TCP. Here the home
//! is another process of this machine: the one-sided lookup reads memory that both map, and the two-sided one asks over
//! loopback. Each lookup has a clock's reading of its own, on both sides, which takes as long as the one-sided read
//! itself; what it takes without that is a row of its own, of many in a row.

use super::cluster::STAND_IN;
use super::strain::Strain;
use crate::experiment::Target;
use crate::far_look_up::{Far, Way};
use crate::machine::Watch;
use crate::pace::Pace;
use crate::sample::{median, thirds};
use crate::{Place, Result, Row, Sample, far_look_up, look_up};
use fixtures::Program;
use std::thread;

/// Turns of each kind of lookup.
const TURNS: usize = 9;

/// Pairs of busy threads for each processor, of which one always computes.
const BUSY_PAIRS: u32 = 2;

pub(super) fn rows(figure: u32, place: &Place, pace: &Pace) -> Result<Vec<Row>> {
    let watch = Watch::begin();
    let rows = if figure == 6 { alone(place, pace)? } else { beside_load(place, pace)? };
    let others = watch.others_percent();
    Ok(rows.into_iter().map(|row| row.beside(others)).collect())
}

fn alone(place: &Place, pace: &Pace) -> Result<Vec<Row>> {
    pace.say("looking versions up in the memory of another process")?;
    let one_sided = Turns::of(&Far::start(place, Way::Mapped)?)?.p50_us();
    pace.say("looking versions up in this process")?;
    let near = look_up::measure()?;
    let near_us = near.get("look_up_us").ok_or("lookups have no look_up_us")?;
    pace.say("looking versions up over TCP")?;
    let line = far_look_up::measure(place)?;
    let two_sided = |name| line.get(name).ok_or_else(|| format!("lookups over TCP have no {name}"));
    let alone_us = two_sided("alone_us")?;
    let mut rows = vec![
        Row::new("6", "one-sided lookup", "us", one_sided).paper(11.89).target(Target::AtMost(0.2)),
        Row::new("6", "the same in this process, of 64 in a row", "us", near_us),
        Row::new("6", "two-sided lookup, TCP", "us", alone_us).paper(53.8),
        Row::new("6", "two-sided over one-sided", "times", alone_us / one_sided).paper(53.8 / 11.89),
        Row::new("6", "two-sided lookup, TCP, of 64 clients", "us", two_sided("look_up_us")?),
    ];
    let cases = ["", ", of 64 clients"].map(|clients| format!("one-sided lookup, libfabric on TCP{clients}"));
    match fabric::Shim::load() {
        Ok(_) => {
            pace.say("looking versions up by libfabric")?;
            let line = far_look_up::measure_one_sided(place, STAND_IN)?;
            for (case, name) in cases.into_iter().zip(["alone_us", "look_up_us"]) {
                let us = line.get(name).ok_or_else(|| format!("lookups by libfabric have no {name}"))?;
                rows.push(Row::new("6", case, "us", us));
            }
        }
        Err(why) => rows.extend(cases.map(|case| Row::missing("6", case, "us", why.to_string()))),
    }
    Ok(rows)
}

fn beside_load(place: &Place, pace: &Pace) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let processors = thread::available_parallelism()?.get() as u32;
    for (name, way, paper, target) in
        [("one-sided", Way::Mapped, Some(1.0), Some(Target::AtMost(2.0))), ("two-sided TCP", Way::Tcp, None, None)]
    {
        pace.say(format!("{name} lookups, idle and loaded"))?;
        let far = Far::start(place, way)?;
        let idle = Turns::of(&far)?;
        let strain = Strain::start(&Program::from(&place.program), BUSY_PAIRS * processors)?;
        let loaded = Turns::of(&far)?;
        drop(strain);
        let row = |what: &str, unit, ours| Row::new("7", format!("{name}, {what}"), unit, ours);
        let growth = row("p99 loaded over idle", "times", loaded.p99_us() / idle.p99_us());
        rows.push(growth.paper(paper).target(target).baseline(&thirds(&idle.p99_us)));
        rows.push(row("p50 loaded", "us", loaded.p50_us()));
        rows.push(row("p99 loaded", "us", loaded.p99_us()));
    }
    Ok(rows)
}

/// Lookups of one kind, in microseconds for each turn.
struct Turns {
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
}

impl Turns {
    fn of(far: &Far) -> Result<Self> {
        // The first ones find nothing in the processor's caches.
        far.look_alone()?;
        let turns: Vec<Sample> = (0..TURNS).map(|_| far.look_alone()).collect::<Result<_>>()?;
        let of = |quantile| turns.iter().map(|turn| turn.micros(quantile)).collect();
        Ok(Self { p50_us: of(0.5), p99_us: of(0.99) })
    }

    fn p50_us(&self) -> f64 {
        median(self.p50_us.clone())
    }

    fn p99_us(&self) -> f64 {
        median(self.p99_us.clone())
    }
}
