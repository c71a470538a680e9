//! The machine's processors in two halves: one for the client, one for the server that it asks.

use crate::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two halves of the processors.
#[derive(Debug)]
pub(crate) struct Cores {
    all: CpuSet,
    clients: CpuSet,
    servers: CpuSet,
    each: usize,
}

impl Cores {
    /// Half of the processors each.
    pub(crate) fn halves() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&number| all.is_set(number)).collect();
        let each = numbers.len() / 2;
        if each == 0 {
            return Err("client and server need a processor each, and there is only one".into());
        }
        let set = |numbers: &[usize]| {
            let mut set = CpuSet::new();
            for &number in numbers {
                set.set(number);
            }
            set
        };
        Ok(Self { all, clients: set(&numbers[..each]), servers: set(&numbers[each..2 * each]), each })
    }

    /// How many a half has.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    /// Does something whose threads and processes stay on the servers' half.
    pub(crate) fn run_on_servers<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        sched_setaffinity(None, &self.servers)?;
        let started = start();
        sched_setaffinity(None, &self.all)?;
        started
    }

    /// Does something whose threads and processes stay on the clients' half.
    pub(crate) fn run_with_clients<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        sched_setaffinity(None, &self.clients)?;
        let started = start();
        sched_setaffinity(None, &self.all)?;
        started
    }

    /// Has this thread stay on the clients' half.
    pub(crate) fn stay_with_clients(&self) -> Result<()> {
        Ok(sched_setaffinity(None, &self.clients)?)
    }
}
