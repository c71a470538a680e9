//! Files of a site that were assembled from their chunks, for the kernel to read by itself. They are in a directory of
//! their own, named by their content, and take a bounded part of the disk beside the chunks.
//!
//! Nothing verifies a file while the kernel reads it (rule VerifyChunk is bypassed). So it is assembled from verified
//! chunks. It is not synced: what an earlier start has left is compared with its chunks' names before it is used.
//!
//! | module | duty |
//! |---|---|
//! | `index` | which files there are, which are open, and which make room |

mod index;

use crate::error::FilesError;
use crate::line::lock;
use bytes::Bytes;
use fuser::{BackingId, ReplyOpen};
use index::{Index, State};
use rustix::fs::{FallocateFlags, fallocate, statfs};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tree::{ChunkHash, Content, Kind, Piece};
use vfs::make_directory;

/// The file that is being assembled, or that was when a process was killed.
const UNFINISHED: &str = "unfinished";

/// No other user reads a file past the permissions that it has in the site.
const MODE: u32 = 0o600;

/// The unit in which a file takes room.
const BLOCK_BYTES: u64 = 4096;

/// Smaller files are not assembled. An open with passthrough takes 7 to 40 us longer than a cached one, and from about
/// this size on, one read of the whole file saves more.
const SIZE_MIN: u64 = 256 * 1024;

/// File systems that are stacked on others, by the magic numbers of `statfs`: overlayfs, eCryptfs and FUSE.
const STACKED: [u64; 3] = [0x794c_7630, 0xf15f, 0x6573_5546];

/// The name of an assembled file: the hash of what its content is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ContentName(ChunkHash);

impl ContentName {
    /// The name for the content of an entry; none if it is not worth a file.
    pub(super) fn of(entry: &Kind) -> Option<Self> {
        let Kind::File { size, content, .. } = entry else { return None };
        if *size < SIZE_MIN {
            return None;
        }
        let mut bytes = size.to_le_bytes().to_vec();
        match content {
            Content::Inline(_) => return None,
            Content::Pieces(pieces) => {
                bytes.push(b'P');
                bytes.extend(pieces.iter().flat_map(|piece| piece.hash.as_bytes()));
            }
            Content::Lists(lists) => {
                bytes.push(b'L');
                bytes.extend(lists.iter().flat_map(ChunkHash::as_bytes));
            }
        }
        Some(Self::of_bytes(&bytes))
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        Self(ChunkHash::of(bytes))
    }
}

impl fmt::Display for ContentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The directory.
#[derive(Debug)]
pub(super) struct Assembled {
    dir: PathBuf,
    index: Mutex<Index>,
}

/// An assembled file that stays until this is dropped.
#[derive(Debug)]
struct Kept {
    assembled: Arc<Assembled>,
    name: ContentName,
}

impl Drop for Kept {
    fn drop(&mut self) {
        lock(&self.assembled.index).close(&self.name);
    }
}

/// An assembled file that the kernel reads for the handles of an inode. It may do so until this is dropped.
#[derive(Debug)]
pub(super) struct Backing {
    pub(super) id: BackingId,
    _kept: Kept,
}

/// The reason why a file was not assembled.
#[derive(Debug)]
pub(super) enum NotAssembled<E> {
    /// The open files leave no room for it.
    NoRoom,
    /// The directory's disk failed, or is full.
    Disk(io::Error),
    /// Its content was not read.
    Content(E),
}

impl<E> From<io::Error> for NotAssembled<E> {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl Assembled {
    /// Opens the directory, which is made if there is none. Removes files beyond `bytes_max`, and an unfinished one.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub(super) fn open(dir: &Path, bytes_max: u64) -> Result<Arc<Self>, FilesError> {
        let unwritable = |error: io::Error| FilesError::Unwritable(dir.to_owned(), error);
        make_directory(dir).map_err(|error| unwritable(io::Error::other(error)))?;
        let assembled = Self { dir: dir.to_owned(), index: Mutex::new(Index::new(bytes_max)) };
        assembled.find().map_err(unwritable)?;
        Ok(Arc::new(assembled))
    }

