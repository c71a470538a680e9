//! The page home in one redb file: pages, their versions and the checkpoint, changed in atomic, durable batches.
//!
//! | table | key | value |
//! |---|---|---|
//! | `images` | page u64 | the image |
//! | `versions` | page u64 | version u64, CRC32C u32, image bytes u32 |
//! | `state` | 0 | the checkpoint and what else the home must know, see `state.rs` |
//!
//! The checksum of an image stands apart from it and covers the page's id and version too, so that an image in the
//! wrong place is found out. redb looks at its own checksums only when it repairs a file; so the state holds the number
//! of pages and a digest of all of `versions`, which the list that is read at every start must give again. And redb
//! may panic on a damaged file: that is caught, and becomes the error that it is.

use crate::page_file::backend::{Backend, Failure};
use crate::page_file::state::State;
use crate::page_file::{Found, Home, Installed, Read};
use bytes::Bytes;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use store::{Checkpoint, HomeImage, HomePage};
use types::{PageId, Version, said};
use vfs::{Call, FileError, Files, How, Patience, reserve};

/// The file's name.
pub const NAME: &str = "home.redb";

const IMAGES: TableDefinition<u64, &[u8]> = TableDefinition::new("images");
const VERSIONS: TableDefinition<u64, &[u8; 16]> = TableDefinition::new("versions");
const STATE: TableDefinition<u64, &[u8]> = TableDefinition::new("state");

/// A page home in a file of its own.
#[derive(Debug)]
pub struct RedbHome {
    files: Arc<dyn Files>,
    cache_bytes: usize,
    patience: Arc<Patience>,
    /// `None` only between a failure and the end.
    database: RwLock<Option<Opened>>,
    state: Mutex<State>,
    /// The number of installs once more: the thread that writes the log must not wait for an install that is under way.
    installs: AtomicU64,
}

/// The database, and what its file has met.
#[derive(Debug)]
struct Opened {
    database: Database,
    failure: Arc<Failure>,
    /// A read has met an error of the file or a panic: redb answers nothing reliable until it is opened again.
    spoiled: AtomicBool,
}

/// The entry of a page in `versions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    version: Version,
    crc: u32,
    bytes: u32,
}

impl Entry {
    fn of(page: PageId, version: Version, image: &[u8]) -> Self {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&page.to_bits().to_le_bytes()), &version.0.to_le_bytes());
        Self { version, crc: crc32c::crc32c_append(crc, image), bytes: image.len() as u32 }
    }

    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..8].copy_from_slice(&self.version.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.crc.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(bytes);
        Self { version: Version(number as u64), crc: (number >> 64) as u32, bytes: (number >> 96) as u32 }
    }

    /// The entry's part of the digest of all entries.
    fn digest(self, page: u64) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&page.to_le_bytes()), &self.encode())
    }
}

/// A failure inside redb: an error, or a panic that was caught.
#[derive(Debug)]
enum Trouble {
    Redb(redb::Error),
    Panic(String),
}

impl<E: Into<redb::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

