//! `thorp volume export`: everything that a volume has, of one moment, as a file or a stream.

use super::change::take_snapshot;
use super::file::Unfinished;
use super::homes;
use super::live::Attachment;
use super::store::Store;
use super::stored;
use crate::Result;
use crate::cli::VolumeExportArgs;
use crate::output::{Output, bar, cannot_write};
use crate::stopper::Interrupt;
use ::registry::draw_volume;
use attach::image::{Image, ImageError, Part};
use attach::{Epoch, FarError, HomeError, home_status};
use serde_json::json;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// A hole is so many zeros at a time, where it cannot be left out.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) fn export(args: &VolumeExportArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    // Before anything is asked for nothing.
    let mut sink = Sink::begin(&args.file, args.force, output)?;
    match &args.place.store {
        Some(store) => export_stored(args, &Store::connect(store, &interrupt)?, &mut sink)?,
        None => export_own(args, &mut sink, &interrupt)?,
    }
    let (size, data) = (sink.at, sink.data);
    sink.finish()?;
    if args.file.as_os_str() == "-" {
        return output.flush();
    }
    let (volume, file) = (&args.volume, args.file.display());
    let text = format!("{file}: {size} bytes of {}, {data} of them data", volume.display());
    output.line(&json!({"volume": volume, "file": args.file, "size": size, "data_bytes": data}), text)
}

fn export_own(args: &VolumeExportArgs, sink: &mut Sink<'_>, interrupt: &Interrupt) -> Result {
    let (beside, cache) = (args.place.beside.as_deref(), args.place.cache.as_deref());
    let home = home_status(&args.volume, beside)?;
    if Attachment::of_home(&args.volume, home.dirty_at.as_deref(), cache)?.is_some() {
        let text = "it is attached: detach it first, or make a snapshot of it and export that";
        return Err(format!("{}: {text}", args.volume.display()).into());
    }
    write(&Image::of_home(&args.volume, beside)?, sink, interrupt)
}

fn export_stored(args: &VolumeExportArgs, store: &Store, sink: &mut Sink<'_>) -> Result {
    let name = stored::name(&args.volume)?;
    let found = store.find(name)?;
    let before = &found.view.entry;
    if before.owner.is_some() {
        return export_attached(args, store, sink);
    }
    write(&Image::of_store(store.home(found.id)?, before.size), sink, store.interrupt())?;
    let now = store.find(name)?.view.entry;
    if (now.epoch, now.owner) == (before.epoch, before.owner) {
        return Ok(());
    }
    Err(format!("'{name}' was attached in the meantime, and what was read is of no single moment: export it again")
        .into())
}

/// Of a volume that is in use, a snapshot is of one moment.
fn export_attached(args: &VolumeExportArgs, store: &Store, sink: &mut Sink<'_>) -> Result {
    let (name, snapshot) = (stored::name(&args.volume)?, homes::exported(draw_volume()?));
    let taken = take_snapshot(store, name, &snapshot, &args.place);
    let image = taken.map_err(|error| {
        format!("'{name}' is attached, so a snapshot of it is exported, and there is none: {error}; or detach it first")
    })?;
    let written = write(&image, sink, store.interrupt());
    // Its session should end: home removes what nobody has open.
    drop(image);
    if let Err(why) = remove(store, &snapshot) {
        // The image is none the worse.
        eprintln!("{why}");
    }
    written
}

fn remove(store: &Store, snapshot: &str) -> Result {
    let stays = |error: crate::Error| {
        format!("the snapshot '{snapshot}' stays: {error}; remove it with `thorp volume remove {snapshot}`")
    };
    let node = store.find(snapshot).and_then(|found| store.home_node(found.id)).map_err(stays)?;
    let id = store.registry().remove(snapshot).map_err(|error| stays(error.into()))?;
    let removed = store.home_at(&node, id).and_then(|home| home.remove(Epoch(1)));
    Ok(removed.map_err(|error| format!("{error}; {}", homes::of_none(id, store.address())))?)
}

fn write(image: &Image, sink: &mut Sink<'_>, interrupt: &Interrupt) -> Result {
    let progress = bar("bytes are exported", image.size());
    let done = image.each_part(&mut |part| {
        if interrupt.has_come() {
            return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        match part {
            Part::Data(bytes) => sink.put(bytes)?,
            Part::Hole(len) => sink.put_hole(len)?,
        }
        progress.set_position(sink.at);
        Ok(())
    });
    progress.finish_and_clear();
    done.map_err(|error| match (error, &sink.to) {
        (ImageError::Put(error), _) if error.kind() == ErrorKind::Interrupted => {
            "interrupted: nothing was exported".into()
        }
        (ImageError::Put(error), To::Stream(_)) => cannot_write(error),
        (ImageError::Put(error), To::File(_)) => format!("cannot write the image: {error}").into(),
        (ImageError::Home(HomeError::Far(FarError::GivenUp)), _) => "interrupted: nothing was exported".into(),
        (error @ ImageError::Home(_), _) => error.into(),
    })
}

/// The file or the stream that an image goes to.
struct Sink<'a> {
    to: To<'a>,
    /// The bytes that have come, and how many of them are data.
    at: u64,
    data: u64,
}

enum To<'a> {
    File(Unfinished),
    Stream(&'a mut Output),
}

impl<'a> Sink<'a> {
    fn begin(file: &Path, replaces: bool, output: &'a mut Output) -> Result<Self> {
        let is_stream = file.as_os_str() == "-";
        let to = if is_stream { To::Stream(output) } else { To::File(Unfinished::begin(file, replaces)?) };
        Ok(Self { to, at: 0, data: 0 })
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.to {
            To::File(file) => file.write(self.at, bytes)?,
            To::Stream(output) => output.writer().write_all(bytes)?,
        }
        (self.at, self.data) = (self.at + bytes.len() as u64, self.data + bytes.len() as u64);
        Ok(())
    }

    fn put_hole(&mut self, len: u64) -> io::Result<()> {
        if let To::Stream(output) = &mut self.to {
            let zeros = |from: u64| &ZEROS[..(len - from).min(ZEROS.len() as u64) as usize];
            (0..len).step_by(ZEROS.len()).try_for_each(|from| output.writer().write_all(zeros(from)))?;
        }
        self.at += len;
        Ok(())
    }

    /// All of it has come.
    fn finish(self) -> Result {
        match self.to {
            To::File(file) => file.finish(self.at),
            To::Stream(_) => Ok(()),
        }
    }
}
