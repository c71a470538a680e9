//! `thorp volume holders`: those of a store, or the one in a folder of this host.

use super::registry;
use crate::Result;
use crate::cli::VolumeHoldersArgs;
use crate::error::usage;
use crate::output::{Output, number, visible};
use ::registry::{Enlisted, Registrant, StoreRegistry, Volume};
use attach::control;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub(super) fn holders(args: &VolumeHoldersArgs, output: &mut Output) -> Result {
    let registry = args.store.as_deref().map(registry::to_ask).transpose()?;
    let volumes = registry.as_ref().map(StoreRegistry::list).transpose()?.unwrap_or_default();
    match (&args.dir, registry) {
        (Some(dir), _) => in_folder(dir, &volumes, output),
        (None, Some(registry)) => {
            let silent = registry::silent_members(&registry, |_| true)?;
            of_store(&registry.enlisted()?, &silent, &volumes, output)
        }
        (None, None) => Err(usage("say which holders: --store, or --dir with the folder of one")),
    }
}

/// The holders that the registry knows, with the volumes that count on them.
fn of_store(members: &[Enlisted], silent: &BTreeMap<u64, Duration>, volumes: &[Volume], output: &mut Output) -> Result {
    members.iter().try_for_each(|it| {
        let Registrant { member, address, name, domain, is_disk_full, .. } = &it.registrant;
        let silence = silent.get(&member.partition.0).map(Duration::as_secs);
        let counts = |volume: &&Volume| volume.view.entry.holders.contains(&member.partition);
        let held: Vec<_> = volumes.iter().filter(counts).map(|volume| volume.name.as_str()).collect();
        // A holder of an earlier version tells only the number.
        let domain = if domain.is_empty() { number(member.domain) } else { domain.clone() };
        let json = json!({
            "name": name,
            "partition": number(member.partition.0),
            "address": address,
            "domain": domain,
            "free": member.free,
            "blocks": member.copies,
            "is_disk_full": is_disk_full,
            "is_nearly_full": member.is_nearly_full,
            "silent_s": silence,
            "holds": held,
        });
        let (partition, free) = (number(member.partition.0), member.free);
        let held = if held.is_empty() { "no volume".to_owned() } else { held.join(", ") };
        let full = match (is_disk_full, member.is_nearly_full) {
            (true, _) => ", as its disk is full",
            (_, true) => ", nearly full: volumes go to holders with room",
            _ => "",
        };
        let silent = silence.map(|it| format!("silent for {it} s, ")).unwrap_or_default();
        let text = format!(
            "{name}  {partition} at {address} in domain {domain}: {silent}{free} bytes free{full}, holds copies of {held}"
        );
        output.line(&json, visible(&text))
    })
}

/// The holder in a folder, as its process says.
fn in_folder(dir: &Path, volumes: &[Volume], output: &mut Output) -> Result {
    let mut status = control::ask(dir)?;
    if status["kind"] != "holder" {
        return Err(format!(
            "{} is not a folder of a holder: `thorp volume status --cache` asks a volume",
            dir.display()
        )
        .into());
    }
    for copy in status["copies"].as_array_mut().into_iter().flatten() {
        let known = volumes.iter().find(|volume| copy["volume"] == number(volume.id.0).as_str());
        copy["name"] = known.map_or(Value::Null, |volume| json!(volume.name));
    }
    if output.is_json() {
        return output.raw(status);
    }
    let text = |value: &Value| visible(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).into_owned();
    let names = ["partition", "listen", "room", "keeps", "used", "free", "file_bytes", "disk_free"];
    let names = names.iter().chain(&["is_disk_full", "is_nearly_full"]);
    let mut rows: Vec<_> = names.map(|name| (*name, json!(text(&status[*name])))).collect();
    for copy in status["copies"].as_array().into_iter().flatten() {
        let volume = if copy["name"].is_null() { &copy["volume"] } else { &copy["name"] };
        rows.push(("copies_of", json!(format!("{}: {} bytes", text(volume), text(&copy["bytes"])))));
    }
    output.table(&rows)
}
