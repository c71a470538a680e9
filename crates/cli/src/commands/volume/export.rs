//! `thorp volume export`: all that a volume has, of one moment, as a file or a stream.

use super::change::{attachment_of, own_attachment, take_snapshot};
use super::file::Unfinished;
use super::stored;
use crate::Result;
use crate::cli::VolumeExportArgs;
use crate::output::{Output, bar, cannot_write};
use crate::stopper::Interrupt;
use net::Runtime;
use serde_json::json;
use std::io::{self, ErrorKind, Write};
use volumes::image::{Image, ImageError, Part};
use volumes::registry::{StoreRegistry, host_name};
use volumes::{FarHome, home_status};

/// A hole is so many zeros at a time, where it cannot be left out.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) fn export(args: &VolumeExportArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    // Before anything is asked for nothing.
    let target = if args.file.as_os_str() == "-" { None } else { Some(Unfinished::begin(&args.file, args.force)?) };
    let (size, data) = match &args.place.store {
        Some(store) => export_stored(args, store, target, &interrupt, output)?,
        None => export_own(args, target, &interrupt, output)?,
    };
    if args.file.as_os_str() == "-" {
        return output.flush();
    }
    let (volume, file) = (&args.volume, args.file.display());
    let text = format!("{file}: {size} bytes of {}, {data} of them data", volume.display());
    output.line(&json!({"volume": volume, "file": args.file, "size": size, "data_bytes": data}), text)
}

fn export_own(
    args: &VolumeExportArgs,
    target: Option<Unfinished>,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(u64, u64)> {
    let beside = args.place.beside.as_deref();
    let home = home_status(&args.volume, beside)?;
    if own_attachment(home.dirty_at.as_deref(), &args.place).is_some() {
        let text = "it is attached: detach it first, or make a snapshot of it and export that";
        return Err(format!("{}: {text}", args.volume.display()).into());
    }
    write(&Image::of_home(&args.volume, beside)?, target, interrupt, output)
}

fn export_stored(
    args: &VolumeExportArgs,
    store: &str,
    target: Option<Unfinished>,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(u64, u64)> {
    let registry = StoreRegistry::connect(store, &host_name())?;
    let name = stored::name(&args.volume)?;
    let (found, runtime) = (registry.find(name)?, Runtime::start()?);
    if attachment_of(&found, &args.place).is_some() {
        return export_attached(&registry, args, store, target, interrupt, output);
    }
    let image = Image::of_store(FarHome::connect(store, found.id, &runtime)?);
    let unchanged = || {
        let now = registry.find(name)?.view.entry;
        let before = &found.view.entry;
        if (now.epoch, now.owner) == (before.epoch, before.owner) {
            return Ok(());
        }
        Err(format!("'{name}' was attached meanwhile, and what was read is of no single moment: export it again")
            .into())
    };
    write_if(&image, target, interrupt, output, unchanged)
}

/// Of a volume that is in use, a snapshot is of one moment.
fn export_attached(
    registry: &StoreRegistry,
    args: &VolumeExportArgs,
    store: &str,
    target: Option<Unfinished>,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(u64, u64)> {
    let (name, snapshot) = (stored::name(&args.volume)?, format!("export-{}", std::process::id()));
    take_snapshot(registry, name, &snapshot, store, &args.place).map_err(|error| {
        format!("'{name}' is attached, so a snapshot of it is exported, and there is none: {error}; or detach it first")
    })?;
    let id = registry.find(&snapshot)?.id;
    let home = FarHome::connect(store, id, &Runtime::start()?)?;
    let written = write(&Image::of_store(home), target, interrupt, output);
    // Another session: that of the image is gone with it.
    registry.remove(&snapshot)?;
    FarHome::connect(store, id, &Runtime::start()?)?.remove(volumes::Epoch(1))?;
    written
}

/// Writes an image; gives its size, and how many bytes of it are data.
fn write(image: &Image, target: Option<Unfinished>, interrupt: &Interrupt, output: &mut Output) -> Result<(u64, u64)> {
    write_if(image, target, interrupt, output, || Ok(()))
}

/// The same, where it is told in the end whether it is good.
fn write_if(
    image: &Image,
    target: Option<Unfinished>,
    interrupt: &Interrupt,
    output: &mut Output,
    is_good: impl FnOnce() -> Result,
) -> Result<(u64, u64)> {
    let size = image.size();
    let progress = bar("bytes are exported", size);
    let (mut at, mut data) = (0, 0);
    let done = image.each_part(&mut |part| {
        if interrupt.has_come() {
            return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        match (part, &target) {
            (Part::Data(bytes), Some(file)) => file.write(at, bytes)?,
            (Part::Data(bytes), None) => output.writer().write_all(bytes)?,
            (Part::Hole(_), Some(_)) => {}
            (Part::Hole(len), None) => {
                let mut left = len;
                while left > 0 {
                    let count = left.min(ZEROS.len() as u64);
                    output.writer().write_all(&ZEROS[..count as usize])?;
                    left -= count;
                }
            }
        }
        let (len, is_data) = match part {
            Part::Data(bytes) => (bytes.len() as u64, true),
            Part::Hole(len) => (len, false),
        };
        at += len;
        data += if is_data { len } else { 0 };
        progress.set_position(at);
        Ok(())
    });
    progress.finish_and_clear();
    done.map_err(|error| match error {
        ImageError::Put(error) if error.kind() == ErrorKind::Interrupted => "interrupted: nothing was exported".into(),
        ImageError::Put(error) if target.is_none() => cannot_write(error),
        ImageError::Put(error) => format!("cannot write the image: {error}").into(),
        error @ ImageError::Home(_) => error.into(),
    })?;
    is_good()?;
    if let Some(file) = target {
        file.finish(size)?;
    }
    Ok((size, data))
}
