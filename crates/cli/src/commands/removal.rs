//! `rm`: a document; or everything that is at a path and under it, in batches.

use super::design;
use super::documents::{no_document, nothing_under};
use crate::cli::RmArgs;
use crate::documents::{Range, check_path, find_documents, page, remove_all};
use crate::output::{self, Output};
use crate::stopper::Interrupt;
use crate::{Error, Result};
use designs::files::remove;
use serde_json::json;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use thorp::{Db, wait_for};

pub(super) fn rm(args: &RmArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let db = args.target.open()?;
    if args.recursive {
        return remove_tree(&db, args, output);
    }
    let removed = db.transact(|tx| match find_documents(tx)? {
        Some(documents) => documents.remove(tx, &args.path),
        None => Ok(None),
    })?;
    if removed.is_none() {
        return Err(why_not(&db, args)?);
    }
    if output.is_json() { output.raw(json!({"removed": args.path})) } else { Ok(()) }
}

/// No document is at the path; but there may be something else, which takes more than a slip of the hand to remove.
fn why_not(db: &Db, args: &RmArgs) -> Result<Error> {
    let path = &args.path;
    let is_folder = !db.transact(|tx| page(tx, &Range::under(path), 1))?.is_empty();
    let what = match (is_folder, design::find(db, path)?) {
        (_, Some(_)) => "a design",
        (true, None) => "a folder",
        (false, None) => return Ok(no_document(path, &args.target)),
    };
    let hint = args.target.hint(&["rm", "-r", path]);
    Ok(format!("'{path}' is {what}: {hint} removes all of it").into())
}

/// Documents at the path and under it, and designs whose names are.
fn remove_tree(db: &Db, args: &RmArgs, output: &mut Output) -> Result {
    let path = args.path.as_str();
    let interrupt = Interrupt::watch()?;
    let bar = output::spinner("remove (documents)");
    let documents = remove_all(db, path, &interrupt, |count| bar.set_position(count))?;
    bar.finish_and_clear();
    let (mut designs, mut entities) = (0, 0);
    let inside = format!("{path}/");
    let mut listed = design::listed(db)?;
    listed.retain(|listed| listed.name == path || listed.name.starts_with(&inside));
    let bar = output::bar("remove (entities)", listed.iter().map(|listed| listed.design.count).sum());
    let names: BTreeSet<String> = listed.into_iter().map(|listed| listed.name).collect();
    for name in names {
        if interrupt.has_come() {
            break;
        }
        let on = |count| {
            bar.set_position(entities + count);
            if interrupt.has_come() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let removal = wait_for(remove(db, &name, on))?;
        designs += u64::from(removal.found);
        entities += removal.entities;
    }
    bar.finish_and_clear();
    if interrupt.has_come() {
        let again = args.target.hint(&["rm", "-r", path]);
        let text = format!("interrupted: {documents} documents and {entities} entities are removed; {again} goes on");
        return Err(text.into());
    }
    if documents + designs == 0 {
        return Err(nothing_under(path, &args.target));
    }
    let json = json!({"removed": path, "documents": documents, "designs": designs, "entities": entities});
    let text = match designs {
        0 => format!("{documents} documents removed"),
        _ => format!("{documents} documents and {designs} designs of {entities} entities removed"),
    };
    output.line(&json, text)
}
