//! A file that is being written: private until it is closed.
//!
//! Its content is that of the entry that it was made from until it is first written. Then it is copied into a file of
//! its own, so that what is set aside is complete.

use super::scratch::{Scratch, ScratchFile};
use crate::content::read_content;
use crate::error::FilesError;
use crate::line::lock;
use crate::locks::Lock;
use crate::mount::nodes::now;
use crate::mount::private::Stashed;
use bytes::Bytes;
use fuser::Errno;
use rustix::fs::{FallocateFlags, fallocate};
use spread::messages::Token;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use tree::{Attributes, Content, Entry, Kind, Path, Sink};

/// The bytes that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// A file that is being written.
#[derive(Debug)]
pub(in crate::mount) struct Draft {
    pub(in crate::mount) inode: u64,
    state: Mutex<State>,
    /// Taken by those who are about to change its content, until that of the base is copied: it may have to be fetched.
    copying: Mutex<()>,
    /// The lock of its path, which keeps others from changing it (rule PExcludes). Without one, they may.
    lock: Mutex<Option<Lock>>,
}

#[derive(Debug)]
struct State {
    /// The entry that it was made from or was published as last; none for a new file.
    base: Option<Entry>,
    attributes: Attributes,
    size: u64,
    /// The content, once it differs from the base's.
    scratch: Option<ScratchFile>,
    /// How often it was changed, and how often when it was published last.
    changes: u64,
    published: u64,
    /// How often it was changed when its publish was refused.
    refused: Option<u64>,
    is_removed: bool,
}

/// A draft as it was at a moment, in chunks.
#[derive(Clone, Debug)]
pub(in crate::mount) struct Snapshot {
    pub(in crate::mount) entry: Entry,
    changes: u64,
    /// Keeps the chunks of a private file until its change is made.
    #[expect(dead_code, reason = "held")]
    kept_by: Option<Arc<Stashed>>,
}

impl Snapshot {
    pub(in crate::mount) fn kept_by(self, kept_by: Option<Arc<Stashed>>) -> Self {
        Self { kept_by, ..self }
    }
}

/// Reads content that the base has: fewer bytes only at its end.
pub(in crate::mount) type ReadBase<'a> = &'a dyn Fn(u64, u32) -> Result<Bytes, Errno>;

impl Draft {
    /// A new file.
    pub(in crate::mount) fn new_file(inode: u64, attributes: Attributes) -> Self {
        let state = State {
            base: None,
            attributes,
            size: 0,
            scratch: None,
            changes: 0,
            published: 0,
            refused: None,
            is_removed: false,
        };
        Self { inode, state: Mutex::new(state), copying: Mutex::default(), lock: Mutex::default() }
    }

    /// A file of the site that is about to be written.
    pub(in crate::mount) fn of_entry(inode: u64, entry: Entry) -> Self {
        let size = size_of(&entry);
        let attributes = entry.attributes.clone();
        let (base, scratch, refused) = (Some(entry), None, None);
        let state = State { base, attributes, size, scratch, changes: 0, published: 0, refused, is_removed: false };
        Self { inode, state: Mutex::new(state), copying: Mutex::default(), lock: Mutex::default() }
    }

    /// Its attributes and size, and whether it was removed.
    pub(in crate::mount) fn now(&self) -> (Attributes, u64, bool) {
        let state = lock(&self.state);
        (state.attributes.clone(), state.size, state.is_removed)
    }

    /// The entry that it was made from, or was published as last.
    pub(in crate::mount) fn base(&self) -> Option<Entry> {
        lock(&self.state).base.clone()
    }

    /// Takes the lock of its path.
    pub(in crate::mount) fn set_lock(&self, granted: Lock) {
        *lock(&self.lock) = Some(granted);
    }

    /// The lock of its path, if that is not over: the path and the lock's name.
    pub(in crate::mount) fn lock(&self) -> Option<(Path, Token)> {
        let held = lock(&self.lock);
        let held = held.as_ref().filter(|lock| !lock.is_over())?;
        Some((held.path().clone(), held.token()))
    }

    /// Gives up the lock, if it is one of these.
    pub(in crate::mount) fn give_up_lock(&self, locks: &[Token]) {
        lock(&self.lock).take_if(|held| locks.contains(&held.token()));
    }

    /// Whether it has changes that are not published. An empty new file has none: a shell opens the file of a
    /// redirection, and closes the first of two descriptors before anything is written.
    pub(in crate::mount) fn is_dirty(&self) -> bool {
        let state = lock(&self.state);
        state.changes > state.published && !state.is_removed
    }

    /// Whether it must be published once no program has it open.
    pub(in crate::mount) fn is_unpublished(&self) -> bool {
        let state = lock(&self.state);
        (state.changes > state.published || state.base.is_none()) && !state.is_removed
    }

    /// Whether the site has no entry for it yet.
    pub(in crate::mount) fn is_new(&self) -> bool {
        lock(&self.state).base.is_none()
    }

