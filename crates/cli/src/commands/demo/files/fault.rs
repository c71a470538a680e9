//! The faults: each process is killed or stopped for a while, and the next one has its turn.

use std::fmt;

/// A process of the farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Server(usize),
    Redirector(usize),
    Store,
    Mount(usize),
}

/// How it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By SIGKILL, and started again.
    Kill,
    /// By SIGSTOP, and continued.
    Stop,
}

/// A process that is broken for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) target: Target,
    pub(super) way: Way,
}

/// The numbers of processes that faults choose from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets {
    pub(super) servers: usize,
    pub(super) redirectors: usize,
    /// None where no file system can be mounted.
    pub(super) mounts: usize,
}

impl Targets {
    /// The kinds of processes.
    pub(super) fn kinds(self) -> u32 {
        3 + u32::from(self.mounts > 0)
    }

    /// The fault during a publish, if it has one: `faults` of them come between the publishes at even distances.
    pub(super) fn fault(self, publish: u32, publishes: u32, faults: u32) -> Option<Fault> {
        let at = |number: u32| u64::from(publishes) * (u64::from(number) + 1) / (u64::from(faults) + 1);
        (0..faults).find(|number| at(*number) == u64::from(publish)).map(|number| self.in_turn(number))
    }

    /// The faults in their order: one of each kind of processes is killed, then one of each is stopped, then the next
    /// one of each is killed.
    fn in_turn(self, number: u32) -> Fault {
        let turn = number / self.kinds();
        let (way, next) = (if turn.is_multiple_of(2) { Way::Kill } else { Way::Stop }, turn as usize / 2);
        let target = match number % self.kinds() {
            0 => Target::Server(next % self.servers),
            // In another group than the server.
            1 => Target::Redirector((next + 1) % self.redirectors),
            2 => Target::Store,
            _ => Target::Mount(next % self.mounts),
        };
        Fault { target, way }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(number) => write!(f, "server {}", number + 1),
            Self::Redirector(number) => write!(f, "redirector {}", number + 1),
            Self::Store => write!(f, "the store"),
            Self::Mount(number) => write!(f, "mount {}", number + 1),
        }
    }
}

impl Way {
    /// The way as a person would cause it.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Stop => "kill -STOP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const TARGETS: Targets = Targets { servers: 4, redirectors: 2, mounts: 2 };

    #[test]
    fn each_fault_comes_during_a_publish_of_its_own() {
        for publishes in 5..60 {
            for faults in 0..publishes {
                let during = |publish| TARGETS.fault(publish, publishes, faults);
                let found: Vec<_> = (1..=publishes).filter_map(during).collect();
                let expected: Vec<_> = (0..faults).map(|number| TARGETS.in_turn(number)).collect();
                assert_eq!(found, expected, "{faults} faults in {publishes} publishes");
                assert_eq!(during(publishes), None);
            }
        }
    }

    #[test]
    fn each_process_is_killed_and_stopped_in_its_turn() {
        for (targets, processes) in [(TARGETS, 9), (Targets { mounts: 0, ..TARGETS }, 7)] {
            let kinds: HashSet<_> = (0..targets.kinds()).map(|number| targets.in_turn(number).way.command()).collect();
            assert_eq!(kinds, HashSet::from(["kill -9"]), "first of each kind");
            let faults = (0..2 * 4 * targets.kinds()).map(|number| targets.in_turn(number));
            let all: HashSet<_> = faults.map(|fault| format!("{} {}", fault.way.command(), fault.target)).collect();
            assert_eq!(all.len(), 2 * processes);
        }
    }
}
