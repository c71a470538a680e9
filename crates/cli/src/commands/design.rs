//! Designs on the command line: in from a file, entity by entity, out as a file.

use crate::documents::refuse_over_documents;
use crate::output::{self, Output};
use crate::spool::Spool;
use crate::{Error, Result};
use designs::files::{self, How, Listed, LoadOptions, Loaded, Phase, Progress};
use designs::step::{self, Reader};
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::path::Path;
use thorp::design::{Design, Entity, Link, Object, Value};
use thorp::{AsyncTx, Db, Ref, wait_for};

/// The design and the number in a path such as `house/#123`.
pub(super) fn entity_path(path: &str) -> Option<(&str, u64)> {
    let (name, number) = path.rsplit_once("/#")?;
    Some((name, number.parse().ok()?))
}

/// The design of this name, if there is one.
pub(super) fn find(db: &Db, name: &str) -> Result<Option<Design>> {
    Ok(wait_for(db.transact_async(async |mut tx| Design::find(&mut tx, name).await))?)
}

/// All designs, and what interrupted loads and removals have left of some.
pub(super) fn listed(db: &Db) -> Result<Vec<Listed>> {
    Ok(wait_for(db.transact_async(async |mut tx| files::listed(&mut tx).await))?)
}

/// Loads a design; one that was interrupted continues where it was.
pub(super) fn load(db: &Db, reader: Reader, name: &str, options: LoadOptions, output: &mut Output) -> Result {
    let loaded = load_with_bar(db, reader, name, options)?;
    let (count, resumed_at, replaced) = (loaded.design.count, loaded.resumed_at, loaded.replaced);
    let resumed = if resumed_at > 0 { format!(", resumed after {resumed_at}") } else { String::new() };
    let instead = if replaced { ", in the place of the one before" } else { "" };
    let json = json!({
        "loaded": count - resumed_at, "into": name, "entities": count, "resumed_at": resumed_at, "replaced": replaced,
        "missing": loaded.missing,
    });
    let (name, missing) = (output::visible(name), missing(&loaded.missing));
    output.line(&json, format_args!("{count} entities in design {name}{resumed}{instead}{missing}"))
}

/// Missing entities that are named one by one; with --json all are.
const MISSING_NAMED_MAX: usize = 10;

/// Describes the entities that a file lacks.
fn missing(numbers: &BTreeSet<u64>) -> String {
    if numbers.is_empty() {
        return String::new();
    }
    let named: Vec<_> = numbers.iter().take(MISSING_NAMED_MAX).map(|number| format!("#{number}")).collect();
    let more = if numbers.len() > named.len() { " and more" } else { "" };
    format!("; {} that they refer to are missing: {}{more}", numbers.len(), named.join(" "))
}

/// Loads a file, for callers that want the design itself.
#[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "for the commands of the lab"))]
pub(crate) fn load_file(db: &Db, file: &Path, name: &str) -> Result<Design> {
    let loaded = load_with_bar(db, step::open(file)?, name, How::New.into());
    Ok(loaded.map_err(|error| format!("{}: {error}", file.display()))?.design)
}

fn load_with_bar(db: &Db, reader: Reader, name: &str, options: LoadOptions) -> Result<Loaded> {
    let bar = output::bar("read (bytes)", 0);
    let may_begin = async |tx: &mut AsyncTx| refuse_over_documents(tx, name).await;
    let loaded = wait_for(files::load(db, reader, name, options, may_begin, |progress| show_progress(&bar, progress)));
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
        let mut json = to_json(&entity);
        json["steps"] = steps.into();
        output.line(&json, format_args!("{:1$}{entity}", "", 2 * steps))?;
    }
    Ok(())
}

/// The message of a dump's progress.
const DUMPED: &str = "dump (entities)";

/// Prints a design as a file, as it is at one moment. Returns whether there is one of this name.
pub(super) fn dump(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    let (spool, bar) = (Spool::new()?, output::bar(DUMPED, 0));
    let is_one = wait_for(db.transact_async(async |mut tx| {
        let Some(design) = find_whole(&mut tx, name).await? else { return Ok(false) };
        bar.set_length(design.count);
        let mut out = spool.begin()?;
        files::dump(&mut tx, &design, &mut out, |written| bar.set_position(written)).await?;
        out.flush().map_err(thorp::Error::application)?;
        Ok(true)
    }));
    bar.finish_and_clear();
    let is_one = is_one?;
    spool.copy_to(output.writer())?;
    Ok(is_one)
}

/// The same batch by batch.
pub(super) fn dump_in_parts(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    let design = wait_for(db.transact_async(async |mut tx| find_whole(&mut tx, name).await))?;
    let Some(design) = design else { return Ok(false) };
    let bar = output::bar_beside_output(DUMPED, design.count);
    wait_for(files::dump_in_parts(db, &design, output.writer(), |written| bar.set_position(written)))?;
    bar.finish_and_clear();
    Ok(true)
}

/// An entity for programs: its statement, and its values by part.
pub(super) fn to_json(entity: &Entity) -> serde_json::Value {
    let parts = entity.parts.iter().map(|part| {
        let values: Vec<_> = part.values.iter().map(value_to_json).collect();
        json!({"kind": part.kind, "values": values})
    });
    let parts: Vec<_> = parts.collect();
    json!({"number": entity.number, "kind": entity.kind(), "text": entity.to_string(), "parts": parts})
}

fn value_to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => json!(null),
        Value::Derived => json!({"derived": true}),
        Value::Integer(number) => json!(number),
        // The text has the digits that a floating-point number may lack.
        Value::Number(text) => text.parse::<f64>().map_or_else(|_| json!(text), |number| json!(number)),
        Value::Text(text) => json!(text.characters()),
        Value::Enumeration(name) => json!({"enumeration": name}),
        Value::Binary(digits) => json!({"binary": digits}),
        Value::Ref(number) => json!({"entity": number}),
        Value::Name(name) => json!({"name": name}),
        Value::Resource(resource) => json!({"resource": resource}),
        Value::List(values) => values.iter().map(value_to_json).collect(),
        Value::Typed(kind, value) => json!({"type": kind, "value": value_to_json(value)}),
    }
}

pub(super) async fn find_whole(tx: &mut AsyncTx, name: &str) -> thorp::Result<Option<Design>> {
    let Some(design) = Design::find(tx, name).await? else { return Ok(None) };
    if design.is_whole(tx).await? {
        return Ok(Some(design));
    }
    let text = "the design is not loaded completely: load its file again, which goes on where it was";
    Err(thorp::Error::application(text))
}