    /// Notes that it was not published.
    pub(in crate::mount) fn refused(&self) {
        let mut state = lock(&self.state);
        state.refused = Some(state.changes);
    }

    /// Whether it was not published as it is now.
    pub(in crate::mount) fn was_refused(&self) -> bool {
        let state = lock(&self.state);
        state.refused == Some(state.changes)
    }

    pub(in crate::mount) fn set_removed(&self) {
        lock(&self.state).is_removed = true;
    }

    /// Changes its attributes, for those who look at it here, and for its next publish if `changes` says so.
    pub(in crate::mount) fn set_attributes(&self, attributes: Attributes, changes: bool) {
        let mut state = lock(&self.state);
        state.attributes = attributes;
        state.changes += u64::from(changes);
    }

    /// Notes that the site's entry has changed, and its content has not.
    pub(in crate::mount) fn rebase(&self, entry: Entry) {
        lock(&self.state).base = Some(entry);
    }

    /// Reads content, if it differs from the base's: fewer bytes only at its end.
    pub(in crate::mount) fn read(&self, offset: u64, bytes: u32) -> Option<io::Result<Bytes>> {
        let state = lock(&self.state);
        if state.scratch.is_none() && state.base.is_some() {
            return None;
        }
        Some(state.read(offset, bytes))
    }

    /// Writes content at an offset.
    pub(in crate::mount) fn write(
        &self,
        scratch: &Scratch,
        path: &Path,
        read_base: ReadBase<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let mut state = self.own_content(scratch, path, read_base, u64::MAX)?;
        state.file()?.write_all_at(bytes, offset)?;
        state.size = state.size.max(offset + bytes.len() as u64);
        state.changed();
        Ok(())
    }

    /// Cuts or extends the content, with zeros.
    pub(in crate::mount) fn truncate(
        &self,
        scratch: &Scratch,
        path: &Path,
        read_base: ReadBase<'_>,
        size: u64,
    ) -> Result<(), Errno> {
        let mut state = self.own_content(scratch, path, read_base, size)?;
        state.file()?.set_len(size)?;
        state.size = size;
        state.changed();
        Ok(())
    }

    /// Makes a part of the content zeros, without a change of its size.
    pub(in crate::mount) fn clear(
        &self,
        scratch: &Scratch,
        path: &Path,
        read_base: ReadBase<'_>,
        part: Range<u64>,
    ) -> Result<(), Errno> {
        let mut state = self.own_content(scratch, path, read_base, u64::MAX)?;
        let length = part.end.min(state.size).saturating_sub(part.start);
        if length > 0 {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(state.file()?, flags, part.start, length).map_err(io::Error::from)?;
        }
        state.changed();
        Ok(())
    }

    /// Whether a change of its content copies chunks of the base, of which so many bytes will be needed.
    pub(in crate::mount) fn copies(&self, needed: u64) -> bool {
        let state = lock(&self.state);
        let is_inline = |base: &Entry| matches!(base.kind, Kind::File { content: Content::Inline(_), .. });
        state.to_copy(needed) > 0 && !state.base.as_ref().is_some_and(is_inline)
    }

    /// Copies the content of the base into a file of its own, of which so many bytes will be needed, and returns the
    /// state. Readers of the state do not wait for it.
    pub(in crate::mount) fn copy_base(
        &self,
        scratch: &Scratch,
        path: &Path,
        read_base: ReadBase<'_>,
        needed: u64,
    ) -> Result<(), Errno> {
        self.own_content(scratch, path, read_base, needed).map(drop)
    }

    fn own_content(
        &self,
        scratch: &Scratch,
        path: &Path,
        read_base: ReadBase<'_>,
        needed: u64,
    ) -> Result<MutexGuard<'_, State>, Errno> {
        let _copying = lock(&self.copying);
        let state = lock(&self.state);
        if state.scratch.is_some() {
            return Ok(state);
        }
        let end = state.to_copy(needed);
        drop(state);
        let (file, mut at) = (scratch.make(path)?, 0);
        while at < end {
            let bytes = read_base(at, COPY_BYTES.min(end - at) as u32)?;
            if bytes.is_empty() {
                return Err(Errno::EIO);
            }
            file.file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        let mut state = lock(&self.state);
        state.scratch = Some(file);
        Ok(state)
    }

    /// Makes its content durable on this host.
    pub(in crate::mount) fn sync(&self) -> io::Result<()> {
        lock(&self.state).scratch.as_ref().map_or(Ok(()), |scratch| scratch.file.sync_data())
    }