    /// Adds the files of earlier starts to the index, those that were assembled last as if they were opened last.
    fn find(&self) -> io::Result<()> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let (name, metadata) = (entry.file_name(), entry.metadata()?);
            match name.to_str().and_then(ChunkHash::parse) {
                Some(hash) if metadata.is_file() => {
                    left.push((metadata.modified()?, ContentName(hash), metadata.len()));
                }
                _ if name == UNFINISHED => fs::remove_file(entry.path())?,
                // None of its own.
                _ => {}
            }
        }
        left.sort_by_key(|(modified, ..)| *modified);
        let mut index = lock(&self.index);
        for (_, name, bytes) in left {
            index.add_left(name, on_disk(bytes));
        }
        index.trim().into_iter().try_for_each(|name| self.remove_file(&name))
    }

    /// Opens a file that is whole, for the kernel to read it. None if there is none, or none that was verified.
    pub(super) fn backing(self: &Arc<Self>, name: &ContentName, reply: &ReplyOpen) -> Option<Backing> {
        let (file, kept) = self.file(name)?;
        // It can be refused at any time, as without memory. Without it, the file is read as usual.
        let id = reply.open_backing(&file).ok()?;
        Some(Backing { id, _kept: kept })
    }

    fn file(self: &Arc<Self>, name: &ContentName) -> Option<(File, Kept)> {
        if lock(&self.index).open(name) != State::Verified {
            return None;
        }
        let kept = Kept { assembled: self.clone(), name: *name };
        match File::open(self.path(name)) {
            Ok(file) => Some((file, kept)),
            Err(error) => {
                drop(kept);
                if error.kind() == ErrorKind::NotFound {
                    // It was removed from outside.
                    lock(&self.index).remove(name);
                }
                None
            }
        }
    }

    /// Whether a file has to be assembled or verified, and could be.
    pub(super) fn lacks(&self, name: &ContentName, bytes: u64) -> bool {
        let index = lock(&self.index);
        match index.state(name) {
            State::Verified => false,
            State::Unverified => true,
            State::Absent => index.can_have(on_disk(bytes)),
        }
    }

    /// Assembles a file from its pieces, each with the place in the file behind it, unless it is there and whole.
    /// `read` returns the bytes of a piece. `look` is called before each piece, and its error ends the work.
    ///
    /// # Errors
    /// Without the file, everything is as before, except that others may have made room.
    pub(super) fn assemble<E>(
        &self,
        name: &ContentName,
        pieces: &[(u64, Piece)],
        mut look: impl FnMut() -> Result<(), E>,
        mut read: impl FnMut(&Piece) -> Result<Bytes, E>,
    ) -> Result<(), NotAssembled<E>> {
        match self.verify(name, pieces, &mut look)? {
            State::Verified => return Ok(()),
            State::Unverified => {
                self.remove_file(name)?;
                lock(&self.index).remove(name);
            }
            State::Absent => {}
        }
        let bytes = pieces.last().map_or(0, |(behind, _)| *behind);
        let removed = lock(&self.index).reserve(on_disk(bytes)).ok_or(NotAssembled::NoRoom)?;
        let written = removed.iter().try_for_each(|name| self.remove_file(name)).map_err(NotAssembled::Disk);
        let written = written.and_then(|()| self.write(name, bytes, pieces, |piece| look().and_then(|()| read(piece))));
        match written {
            Ok(()) => lock(&self.index).add(*name, on_disk(bytes)),
            Err(error) => {
                // A file that cannot be removed now is overwritten by the next one, or removed at the next start.
                let _ = fs::remove_file(self.dir.join(UNFINISHED));
                lock(&self.index).release_room();
                return Err(error);
            }
        }
        Ok(())
    }

    fn write<E>(
        &self,
        name: &ContentName,
        bytes: u64,
        pieces: &[(u64, Piece)],
        mut read: impl FnMut(&Piece) -> Result<Bytes, E>,
    ) -> Result<(), NotAssembled<E>> {
        let unfinished = self.dir.join(UNFINISHED);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&unfinished)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // A disk that is full is noticed before it is filled up. Some file systems cannot reserve room.
            Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        for (_, piece) in pieces {
            let bytes = read(piece).map_err(NotAssembled::Content)?;
            file.write_all(&bytes)?;
        }
        Ok(fs::rename(&unfinished, self.path(name))?)
    }

    /// Verifies a file of an earlier start: it stays unverified if it is not what its pieces say.
    fn verify<E>(
        &self,
        name: &ContentName,
        pieces: &[(u64, Piece)],
        look: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<State, NotAssembled<E>> {
        let state = lock(&self.index).state(name);
        if state != State::Unverified {
            return Ok(state);
        }
        let Ok(mut file) = File::open(self.path(name)) else { return Ok(State::Unverified) };
        if file.metadata()?.len() != pieces.last().map_or(0, |(behind, _)| *behind) {
            return Ok(State::Unverified);
        }
        let mut buffer = Vec::new();
        for (_, piece) in pieces {
            look().map_err(NotAssembled::Content)?;
            buffer.resize(piece.bytes as usize, 0);
            // A part of the disk that cannot be read is replaced, like one that is wrong.
            if file.read_exact(&mut buffer).is_err() || ChunkHash::of(&buffer) != piece.hash {
                return Ok(State::Unverified);
            }
        }
        lock(&self.index).verified(name);
        Ok(State::Verified)
    }

    /// A file that the kernel can be asked whether it would read it.
    pub(super) fn probe(&self) -> io::Result<File> {
        let path = self.dir.join(UNFINISHED);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(MODE).open(&path)?;
        fs::remove_file(path)?;
        Ok(file)
    }

    /// How many file systems may be below a mount of which this directory is a part. As few as are needed: those above
    /// the mount count, too, and the kernel has no more than two.
    pub(super) fn stack_depth(&self) -> u32 {
        let magic = statfs(&self.dir).map_or(0, |found| found.f_type as u64);
        if STACKED.contains(&magic) { 2 } else { 1 }
    }

    /// The number of files, and their bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        lock(&self.index).size()
    }

    fn path(&self, name: &ContentName) -> PathBuf {
        self.dir.join(name.to_string())
    }

    fn remove_file(&self, name: &ContentName) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The room that a file takes, about.
fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::{Folder, flip};
    use std::convert::Infallible;
    use std::os::unix::fs::MetadataExt;

    const WHOLE: u64 = 1 << 30;

    /// A file of pieces.
    struct Example {
        name: ContentName,
        pieces: Vec<(u64, Piece)>,
        content: Vec<u8>,
    }

    impl Example {
        fn new(seed: u8) -> Self {
            let content: Vec<u8> = (0..100_000_u32).map(|at| (at / 256) as u8 ^ seed).collect();
            let mut behind = 0;
            let pieces = content.chunks(30_000).map(|part| {
                behind += part.len() as u64;
                (behind, Piece { hash: ChunkHash::of(part), bytes: part.len() as u32 })
            });
            let pieces: Vec<_> = pieces.collect();
            Self { name: ContentName::of_bytes(&[seed]), pieces, content }
        }

        /// Assembles it, and returns how many pieces were read.
        fn assemble(&self, assembled: &Assembled) -> Result<usize, NotAssembled<Infallible>> {
            let mut read = 0;
            let piece = |piece: &Piece| {
                read += 1;
                let is_it = |(_, it): &&(u64, Piece)| it == piece;
                let (behind, _) = self.pieces.iter().find(is_it).unwrap();
                let part = *behind as usize - piece.bytes as usize..*behind as usize;
                Ok(Bytes::copy_from_slice(&self.content[part]))
            };
            assembled.assemble(&self.name, &self.pieces, || Ok(()), piece)?;
            Ok(read)
        }

        /// Its content, if it can be opened.
        fn read(&self, assembled: &Arc<Assembled>) -> Option<Vec<u8>> {
            let (mut file, _kept) = assembled.file(&self.name)?;
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            Some(content)
        }
    }

    #[test]
    fn only_large_content_has_a_name_by_what_it_is_made_of() {
        let name = |size: u64, content: Content| ContentName::of(&Kind::File { size, content, link: 0 });
        let hash = ChunkHash::of(b"");
        let pieces = |bytes: u32| Content::Pieces(vec![Piece { hash, bytes }]);
        assert_eq!(name(SIZE_MIN - 1, pieces(SIZE_MIN as u32 - 1)), None);
        let large = name(SIZE_MIN, pieces(SIZE_MIN as u32));
        assert!(large.is_some() && large == name(SIZE_MIN, pieces(SIZE_MIN as u32)));
        assert_ne!(large, name(SIZE_MIN + 1, pieces(SIZE_MIN as u32 + 1)));
        assert_ne!(large, name(SIZE_MIN, Content::Lists(vec![hash])));
        assert_eq!(ContentName::of(&Kind::Directory(hash)), None);
    }

    fn names(dir: &Folder) -> usize {
        fs::read_dir(dir.path()).unwrap().count()
    }

    #[test]
    fn a_file_is_assembled_once_and_readable_by_its_owner_alone() {
        let (dir, file) = (Folder::new(), Example::new(1));
        let assembled = Assembled::open(dir.path(), WHOLE).unwrap();
        assert!(assembled.lacks(&file.name, 100_000) && file.read(&assembled).is_none());
        assert_eq!(file.assemble(&assembled).unwrap(), 4);
        assert_eq!(file.read(&assembled).unwrap(), file.content);
        assert_eq!(file.assemble(&assembled).unwrap(), 0);
        assert!(!assembled.lacks(&file.name, 100_000));
        assert_eq!((assembled.size(), names(&dir)), ((1, 102_400), 1));
        assert_eq!(fs::metadata(assembled.path(&file.name)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn files_of_an_earlier_start_are_verified_and_damaged_ones_assembled_again() {
        let (dir, files) = (Folder::new(), [1, 2, 3].map(Example::new));
        let assembled = Assembled::open(dir.path(), WHOLE).unwrap();
        for file in &files {
            assert_eq!(file.assemble(&assembled).unwrap(), 4);
        }
        let paths = files.each_ref().map(|file| assembled.path(&file.name));
        drop(assembled);
        flip(&paths[1]);
        File::options().write(true).open(&paths[2]).unwrap().set_len(99_999).unwrap();
        fs::write(dir.path().join(UNFINISHED), "a part").unwrap();
        let again = Assembled::open(dir.path(), WHOLE).unwrap();
        assert_eq!((again.size().0, names(&dir)), (3, 3), "the unfinished file is removed");
        for (file, pieces_read) in files.iter().zip([0, 4, 4]) {
            assert_eq!(file.read(&again), None, "it was not verified");
            assert!(again.lacks(&file.name, 100_000));
            assert_eq!(file.assemble(&again).unwrap(), pieces_read);
            assert_eq!(file.read(&again).unwrap(), file.content);
        }
        // A lower bound, at the next start.
        drop(again);
        assert_eq!(Assembled::open(dir.path(), 250_000).unwrap().size(), (2, 204_800));
        assert_eq!(names(&dir), 2);
    }

    #[test]
    fn the_bound_holds_and_open_files_stay() {
        let (dir, files) = (Folder::new(), [1, 2, 3, 4].map(Example::new));
        let assembled = Assembled::open(dir.path(), 250_000).unwrap();
        assert!(!assembled.lacks(&files[0].name, 250_001), "a larger file than the bound is never assembled");
        files[0].assemble(&assembled).unwrap();
        let open = assembled.file(&files[0].name).unwrap();
        for file in &files[1..] {
            file.assemble(&assembled).unwrap();
            assert_eq!((assembled.size(), names(&dir)), ((2, 204_800), 2));
            assert_eq!(file.read(&assembled).unwrap(), file.content);
            assert_eq!(files[0].read(&assembled).unwrap(), files[0].content);
        }
        let other = assembled.file(&files[3].name).unwrap();
        assert!(!assembled.lacks(&files[1].name, 100_000));
        assert!(matches!(files[1].assemble(&assembled), Err(NotAssembled::NoRoom)));
        drop((open, other));
        files[1].assemble(&assembled).unwrap();
        assert_eq!(files[0].read(&assembled), None, "it was opened longest ago");
    }

    #[test]
    fn a_failure_leaves_nothing_and_the_room_as_it_was() {
        let (dir, file) = (Folder::new(), Example::new(1));
        let assembled = Assembled::open(dir.path(), 110_000).unwrap();
        let mut pieces = 0;
        let fails = |piece: &Piece| {
            pieces += 1;
            if pieces < 3 { Ok(Bytes::from(vec![0; piece.bytes as usize])) } else { Err("away") }
        };
        let failed = assembled.assemble(&file.name, &file.pieces, || Ok(()), fails);
        assert!(matches!(failed, Err(NotAssembled::Content("away"))));
        assert_eq!((assembled.size(), names(&dir)), ((0, 0), 0));
        assert_eq!(file.assemble(&assembled).unwrap(), 4);
        assert_eq!(file.read(&assembled).unwrap(), file.content);
        // A file that was removed from outside is assembled again.
        fs::remove_file(assembled.path(&file.name)).unwrap();
        assert_eq!(file.read(&assembled), None);
        assert_eq!(file.assemble(&assembled).unwrap(), 4);
    }
}
