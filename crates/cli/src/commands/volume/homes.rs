//! The homes at a store, those of no volume among them: what a killed `create`, `import` or `export` leaves.
//!
//! A home is made before its volume is registered, so one that belongs to none may be about to. Its maker has it open,
//! which home knows; between a snapshot and its being opened, or where a line was cut, its age alone tells.

use super::registry;
use crate::Result;
use crate::cli::{VolumeListArgs, VolumeRemoveArgs};
use crate::output::{Output, number, visible};
use ::registry::{HomeNode, Volume};
use attach::{AskedHomes, FarError, FoundHome, UnaskedHomes, VolumeId, ask_homes};
use net::Runtime;
use serde_json::json;
use std::time::Duration;

/// A home of no volume that was written to a shorter time ago may be that of a volume which is being made.
const UNWRITTEN: Duration = Duration::from_secs(60);

/// The begin of the name of a snapshot that is exported; a number is behind it.
const EXPORTED: &str = "export-";

/// The name of a snapshot that is made to be exported.
pub(super) fn exported(drawn: VolumeId) -> String {
    format!("{EXPORTED}{}", number(drawn.0))
}

/// Whether a volume is such a snapshot: its export is under way, or was killed.
pub(super) fn is_exported(volume: &str) -> bool {
    let number = volume.strip_prefix(EXPORTED);
    number.is_some_and(|number| number.len() == 16 && number.chars().all(|it| it.is_ascii_hexdigit()))
}

/// Returns how to look for a home that may have been made.
pub(super) fn of_none(id: VolumeId, store: &str) -> String {
    let number = number(id.0);
    format!(
        "home may keep files of number {number} that are of no volume: `thorp volume list --homes --store {store}` shows them, \
         `thorp volume remove --home {number} --store {store}` removes them"
    )
}

pub(super) fn list(args: &VolumeListArgs, output: &mut Output) -> Result {
    let registry = registry::to_ask(&args.store)?;
    let nodes = registry.nodes()?;
    let is_one = nodes.len() == 1;
    let (asked, unasked) = ask_homes(nodes, &Runtime::start()?)?;
    // Behind the homes: none of a volume that was registered in between passes for one of no volume.
    let volumes = registry.list()?;
    say_unasked(&unasked);
    let found = asked.iter().flat_map(|(node, homes)| homes.list().iter().map(move |home| (node, home)));
    found.into_iter().try_for_each(|(node, home)| {
        let FoundHome { volume, size, disk_bytes, unwritten_s, is_whole } = *home;
        let (number, name) = (number(volume.0), owner(&volumes, volume));
        let of = match (name, is_whole) {
            (Some(name), _) => format!("of '{name}'"),
            (None, true) => "of no volume".to_owned(),
            (None, false) => "of no volume, and not whole".to_owned(),
        };
        let at = if is_one { String::new() } else { format!(" at {}", visible(&node.address)) };
        let text =
            format!("{number}  {size:>16} bytes  {disk_bytes:>16} on disk  written {unwritten_s:>8} s ago  {of}{at}");
        let fields = json!({
            "home": number, "at": node.address,
            "size": size, "disk_bytes": disk_bytes, "unwritten_s": unwritten_s, "is_whole": is_whole,
            "volume": name,
        });
        output.line(&fields, text)
    })
}

pub(super) fn remove(home: VolumeId, args: &VolumeRemoveArgs, output: &mut Output) -> Result {
    let (store, shown) = (&args.store, number(home.0));
    let registry = registry::to_ask(store)?;
    let volumes = registry.list()?;
    if let Some(name) = owner(&volumes, home) {
        let text = format!("home {shown} is that of the volume '{name}': `thorp volume remove {name} --store {store}`");
        return Err(format!("{text} removes both").into());
    }
    let unwritten = if args.force { Duration::ZERO } else { UNWRITTEN };
    let (asked, unasked) = ask_homes(registry.nodes()?, &Runtime::start()?)?;
    say_unasked(&unasked);
    let has_it = |(_, homes): &&AskedHomes| homes.list().iter().any(|it| it.volume == home);
    let having: Vec<_> = asked.iter().filter(has_it).collect();
    if having.len() > 1 {
        let nodes: Vec<_> = having.iter().map(|(node, _)| node.clone()).collect();
        return Err(doubled(home, &nodes).into());
    }
    let removed = match having.first() {
        Some((_, homes)) => homes.remove(home, unwritten),
        None if unasked.is_empty() => Err(FarError::NoVolume(store.clone(), home)),
        None => return Err(format!("no node that answers has a home {shown}").into()),
    };
    removed.map_err(|error| match error {
        FarError::NoVolume(..) => format!("there is no home {shown}: `thorp volume list --homes` shows those there are"),
        FarError::Busy(_) => {
            format!("home {shown} is open: a volume is being made of it, or read; wait for the end of that")
        }
        FarError::Recent(ago) => format!(
            "home {shown} was written to {} s ago, so it may be that of a volume which is being made: try again when that was \
             {} s ago, or give --force if you know that it is not",
            ago.as_secs(),
            UNWRITTEN.as_secs()
        ),
        FarError::Lost(_) => format!(
            "{error}, and nobody knows whether home {shown} was removed: `thorp volume list --homes` shows it if not"
        ),
        error => error.to_string(),
    })?;
    output.line(&json!({"removed_home": shown}), format_args!("removed: the home {shown}"))
}

/// Prints the nodes that could not be asked for their homes.
pub(super) fn say_unasked(unasked: &[UnaskedHomes]) {
    for (node, why) in unasked {
        let text = format!("the homes at {} are not listed: {why}", node.address);
        eprintln!("{}", visible(&text));
    }
}

/// The words for a home that several nodes have.
pub(super) fn doubled(home: VolumeId, nodes: &[HomeNode]) -> String {
    let (number, at) =
        (number(home.0), nodes.iter().map(|it| it.address.as_str()).collect::<Vec<_>>().join(" and at "));
    let text = format!(
        "home {number} is at {at}, one of which is a copy: stop the node that has the older one, and take the files of \
         that number out of its directory of homes"
    );
    visible(&text).into_owned()
}

fn owner(volumes: &[Volume], home: VolumeId) -> Option<&str> {
    volumes.iter().find(|volume| volume.id == home).map(|volume| volume.name.as_str())
}