    /// Its content in chunks. Writes to it wait.
    pub(in crate::mount) fn snapshot<S>(&self, sink: &mut S) -> Result<Snapshot, FilesError>
    where
        S: Sink<Error = FilesError>,
    {
        let state = lock(&self.state);
        let link = match state.base.as_ref().map(|base| &base.kind) {
            Some(Kind::File { link, .. }) => *link,
            _ => 0,
        };
        let (size, content) = match (&state.scratch, &state.base) {
            (Some(scratch), _) => {
                let opened = File::open(&scratch.path);
                let mut file = opened.map_err(|error| FilesError::Unreadable(scratch.path.clone(), error))?;
                read_content(&scratch.path, &mut file, sink)?
            }
            (None, Some(Entry { kind: Kind::File { size, content, .. }, .. })) => (*size, content.clone()),
            (None, _) => (0, Content::Inline(Bytes::new())),
        };
        let entry = Entry { kind: Kind::File { size, content, link }, attributes: state.attributes.clone() };
        Ok(Snapshot { entry, changes: state.changes, kept_by: None })
    }

    /// A snapshot was published as this entry.
    pub(in crate::mount) fn published(&self, snapshot: &Snapshot, entry: Entry) {
        let mut state = lock(&self.state);
        state.base = Some(entry);
        state.published = state.published.max(snapshot.changes);
    }

    /// Sets the content aside that could not be published, and returns its place.
    pub(in crate::mount) fn set_aside(&self, scratch: &Scratch) -> Option<io::Result<PathBuf>> {
        lock(&self.state).scratch.as_ref().map(|file| scratch.set_aside(file))
    }
}

impl State {
    fn changed(&mut self) {
        self.changes += 1;
        self.attributes.modified = now();
    }

    fn read(&self, offset: u64, bytes: u32) -> io::Result<Bytes> {
        let Some(scratch) = &self.scratch else { return Ok(Bytes::new()) };
        let end = offset.saturating_add(u64::from(bytes)).min(self.size);
        let mut read = vec![0; end.saturating_sub(offset) as usize];
        scratch.file.read_exact_at(&mut read, offset)?;
        Ok(read.into())
    }

    /// The bytes of the base's content to copy into a file of its own, of which so many will be needed.
    fn to_copy(&self, needed: u64) -> u64 {
        if self.scratch.is_none() && self.base.is_some() { self.size.min(needed) } else { 0 }
    }

    /// The file of its own with its content.
    fn file(&self) -> Result<&File, Errno> {
        self.scratch.as_ref().map(|scratch| &scratch.file).ok_or(Errno::ESTALE)
    }
}

/// The size of a file.
fn size_of(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::File { size, .. } => size,
        Kind::Directory(_) | Kind::Symlink(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::Made;
    use fixtures::Folder;

    fn file(text: &'static str) -> Entry {
        let content = Content::Inline(Bytes::from_static(text.as_bytes()));
        Entry { kind: Kind::File { size: text.len() as u64, content, link: 0 }, attributes: Attributes::default() }
    }

    fn text(draft: &Draft) -> Vec<u8> {
        match draft.snapshot(&mut Made::default()).unwrap().entry.kind {
            Kind::File { content: Content::Inline(bytes), .. } => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn content_is_the_bases_until_it_is_written() {
        let folder = Folder::new();
        let (scratch, _) = Scratch::open(folder.path()).unwrap();
        let path = Path::parse(b"a").unwrap();
        let draft = Draft::of_entry(7, file("0123456789"));
        assert!(draft.read(0, 100).is_none() && !draft.is_dirty());
        let base = |offset: u64, bytes: u32| {
            Ok(Bytes::from_static(b"0123456789").slice(offset as usize..(offset as usize + bytes as usize).min(10)))
        };
        draft.write(&scratch, &path, &base, 12, b"xy").unwrap();
        assert_eq!(draft.read(0, 100).unwrap().unwrap(), "0123456789\0\0xy");
        draft.truncate(&scratch, &path, &base, 3).unwrap();
        draft.truncate(&scratch, &path, &base, 5).unwrap();
        assert_eq!((text(&draft), draft.now().1), (b"012\0\0".to_vec(), 5));
        assert_eq!(draft.read(9, 100).unwrap().unwrap(), "");
    }

    #[test]
    fn what_is_written_behind_a_snapshot_is_not_published() {
        let folder = Folder::new();
        let (scratch, _) = Scratch::open(folder.path()).unwrap();
        let path = Path::parse(b"a").unwrap();
        let none = |_: u64, _: u32| -> Result<Bytes, Errno> { unreachable!("a new file has no base") };
        let draft = Draft::new_file(7, Attributes::default());
        assert!(!draft.is_dirty() && draft.is_unpublished(), "an empty file is published at its last close");
        draft.write(&scratch, &path, &none, 0, b"one").unwrap();
        let snapshot = draft.snapshot(&mut Made::default()).unwrap();
        draft.write(&scratch, &path, &none, 0, b"two").unwrap();
        draft.published(&snapshot, snapshot.entry.clone());
        assert!(draft.is_dirty() && !draft.is_new());
        let snapshot = draft.snapshot(&mut Made::default()).unwrap();
        draft.published(&snapshot, snapshot.entry.clone());
        assert!(!draft.is_dirty());
        draft.write(&scratch, &path, &none, 0, b"3").unwrap();
        draft.set_removed();
        assert!(!draft.is_dirty(), "there is no path to publish it at");
    }
}
