//! `thorp volume import`: a volume of what a file, a device or a pipe has.

use super::file::Unfinished;
use super::store::Store;
use super::stored;
use crate::Result;
use crate::cli::VolumeImportArgs;
use crate::output::{Output, bar, spinner};
use crate::stopper::Interrupt;
use ::registry::draw_volume;
use attach::image::{Filling, data_in};
use attach::{Registered, SIZE_MAX};
use indicatif::ProgressBar;
use rustix::fs::{SeekFrom, seek};
use serde_json::json;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// So much is read at a time.
const CHUNK_BYTES: usize = 8 << 20;

/// Chunks that were read and wait to be written.
const AHEAD_MAX: usize = 2;

/// How often it is looked whether somebody wants to leave, while a pipe says nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const BLOCK: u64 = attach::BLOCK as u64;

/// Something that was read.
enum Chunk {
    /// Bytes, and where they are. All before them that did not come is zeros.
    Data(u64, Vec<u8>),
    /// There are so many bytes in all.
    End(u64),
}

pub(super) fn import(args: &VolumeImportArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    let input = Input::open(&args.file)?;
    let (size, data) = match &args.store {
        Some(store) => import_stored(args, &Store::connect(store, &interrupt)?, input)?,
        None => import_own(args, input, &interrupt)?,
    };
    let volume = &args.volume;
    let how = match &args.store {
        Some(store) => format!("; attach it with `thorp volume attach {} --store {store}`", volume.display()),
        None => String::new(),
    };
    let text = format!("{}: {size} bytes, {data} of them data{how}", volume.display());
    output.line(&json!({"volume": volume, "size": size, "data_bytes": data}), text)
}

fn import_own(args: &VolumeImportArgs, input: Input, interrupt: &Interrupt) -> Result<(u64, u64)> {
    let file = Unfinished::begin(&args.volume, false)?;
    let (size, data) = input.each_chunk(interrupt, &mut |offset, bytes| {
        file.write(offset, bytes).map_err(|error| format!("cannot write {}: {error}", args.volume.display()).into())
    })?;
    file.finish(size)?;
    Ok((size, data))
}

fn import_stored(args: &VolumeImportArgs, store: &Store, input: Input) -> Result<(u64, u64)> {
    let name = stored::name(&args.volume)?;
    store.expect_free(name)?;
    let id = draw_volume()?;
    let first = input.len.map_or(CHUNK_BYTES as u64, |len| len.max(1).next_multiple_of(BLOCK));
    let node = store.new_home_node()?;
    let begun = Filling::begin(store.create_home(&node, id, first)?);
    let mut filling = begun.map_err(|error| store.may_be_made(error, id))?;
    let filled = fill(&mut filling, input, store.interrupt());
    let (size, data) = filled.map_err(|why| stored::is_left(why, id, store.address(), filling.remove()))?;
    let lease = Duration::from_secs(args.lease_s.into());
    let entry = Registered { epoch: filling.epoch(), ..Registered::new(size, args.copies, lease) };
    stored::register(store, name, (id, &entry, &node), || filling.remove())?;
    Ok((size, data))
}

/// Writes all of an input home; gives the size of the volume, and how many bytes of it are data.
fn fill(filling: &mut Filling, input: Input, interrupt: &Interrupt) -> Result<(u64, u64)> {
    let (size, data) = input.each_chunk(interrupt, &mut |offset, bytes| {
        let end = offset + bytes.len() as u64;
        if end > filling.size() {
            filling.resize(end.max((2 * filling.size()).min(SIZE_MAX)))?;
        }
        Ok(filling.write(offset, bytes)?)
    })?;
    if size != filling.size() {
        filling.resize(size)?;
    }
    Ok((size, data))
}

/// The file, the device or the pipe.
struct Input {
    name: String,
    file: File,
    /// Its length, where that is known before it is read.
    len: Option<u64>,
    /// It may have holes, which are passed over.
    has_holes: bool,
}

impl Input {
    fn open(path: &Path) -> Result<Self> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if is_stdin { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
        let kind = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = kind.map_err(|error| format!("cannot read {name}: {error}"))?;
        if metadata.is_dir() {
            return Err(format!("cannot read {name}: it is a directory").into());
        }
        let is_device = metadata.file_type().is_block_device();
        let end = || {
            let end = seek(&file, SeekFrom::End(0))?;
            seek(&file, SeekFrom::Start(0)).map(|_| end)
        };
        let len =
            if is_device || metadata.is_file() && !is_stdin { Some(end().map_err(io::Error::from)?) } else { None };
        if len == Some(0) {
            return Err(format!("{name} is empty: a volume has one block at least").into());
        }
        Ok(Self { name, file, len, has_holes: metadata.is_file() && !is_stdin })
    }

    /// Returns all of it in whole blocks, but for holes; gives its size in whole blocks, and how many bytes came.
    fn each_chunk(self, interrupt: &Interrupt, give: &mut dyn FnMut(u64, &[u8]) -> Result) -> Result<(u64, u64)> {
        let progress = self.len.map_or_else(|| spinner("bytes are imported"), |len| bar("bytes are imported", len));
        let (sender, chunks) = sync_channel(AHEAD_MAX);
        let name = self.name.clone();
        // It may wait for a pipe for ever: no request waits for it.
        thread::spawn(move || self.read(&sender));
        let taken = take(&chunks, &name, interrupt, give, &progress);
        progress.finish_and_clear();
        taken
    }

    fn read(mut self, chunks: &SyncSender<io::Result<Chunk>>) {
        let mut at = 0;
        loop {
            let chunk = self.read_chunk(&mut at);
            let is_last = !matches!(chunk, Ok(Chunk::Data(..)));
            if chunks.send(chunk).is_err() || is_last {
                return;
            }
        }
    }

    fn read_chunk(&mut self, at: &mut u64) -> io::Result<Chunk> {
        if self.has_holes {
            match seek(&self.file, SeekFrom::Data(*at)) {
                // The begin of the block that data begins in.
                Ok(data) => *at = (*at).max(data / BLOCK * BLOCK),
                Err(rustix::io::Errno::NXIO) => return Ok(Chunk::End(self.len.unwrap_or(*at))),
                Err(_) => self.has_holes = false,
            }
            seek(&self.file, SeekFrom::Start(*at))?;
        }
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        self.file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(Chunk::End(*at));
        }
        let (offset, end) = (*at, *at + bytes.len() as u64);
        *at = end;
        Ok(Chunk::Data(offset, bytes))
    }
}

fn take(
    chunks: &Receiver<io::Result<Chunk>>,
    name: &str,
    interrupt: &Interrupt,
    give: &mut dyn FnMut(u64, &[u8]) -> Result,
    progress: &ProgressBar,
) -> Result<(u64, u64)> {
    let mut data = 0;
    loop {
        if interrupt.has_come() {
            return Err("interrupted: no volume was made".into());
        }
        match chunks.recv_timeout(LOOK_EVERY) {
            Ok(Ok(Chunk::Data(offset, mut bytes))) => {
                data += data_in(&bytes).map(|run| run.len() as u64).sum::<u64>();
                progress.set_position(offset + bytes.len() as u64);
                // Only the last one has no whole blocks.
                bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
                give(offset, &bytes)?;
            }
            Ok(Ok(Chunk::End(0))) => return Err(format!("{name} is empty: a volume has one block at least").into()),
            Ok(Ok(Chunk::End(len))) => return Ok((len.next_multiple_of(BLOCK), data)),
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(format!("cannot read {name}: {error}").into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("cannot read {name}: its thread panicked").into());
            }
        }
    }
}
