//! The record of a member's directory: the revisions that are there as a whole, or whose directories are.
//!
//! ```text
//!   "THMB" | format u32 | bytes u16, space | bytes u16, site | key of visitors 32 | refuses u32
//!   (life u64, count u64, root 32) *                                           the oldest first; the last is served
//!   BLAKE3 of all of it
//! ```
//! The format is 1, or 2 if only the directories are there. The record is replaced as a whole. A member with a damaged
//! one begins without a revision: the chunks that are there need not be fetched again.
//!
//! A member removes every chunk that its revisions do not need. So its first write to a directory is a record without
//! revisions, which marks the directory as a member's, and it refuses chunks in a directory without a record.

use crate::error::FilesError;
use crate::local::{CHUNKS, STORE_MARKER};
use bytes::{Buf, BufMut, Bytes};
use spread::member_work::State;
use spread::messages::{VisitorKey, WhenStale};
use spread::{Number, Revision, SiteKey};
use std::io;
use std::path::Path;
use tree::{ChunkHash, Parts};
use vfs::{Directory, Files, read_small, replace_small};

/// The name of the file.
const NAME: &str = "site";
const MAGIC: &[u8; 4] = b"THMB";
const WHOLE: u32 = 1;
const DIRECTORIES: u32 = 2;
const KEY_BYTES: usize = 32;

/// The largest record: that of all revisions that a member keeps, and more.
const BYTES_MAX: u64 = 64 * 1024;

/// Takes a directory for a member of this site. A new one is marked as a member's before anything else is in it, so a
/// start that is killed at any point can be repeated.
///
/// # Errors
/// [`FilesError::NotMembers`] for the directory of a store and for one whose chunks are not a member's,
/// [`FilesError::OtherSite`], and a directory that cannot be read or written.
pub(super) fn claim(dir: &Path, key: &SiteKey) -> Result<(), FilesError> {
    let names = Directory::new(dir).list();
    let names = names.map_err(|error| FilesError::Unreadable(dir.to_owned(), io::Error::other(error)))?;
    let has = |name: &str| names.iter().any(|it| it == name);
    if has(STORE_MARKER) {
        return Err(FilesError::NotMembers(dir.to_owned(), "is the directory of a store"));
    }
    if dir.join(NAME).is_file() {
        return read(dir, key).map(drop);
    }
    if has(CHUNKS) {
        return Err(FilesError::NotMembers(dir.to_owned(), "has chunks that no server of a site has fetched"));
    }
    let nothing = State {
        parts: Parts::Whole,
        revisions: Vec::new(),
        visitor_key: VisitorKey([0; KEY_BYTES]),
        when_stale: WhenStale::default(),
    };
    write(dir, key, &nothing)
}

/// Reads the record of a directory that is for this site. A site that never had a revision there does not keep
/// other sites out.
pub(super) fn read(dir: &Path, key: &SiteKey) -> Result<Option<State>, FilesError> {
    let files = Directory::new(dir);
    let Ok(bytes) = read_small(&files, NAME, BYTES_MAX) else { return Ok(None) };
    let Some((found, state)) = decode(bytes.into()).filter(|(_, state)| !state.revisions.is_empty()) else {
        return Ok(None);
    };
    if found == *key {
        return Ok(Some(state));
    }
    Err(FilesError::OtherSite(dir.to_owned(), format!("{}/{}", found.space, found.name)))
}

/// Replaces the record.
pub(super) fn write(dir: &Path, key: &SiteKey, state: &State) -> Result<(), FilesError> {
    replace_small(&Directory::new(dir), NAME, &encode(key, state))
        .map_err(|error| FilesError::Unwritable(dir.join(NAME), io::Error::other(error)))
}

fn encode(key: &SiteKey, State { parts, revisions, visitor_key, when_stale }: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_slice(MAGIC);
    bytes.put_u32_le(if *parts == Parts::Whole { WHOLE } else { DIRECTORIES });
    for text in [&key.space, &key.name] {
        bytes.put_u16_le(text.len() as u16);
        bytes.put_slice(text.as_bytes());
    }
    bytes.put_slice(&visitor_key.0);
    bytes.put_u32_le(u32::from(*when_stale == WhenStale::Refuse));
    for Revision { number, root } in revisions {
        bytes.put_u64_le(number.life);
        bytes.put_u64_le(number.count);
        bytes.put_slice(root.as_bytes());
    }
    let hash = ChunkHash::of(&bytes);
    bytes.put_slice(hash.as_bytes());
    bytes
}

