//! `load` and `dump`: all of a collection or design, in and out.

mod input;
mod jsonl;
mod mark;

use super::design;
use super::documents::nothing_under;
use crate::cli::{DanglingArg, DumpArgs, LoadArgs};
use crate::documents::{Range, check_path, find_documents, page};
use crate::error::only_for;
use crate::output::{self, Output, cannot_write};
use crate::spool::Spool;
use crate::{Error, Result};
use designs::files::{Dangling, How, LoadOptions, Missing, NameTaken};
use input::Input;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use thorp::{Db, Tx};

/// The endings of files that are meant to hold a design, whatever they do hold.
const DESIGN_ENDINGS: [&str; 9] = ["ifc", "ifczip", "stp", "step", "stpz", "stpnc", "p21", "spf", "zip"];

pub(super) fn load(args: &LoadArgs, output: &mut Output) -> Result {
    check_path(&args.into)?;
    // An error in the input is reported before a store is asked for anything, or made.
    let mut input = Input::open(&args.file)?;
    if !input.begins_like_a_design()? && !is_design(&args.file) {
        only_for("--dangling", args.dangling.is_some(), "designs")?;
        only_for("--replace", args.replace, "designs, and documents replace those of their names anyway")?;
        return jsonl::load(args, input, output);
    }
    only_for("--key", args.key.is_some(), "JSON lines, and the entities of a design have numbers of their own")?;
    only_for("--batch", args.batch.is_some(), "JSON lines")?;
    let (name, reader) = (input.name().to_owned(), input.into_design()?);
    let db = args.target.open_or_create()?;
    let how = if args.replace { How::Replace } else { How::New };
    let options = LoadOptions { how, dangling: dangling(args.dangling) };
    let loaded = design::load(&db, reader, &args.into, options, output);
    loaded.map_err(|error| format!("{name}: {error}{}", remedy(&error, args)).into())
}

fn dangling(asked: Option<DanglingArg>) -> Dangling {
    match asked {
        None => Dangling::Refuse,
        Some(DanglingArg::Null) => Dangling::Null,
        Some(DanglingArg::Keep) => Dangling::Keep,
    }
}

/// The call that loads the file all the same, if there is one.
fn remedy(error: &Error, args: &LoadArgs) -> String {
    let Some(thorp::Error::Application(cause)) = error.downcast_ref() else { return String::new() };
    if cause.is::<NameTaken>() {
        return format!(" with {}", load_hint(args, &["--replace"]));
    }
    if cause.is::<Missing>() {
        let how = load_hint(args, &["--dangling", "keep"]);
        return format!("; {how} loads it and keeps such references, --dangling null clears them");
    }
    String::new()
}

fn load_hint(args: &LoadArgs, options: &[&str]) -> String {
    let file = args.file.to_string_lossy();
    let mut words = vec!["load", &file, "--into", &args.into];
    if args.replace && options != ["--replace"] {
        words.push("--replace");
    }
    words.extend(options);
    args.target.hint(&words)
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

/// The message of a dump's progress.
const DUMPED: &str = "dump (documents)";

/// Returns whether there is anything.
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
    let (spool, bar) = (Spool::new()?, output::spinner(DUMPED));
    let count = db.transact(|tx| read_all(tx, &args.name, &spool, |count| bar.set_position(count)));
    bar.finish_and_clear();
    let count = count.map_err(|error| hint(error.into()))?;
    spool.copy_to(output.writer())?;
    Ok(count > 0)
}

/// Reads all documents of a collection. Returns how many there are.
fn read_all(tx: &mut Tx, name: &str, spool: &Spool, progress: impl Fn(u64)) -> thorp::Result<u64> {
    let Some(documents) = find_documents(tx)? else { return Ok(0) };
    let (range, mut out, mut count) = (Range::under(name), spool.begin()?, 0);
    let mut cursor = documents.range::<String>(range.bounds());
    while let Some((path, document)) = cursor.next(tx)? {
        write_line(&mut out, &path[range.prefix().len()..], &document).map_err(thorp::Error::application)?;
        count += 1;
        progress(count);
    }
    out.flush().map_err(thorp::Error::application)?;
    Ok(count)
}

fn dump_in_parts(db: &Db, name: &str, output: &mut Output) -> Result<bool> {
    if design::dump_in_parts(db, name, output)? {
        return Ok(true);
    }
    let (mut range, bar) = (Range::under(name), output::bar_beside_output(DUMPED, 0));
    loop {
        let page = db.transact(|tx| page(tx, &range, usize::MAX))?;
        let Some((last, _)) = page.last() else {
            bar.finish_and_clear();
            return Ok(bar.position() > 0);
        };
        bar.inc_length(page.len() as u64);
        bar.inc(page.len() as u64);
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
