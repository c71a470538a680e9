//! `load` and `dump`: all of a collection or design, in and out.

mod input;
mod jsonl;
mod mark;

use super::design;
use super::documents::nothing_under;
use crate::cli::{DumpArgs, LoadArgs};
use crate::documents::{Range, check_path, find_documents, page};
use crate::error::only_for;
use crate::output::{Output, cannot_write};
use crate::spool::Spool;
use crate::{Error, Result};
use input::Input;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use thorp::{Db, Tx};
use workloads::design::{How, NameTaken};

/// The endings of files that hold a design.
const DESIGN_ENDINGS: [&str; 6] = ["ifc", "ifczip", "stp", "step", "p21", "zip"];

pub(super) fn load(args: &LoadArgs, output: &mut Output) -> Result {
    check_path(&args.into)?;
    // An error in the input is reported before a store is asked for anything, or made.
    let mut input = Input::open(&args.file)?;
    if !is_design(&args.file) && (input.is_file() || !input.begins_like_a_design()?) {
        only_for("--replace", args.replace, "designs, and documents replace those of their names anyway")?;
        return jsonl::load(args, input, output);
    }
    only_for("--key", args.key.is_some(), "JSON lines, and the entities of a design have numbers of their own")?;
    only_for("--batch", args.batch.is_some(), "JSON lines")?;
    let (name, reader) = (input.name().to_owned(), input.into_design()?);
    let db = args.target.open_or_create()?;
    let how = if args.replace { How::Replace } else { How::New };
    let loaded = design::load(&db, reader, &args.into, how, output);
    loaded.map_err(|error| {
        let how = if is_name_taken(&error) { format!(" with {}", replace_hint(args)) } else { String::new() };
        format!("{name}: {error}{how}").into()
    })
}

fn is_name_taken(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(thorp::Error::Application(cause)) if cause.is::<NameTaken>())
}

fn replace_hint(args: &LoadArgs) -> String {
    args.target.hint(&["load", &args.file.to_string_lossy(), "--into", &args.into, "--replace"])
}

fn is_design(file: &Path) -> bool {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| DESIGN_ENDINGS.contains(&ending.as_str()))
}

pub(super) fn dump(args: &DumpArgs, output: &mut Output) -> Result {
    check_path(&args.name)?;
    let db = args.target.open()?;
    let dumped = if args.in_parts { dump_in_parts(&db, &args.name, output) } else { dump_at_once(&db, args, output) };
    if dumped? { Ok(()) } else { Err(nothing_under(&args.name, &args.target)) }
}

/// Says whether there is anything.
fn dump_at_once(db: &Db, args: &DumpArgs, output: &mut Output) -> Result<bool> {
    let hint = |error: Error| match error.downcast_ref::<thorp::Error>() {
        Some(thorp::Error::Contended { .. } | thorp::Error::TransactionTooLarge) => {
            let in_parts = args.target.hint(&["dump", &args.name, "--in-parts"]);
            format!("'{}' cannot be read at one moment: {error}; {in_parts} reads it page by page", args.name).into()
        }
        _ => error,
    };
    if design::dump(db, &args.name, output).map_err(hint)? {
        return Ok(true);
    }
    let spool = Spool::new()?;
    let count = db.transact(|tx| read_all(tx, &args.name, &spool));
    let count = count.map_err(|error| hint(error.into()))?;
    spool.copy_to(output.writer())?;
    Ok(count > 0)
}

/// Reads all documents of a collection, and says how many there are.
fn read_all(tx: &mut Tx, name: &str, spool: &Spool) -> thorp::Result<u64> {
    let Some(documents) = find_documents(tx)? else { return Ok(0) };
    let (range, mut out, mut count) = (Range::under(name), spool.begin()?, 0);
    let mut cursor = documents.range::<String>(range.bounds());
    while let Some((path, document)) = cursor.next(tx)? {
        write_line(&mut out, &path[range.prefix().len()..], &document).map_err(thorp::Error::application)?;
        count += 1;
    }
    out.flush().map_err(thorp::Error::application)?;
    Ok(count)
}

fn dump_in_parts(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    if design::dump_in_parts(db, name, output)? {
        return Ok(true);
    }
    let (mut range, mut is_empty) = (Range::under(name), true);
    loop {
        let page = db.transact(|tx| page(tx, &range, usize::MAX))?;
        let Some((last, _)) = page.last() else { return Ok(!is_empty) };
        is_empty = false;
        for (path, document) in &page {
            write_line(output.writer(), &path[range.prefix().len()..], document).map_err(cannot_write)?;
        }
        range.go_on_behind(last);
    }
}

/// A document as [`load`] takes it without a key. It is JSON already, and goes into the line as it is.
fn write_line(out: &mut impl Write, name: &str, document: &str) -> std::io::Result<()> {
    writeln!(out, "{{\"name\":{},\"document\":{document}}}", json!(name))
}