fn decode(mut bytes: Bytes) -> Option<(SiteKey, State)> {
    let hash = bytes.split_off(bytes.len().checked_sub(ChunkHash::BYTES)?);
    if ChunkHash::of(&bytes).as_bytes()[..] != hash[..] || !bytes.starts_with(MAGIC) {
        return None;
    }
    bytes.advance(MAGIC.len());
    let parts = match bytes.try_get_u32_le().ok()? {
        WHOLE => Parts::Whole,
        DIRECTORIES => Parts::Directories,
        _ => return None,
    };
    let (space, name) = (text(&mut bytes)?, text(&mut bytes)?);
    let mut visitor_key = [0; KEY_BYTES];
    bytes.try_copy_to_slice(&mut visitor_key).ok()?;
    let when_stale = *WhenStale::ALL.get(bytes.try_get_u32_le().ok()? as usize)?;
    let mut revisions = Vec::new();
    while !bytes.is_empty() {
        let number = Number { life: bytes.try_get_u64_le().ok()?, count: bytes.try_get_u64_le().ok()? };
        let mut root = [0; ChunkHash::BYTES];
        bytes.try_copy_to_slice(&mut root).ok()?;
        revisions.push(Revision { number, root: root.into() });
    }
    Some((SiteKey { space, name }, State { parts, revisions, visitor_key: VisitorKey(visitor_key), when_stale }))
}

fn text(bytes: &mut Bytes) -> Option<String> {
    let length = usize::from(bytes.try_get_u16_le().ok()?);
    let text = (length <= bytes.len()).then(|| bytes.split_to(length))?;
    String::from_utf8(text.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::Folder;
    use std::fs;

    fn sample() -> (SiteKey, State) {
        let revision = |life, count| Revision { number: Number { life, count }, root: ChunkHash::of(b"root") };
        let revisions = vec![revision(1, 2), revision(3, 4)];
        let key = SiteKey { space: "main".to_owned(), name: "shop".to_owned() };
        let (visitor_key, when_stale) = (VisitorKey([7; KEY_BYTES]), WhenStale::Refuse);
        (key, State { parts: Parts::Whole, revisions, visitor_key, when_stale })
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let (key, state) = sample();
        let bytes = encode(&key, &state);
        let golden = b"THMB\x01\0\0\0\x04\0main\x04\0shop";
        assert_eq!((&bytes[..20], bytes.len()), (&golden[..], 20 + 32 + 4 + 2 * 48 + 32));
        assert_eq!(decode(bytes.into()), Some((key.clone(), state.clone())));
        let state = State { parts: Parts::Directories, ..state };
        let bytes = encode(&key, &state);
        assert_eq!((bytes[4], decode(bytes.into())), (2, Some((key, state))));
    }

    #[test]
    fn a_directory_is_taken_when_it_is_new_or_a_members() {
        let folder = Folder::new();
        let (key, state) = sample();
        let other = SiteKey { name: "other".to_owned(), ..key.clone() };
        let refused = |dir: &Path, key| claim(dir, key).unwrap_err().name();
        let dir = folder.path().join("new");
        fs::create_dir(&dir).unwrap();
        // Killed behind the mark, and when there were chunks, before the first revision.
        for _ in 0..2 {
            claim(&dir, &key).unwrap();
            assert_eq!(read(&dir, &key).unwrap(), None);
            fs::create_dir_all(dir.join(CHUNKS)).unwrap();
        }
        claim(&dir, &other).unwrap();
        write(&dir, &key, &state).unwrap();
        claim(&dir, &key).unwrap();
        assert_eq!(read(&dir, &key).unwrap(), Some(state));
        assert_eq!(refused(&dir, &other), "other-site");
        // A damaged record is a member's.
        fs::write(dir.join(NAME), "THMB").unwrap();
        claim(&dir, &other).unwrap();
        fs::write(dir.join(STORE_MARKER), "").unwrap();
        assert_eq!(refused(&dir, &key), "not-members");
        let dir = folder.path().join("chunks-alone");
        fs::create_dir_all(dir.join(CHUNKS)).unwrap();
        assert_eq!(refused(&dir, &key), "not-members");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing was written");
    }

    #[test]
    fn a_damaged_record_is_none() {
        let (key, state) = sample();
        let bytes = encode(&key, &state);
        for length in 0..bytes.len() {
            assert_eq!(decode(Bytes::copy_from_slice(&bytes[..length])), None);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(damaged.into()), None, "byte {at}");
        }
    }
}
