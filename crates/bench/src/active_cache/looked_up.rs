//! Figures 6 and 7: a look-up of a version that needs the home's processor, and one that does not.
//!
//! The paper reads the version over InfiniBand without the home's processor, against a round trip of TCP. On one machine
//! the one-sided read is one of shared memory. A round trip between two threads over loopback is the two-sided one, here
//! and there of a byte.

use crate::experiment::Target;
use crate::floor::PingPong;
use crate::look_up;
use crate::{Result, Row, Sample};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ROUND_TRIPS: usize = 20_000;

pub(super) fn rows(figure: u32) -> Result<Vec<Row>> {
    let one_sided = look_up::measure()?;
    let get = |name| one_sided.get(name).ok_or_else(|| format!("look-ups have no {name}"));
    let idle = round_trips()?;
    if figure == 6 {
        return Ok(vec![
            Row::new("6", "one-sided look-up", "us", get("look_up_us")?).paper(11.89).target(Target::AtMost(0.2)),
            Row::new("6", "two-sided look-up, TCP", "us", idle.micros(0.5)).paper(53.8),
            Row::new("6", "two-sided over one-sided", "times", idle.micros(0.5) / get("look_up_us")?)
                .paper(53.8 / 11.89),
        ]);
    }
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
