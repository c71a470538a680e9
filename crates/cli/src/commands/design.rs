//! Designs on the command line: in from a file, entity by entity, out as a file.

use crate::documents::refuse_over_documents;
use crate::output::{self, Output};
use crate::spool::Spool;
use crate::{Error, Result};
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use thorp::{AsyncTx, Db, Ref, wait_for};
use workloads::design::{self, Design, How, Link, Loaded, Object, Phase, Progress};
use workloads::step::{self, Entity, Reader};

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

/// Loads a design; one that was interrupted goes on where it was.
pub(super) fn load(db: &Db, reader: Reader, name: &str, how: How, output: &mut Output) -> Result {
    let loaded = load_with_bar(db, reader, name, how)?;
    let (count, resumed_at, replaced) = (loaded.design.count, loaded.resumed_at, loaded.replaced);
    let resumed = if resumed_at > 0 { format!(", resumed after {resumed_at}") } else { String::new() };
    let instead = if replaced { ", in the place of the one before" } else { "" };
    let json = json!({
        "loaded": count - resumed_at, "into": name, "entities": count, "resumed_at": resumed_at, "replaced": replaced,
    });
    output.line(&json, format_args!("{count} entities in design {}{resumed}{instead}", output::visible(name)))
}

/// Loads a file, for callers that want the design itself.
pub(crate) fn load_file(db: &Db, file: &Path, name: &str) -> Result<Design> {
    let loaded = load_with_bar(db, step::open(file)?, name, How::New);
    Ok(loaded.map_err(|error| format!("{}: {error}", file.display()))?.design)
}

fn load_with_bar(db: &Db, reader: Reader, name: &str, how: How) -> Result<Loaded> {
    let bar = output::bar("read (bytes)", 0);
    let may_begin = async |tx: &mut AsyncTx| refuse_over_documents(tx, name).await;
    let loaded = wait_for(design::load(db, reader, name, how, may_begin, |progress| show_progress(&bar, progress)));
    bar.finish_and_clear();
    Ok(loaded?)
}

fn show_progress(bar: &ProgressBar, progress: Progress) {
    bar.set_message(match progress.phase {
        Phase::Read => "read (bytes)",
        Phase::Place => "place (entities)",
        Phase::Write => "write (entities)",
        Phase::Remove => "remove the one before",
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
                links.retain(|link| seen.insert(link.object));
                tx.read_ahead(links.iter().map(|link| link.object.id()))?;
                next.extend(links.into_iter().map(|link| (link.object, steps + 1)).rev());
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

/// Prints a design as a file, as it is at one moment; says whether there is one of this name.
pub(super) fn dump(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    let spool = Spool::new()?;
    let is_one = wait_for(db.transact_async(async |mut tx| {
        let Some(design) = find_whole(&mut tx, name).await? else { return Ok(false) };
        let mut out = spool.begin()?;
        design::dump(&mut tx, &design, &mut out).await?;
        out.flush().map_err(thorp::Error::application)?;
        Ok(true)
    }))?;
    spool.copy_to(output.writer())?;
    Ok(is_one)
}

/// The same batch by batch.
pub(super) fn dump_in_parts(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    let design = wait_for(db.transact_async(async |mut tx| find_whole(&mut tx, name).await))?;
    let Some(design) = design else { return Ok(false) };
    wait_for(design::dump_in_parts(db, &design, output.writer(), |_| {}))?;
    Ok(true)
}

async fn find_whole(tx: &mut AsyncTx, name: &str) -> thorp::Result<Option<Design>> {
    let Some(design) = Design::find(tx, name).await? else { return Ok(None) };
    if design.is_whole(tx).await? {
        return Ok(Some(design));
    }
    let text = "the design is not loaded completely: load its file again, which goes on where it was";
    Err(thorp::Error::application(text))
}

fn text(entity: &Entity) -> Result<String> {
    let mut line = Vec::new();
    step::write_entity(&mut line, entity)?;
    Ok(String::from_utf8(line)?.trim_end().to_owned())
}
