//! `put`, `get` and `scan`: documents by path.

use super::design;
use crate::cli::{GetArgs, PutArgs, ScanArgs, Target};
use crate::documents::{Range, check_folder, check_json, check_path, documents, find, page, refuse_inside_designs};
use crate::error::only_for;
use crate::output::{Output, visible};
use crate::{Error, Result};
use serde_json::json;
use std::io::Read;
use thorp::limits::OBJECT_BYTES_MAX;

pub(super) fn put(args: &PutArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let text = if args.document == "-" { read_stdin()? } else { args.document.clone() };
    let document = check_json(&text)?;
    let db = args.target.open_or_create()?;
    db.transact(|tx| {
        refuse_inside_designs(tx, [args.path.as_str()])?;
        documents(tx)?.insert(tx, &args.path, &document)
    })?;
    if output.is_json() { output.raw(json!({"put": args.path})) } else { Ok(()) }
}

/// A document from standard input. A little more is read than one can be, blanks around it included, so that what is
/// too long can be told from what ends too early.
fn read_stdin() -> Result<String> {
    const BYTES_MAX: usize = OBJECT_BYTES_MAX + 64 * 1024;
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        return Err(format!("the document is larger than the limit of {} MiB", OBJECT_BYTES_MAX >> 20).into());
    }
    String::from_utf8(bytes).map_err(|error| format!("standard input is not text: {error}; JSON is UTF-8").into())
}

pub(super) fn get(args: &GetArgs, output: &mut Output) -> Result {
    check_path(&args.path)?;
    let db = args.target.open()?;
    if let Some((name, number)) = design::entity_path(&args.path)
        && let Some(design) = design::find(&db, name)?
    {
        return design::show(&db, &design, number, args.depth.unwrap_or(0), output);
    }
    only_for("--depth", args.depth.is_some(), "entities of designs, such as house/#123")?;
    match db.transact(|tx| find(tx, &args.path))? {
        Some(document) => output.raw(document),
        None if design::find(&db, &args.path)?.is_some() => Err(is_a_design(&args.path, &args.target)),
        None => Err(no_document(&args.path, &args.target)),
    }
}

/// There is no document: where to look.
pub(super) fn no_document(path: &str, target: &Target) -> Error {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("there is no document '{path}': {} shows what there is", target.hint(&["ls", folder])).into()
}

/// There is nothing at all.
pub(super) fn nothing_under(path: &str, target: &Target) -> Error {
    format!("there is nothing under '{path}': {} shows what there is", target.hint(&["ls"])).into()
}

/// A design is not a folder of documents.
fn is_a_design(name: &str, target: &Target) -> Error {
    let (dump, get) = (target.hint(&["dump", name]), target.hint(&["get", &format!("{name}/#1")]));
    format!("'{name}' is a design: {dump} prints all of it, and {get} one of its entities").into()
}

pub(super) fn scan(args: &ScanArgs, output: &mut Output) -> Result {
    check_folder(&args.path)?;
    let db = args.target.open()?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut range = Range::between(&args.path, args.from.as_deref(), args.to.as_deref());
    while left > 0 {
        let page = db.transact(|tx| page(tx, &range, left))?;
        let Some((last, _)) = page.last() else { break };
        range.go_on_behind(last);
        left -= page.len();
        page.iter().try_for_each(|(path, document)| show_document(path, document, output))?;
    }
    Ok(())
}

fn show_document(path: &str, document: &str, output: &mut Output) -> Result {
    // The document is JSON already: it goes into the line as it is.
    if output.is_json() {
        output.raw(format_args!("{{\"path\":{},\"document\":{document}}}", json!(path)))
    } else {
        output.raw(format_args!("{}  {document}", visible(path)))
    }
}
