//! `find`: the entities of a design that match, batch by batch, so that a design of any size takes little memory.

use super::design;
use super::documents::nothing_under;
use crate::Result;
use crate::cli::FindArgs;
use crate::documents::check_path;
use crate::output::{self, Output};
use std::ops::Bound;
use thorp::design::{Design, Entity, Object};
use thorp::{Db, wait_for};

/// Entities that one transaction reads.
const BATCH: usize = 1_000;

pub(super) fn run(args: &FindArgs, output: &mut Output) -> Result {
    check_path(&args.name)?;
    let db = args.target.open()?;
    let found = wait_for(db.transact_async(async |mut tx| design::find_whole(&mut tx, &args.name).await))?;
    let design = found.ok_or_else(|| nothing_under(&args.name, &args.target))?;
    let bar = output::bar_beside_output("find (entities)", design.count);
    let (mut from, mut left) = (Bound::Unbounded, args.limit.unwrap_or(u64::MAX));
    while left > 0 {
        let Some((last, entities)) = batch(&db, &design, from)? else { break };
        bar.inc(entities.len() as u64);
        from = Bound::Excluded(last);
        for entity in entities.iter().filter(|entity| matches(args, entity)) {
            if left == 0 {
                break;
            }
            left -= 1;
            output.line(&design::to_json(entity), entity)?;
        }
        // A reader sees matches while the rest is still being read.
        output.flush()?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// The next entities, with the number of the last; `None` at the end.
fn batch(db: &Db, design: &Design, from: Bound<u64>) -> Result<Option<(u64, Vec<Entity>)>> {
    let objects = db.transact(|tx| design.entities_from(tx, from, BATCH))?;
    let last = objects.last().map(|object| object.entity.number);
    Ok(last.map(|last| (last, objects.iter().map(Object::to_entity).collect())))
}

fn matches(args: &FindArgs, entity: &Entity) -> bool {
    let is_of_kind = args.kind.is_empty() || args.kind.iter().any(|kind| entity.is_a(kind));
    is_of_kind && args.conditions.iter().all(|condition| condition.is_met_by(entity))
}
