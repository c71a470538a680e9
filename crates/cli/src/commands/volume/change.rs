//! `thorp volume resize` and `thorp volume snapshot`: by the process that has the volume attached at this host, or
//! without one.

use super::live::Attachment;
use super::store::Store;
use super::stored;
use crate::Result;
use crate::cli::{VolumePlace, VolumeResizeArgs, VolumeSnapshotArgs};
use crate::output::Output;
use crate::stopper::Interrupt;
use ::registry::draw_volume;
use attach::control::Action;
use attach::image::Image;
use attach::{Epoch, Registered, home_status, resize_home, snapshot_home};
use serde_json::json;
use std::path::Path;

pub(super) fn resize(args: &VolumeResizeArgs, output: &mut Output) -> Result {
    let (volume, size, interrupt) = (&args.volume, args.size as u64, Interrupt::watch()?);
    let (before, is_attached) = match &args.place.store {
        Some(store) => resize_stored(args, &Store::connect(store, &interrupt)?, size)?,
        None => resize_own(args, size, &interrupt)?,
    };
    let clients = if is_attached { "; NBD clients see it when they connect again" } else { "" };
    let text = format!("{}: {size} bytes, where it had {before}{clients}", volume.display());
    output.line(&json!({"volume": volume, "size": size, "before": before, "is_attached": is_attached}), text)
}

fn resize_stored(args: &VolumeResizeArgs, store: &Store, size: u64) -> Result<(u64, bool)> {
    let VolumeResizeArgs { volume, place, shrink, .. } = args;
    let found = store.find(stored::name(volume)?)?;
    let before = found.view.entry.size;
    if let Some(attachment) = Attachment::of_store(&found, place.cache.as_deref()) {
        attachment.order(Action::Resize { size, may_shrink: *shrink }, store.interrupt())?;
        return Ok((before, true));
    }
    // All behind the end is trimmed under an epoch of its own, so that a host that attaches it in the meantime waits
    // for that.
    let shrink = *shrink;
    stored::attach_briefly(&found, store, move |attached, is_told| Ok(attached.resize(size, shrink, is_told)?))?;
    Ok((before, false))
}

fn resize_own(args: &VolumeResizeArgs, size: u64, interrupt: &Interrupt) -> Result<(u64, bool)> {
    let VolumeResizeArgs { volume: home, place, shrink, .. } = args;
    let (beside, cache) = (place.beside.as_deref(), place.cache.as_deref());
    let status = home_status(home, beside)?;
    if let Some(attachment) = Attachment::of_home(home, status.dirty_at.as_deref(), cache)? {
        attachment.order(Action::Resize { size, may_shrink: *shrink }, interrupt)?;
        return Ok((status.size, true));
    }
    resize_home(home, beside, size, *shrink)?;
    Ok((status.size, false))
}

pub(super) fn snapshot(args: &VolumeSnapshotArgs, output: &mut Output) -> Result {
    let VolumeSnapshotArgs { volume, snapshot, place } = args;
    let interrupt = Interrupt::watch()?;
    match &place.store {
        Some(store) => {
            let (name, snapshot) = (stored::name(volume)?, stored::name(snapshot)?);
            take_snapshot(&Store::connect(store, &interrupt)?, name, snapshot, place)?;
        }
        None => snapshot_own(volume, snapshot, place, &interrupt)?,
    }
    let text = format!("{}: what {} had; the two share their blocks", snapshot.display(), volume.display());
    output.line(&json!({"snapshot": snapshot, "of": volume}), text)
}

/// Makes a volume of a store with what another one has, everything that was written to that before included; gives what
/// it has.
pub(super) fn take_snapshot(store: &Store, name: &str, snapshot: &str, place: &VolumePlace) -> Result<Image> {
    let found = store.find(name)?;
    store.expect_free(snapshot)?;
    if let Some(attachment) = Attachment::of_store(&found, place.cache.as_deref()) {
        attachment.order(Action::BringHome, store.interrupt())?;
    }
    let id = draw_volume()?;
    let node = store.home_node(found.id)?;
    let taken = store.home_at(&node, found.id)?.snapshot(id);
    let made = taken.and_then(|()| store.home_at(&node, id)).map_err(|error| store.may_be_made(error, id))?;
    let entry = &found.view.entry;
    // Home is longer than the volume where a resize was interrupted.
    let entry = Registered::new(made.size().min(entry.size), entry.copies, entry.lease);
    stored::register(store, snapshot, (id, &entry, &node), || made.remove(Epoch(0)))?;
    Ok(Image::of_store(made, entry.size))
}

fn snapshot_own(home: &Path, snapshot: &Path, place: &VolumePlace, interrupt: &Interrupt) -> Result {
    let snapshot = std::path::absolute(snapshot)?;
    let (beside, cache) = (place.beside.as_deref(), place.cache.as_deref());
    let status = home_status(home, beside)?;
    match Attachment::of_home(home, status.dirty_at.as_deref(), cache)? {
        Some(attachment) => attachment.order(Action::Snapshot(snapshot), interrupt),
        None => Ok(snapshot_home(home, beside, &snapshot)?),
    }
}
