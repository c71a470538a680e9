//! `thorp volume resize` and `thorp volume snapshot`: by the process that has the volume attached at this host, or without one.

use super::live::Attachment;
use super::stored;
use crate::Result;
use crate::cli::{VolumePlace, VolumeResizeArgs, VolumeSnapshotArgs};
use crate::output::{Output, spinner};
use net::Runtime;
use serde_json::json;
use std::path::Path;
use volumes::control::Command;
use volumes::registry::{StoreRegistry, Volume, draw_volume, host_name};
use volumes::{Epoch, FarHome, Registered, home_status, resize_home, snapshot_home};

pub(super) fn resize(args: &VolumeResizeArgs, output: &mut Output) -> Result {
    let VolumeResizeArgs { volume, size, place } = args;
    let size = *size as u64;
    let spinner = spinner("the volume gets another size");
    let (before, is_attached) = match &place.store {
        Some(store) => resize_stored(volume, store, place, size)?,
        None => resize_own(volume, place, size)?,
    };
    spinner.finish_and_clear();
    let clients = if is_attached { "; NBD clients see it when they connect again" } else { "" };
    let text = format!("{}: {size} bytes, where it had {before}{clients}", volume.display());
    output.line(&json!({"volume": volume, "size": size, "before": before, "is_attached": is_attached}), text)
}

fn resize_stored(volume: &Path, store: &str, place: &VolumePlace, size: u64) -> Result<(u64, bool)> {
    let registry = StoreRegistry::connect(store, &host_name())?;
    let found = registry.find(stored::name(volume)?)?;
    let before = found.view.entry.size;
    if let Some(attachment) = attachment_of(&found, place) {
        attachment.command(&Command::Resize(size))?;
        return Ok((before, true));
    }
    // All behind the end is trimmed under an epoch of its own, so that a host that attaches it meanwhile waits for that.
    stored::attach_briefly(&found, store, |attached| Ok(attached.resize(size)?))?;
    Ok((before, false))
}

fn resize_own(home: &Path, place: &VolumePlace, size: u64) -> Result<(u64, bool)> {
    let status = home_status(home, place.beside.as_deref())?;
    if let Some(attachment) = own_attachment(status.dirty_at.as_deref(), place) {
        attachment.command(&Command::Resize(size))?;
        return Ok((status.size, true));
    }
    resize_home(home, place.beside.as_deref(), size)?;
    Ok((status.size, false))
}

pub(super) fn snapshot(args: &VolumeSnapshotArgs, output: &mut Output) -> Result {
    let VolumeSnapshotArgs { volume, snapshot, place } = args;
    let spinner = spinner("what was written goes home, and is shared");
    match &place.store {
        Some(store) => {
            let registry = StoreRegistry::connect(store, &host_name())?;
            take_snapshot(&registry, stored::name(volume)?, stored::name(snapshot)?, store, place)?;
        }
        None => snapshot_own(volume, snapshot, place)?,
    }
    spinner.finish_and_clear();
    let text = format!("{}: what {} had; the two share their blocks", snapshot.display(), volume.display());
    output.line(&json!({"snapshot": snapshot, "of": volume}), text)
}

/// Makes a volume of a store with what another one has, all that was written to that before included.
pub(super) fn take_snapshot(
    registry: &StoreRegistry,
    name: &str,
    snapshot: &str,
    store: &str,
    place: &VolumePlace,
) -> Result {
    let found = registry.find(name)?;
    stored::expect_free(registry, snapshot)?;
    if let Some(attachment) = attachment_of(&found, place) {
        attachment.command(&Command::BringHome)?;
    }
    let (runtime, id) = (Runtime::start()?, draw_volume()?);
    let home = FarHome::connect(store, found.id, &runtime)?;
    home.snapshot(id)?;
    let made = FarHome::connect(store, id, &runtime)?;
    let entry = &found.view.entry;
    let registered = registry.create(snapshot, id, &Registered::new(made.size(), entry.copies, entry.lease));
    if let Err(error) = registered {
        // Nobody knows of it.
        let _ = made.remove(Epoch(0));
        return Err(error.into());
    }
    Ok(())
}

fn snapshot_own(home: &Path, snapshot: &Path, place: &VolumePlace) -> Result {
    let snapshot = std::path::absolute(snapshot)?;
    let status = home_status(home, place.beside.as_deref())?;
    match own_attachment(status.dirty_at.as_deref(), place) {
        Some(attachment) => attachment.command(&Command::Snapshot(snapshot)),
        None => Ok(snapshot_home(home, place.beside.as_deref(), &snapshot)?),
    }
}

/// Where a volume of a store is attached, if it is.
pub(super) fn attachment_of(volume: &Volume, place: &VolumePlace) -> Option<Attachment> {
    volume.view.entry.owner.map(|_| Attachment::find(place.cache.as_deref(), &volume.place))
}

/// Where a volume of one host is attached, if a process of this host has it.
pub(super) fn own_attachment(dirty_at: Option<&str>, place: &VolumePlace) -> Option<Attachment> {
    dirty_at.map(|at| Attachment::find(place.cache.as_deref(), at)).filter(Attachment::is_alive)
}
