//! `thorp volume registry rebuild`: shows what homes, holders and caches know of each volume, and makes the registry's
//! entries again of that.

use super::{homes, registry};
use crate::Result;
use crate::cli::VolumeRebuildArgs;
use crate::output::{Output, number, visible};
use ::registry::{HolderName, HomeNode, StoreRegistry, Volume};
use attach::{
    AskedHolder, CacheFound, Epoch, FarError, FarHome, Findings, Found, FoundHome, FoundVolume, Places, VolumeId,
    ask_homes,
};
use net::Runtime;
use serde_json::{Value, json};
use std::time::Duration;

/// How it stands with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The registry does not know it.
    Missing,
    /// It knows less than others.
    Back,
    /// It knows as much as anybody.
    Sound,
    /// Its home was never told its name, and nobody has said it.
    Nameless,
}

impl Standing {
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Back => "back",
            Self::Sound => "sound",
            Self::Nameless => "nameless",
        }
    }
}

/// A volume, and the entry that should be made of it, if one is.
struct Planned<'a> {
    found: &'a FoundVolume,
    name: Option<String>,
    standing: Standing,
    entry: Option<(Volume, Option<u64>)>,
}

pub(super) fn rebuild(args: &VolumeRebuildArgs, output: &mut Output) -> Result {
    let (registry, runtime) = (registry::to_ask(&args.store)?, Runtime::start()?);
    let places = Places { holders: args.holder.clone(), caches: args.cache.clone() };
    let found = Found::find(&registry, &places, &runtime)?;
    let planned: Vec<_> = found.volumes.iter().map(|volume| plan(args, volume, &found.holders)).collect();
    let known = |name: &&String| !planned.iter().any(|it| it.name.as_ref() == Some(name));
    if let Some(unknown) = args.volumes.iter().find(known) {
        return Err(format!("no home was told of a volume '{unknown}': --name says which home is its own").into());
    }
    homes::say_unasked(&found.unasked);
    for (id, nodes) in &found.doubled {
        eprintln!("{}", homes::doubled(*id, nodes));
    }
    found.holders.iter().try_for_each(|holder| say_holder(holder, output))?;
    for it in &planned {
        say_volume(it, &found, args, output)?;
        if let Some((volume, instead_of)) = it.entry.as_ref().filter(|_| args.yes) {
            registry.rebuild(volume, it.found.home.node, *instead_of)?;
        }
    }
    let count = planned.iter().filter(|it| it.entry.is_some()).count();
    if output.is_json() {
        return Ok(());
    }
    let entries = if count == 1 { "1 entry is".to_owned() } else { format!("{count} entries are") };
    output.raw(match (count, args.yes) {
        (0, _) => "nothing is to be made again".to_owned(),
        (_, true) => {
            format!("{entries} made again: hosts that had these volumes attached lose them, and attach them again")
        }
        (_, false) => format!("nothing was written: with --yes {entries} made again"),
    })
}

fn plan<'a>(args: &VolumeRebuildArgs, found: &'a FoundVolume, holders: &[AskedHolder]) -> Planned<'a> {
    let said = args.name.iter().find(|(number, _)| *number == found.id.0).map(|(_, name)| name.clone());
    let name = said.or_else(|| found.known.as_ref().map(|it| it.name.clone()));
    let standing = match (&name, &found.findings.standing) {
        (None, _) => Standing::Nameless,
        (Some(_), None) => Standing::Missing,
        (Some(_), Some(_)) if found.findings.is_back() => Standing::Back,
        (Some(_), Some(_)) => Standing::Sound,
    };
    let is_named = |name: &String| args.volumes.contains(name);
    let is_wanted = |name: &&String| match standing {
        Standing::Missing | Standing::Back => args.volumes.is_empty() || is_named(name),
        Standing::Sound => is_named(name),
        Standing::Nameless => false,
    };
    let lease = Duration::from_secs(args.lease_s.into());
    let entry = name.as_ref().filter(is_wanted).map(|name| found.rebuild(name, args.copies, lease, holders));
    Planned { found, name, standing, entry }
}

fn say_holder(AskedHolder { address, name, held }: &AskedHolder, output: &mut Output) -> Result {
    let domain = name.as_ref().map(|it| it.domain.as_str()).filter(|it| !it.is_empty());
    let partition = held.as_ref().map(|(partition, _)| number(partition.0));
    let fields = json!({
        "holder": name.as_ref().map_or("a holder", |it| &it.name), "domain": domain, "address": address, "partition": partition,
    });
    let name = name.as_ref().map_or_else(|| "a holder".to_owned(), HolderName::short);
    let text = match &partition {
        Some(partition) => format!("holder {name} ({partition}) at {address} answers"),
        None => format!("holder {name} at {address} does not answer: what only it has is not found"),
    };
    output.line(&fields, visible(&text))
}

