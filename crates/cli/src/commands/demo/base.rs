//! Base: three readers and a writer, each with its own session over the slow link.

use super::{PATIENCE, Stage, WRITERS_WRITES, tell};
use crate::Result;
use crate::output::Output;
use std::time::Duration;

/// How long a reader's visit took, in the mean.
pub(super) struct Base {
    /// Of readers that had cached nothing.
    pub(super) cold: Duration,
    /// Of readers that had been everywhere, while the writer wrote.
    pub(super) hot: Duration,
}

pub(super) fn play(stage: &mut Stage, output: &mut Output) -> Result<Base> {
    let alone = stage.member(stage.link().to_string(), None);
    let members = [(); 4].map(|()| stage.crew.hire(&alone)).into_iter().collect::<Result<Vec<_>>>()?;
    let (writer, readers) = members.split_last().ok_or("nobody was hired")?;
    let cold = stage.measure("cold readers", &[readers, &[*writer]], 1)?[0];
    tell(
        output,
        format_args!("  Three readers with nothing cached: {:.1} ms a transaction.", cold.as_secs_f64() * 1e3),
    )?;
    stage.crew.work(*writer, &stage.work(None, WRITERS_WRITES, 99))?;
    stage.measure("getting warm", &[readers], 11)?;
    let hot = stage.measure("readers with a writer", &[readers], 21)?[0];
    stage.crew.rest(&[*writer], PATIENCE)?;
    let millis = hot.as_secs_f64() * 1e3;
    tell(output, format_args!("  The same with hot caches, with a writer: {millis:.1} ms."))?;
    members.into_iter().try_for_each(|member| stage.crew.kill(member))?;
    Ok(Base { cold, hot })
}
