//! The machines in figures, as `docs/experiments.md` has fixed them before the first run.

use sim::multicomputer::{Disks, Hardware, Memory};
use std::time::Duration;

/// The bytes of a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// The bytes that a delta of one small object takes of a store's memory.
const DELTA_BYTES: usize = 248;

/// A machine, and what of it the paper omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// The AP1000 of the paper.
    Paper,
    /// One of today.
    Today,
}

impl Machine {
    pub(super) const ALL: [Self; 2] = [Self::Paper, Self::Today];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper's machine",
            Self::Today => "today's machine",
        }
    }

    /// The machine in figures; those that the paper omits are multiplied by a factor.
    pub(super) fn hardware(self, factor: f64) -> Hardware {
        let times = |time: Duration| time.mul_f64(factor);
        match self {
            Self::Paper => Hardware {
                instructions_per_second: 15.8e6 / factor,
                page_instructions: 600,
                copy_instructions: 5000,
                disk_instructions: 5000,
                message: Duration::from_nanos(62_500),
                wire: Duration::ZERO,
                link_bytes_per_second: 2.69e6,
                delta_bytes_min: PAGE_BYTES as u64,
                disks: Disks::Shared {
                    count: 32,
                    stripe_bytes: 128 << 10,
                    bytes_per_second: 2e6,
                    total_bytes_per_second: 20e6,
                    seek: times(Duration::from_millis(12)),
                    rotation: times(Duration::from_micros(6900)),
                },
                memory: Memory { client: 4 << 20, store: 4 << 20, mob: 512 * DELTA_BYTES },
            },
            Self::Today => Hardware {
                instructions_per_second: 3e9 / factor,
                message: times(Duration::from_micros(5)),
                wire: times(Duration::from_nanos(2500)),
                link_bytes_per_second: 25e9 / 8.0,
                delta_bytes_min: 0,
                disks: Disks::Own {
                    bytes_per_second: 3e9,
                    read: times(Duration::from_micros(82)),
                    write: times(Duration::from_micros(15)),
                    flush_writes: 2,
                },
                memory: Memory { client: 4 << 30, store: 4 << 30, mob: 64 << 20 },
                ..Self::Paper.hardware(factor)
            },
        }
    }

    /// A round trip of a short message where nothing else is under way, in seconds.
    pub(super) fn round_trip_s(self) -> f64 {
        let Hardware { message, wire, .. } = self.hardware(1.0);
        (4 * message + 2 * wire).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_machine_has_the_paper_s_latency_whatever_it_omits() {
        let hardware = Machine::Paper.hardware(2.0);
        // 125 us and a half of the bandwidth at 336 bytes (section 1.2.4).
        let one_way = |bytes: f64| 2.0 * hardware.message.as_secs_f64() + bytes / hardware.link_bytes_per_second;
        assert!((one_way(0.0) - 125e-6).abs() < 1e-9);
        assert!((336.0 / one_way(336.0) / 2.69e6 - 0.5).abs() < 0.01);
        assert!((Machine::Today.round_trip_s() - 25e-6).abs() < 1e-9);
    }
}