fn say_volume(it: &Planned<'_>, all: &Found, args: &VolumeRebuildArgs, output: &mut Output) -> Result {
    let Planned { found: FoundVolume { id, home, known, findings }, name, standing, entry } = it;
    let Findings { size, epoch, mark, held, .. } = findings;
    let caches: Vec<_> = all.caches.iter().filter(|cache| cache.volume == *id).collect();
    if output.is_json() {
        return output.raw(json!({
            "volume": number(id.0),
            "name": name,
            "standing": standing.name(),
            "size": size,
            "attachments": epoch.0,
            "owner": (*epoch > Epoch(0)).then(|| number(findings.owner)),
            "home": home.address,
            "home_through": stamp(*mark),
            "holders": held.iter().map(|(partition, it)| json!({
                "partition": number(partition.0),
                "attachment": it.epoch.0,
                "through": stamp(it.last),
                "bytes": it.bytes,
                "is_needed": it.last > *mark,
            })).collect::<Vec<_>>(),
            "caches": caches.iter().map(|it| json!({"dir": it.dir, "attachment": it.epoch.0})).collect::<Vec<_>>(),
            "entry": entry.as_ref().map(|(volume, _)| describe(volume)),
            "is_written": args.yes && entry.is_some(),
        }));
    }
    let title =
        name.as_ref().map_or_else(|| format!("home {}", number(id.0)), |name| format!("{name} ({})", number(id.0)));
    let of = known.as_ref().map_or(String::new(), |it| format!(", last at {}", it.place));
    output.raw(visible(&format!(
        "{title}: {size} bytes, attachment {}{of}; home has all through {}",
        epoch.0,
        stamp(*mark)
    )))?;
    for (partition, it) in held.iter().filter(|(_, it)| it.bytes > 0) {
        let needed = if it.last > *mark { "not all of them are home" } else { "all of them are home" };
        output.raw(format_args!(
            "  holder {}: {} bytes of copies through {}, {needed}",
            number(partition.0),
            it.bytes,
            stamp(it.last)
        ))?;
    }
    for CacheFound { dir, epoch, .. } in caches {
        output.raw(visible(&format!("  cache {}: attachment {}", dir.display(), epoch.0)))?;
    }
    output.raw(format_args!("  {}", verdict(it, args)))
}

/// The last line about a volume, for people.
fn verdict(it: &Planned<'_>, args: &VolumeRebuildArgs) -> String {
    let standing = match it.standing {
        Standing::Missing => "the registry does not know it",
        Standing::Back => "the registry has gone back: others know more than it",
        Standing::Sound => "the registry knows it",
        Standing::Nameless => {
            return "home was never told its name: it is of no volume, or --name says whose it is".to_owned();
        }
    };
    let Some((volume, _)) = &it.entry else { return format!("{standing}: its entry stays as it is") };
    let entry = &volume.view.entry;
    let names = entry.holders.iter().map(|partition| {
        let known = volume.holders.iter().find(|it| it.partition == *partition);
        known.map_or_else(|| number(partition.0), HolderName::short)
    });
    let names: Vec<_> = names.collect();
    let holders =
        if names.is_empty() { "no holder is needed".to_owned() } else { format!("needed: {}", names.join(", ")) };
    let assumed = if it.found.known.is_some() { "" } else { ", as home was never told" };
    let made = if args.yes { "it is registered as" } else { "it would be registered as" };
    let (copies, lease) = (entry.copies, entry.lease.as_secs_f64());
    let text = format!(
        "{standing}: {made} attachment {}, with {copies} copies and a lease of {lease} s{assumed}; {holders}",
        entry.epoch.0
    );
    visible(&text).into_owned()
}

fn describe(volume: &Volume) -> Value {
    let entry = &volume.view.entry;
    json!({
        "attachments": entry.epoch.0,
        "copies": entry.copies,
        "lease_s": entry.lease.as_secs_f64(),
        "size": entry.size,
        "holders": entry.holders.iter().map(|it| number(it.0)).collect::<Vec<_>>(),
    })
}

fn stamp(stamp: attach::Stamp) -> String {
    format!("{}.{}", stamp.epoch.0, stamp.sequence.0)
}

/// The words for a volume of this name that the registry does not know, although a home is that of one.
pub(super) fn at_home(store: &str, name: &str, registry: &StoreRegistry) -> Option<String> {
    let runtime = Runtime::start().ok()?;
    let known: Vec<VolumeId> = registry.list().ok()?.into_iter().map(|it| it.id).collect();
    let (asked, _) = ask_homes(registry.nodes().ok()?, &runtime).ok()?;
    let is_its = |node: &HomeNode, id: VolumeId| -> std::result::Result<bool, FarError> {
        Ok(FarHome::connect(&node.address, id, &runtime)?.kept()?.is_some_and(|kept| kept.name == name))
    };
    let is_lost = |it: &&FoundHome| it.is_whole && !known.contains(&it.volume);
    let id = asked.iter().find_map(|(node, homes)| {
        let lost = homes.list().iter().filter(is_lost).map(|it| it.volume);
        lost.into_iter().find(|id| is_its(node, *id).unwrap_or(false))
    })?;
    let number = number(id.0);
    Some(format!(
        "the registry does not know '{name}', and home {number} is that of a volume of this name: the registry was lost, and \
         `thorp volume registry rebuild --store {store}` makes it again. If the volume is not wanted any more, \
         `thorp volume remove --home {number} --store {store}` removes it"
    ))
}