thread_local! {
    /// Whether this thread is inside of [`guard`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught and become an error of the disk: a program's panic hook need not
/// print it.
pub fn catches_panic() -> bool {
    GUARDED.get()
}

/// Runs what may panic on a damaged file. The database is no longer used after a panic.
fn guard<T>(run: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let was_guarded = GUARDED.replace(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(was_guarded);
    ran.unwrap_or_else(|panic| Err(Trouble::Panic(said(&*panic).to_owned())))
}

impl Opened {
    fn open(files: &dyn Files, how: How, cache_bytes: usize, patience: &Arc<Patience>) -> Result<Self, Trouble> {
        let file = patience.wait_out(Call::Open, || files.open(NAME, how)).map_err(redb::Error::Io)?;
        let failure = Arc::new(Failure::default());
        let backend = Backend::new(file, failure.clone(), patience.clone());
        let database = guard(|| Ok(redb::Builder::new().set_cache_size(cache_bytes).create_with_backend(backend)?))?;
        Ok(Self { database, failure, spoiled: AtomicBool::new(false) })
    }

    fn read_state(&self) -> Result<Option<Vec<u8>>, Trouble> {
        guard(|| {
            let table = self.database.begin_read()?.open_table(STATE)?;
            Ok(table.get(0)?.map(|value| value.value().to_vec()))
        })
    }
}

impl RedbHome {
    /// Makes the file of a new store.
    pub fn create(files: &dyn Files, cache_bytes: usize) -> Result<(), FileError> {
        let make = || {
            let opened = Opened::open(files, How::Create, cache_bytes, &Arc::default())?;
            guard(|| {
                let write = opened.database.begin_write()?;
                write.open_table(IMAGES)?;
                write.open_table(VERSIONS)?;
                write.open_table(STATE)?.insert(0, State::default().encode().as_slice())?;
                Ok(write.commit()?)
            })
        };
        make().map_err(|trouble| error(files, "create", trouble))
    }

    /// Opens the file and reads what there is, without the images. `patience` says when what passes is waited out where
    /// pages are read and installed.
    pub fn open(
        files: Arc<dyn Files>,
        cache_bytes: usize,
        patience: Arc<Patience>,
    ) -> Result<(Self, Vec<HomePage>), FileError> {
        let opened = Opened::open(&*files, How::Write, cache_bytes, &patience);
        let opened = opened.map_err(|trouble| error(&*files, "open", trouble))?;
        let state = Self::load(&*files, &opened)?;
        let pages = list(&opened, &state).map_err(|trouble| error(&*files, "read", trouble))?;
        let pages = pages.map_err(|what| corrupt(&*files, what))?;
        let home = Self {
            files,
            cache_bytes,
            patience,
            database: RwLock::new(Some(opened)),
            installs: AtomicU64::new(state.installs),
            state: Mutex::new(state),
        };
        Ok((home, pages))
    }

    /// Opens a damaged file, to copy out what is whole: the pages that can still be listed, and what is wrong beside
    /// them, with whether that concerns the state. An unreadable state is replaced by that of a new store.
    #[expect(clippy::type_complexity, reason = "its only caller takes it apart at once")]
    pub fn open_damaged(
        files: Arc<dyn Files>,
        cache_bytes: usize,
    ) -> Result<(Self, Vec<HomePage>, Vec<(FileError, bool)>), FileError> {
        let patience = Arc::<Patience>::default();
        let opened = Opened::open(&*files, How::Write, cache_bytes, &patience);
        let opened = opened.map_err(|trouble| error(&*files, "open", trouble))?;
        let mut damage = Vec::new();
        let state = Self::load(&*files, &opened).unwrap_or_else(|error| {
            damage.push((error, true));
            State::default()
        });
        let (pages, is_whole) = list_readable(&opened);
        if !is_whole || (damage.is_empty() && pages.len() as u64 != state.pages) {
            let (got, expected) = (pages.len(), state.pages);
            damage.push((
                corrupt(&*files, format!("the list of pages is damaged: {got} of {expected} were read")),
                false,
            ));
        }
        let (installs, state) = (AtomicU64::new(state.installs), Mutex::new(state));
        let home = Self { files, cache_bytes, patience, database: RwLock::new(Some(opened)), installs, state };
        Ok((home, pages, damage))
    }

    fn load(files: &dyn Files, opened: &Opened) -> Result<State, FileError> {
        let bytes = opened.read_state().map_err(|trouble| error(files, "read", trouble))?;
        let bytes = bytes.ok_or_else(|| corrupt(files, "the home has no state".to_owned()))?;
        State::decode(&Bytes::from(bytes)).map_err(|what| corrupt(files, what))
    }

    /// Reads pages; `None` if an install that found no room has spoiled the database, which is then opened again.
    fn try_read(&self, pages: &[PageId]) -> Result<Option<Vec<(PageId, Read)>>, FileError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let Some(opened) = &*database else { return Err(self.error("read", Trouble::Panic("closed".to_owned()))) };
        let found = guard(|| {
            let read = opened.database.begin_read()?;
            let (versions, images) = (read.open_table(VERSIONS)?, read.open_table(IMAGES)?);
            let get = |page: &PageId| {
                let key = page.to_bits();
                let entry = versions.get(key)?.map(|value| Entry::decode(*value.value()));
                let Some(entry) = entry else { return Ok((*page, None)) };
                let image = images.get(key)?.map(|value| Bytes::copy_from_slice(value.value()));
                Ok((*page, Some((entry, image))))
            };
            pages.iter().map(get).collect::<Result<Vec<_>, Trouble>>()
        });
        let found = match found {
            Ok(found) => found,
            Err(_) if opened.failure.is_full() => return Ok(None),
            Err(trouble) => {
                opened.spoiled.store(true, Ordering::Release);
                return Err(self.error("read", trouble));
            }
        };
        let verified =
            |(page, found): (PageId, Option<_>)| Ok((page, found.map(|f| self.verify(page, f)).transpose()?));
        found.into_iter().map(verified).collect::<Result<_, _>>().map(Some)
    }

    /// Reads pages together; an install that found no room may be in the way for a moment.
    fn read_together(&self, pages: &[PageId]) -> Result<Vec<(PageId, Read)>, FileError> {
        loop {
            if let Some(found) = self.try_read(pages)? {
                return Ok(found);
            }
            // The installing thread holds the state until the database is open again.
            drop(self.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Opens the database again if a read has spoiled it. A home that cannot be opened again is lost to this process.
    fn reopen_if_spoiled(&self) -> Result<(), FileError> {
        let _no_install = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_spoiled = |opened: &Opened| opened.spoiled.load(Ordering::Acquire);
        let spoiled = self.database.read().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(is_spoiled);
        if spoiled { self.reopen() } else { Ok(()) }
    }

    fn is_closed(&self) -> bool {
        self.database.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn verify(&self, page: PageId, found: (Entry, Option<Bytes>)) -> Result<(Version, Bytes), FileError> {
        let (entry, image) = found;
        let image = image.unwrap_or_default();
        if Entry::of(page, entry.version, &image) == entry {
            return Ok((entry.version, image));
        }
        let (expected, got) = (entry.bytes, image.len());
        let what = format!("the image of page {page}, {got} bytes, does not have the checksum of its {expected} bytes");
        Err(corrupt(&*self.files, what))
    }

    fn reopen(&self) -> Result<(), FileError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        close(database.take());
        let open = || {
            let opened = Opened::open(&*self.files, How::Write, self.cache_bytes, &self.patience);
            opened.map_err(|trouble| self.error("open", trouble))
        };
        *database = Some(match open() {
            Err(error) if error.is_full() && reserve::give_up(&*self.files) => open()?,
            opened => opened?,
        });
        Ok(())
    }

    /// Reads every page, and lets redb go over its own checksums and structure: everything that is damaged.
    pub fn check(&mut self, pages: &[HomePage]) -> Result<Vec<FileError>, FileError> {
        let mut damage = Vec::new();
        for page in pages {
            for (page, found) in self.read(&[page.page])? {
                match found {
                    Ok(read) => damage.extend(read.and_then(|read| self.parse(page, &read))),
                    Err(error) => damage.push(error),
                }
            }
        }
        let opened = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().expect("open");
        match guard(|| Ok(opened.database.check_integrity()?)) {
            Ok(true) => {}
            Ok(false) => damage.push(corrupt(&*self.files, "redb's own structure does not hold together".to_owned())),
            Err(trouble) => damage.push(error(&*self.files, "check", trouble)),
        }
        Ok(damage)
    }

    /// The fault of a page's image whose checksum is right, if it has one.
    fn parse(&self, page: PageId, read: &(Version, Bytes)) -> Option<FileError> {
        let error = types::ObjectPage::parse(read.1.clone()).err()?;
        Some(corrupt(&*self.files, format!("the image of page {page}: {error}")))
    }

    fn error(&self, doing: &'static str, trouble: Trouble) -> FileError {
        error(&*self.files, doing, trouble)
    }
}

impl Home for RedbHome {
    fn checkpoint(&self) -> Checkpoint {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).checkpoint.clone()
    }

    fn durable(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).durable
    }

    fn installs(&self) -> u64 {
        self.installs.load(Ordering::Acquire)
    }

    fn must_have(&self, installs: u64) -> Result<(), FileError> {
        let have = self.installs();
        if have >= installs {
            return Ok(());
        }
        Err(corrupt(&*self.files, format!("the home is that of install {have}, the log knows of install {installs}")))
    }

    fn read(&self, pages: &[PageId]) -> Result<Vec<(PageId, Found)>, FileError> {
        let error = match self.read_together(pages) {
            Ok(found) => return Ok(found.into_iter().map(|(page, read)| (page, Ok(read))).collect()),
            Err(error) => error,
        };
        if self.is_closed() {
            return Err(error);
        }
        self.reopen_if_spoiled()?;
        match pages {
            [page] => Ok(vec![(*page, Err(error))]),
            // One of them is damaged, and the others are not to suffer from it.
            pages => pages.iter().try_fold(Vec::new(), |mut all, page| {
                all.extend(self.read(&[*page])?);
                Ok(all)
            }),
        }
    }

    fn install(&self, images: &[HomeImage], checkpoint: Checkpoint, durable: u64) -> Result<Installed, FileError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = State { installs: state.installs + 1, checkpoint, durable, ..state.clone() };
        let trouble = {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            let Some(opened) = &*database else { return Err(self.error("write", Trouble::Panic("closed".to_owned()))) };
            match guard(|| write(&opened.database, images, &mut next)) {
                Ok(()) => {
                    self.installs.store(next.installs, Ordering::Release);
                    *state = next;
                    return Ok(Installed::Done);
                }
                Err(trouble) if opened.failure.is_full() => trouble,
                Err(trouble) => return Err(self.error("write", trouble)),
            }
        };
        // redb takes no more writes after a failed one; opened again, it stands where its last commit left it, and
        // that can be this one.
        drop(trouble);
        self.reopen()?;
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let opened = database.as_ref().expect("just opened");
        let found = Self::load(&*self.files, opened)?;
        let done = found.installs == next.installs;
        self.installs.store(found.installs, Ordering::Release);
        *state = found;
        Ok(if done { Installed::Done } else { Installed::Full })
    }

    fn close(&self, durable: u64) -> Result<(), FileError> {
        let checkpoint = self.checkpoint();
        let closed = self.install(&[], checkpoint, durable);
        close(self.database.write().unwrap_or_else(PoisonError::into_inner).take());
        closed.map(|_| ())
    }
}

impl Drop for RedbHome {
    fn drop(&mut self) {
        close(self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Closes a database, which writes to it: that may panic on a damaged file, too.
fn close(opened: Option<Opened>) {
    let _ = guard(|| {
        drop(opened);
        Ok(())
    });
}

fn write(database: &Database, pages: &[HomeImage], next: &mut State) -> Result<(), Trouble> {
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    // Without it, a start after a crash reads the whole file.
    write.set_quick_repair(true);
    {
        let (mut images, mut versions) = (write.open_table(IMAGES)?, write.open_table(VERSIONS)?);
        for page in pages {
            let (key, entry) = (page.page.to_bits(), Entry::of(page.page, page.version, &page.image));
            images.insert(key, &*page.image)?;
            let old = versions.insert(key, &entry.encode())?.map(|old| Entry::decode(*old.value()));
            next.digest ^= entry.digest(key) ^ old.map_or(0, |old| old.digest(key));
            next.pages += u64::from(old.is_none());
        }
        write.open_table(STATE)?.insert(0, next.encode().as_slice())?;
    }
    Ok(write.commit()?)
}

/// The pages of the home, or what is wrong with the list of them.
fn list(opened: &Opened, state: &State) -> Result<Result<Vec<HomePage>, String>, Trouble> {
    guard(|| {
        let versions = opened.database.begin_read()?.open_table(VERSIONS)?;
        let (mut pages, mut digest) = (Vec::new(), 0);
        for item in versions.iter()? {
            let (key, value) = item?;
            let (key, entry) = (key.value(), Entry::decode(*value.value()));
            digest ^= entry.digest(key);
            pages.push(HomePage { page: PageId::from_bits(key), version: entry.version, bytes: entry.bytes });
        }
        if (pages.len() as u64, digest) == (state.pages, state.digest) {
            return Ok(Ok(pages));
        }
        let (got, expected) = (pages.len(), state.pages);
        Ok(Err(format!("the list of {got} pages is not the one of {expected} that the last install left")))
    })
}

/// The pages that can be listed, from the front and, if that meets damage, from the back; and whether these are all.
fn list_readable(opened: &Opened) -> (Vec<HomePage>, bool) {
    let mut pages = BTreeMap::new();
    let mut is_whole = false;
    for from_back in [false, true] {
        let ran = guard(|| {
            let versions = opened.database.begin_read()?.open_table(VERSIONS)?;
            let mut items = versions.iter()?;
            let mut last = None;
            while let Some(item) = if from_back { items.next_back() } else { items.next() } {
                let (key, value) = item?;
                let key = key.value();
                // A tree that leads back to itself has no end.
                if last.is_some_and(|last| if from_back { key >= last } else { key <= last }) {
                    return Err(Trouble::Panic("the keys are out of order".to_owned()));
                }
                last = Some(key);
                pages.insert(key, Entry::decode(*value.value()));
            }
            Ok(())
        });
        if ran.is_ok() {
            is_whole = true;
            break;
        }
    }
    let page = |(key, Entry { version, bytes, .. })| HomePage { page: PageId::from_bits(key), version, bytes };
    (pages.into_iter().map(page).collect(), is_whole)
}

fn corrupt(files: &dyn Files, what: String) -> FileError {
    FileError::Corrupt { file: files.path(NAME), offset: 0, what }
}

fn error(files: &dyn Files, doing: &'static str, trouble: Trouble) -> FileError {
    match trouble {
        Trouble::Redb(redb::Error::Io(source)) if is_end_of_file(&source) => {
            corrupt(files, "the file ends too early".to_owned())
        }
        Trouble::Redb(redb::Error::Io(source)) => FileError::Io { doing, file: files.path(NAME), source },
        Trouble::Redb(error @ redb::Error::PreviousIo) => {
            FileError::Io { doing, file: files.path(NAME), source: io::Error::other(error.to_string()) }
        }
        Trouble::Redb(error) => corrupt(files, error.to_string()),
        Trouble::Panic(text) => corrupt(files, format!("redb cannot make sense of the file ({text})")),
    }
}

/// redb reports a file that is too short, or is none of its own, as an I/O error.
fn is_end_of_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}
