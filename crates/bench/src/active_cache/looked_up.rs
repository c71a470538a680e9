//! Figures 6 and 7: a look-up of a version that needs the home's processor, and one that does not.
//!
//! The paper reads the version over InfiniBand without the home's processor, against a round trip of TCP. On one machine
//! the one-sided read is one of shared memory, and the two-sided one asks another process over loopback. For the tail under
//! load, which the paper measures without its cache, a bare round trip between two threads stands for it.

use crate::experiment::Target;
use crate::floor::PingPong;
use crate::{Place, Result, Row, Sample, far_look_up, look_up};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ROUND_TRIPS: usize = 20_000;

/// The provider of libfabric that every machine has. It stands for those of devices, and needs the home's processor.
const STAND_IN: &str = "tcp;ofi_rxm";

pub(super) fn rows(figure: u32, place: &Place) -> Result<Vec<Row>> {
    let one_sided = look_up::measure()?;
    let get = |name| one_sided.get(name).ok_or_else(|| format!("look-ups have no {name}"));
    if figure == 6 {
        let line = far_look_up::measure(place)?;
        let two_sided = |name| line.get(name).ok_or_else(|| format!("look-ups over TCP have no {name}"));
        let alone_us = two_sided("alone_us")?;
        let mut rows = vec![
            Row::new("6", "one-sided look-up", "us", get("look_up_us")?).paper(11.89).target(Target::AtMost(0.2)),
            Row::new("6", "two-sided look-up, TCP", "us", alone_us).paper(53.8),
            Row::new("6", "two-sided over one-sided", "times", alone_us / get("look_up_us")?).paper(53.8 / 11.89),
            Row::new("6", "two-sided look-up, TCP, of 64 clients", "us", two_sided("look_up_us")?),
        ];
        // Where the library between libfabric and Thorp is.
        if fabric::Shim::load().is_ok() {
            let line = far_look_up::measure_one_sided(place, STAND_IN)?;
            let one_sided = |name| line.get(name).ok_or_else(|| format!("look-ups by libfabric have no {name}"));
            rows.push(Row::new("6", "one-sided look-up, libfabric on TCP", "us", one_sided("alone_us")?));
            let together = one_sided("look_up_us")?;
            rows.push(Row::new("6", "one-sided look-up, libfabric on TCP, of 64 clients", "us", together));
        }
        return Ok(rows);
    }
    let idle = round_trips()?;
    let loaded = beside_busy_threads(round_trips)?;
    let growth = loaded.micros(0.99) / idle.micros(0.99);
    Ok(vec![
        Row::new("7", "one-sided, p99 loaded over idle", "times", get("loaded_over_idle")?)
            .paper(1.0)
            .target(Target::AtMost(2.0)),
        Row::new("7", "two-sided TCP, p99 loaded over idle", "times", growth),
        Row::new("7", "two-sided TCP, p50 loaded", "us", loaded.micros(0.5)),
        Row::new("7", "two-sided TCP, p99 loaded", "us", loaded.micros(0.99)),
    ])
}

fn round_trips() -> Result<Sample> {
    let mut line = PingPong::new(1, 1)?;
    let mut sample = Sample::default();
    for _ in 0..ROUND_TRIPS {
        sample.push(line.once()?);
    }
    Ok(sample)
}

/// Does something while a thread for each processor computes, twice over.
fn beside_busy_threads<T>(work: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..2 * processors {
            scope.spawn(|| {
                let mut sum = 0_u64;
                while !ends.load(Ordering::Relaxed) {
                    sum = black_box(sum.wrapping_mul(31).wrapping_add(1));
                }
            });
        }
        let done = work();
        ends.store(true, Ordering::Relaxed);
        done
    })
}
