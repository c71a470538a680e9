//! `put`, `get`, `rm`, `ls` and `scan`: documents by path.

use super::design;
use crate::cli::{GetArgs, LsArgs, PathArgs, PutArgs, ScanArgs};
use crate::documents::{check_json, check_path, documents, find, list, scan as scan_documents};
use crate::output::Output;
use crate::target;
use crate::{Error, Result};
use serde_json::json;
use std::io::Read;
use thorp::limits::OBJECT_BYTES_MAX;

pub(super) fn put(args: &PutArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let text = if args.document == "-" { read_stdin()? } else { args.document.clone() };
    let document = check_json(&text)?;
    let db = target::open(&args.target)?;
    db.transact(|tx| documents(tx)?.insert(tx, &args.path, &document))?;
    if output.is_json() { output.raw(json!({"put": args.path})) } else { Ok(()) }
}

/// A document from standard input, no longer than one can be.
fn read_stdin() -> Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().take(OBJECT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn get(args: &GetArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let db = target::open(&args.target)?;
    if let Some((name, number)) = design::entity_path(&args.path)
        && let Some(design) = design::find(&db, name)?
    {
        return design::show(&db, &design, number, args.depth, output);
    }
    let document = db.transact(|tx| find(tx, &args.path))?;
    output.raw(document.ok_or_else(|| no_document(&args.path))?)
}

pub(super) fn rm(args: &PathArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let db = target::open(&args.target)?;
    let removed = db.transact(|tx| documents(tx)?.remove(tx, &args.path))?;
    removed.ok_or_else(|| no_document(&args.path))?;
    if output.is_json() { output.raw(json!({"removed": args.path})) } else { Ok(()) }
}

fn no_document(path: &str) -> Error {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let ls = format!("thorp ls {folder}");
    format!("there is no document '{path}': `{}` shows what there is", ls.trim_end()).into()
}

pub(super) fn ls(args: &LsArgs, output: &mut Output) -> Result {
    let db = target::open(&args.target)?;
    let mut names = list(&db, &args.path)?;
    if args.path.is_empty() {
        names.extend(design::names(&db)?.into_iter().map(|name| format!("{name}/#")));
        names.sort();
    }
    if names.is_empty() && !args.path.is_empty() {
        return Err(format!("there is nothing under '{}': `thorp ls` shows what there is", args.path).into());
    }
    for name in names {
        output.line(&json!({"name": name}), &name)?;
    }
    Ok(())
}

pub(super) fn scan(args: &ScanArgs, output: &mut Output) -> Result {
    let db = target::open(&args.target)?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    scan_documents(&db, &args.path, (args.from.as_deref(), args.to.as_deref()), |path, document| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        // The document is JSON already: it goes into the line as it is.
        let path_json = json!(path);
        if output.is_json() {
            output.raw(format_args!("{{\"path\":{path_json},\"document\":{document}}}"))?;
        } else {
            output.raw(format_args!("{path}  {document}"))?;
        }
        Ok(true)
    })
}
