//! The files of large chunks, in 256 folders by the first byte of their hashes.

use crate::directory::{TEMPORARY, remove_leftovers};
use crate::error::{ChunkError, Doing};
use crate::limits::FILES_OPEN_MAX;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tree::ChunkHash;
use vfs::{Call, FileError, Files, How, Verdict, judge};

/// Opens the folder of a name, and makes it if it is missing.
pub(crate) type OpenFolder<'a> = dyn Fn(&str) -> Result<Arc<dyn Files>, FileError> + 'a;

/// The folders.
#[derive(Debug)]
pub(crate) struct Folders(Vec<Arc<dyn Files>>);

/// The file of a chunk, as it was read.
#[derive(Debug)]
pub(crate) enum Content {
    /// The bytes that were put.
    Whole(Bytes),
    /// Other bytes.
    Damaged,
    /// There is no file.
    Missing,
}

impl Folders {
    /// Opens the folders, and removes what interrupted writes left in them.
    pub(crate) fn open(open: &OpenFolder<'_>) -> Result<Self, ChunkError> {
        let folders = (0..=u8::MAX).map(|first| open(&format!("{first:02x}"))).collect::<Result<Vec<_>, _>>()?;
        folders.iter().try_for_each(|folder| remove_leftovers(&**folder))?;
        Ok(Self(folders))
    }

    /// Opens the folders as they are. A missing folder has no files.
    pub(crate) fn open_to_read(open: impl Fn(&str) -> Arc<dyn Files>) -> Self {
        Self((0..=u8::MAX).map(|first| open(&format!("{first:02x}"))).collect())
    }

    /// Where the file of a chunk is.
    pub(crate) fn path(&self, hash: &ChunkHash) -> PathBuf {
        let (folder, name) = self.place(hash);
        folder.path(&name)
    }

    fn place(&self, hash: &ChunkHash) -> (&dyn Files, String) {
        (self.folder(hash), hash.to_string().split_off(2))
    }

    fn folder(&self, hash: &ChunkHash) -> &dyn Files {
        &*self.0[usize::from(hash.as_bytes()[0])]
    }

    /// Writes the files of chunks, each at once in the place of the one that was there. They and their names are
    /// durable on return. After an error some of them may be there.
    pub(crate) fn write(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<(), ChunkError> {
        for group in chunks.chunks(FILES_OPEN_MAX) {
            self.write_group(group).inspect_err(|_| self.remove_temporary(group))?;
        }
        let touched: BTreeSet<u8> = chunks.iter().map(|(hash, _)| hash.as_bytes()[0]).collect();
        for first in touched {
            let folder = &self.0[usize::from(first)];
            folder.sync_dir().doing("sync", Call::SyncNew, || folder.path(""))?;
        }
        Ok(())
    }

    fn write_group(&self, group: &[(ChunkHash, Bytes)]) -> Result<(), ChunkError> {
        let mut written = Vec::with_capacity(group.len());
        for (hash, bytes) in group {
            let (folder, name) = self.place(hash);
            let temporary = format!("{name}{TEMPORARY}");
            let path = || folder.path(&temporary);
            let file = folder.open(&temporary, How::Create).doing("create", Call::Open, path)?;
            file.write_at(0, bytes).doing("write", Call::Write, path)?;
            file.begin_sync(0, bytes.len() as u64);
            written.push((folder, name, temporary, file));
        }
        for (folder, name, temporary, file) in written {
            file.sync().doing("sync", Call::SyncNew, || folder.path(&temporary))?;
            folder.rename(&temporary, &name).doing("rename", Call::Name, || folder.path(&temporary))?;
        }
        Ok(())
    }

    /// Removes the temporary files that a write has left. The next start removes those that stay.
    fn remove_temporary(&self, group: &[(ChunkHash, Bytes)]) {
        for (hash, _) in group {
            let (folder, name) = self.place(hash);
            let _ = folder.remove(&format!("{name}{TEMPORARY}"));
        }
    }

    /// Reads the file of a chunk and compares it with its name.
    pub(crate) fn read(&self, hash: &ChunkHash, bytes: u32) -> Result<Content, ChunkError> {
        let (folder, name) = self.place(hash);
        let path = || folder.path(&name);
        let file = match folder.open(&name, How::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Missing),
            Err(error) => return Err(error).doing("open", Call::Open, path),
        };
        if file.size().doing("read", Call::Read, path)? != u64::from(bytes) {
            return Ok(Content::Damaged);
        }
        let mut content = vec![0; bytes as usize];
        match file.read_at(0, &mut content) {
            Ok(()) if ChunkHash::of(&content) == *hash => Ok(Content::Whole(content.into())),
            Ok(()) => Ok(Content::Damaged),
            // A place that the disk cannot read, or a file that has just been cut.
            Err(error) if judge(Call::Read, &error) == Verdict::Fails => Ok(Content::Damaged),
            Err(error) => Err(error).doing("read", Call::Read, path),
        }
    }

    /// Removes the file of a chunk, if there is one. Not durable: a file that comes back is a leftover.
    pub(crate) fn remove(&self, hash: &ChunkHash) -> Result<(), ChunkError> {
        let (folder, name) = self.place(hash);
        match folder.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).doing("remove", Call::Name, || folder.path(&name))
            }
            _ => Ok(()),
        }
    }

    /// The chunks that have a file in one of the folders.
    pub(crate) fn list(&self, first: u8) -> Result<Vec<ChunkHash>, ChunkError> {
        let folder = &self.0[usize::from(first)];
        let names = folder.list().doing("read", Call::Read, || folder.path(""))?;
        Ok(names.iter().filter_map(|name| ChunkHash::parse(&format!("{first:02x}{name}"))).collect())
    }
}
