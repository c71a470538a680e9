//! Buddy: the same work in groups. At the site a writer has two readers beside it; elsewhere three readers are among
//! themselves.

use super::{PATIENCE, Stage, WRITERS_WRITES, tell};
use crate::Result;
use crate::crew::{Counts, Eligible};
use crate::output::Output;
use fixtures::{Process, lasting_address};
use std::time::Duration;

/// How long a reader's visit took, in the mean.
pub(super) struct Buddy {
    /// Of readers that had cached nothing, in groups of three.
    pub(super) cold: Duration,
    /// Of readers that had been everywhere: beside the writer, and elsewhere.
    pub(super) beside_the_writer: Duration,
    pub(super) elsewhere: Duration,
    /// The sum of their counts.
    pub(super) counts: Counts,
}

/// The two groups.
pub(super) struct Groups {
    pub(super) site: Group,
    pub(super) elsewhere: Group,
}

/// A group of three.
pub(super) struct Group {
    pub(super) redirector: Process,
    /// The first can take over as the redirector.
    pub(super) members: [usize; 3],
}

impl Groups {
    pub(super) fn gather(stage: &mut Stage) -> Result<Self> {
        Ok(Self { site: Group::gather(stage, "site")?, elsewhere: Group::gather(stage, "elsewhere")? })
    }

    pub(super) fn members(&self) -> Vec<usize> {
        self.site.members.iter().chain(&self.elsewhere.members).copied().collect()
    }

    pub(super) fn play(&mut self, stage: &mut Stage, output: &mut Output) -> Result<Buddy> {
        let (site, elsewhere) = (self.site.members, self.elsewhere.members);
        let cold = stage.measure("cold readers in groups", &[&site, &elsewhere], 1)?;
        let cold = (cold[0] + cold[1]) / 2;
        tell(output, format_args!("  Three readers with nothing cached: {:.1} ms a transaction.", millis(cold)))?;
        let (writer, readers) = (site[0], &site[1..]);
        stage.crew.work(writer, &stage.work(None, WRITERS_WRITES, 99))?;
        stage.measure("getting warm", &[readers, &elsewhere], 11)?;
        let hot = stage.measure("readers in groups with a writer", &[readers, &elsewhere], 21)?;
        stage.crew.rest(&[writer], PATIENCE)?;
        let (beside, apart) = (millis(hot[0]), millis(hot[1]));
        tell(output, format_args!("  The same with hot caches, in the writer's group: {beside:.1} ms."))?;
        tell(output, format_args!("  The same in a group elsewhere: {apart:.1} ms."))?;
        let counts = stage.crew.counts(&self.members());
        Ok(Buddy { cold, beside_the_writer: hot[0], elsewhere: hot[1], counts })
    }
}

impl Group {
    fn gather(stage: &mut Stage, name: &str) -> Result<Self> {
        let listen = ["--listen", &lasting_address()?.to_string()];
        let redirector = stage.program.group(name, stage.link(), &listen)?.until("leads", name)?;
        let server = format!("{},{}", redirector.address(), stage.link());
        let eligible = Eligible { group: name.into(), listen: lasting_address()?, store: stage.link().to_string() };
        let first = stage.crew.hire(&stage.member(server.clone(), Some(eligible)))?;
        let other = stage.member(server, None);
        let members = [first, stage.crew.hire(&other)?, stage.crew.hire(&other)?];
        Ok(Self { redirector, members })
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
