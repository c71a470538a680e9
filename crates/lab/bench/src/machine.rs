//! The load of the machine beside a measurement: the share of its processors that others took in the meantime.
//!
//! The system counts what all have taken, and for each process what it has taken and what those of its children had
//! that have ended. Everything that is not of this process or those below it is others': other programs, the system's
//! own threads, and other guests of the machine's host. Interrupts are nobody's, and left out.

use std::collections::BTreeMap;
use std::fs;

/// The time of processors until now, in the system's ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// All of it, idle or not.
    all: u64,
    /// The ticks that anybody has taken.
    taken: u64,
    /// The ticks of this process and those below it.
    own: u64,
}

/// A measurement under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Option<Ticks>);

impl Watch {
    /// From now on.
    pub(crate) fn begin() -> Self {
        Self(Ticks::now())
    }

    /// The share of all processors' time since then that others took, in percent; `None` if the system does not say, or
    /// too little time has passed.
    pub(crate) fn others_percent(&self) -> Option<f64> {
        let (begun, now) = (self.0?, Ticks::now()?);
        let since = |of: fn(&Ticks) -> u64| of(&now).saturating_sub(of(&begun)) as f64;
        let (all, others) = (since(|ticks| ticks.all), since(|ticks| ticks.taken) - since(|ticks| ticks.own));
        // Below that the ticks are too coarse.
        (all >= 20.0).then(|| 100.0 * (others / all).clamp(0.0, 1.0))
    }
}

impl Ticks {
    fn now() -> Option<Self> {
        let (all, taken) = of_all(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(Self { all, taken, own: own()? })
    }
}

/// The time of all processors, and what was taken of it: by programs, by the system for them, and by other guests.
fn of_all(stat: &str) -> Option<(u64, u64)> {
    let times: Vec<u64> = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().flat_map(str::parse).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests took is counted among the first two.
    let [user, nice, system, .., steal] = *times.first_chunk::<8>()?;
    Some((times[..8].iter().sum(), user + nice + system + steal))
}

/// The ticks of this process and all below it.
fn own() -> Option<u64> {
    let numbers = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // One that has ended in the meantime is counted with its parent.
    let all = numbers.filter_map(|number: u32| {
        of_process(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?).map(|process| (number, process))
    });
    let all: BTreeMap<u32, OfProcess> = all.collect();
    let root = std::process::id();
    let is_ours = |mut number: u32| {
        // No line of processes is longer; numbers may be used again while they are read.
        for _ in 0..all.len() {
            match all.get(&number) {
                _ if number == root => return true,
                Some(process) => number = process.parent,
                None => return false,
            }
        }
        false
    };
    all.contains_key(&root).then(|| all.iter().filter(|(number, _)| is_ours(**number)).map(|(_, it)| it.ticks).sum())
}

/// A line of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OfProcess {
    parent: u32,
    /// Its own, and those of its children that have ended.
    ticks: u64,
}

/// The ticks that a process has taken, with those of its children that have ended.
pub(crate) fn ticks_of(process: u32) -> Option<u64> {
    Some(of_process(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?.ticks)
}

fn of_process(stat: &str) -> Option<OfProcess> {
    // Its name may have spaces and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(OfProcess { parent: fields.get(1)?.parse().ok()?, ticks })
}

/// How much a figure differs between its repetitions: the greatest over the smallest, less one, in percent; `None` of
/// fewer than two.
pub(crate) fn differs_percent(repetitions: &[f64]) -> Option<f64> {
    let most = repetitions.iter().copied().reduce(f64::max)?;
    let least = repetitions.iter().copied().reduce(f64::min)?;
    (repetitions.len() >= 2).then(|| 100.0 * (most / least - 1.0))
}

/// A figure whose baseline differs by more between its repetitions proves nothing.
pub(crate) const DIFFERS_PERCENT_MAX: f64 = 25.0;

/// Whether the baseline of a figure is the same often enough for the figure to prove anything.
pub(crate) fn is_steady(baseline: &[f64]) -> bool {
    differs_percent(baseline).is_none_or(|differs| differs <= DIFFERS_PERCENT_MAX)
}

/// How often a baseline is measured before a figure is called unsteady.
const TRIES: usize = 3;

/// Measures again while the baseline is unsteady, a few times at most, and returns the steadiest result: a short
/// disturbance need not decide. `differs` is in percent.
pub(crate) fn steadiest<T>(
    mut measure: impl FnMut() -> crate::Result<T>,
    differs: impl Fn(&T) -> f64,
) -> crate::Result<T> {
    let mut best = measure()?;
    for _ in 1..TRIES {
        if differs(&best) <= DIFFERS_PERCENT_MAX {
            break;
        }
        let again = measure()?;
        if differs(&again) < differs(&best) {
            best = again;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn an_unsteady_baseline_is_measured_again_and_not_for_ever() {
        let run = |figures: &[f64]| {
            let mut left = figures.iter().copied();
            let found = steadiest(|| Ok(left.next().unwrap()), |differs| *differs).unwrap();
            (found, left.len())
        };
        assert_eq!(run(&[10.0, 0.0]), (10.0, 1), "a steady one is taken as it is");
        assert_eq!(run(&[55.0, 12.0, 1.0]), (12.0, 1));
        assert_eq!(run(&[55.0, 80.0, 40.0, 1.0]), (40.0, 1), "the steadiest of those there was time for");
    }

    #[test]
    fn the_systems_lines_are_read() {
        let (all, taken) = of_all("cpu  10 1 20 300 5 2 3 4 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n").unwrap();
        assert_eq!((all, taken), (345, 35));
        let process = of_process("17 (a name) (x)) S 5 17 17 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 1 0 9").unwrap();
        assert_eq!(process, OfProcess { parent: 5, ticks: 127 });
        assert!(of_process("17 (a name").is_none());
    }

    #[test]
    fn what_children_take_is_our_own() {
        let before = own().unwrap();
        // A shell that computes, below another one.
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true";
        let status = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).status().unwrap();
        assert!(status.success());
        let children = own().unwrap();
        assert!(children > before, "{before} before, {children} after");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            black_box(begun);
        }
        assert!(own().unwrap() > children);
        assert!(Watch::begin().others_percent().is_none(), "no time has passed");
    }

    #[test]
    fn repetitions_differ_by_the_most_over_the_least() {
        assert!(differs_percent(&[]).is_none() && differs_percent(&[7.0]).is_none());
        assert!((differs_percent(&[8.0, 10.0, 9.0]).unwrap() - 25.0).abs() < 1e-9);
        assert!(is_steady(&[8.0, 10.0]) && !is_steady(&[8.0, 10.1]) && is_steady(&[3.0]));
    }
}
