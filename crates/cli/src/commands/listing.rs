//! `ls`: the documents, designs and folders under a path. Without a path, also the maps and roots of applications, and
//! the other spaces.

use super::design;
use super::documents::nothing_under;
use crate::Result;
use crate::cli::LsArgs;
use crate::documents::{self, check_folder, list};
use crate::output::{self, Output, visible};
use designs::DESIGNS;
use designs::files::{Listed, OWN_NAMES, Standing};
use serde_json::json;
use std::collections::BTreeMap;
use thorp::{Db, Space, Stored};

/// Entries of a map that are counted; a listing does not read a large store from end to end.
const COUNTED_MAX: usize = 1_000_000;

/// Entries that one transaction counts.
const COUNTED_TOGETHER: usize = 10_000;

pub(super) fn ls(args: &LsArgs, output: &mut Output) -> Result {
    check_folder(&args.path)?;
    let db = args.target.open()?;
    let folder = args.path.trim_end_matches('/');
    let mut is_empty = true;
    let mut show = |name: &str, entry: &Entry| {
        is_empty = false;
        show_entry(name, entry, args.null, output)
    };
    let mut designs = entries_of_designs(folder, design::listed(&db)?).into_iter().peekable();
    list(&db, &args.path, |name| {
        while let Some((design, entry)) = designs.next_if(|(design, _)| *design < name) {
            show(&design, &entry)?;
        }
        // A folder may have documents and designs.
        designs.next_if(|(design, _)| *design == name);
        show(&name, &if name.ends_with('/') { Entry::Folder } else { Entry::Document })
    })?;
    designs.try_for_each(|(name, entry)| show(&name, &entry))?;
    if folder.is_empty() {
        // Maps and roots of applications have no paths, and scripts that ask for zero bytes want paths.
        return if args.null { Ok(()) } else { list_applications(&db, args, output) };
    }
    if is_empty { Err(nothing_under(folder, &args.target)) } else { Ok(()) }
}

/// A line of a listing.
enum Entry {
    Document,
    Folder,
    Design(Box<Listed>),
}

/// The designs of a folder by their names in it, which end in `#` as the paths of their entities begin. Designs further
/// down are shown as the folder that leads to them.
fn entries_of_designs(folder: &str, designs: Vec<Listed>) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for listed in designs {
        let path = format!("{}/#", listed.name);
        let name = if folder.is_empty() { Some(&*path) } else { inside(folder, &path) };
        match name.and_then(|name| name.split_once('/')) {
            Some((inner, "#")) => drop(entries.insert(format!("{inner}/#"), Entry::Design(Box::new(listed)))),
            Some((inner, _)) => drop(entries.entry(format!("{inner}/")).or_insert(Entry::Folder)),
            None if name == Some("#") => drop(entries.insert("#".to_owned(), Entry::Design(Box::new(listed)))),
            None => {}
        }
    }
    entries
}

/// The rest of a path in a folder.
fn inside<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn show_entry(name: &str, entry: &Entry, null: bool, output: &mut Output) -> Result {
    match entry {
        _ if null => output.until_null(name),
        Entry::Document => output.line(&json!({"name": name, "kind": "document"}), visible(name)),
        Entry::Folder => output.line(&json!({"name": name, "kind": "folder"}), visible(name)),
        Entry::Design(listed) => {
            let (count, schemas) = (listed.design.count, listed.design.schemas());
            let state = state_of(listed);
            let json = json!({
                "name": name, "kind": "design", "entities": count, "schemas": schemas,
                "state": state.unwrap_or("whole"),
            });
            let mut details = vec![format!("{count} entities")];
            details.extend(schemas.iter().map(|schema| visible(schema).into_owned()));
            details.extend(state.map(str::to_owned));
            output.line(&json, format_args!("{}  {}", visible(name), details.join(", ")))
        }
    }
}

fn state_of(listed: &Listed) -> Option<&'static str> {
    match listed.standing {
        Standing::Whole => None,
        Standing::Unfinished => Some("not loaded completely"),
        Standing::Revision => Some("the load that would replace it was interrupted"),
        Standing::Removed => Some("not removed completely"),
    }
}

/// Lists the names that applications have given in this space, and the other spaces if this is the main one.
fn list_applications(db: &Db, args: &LsArgs, output: &mut Output) -> Result {
    for stored in names_of_applications(db)? {
        let (name, what) = (visible(&stored.name), &stored.what);
        if stored.is_map() {
            let (entries, more) = count(db, &stored)?;
            let json = json!({"name": stored.name, "kind": "map", "what": what, "entries": entries, "more": more});
            let or_more = if more { " or more" } else { "" };
            output.line(&json, format_args!("{name}  {entries}{or_more} entries in {what}"))?;
        } else {
            let json = json!({"name": stored.name, "kind": "root", "what": what});
            output.line(&json, format_args!("{name}  root: {what}"))?;
        }
    }
    if args.target.space.as_ref().is_some_and(|space| space != "main") {
        return Ok(());
    }
    for space in db.spaces()?.into_iter().filter(|space| space.number != 0 && !space.is_of_registry()) {
        show_space(&space, &contents(&db.space(&space.name)?)?, output)?;
    }
    Ok(())
}

/// The numbers of what a space has.
#[derive(Default)]
struct Contents {
    documents: usize,
    designs: usize,
    maps: usize,
    roots: usize,
}

fn contents(space: &Db) -> Result<Contents> {
    let mut contents = Contents::default();
    for stored in space.transact(thorp::Tx::stored)? {
        match &*stored.name {
            documents::ROOT => contents.documents = count(space, &stored)?.0,
            DESIGNS => contents.designs = count(space, &stored)?.0,
            name if is_own(name) => {}
            _ if stored.is_map() => contents.maps += 1,
            _ => contents.roots += 1,
        }
    }
    Ok(contents)
}

fn show_space(space: &Space, contents: &Contents, output: &mut Output) -> Result {
    let (name, number) = (&space.name, space.number);
    let &Contents { documents, designs, maps, roots } = contents;
    let json = json!({
        "name": name, "kind": "space", "number": number, "documents": documents, "designs": designs, "maps": maps,
        "roots": roots,
    });
    let counts = [(documents, "documents"), (designs, "designs"), (maps, "maps"), (roots, "roots")];
    let counts: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let text = if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") };
    output.line(&json, format_args!("{}  space {number} with {text}", visible(name)))
}

/// Returns everything with a name, apart from the maps that documents and designs are kept in.
fn names_of_applications(db: &Db) -> Result<Vec<Stored>> {
    let mut stored = db.transact(thorp::Tx::stored)?;
    stored.retain(|stored| !is_own(&stored.name));
    Ok(stored)
}

/// Whether a name is that of a map in which documents or designs are kept.
fn is_own(name: &str) -> bool {
    OWN_NAMES.contains(&name) || documents::OWN_NAMES.contains(&name)
}

/// Counts a map's entries. Returns whether there may be more.
fn count(db: &Db, map: &Stored) -> Result<(usize, bool)> {
    let bar = output::spinner("count (entries)");
    let (mut total, mut behind) = (0, None);
    loop {
        let (count, last) = db.transact(|tx| map.count_from(tx, behind.clone(), COUNTED_TOGETHER))?;
        total += count;
        bar.set_position(total as u64);
        behind = last;
        if behind.is_none() || total >= COUNTED_MAX {
            bar.finish_and_clear();
            return Ok((total, behind.is_some()));
        }
    }
}
