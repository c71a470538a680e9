//! Designs on the command line: in from a file, entity by entity, out as a file.

use crate::output::{self, Output};
use crate::{Error, Result};
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::HashSet;
use std::path::Path;
use thorp::{Db, Ref, wait_for};
use workloads::design::{Design, Link, Object, Phase, Progress, dump as dump_design, load as load_design};
use workloads::step::{self, Entity};

/// The design and the number in a path such as `house/#123`.
pub(super) fn entity_path(path: &str) -> Option<(&str, u64)> {
    let (name, number) = path.rsplit_once("/#")?;
    Some((name, number.parse().ok()?))
}

/// The design of this name, if there is one.
pub(super) fn find(db: &Db, name: &str) -> Result<Option<Design>> {
    Ok(wait_for(db.transact_async(async |mut tx| Design::find(&mut tx, name).await))?)
}

/// The names of all designs.
pub(super) fn names(db: &Db) -> Result<Vec<String>> {
    Ok(wait_for(db.transact_async(async |mut tx| Design::names(&mut tx).await))?)
}

/// Loads a file; one that was interrupted goes on where it was.
pub(super) fn load(db: &Db, file: &Path, name: &str, output: &mut Output) -> Result {
    let loaded = load_with_bar(db, file, name)?;
    let (count, resumed_at) = (loaded.design.count, loaded.resumed_at);
    let resumed = if resumed_at > 0 { format!(", resumed after {resumed_at}") } else { String::new() };
    let json = json!({"loaded": count - resumed_at, "into": name, "entities": count, "resumed_at": resumed_at});
    output.line(&json, format_args!("{count} entities in design {name}{resumed}"))
}

/// The same for whoever wants the design itself.
pub(crate) fn load_with_bar(db: &Db, file: &Path, name: &str) -> Result<workloads::design::Loaded> {
    let bar = output::bar("read (bytes)", 0);
    let loaded = wait_for(load_design(db, step::open(file)?, name, |progress| show_progress(&bar, progress)));
    bar.finish_and_clear();
    loaded.map_err(|error| format!("{}: {error}", file.display()).into())
}

fn show_progress(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.phase {
        Phase::Read => "read (bytes)",
        Phase::Place => "place (entities)",
        Phase::Write => "write (entities)",
    });
    bar.set_length(progress.total.unwrap_or(progress.done));
    bar.set_position(progress.done);
}

/// Prints an entity, and those that it refers to up to `depth` steps away, each once and further in.
pub(super) fn show(db: &Db, design: &Design, number: u64, depth: usize, output: &mut Output) -> Result {
    let shown = wait_for(db.transact_async(async |mut tx| {
        let Some(object) = design.entities.get(&mut tx, &number).await? else { return Ok(None) };
        let (mut shown, mut seen) = (Vec::new(), HashSet::from([object]));
        let mut next: Vec<(Ref<Object>, usize)> = vec![(object, 0)];
        while let Some((object, steps)) = next.pop() {
            let object = tx.get(object).await?;
            if steps < depth {
                let mut links: Vec<Link> = Vec::new();
                object.entity.for_each_ref(|link| links.push(*link));
                let new = links.into_iter().filter(|link| seen.insert(link.object));
                next.extend(new.map(|link| (link.object, steps + 1)).collect::<Vec<_>>().into_iter().rev());
            }
            shown.push((object.to_entity(), steps));
        }
        Ok(Some(shown))
    }))?;
    let shown = shown.ok_or_else(|| Error::from(format!("the design has no entity #{number}")))?;
    for (entity, steps) in shown {
        let text = text(&entity)?;
        let json = json!({"number": entity.number, "kind": entity.kind(), "steps": steps, "text": text});
        output.line(&json, format_args!("{:1$}{text}", "", 2 * steps))?;
    }
    Ok(())
}

/// Prints a design as a file.
pub(super) fn dump(db: &Db, design: &Design, output: &mut Output) -> Result {
    if !wait_for(db.transact_async(async |mut tx| design.is_whole(&mut tx).await))? {
        return Err("the design is not loaded completely: load its file again, which goes on where it was".into());
    }
    Ok(wait_for(dump_design(db, design, output.writer(), |_| {}))?)
}

fn text(entity: &Entity) -> Result<String> {
    let mut line = Vec::new();
    step::write_entity(&mut line, entity)?;
    Ok(String::from_utf8(line)?.trim_end().to_owned())
}
