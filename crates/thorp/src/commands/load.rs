//! `load` and `dump`: all of a collection, in and out.

mod jsonl;
mod mark;

use super::design;
use crate::Result;
use crate::cli::{DumpArgs, LoadArgs};
use crate::documents::{check_path, scan};
use crate::output::Output;
use crate::target;
use std::path::Path;

/// The endings of files that hold a design.
const DESIGN_ENDINGS: [&str; 6] = ["ifc", "ifczip", "stp", "step", "p21", "zip"];

pub(super) fn load(args: &LoadArgs, output: &mut Output) -> Result {
    check_path(&args.into)?;
    // What is wrong with the file is said before a store is asked for anything.
    std::fs::File::open(&args.file).map_err(|error| format!("cannot read {}: {error}", args.file.display()))?;
    let key = args.key.as_deref();
    match (is_design(&args.file), key) {
        (true, None) => design::load(&target::open(&args.target)?, &args.file, &args.into, output),
        (true, Some(_)) => Err("--key is for JSON lines: the entities of a design have numbers of their own".into()),
        (false, Some(key)) => jsonl::load(args, key, output),
        (false, None) => {
            Err("--key FIELD is needed: the field of each line that names its document, such as --key id".into())
        }
    }
}

fn is_design(file: &Path) -> bool {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| DESIGN_ENDINGS.contains(&ending.as_str()))
}

pub(super) fn dump(args: &DumpArgs, output: &mut Output) -> Result {
    check_path(&args.name)?;
    let db = target::open(&args.target)?;
    if let Some(design) = design::find(&db, &args.name)? {
        return design::dump(&db, &design, output);
    }
    let mut is_empty = true;
    scan(&db, &args.name, (None, None), |_, document| {
        is_empty = false;
        output.raw(document)?;
        Ok(true)
    })?;
    if is_empty {
        return Err(format!("there is nothing under '{}': `thorp ls` shows what there is", args.name).into());
    }
    Ok(())
}
