//! Measurement: each figure beside one of the machine itself, taken in the same run.
//!
//! A figure in microseconds says more about a machine than about a store. So every case measures, in turns with the
//! store, what the store cannot do without: the bare `fdatasync`, the bare round trip, the bare hash map; and its main
//! figure is the ratio of the two medians. Where a client and a store are measured they are two processes with TCP
//! between them, as a user would run them.

mod active_cache;
mod churn;
mod commit;
mod contend;
mod coop_replica;
mod curves;
mod experiment;
mod far_look_up;
mod fetch;
mod first;
mod floor;
mod line;
mod load;
mod locks;
mod look_up;
mod machine;
mod multicomputer;
mod nodes;
mod oo7;
mod pace;
mod plot;
mod published;
mod read;
mod recover;
pub mod reliability;
mod sample;
mod sequencer;
pub mod shop;
mod site;
mod slow_line;
mod web;

pub use active_cache::{ACTIVE_CACHE_FIGURES, active_cache, draw_active_cache, strain};
pub use coop_replica::{
    COOPREPLICA_FIGURE, CoopReplica, CoopReplicaOptions, CopiesCost, ExperimentRow, Lasting, coopreplica, copies_cost,
    draw_reliability,
};
pub use experiment::{Experiment, HEAD, Row, draw, experiment};
pub use first::{Apart, Newcomer};
pub use fixtures::{Error, Result};
pub use line::Line;
pub use locks::{PUBLISH_FIGURES, PublishExperiment, draw_publish, publish};
pub use multicomputer::{MULTICOMPUTER_FIGURES, draw_multicomputer, multicomputer};
pub use nodes::{AtNode, node_commits, opposite_roles};
pub use pace::{Step, USUAL};
pub use plot::plot;
pub use published::{SiteFigure, SiteSizes};
pub use recover::{drop_cached, read_all};
pub use sample::Sample;
pub use sequencer::{Member, sequencer};
pub use site::{Load, LoadOptions, Tally};
pub use web::Beside;

use self::machine::Watch;
use fixtures::{Process, Program};
use std::path::PathBuf;

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Case {
    /// The machine itself.
    Floor,
    /// Cached reads.
    Read,
    /// Commits.
    Commit {
        /// How many clients commit at the same time.
        clients: u32,
    },
    /// Pages that are not cached.
    Fetch,
    /// OO7 medium behind a slow link.
    Oo7 {
        /// How many clients work at the same time.
        clients: u32,
        /// One way, in milliseconds.
        delay_ms: u64,
    },
    /// A new client's first transaction, at a place that is really apart.
    First,
    /// A large object over a slow line, and small ones beside it.
    SlowLine,
    /// Recovery after a crash.
    Recover {
        /// How much the log is filled with, in GiB.
        gib: f64,
    },
    /// Objects that are created and deleted, again and again.
    Churn,
    /// One counter that everybody increments.
    Contend {
        /// How many do.
        clients: u32,
    },
    /// Lookups of stored web responses in their home's version table.
    LookUp,
    /// The same in that of another process, over TCP.
    LookUpTcp,
    /// The same by libfabric.
    LookUpFabric,
    /// Hits of the caching proxy, beside those of others.
    Web {
        /// The others.
        beside: Beside,
    },
    /// Memory that the caching proxy takes for small stored responses.
    Entries,
    /// Published files, at a store and at the servers that follow a site.
    Files {
        /// How large the sites are, and how many servers follow one.
        sizes: SiteSizes,
        /// The only figure that is measured; all without it.
        only: Option<SiteFigure>,
    },
    /// Documents from several threads, for as long as it takes.
    Load {
        /// How much is inserted, in GiB.
        gib: f64,
    },
}

impl Case {
    /// The measurements of `--all`: those that one machine can make.
    pub const ALL: [Self; 17] = [
        Self::Floor,
        Self::Read,
        Self::Commit { clients: 1 },
        Self::Commit { clients: 64 },
        Self::Fetch,
        Self::Oo7 { clients: 1, delay_ms: 20 },
        Self::Oo7 { clients: 3, delay_ms: 20 },
        Self::SlowLine,
        Self::Recover { gib: 1.0 },
        Self::Load { gib: 1.0 },
        Self::Contend { clients: 8 },
        Self::Churn,
        Self::LookUp,
        Self::LookUpTcp,
        Self::Web { beside: Beside::ALL },
        Self::Entries,
        Self::Files { sizes: SiteSizes::USUAL, only: None },
    ];
}

/// Where and with what a case is measured.
#[derive(Clone, Debug)]
pub struct Place {
    /// The program that serves a store when it is called with `serve`.
    pub program: PathBuf,
    /// An empty folder on the disk that should be measured.
    pub dir: PathBuf,
    /// Places that are really apart, where there are some.
    pub apart: Option<Apart>,
    /// The provider of libfabric, for those who read by it.
    pub fabric: Option<String>,
}

impl Place {
    /// Starts a store in a folder of this name.
    fn serve(&self, name: &str) -> Result<Process> {
        self.serve_with(name, &[])
    }

    fn serve_with(&self, name: &str, words: &[&str]) -> Result<Process> {
        Program::from(&self.program).serve(&self.dir.join(name), words)
    }
}

/// Measures a case. `progress` hears what is being done, `found` each line as soon as it is known.
pub fn measure(
    case: Case,
    place: &Place,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    let mut watch = Watch::begin();
    // Each line says what others did since the one before.
    let found = &mut |line: Line| {
        let line = match watch.others_percent() {
            Some(others) => line.figure("others_percent", others),
            None => line,
        };
        watch = Watch::begin();
        found(line)
    };
    match case {
        Case::Floor => found(floor::measure(place)?),
        Case::Read => found(read::measure(place)?),
        Case::Commit { clients: 1 } => found(commit::measure_one(place)?),
        Case::Commit { clients } => found(commit::measure_many(place, clients)?),
        Case::Fetch => found(fetch::measure(place)?),
        Case::Oo7 { clients, delay_ms } => oo7::measure(place, clients, delay_ms, progress, found),
        Case::Churn => found(churn::measure(place, progress)?),
        Case::Contend { clients } => contend::measure(place, clients, progress, found),
        Case::LookUp => found(look_up::measure()?),
        Case::LookUpTcp => found(far_look_up::measure(place)?),
        Case::LookUpFabric => {
            let provider = place.fabric.as_deref().ok_or("lookups by libfabric want a provider")?;
            found(far_look_up::measure_one_sided(place, provider)?)
        }
        Case::Web { beside } => web::measure(place, beside, progress, found),
        Case::Entries => web::measure_entries(place, progress, found),
        Case::Files { sizes, only } => published::measure(place, sizes, only, progress, found),
        Case::Load { gib } => found(load::measure(place, gib, progress)?),
        Case::First => {
            let apart = place.apart.as_ref().ok_or("a new client wants two places that are really apart")?;
            found(first::measure(place, apart, progress)?)
        }
        Case::SlowLine => {
            use slow_line::Large::{Committed, Read};
            for (large, by_redirector) in [(Committed, false), (Committed, true), (Read, false), (Read, true)] {
                found(slow_line::measure(place, large, by_redirector, progress)?)?;
            }
            Ok(())
        }
        Case::Recover { gib } => found(recover::measure(place, gib, progress)?),
    }
}
