//! The journal of private changes: one file, to which every change is appended before it is answered.
//!
//! ```text
//!   file    magic, key bytes u16, the site's key, frame *
//!   frame   bytes u32, first 16 bytes of the body's BLAKE3, body
//!   body    0 u8, life u64, count u64, root 32                    the site's revision that the changes are made to
//!           1 u8, update *                                        changes that were made together
//!   update  path, 0 u8                                            no change any longer
//!           path, flags u8, entry *                               the entries by the flags, in their order
//!   path    names u16, (bytes u8, the bytes) *
//! ```
//! All numbers are little-endian, entries are as in a node. The kernel has what is appended, so a kill loses nothing;
//! [`Journal::sync`] is for a loss of power. A file that ends within a frame, or with a frame that is not whole, lost
//! its end to one: it counts up to there. It is written again at each start, and when most of it is over.

use super::changes::{Change, Sent, Updates};
use crate::error::FilesError;
use bytes::{Buf, BufMut, Bytes};
use spread::{Number, Revision};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use tree::{ChunkHash, Entry, Malformed, Name, Path, decode_entry, encode_entry};

/// The file, and the one that takes its place.
const FILE: &str = "changes";
const TEMPORARY: &str = "changes.new";

const MAGIC: &[u8] = b"thorp private changes 1\n";
const CHECK_BYTES: usize = 16;

/// The kinds of a body.
const HEAD: u8 = 0;
const UPDATES: u8 = 1;

/// The flags of an update. Without `CHANGE`, there is no change any longer; without `BASE`, the site had no entry.
const CHANGE: u8 = 1;
const BASE: u8 = 2;
const OWN: u8 = 4;
const IS_SENT: u8 = 8;
const SENT: u8 = 16;
const IS_LOCAL: u8 = 32;

/// The updates of a frame, when all are written again.
const UPDATES_MAX: usize = 1000;

/// The bytes from which on a journal is written again while it is open, and how many times those needed they must be.
const SHORTEN_AFTER: u64 = 64 * 1024 * 1024;
const OVER_TIMES: u64 = 4;

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    /// The key of the site.
    site: String,
    file: File,
    bytes: u64,
    /// The bytes that were needed when it was last written as a whole.
    live_bytes: u64,
    /// The site's revision that it has last.
    head: Option<Revision>,
}

/// The state that a journal keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The site's revision that the changes were made to last.
    pub(super) head: Option<Revision>,
    pub(super) changes: BTreeMap<Path, Change>,
    /// The bytes behind the last whole frame, which a loss of power has left.
    pub(super) lost: usize,
}

impl Journal {
    /// Reads the journal of a site in a directory, and changes nothing. Without one, there are no changes.
    pub(super) fn read(dir: &FilePath, site: &str) -> Result<Kept, FilesError> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => decode(bytes.into(), site).map_err(|why| match why {
                Unfit::Other(of) => FilesError::OtherSite(dir.to_owned(), of),
                Unfit::NoJournal => FilesError::Unreadable(path, io::ErrorKind::InvalidData.into()),
                Unfit::Damaged => {
                    let why = "it is damaged: restore it, or move it away to begin without private changes";
                    FilesError::Unreadable(path, io::Error::new(io::ErrorKind::InvalidData, why))
                }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(error) => Err(FilesError::Unreadable(path, error)),
        }
    }

    /// Opens the journal in a directory, and writes it again without what is over. On a full disk, it stays as it is.
    pub(super) fn open(dir: &FilePath, site: &str) -> Result<(Self, Kept), FilesError> {
        let kept = Self::read(dir, site)?;
        let mut changes = kept.changes.iter();
        let is_whole = kept.lost == 0 && dir.join(FILE).is_file();
        let (file, bytes) = match write_all(dir, site, kept.head.as_ref(), &mut changes) {
            Err(FilesError::Unwritable(_, why)) if is_whole && why.kind() == io::ErrorKind::StorageFull => {
                open_to_append(&dir.join(FILE))?
            }
            written => written?,
        };
        let (dir, site) = (dir.to_owned(), site.to_owned());
        Ok((Self { dir, site, file, bytes, live_bytes: bytes, head: kept.head }, kept))
    }

    /// Writes the journal again, with these changes, if most of it is over. If that fails, the journal stays as it is,
    /// and is written again when it is a few times as long.
    pub(super) fn shorten<'a>(&mut self, mut changes: impl Iterator<Item = (&'a Path, &'a Change)>) {
        if self.bytes < SHORTEN_AFTER.max(OVER_TIMES * self.live_bytes) {
            return;
        }
        if let Ok((file, bytes)) = write_all(&self.dir, &self.site, self.head.as_ref(), &mut changes) {
            (self.file, self.bytes) = (file, bytes);
        }
        self.live_bytes = self.bytes;
    }

    /// Appends updates that are made together, and the site's revision that the changes are made to with them.
    pub(super) fn append(&mut self, head: &Revision, updates: &Updates) -> Result<(), FilesError> {
        let mut frames = Vec::new();
        put_frame(&mut frames, &of_updates(updates));
        if self.head != Some(*head) {
            put_frame(&mut frames, &of_head(head));
        }
        self.file.write_all(&frames).map_err(|error| {
            // A part of it would end the journal for the next start.
            let _ = self.file.set_len(self.bytes);
            FilesError::Unwritable(self.dir.join(FILE), error)
        })?;
        (self.bytes, self.head) = (self.bytes + frames.len() as u64, Some(*head));
        Ok(())
    }

    /// Makes everything that was appended durable.
    pub(super) fn sync(&self) -> Result<(), FilesError> {
        self.file.sync_data().map_err(|error| FilesError::Unwritable(self.dir.join(FILE), error))
    }
}

/// The reason why a file is not read as a journal.
#[derive(Debug, PartialEq, Eq)]
enum Unfit {
    NoJournal,
    /// The file is the journal of another site.
    Other(String),
    /// There are whole frames behind one that is not: no loss of power leaves that.
    Damaged,
}

/// Replaces the journal in a directory by one with these changes. Returns the file, and its length.
fn write_all(
    dir: &FilePath,
    site: &str,
    head: Option<&Revision>,
    changes: &mut dyn Iterator<Item = (&Path, &Change)>,
) -> Result<(File, u64), FilesError> {
    let (path, temporary) = (dir.join(FILE), dir.join(TEMPORARY));
    let mut bytes = Vec::new();
    bytes.put_slice(MAGIC);
    bytes.put_u16_le(site.len() as u16);
    bytes.put_slice(site.as_bytes());
    if let Some(head) = head {
        put_frame(&mut bytes, &of_head(head));
    }
    let mut updates = Updates::new();
    for (path, change) in changes {
        updates.push((path.clone(), Some(change.clone())));
        if updates.len() == UPDATES_MAX {
            put_frame(&mut bytes, &of_updates(&updates));
            updates.clear();
        }
    }
    put_frame(&mut bytes, &of_updates(&updates));
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| FilesError::Unwritable(path.clone(), error))?;
    open_to_append(&path)
}

fn open_to_append(path: &FilePath) -> Result<(File, u64), FilesError> {
    let unwritable = |error| FilesError::Unwritable(path.to_owned(), error);
    let file = OpenOptions::new().append(true).open(path).map_err(unwritable)?;
    let bytes = file.metadata().map_err(unwritable)?.len();
    Ok((file, bytes))
}

fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    out.put_u32_le(body.len() as u32);
    out.put_slice(&check(body));
    out.put_slice(body);
}

fn check(body: &[u8]) -> [u8; CHECK_BYTES] {
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&ChunkHash::of(body).as_bytes()[..CHECK_BYTES]);
    check
}

fn of_head(Revision { number, root }: &Revision) -> Vec<u8> {
    let mut body = vec![HEAD];
    body.put_u64_le(number.life);
    body.put_u64_le(number.count);
    body.put_slice(root.as_bytes());
    body
}

fn of_updates(updates: &Updates) -> Vec<u8> {
    let mut body = vec![UPDATES];
    for (path, change) in updates {
        body.put_u16_le(path.names().len() as u16);
        for name in path.names() {
            body.put_u8(name.as_bytes().len() as u8);
            body.put_slice(name.as_bytes());
        }
        let Some(Change { base, own, sent, is_local }) = change else {
            body.put_u8(0);
            continue;
        };
        let has_sent = sent.as_ref().is_some_and(|sent| sent.0.is_some());
        let flags = [
            (CHANGE, true),
            (BASE, base.is_some()),
            (OWN, own.is_some()),
            (IS_SENT, sent.is_some()),
            (SENT, has_sent),
            (IS_LOCAL, *is_local),
        ];
        body.put_u8(flags.iter().filter(|(_, is)| *is).map(|(flag, _)| flag).sum());
        let Some(name) = path.names().last() else { continue };
        for entry in [base.as_ref(), own.as_ref(), sent.as_ref().and_then(|sent| sent.0.as_ref())].into_iter().flatten()
        {
            encode_entry(&mut body, name, entry);
        }
    }
    body
}

fn decode(mut bytes: Bytes, site: &str) -> Result<Kept, Unfit> {
    if !bytes.starts_with(MAGIC) {
        return Err(Unfit::NoJournal);
    }
    bytes.advance(MAGIC.len());
    let key_bytes = bytes.try_get_u16_le().map_err(|_| Unfit::NoJournal)?;
    let key = take(&mut bytes, usize::from(key_bytes)).ok_or(Unfit::NoJournal)?;
    if key != site.as_bytes() {
        return Err(Unfit::Other(String::from_utf8_lossy(&key).into_owned()));
    }
    let mut kept = Kept::default();
    while !bytes.is_empty() {
        kept.lost = bytes.len();
        let from_here = bytes.clone();
        let read = frame(&mut bytes).and_then(|body| take_up(&mut kept, body));
        if read.is_none() {
            return if has_frame(&from_here.slice(1..)) { Err(Unfit::Damaged) } else { Ok(kept) };
        }
    }
    kept.lost = 0;
    Ok(kept)
}

/// The body of the next frame, if it is whole.
fn frame(bytes: &mut Bytes) -> Option<Bytes> {
    let length = bytes.try_get_u32_le().ok()?;
    let expected = take(bytes, CHECK_BYTES)?;
    take(bytes, length as usize).filter(|body| check(body) == expected[..])
}

/// Whether there is a whole frame somewhere.
fn has_frame(bytes: &Bytes) -> bool {
    (0..bytes.len()).any(|at| {
        let body = frame(&mut bytes.slice(at..));
        body.is_some_and(|body| take_up(&mut Kept::default(), body).is_some())
    })
}

/// Takes up what a body says. A body is taken as a whole, or not at all.
fn take_up(kept: &mut Kept, mut body: Bytes) -> Option<()> {
    match body.try_get_u8().ok()? {
        HEAD => {
            let number = Number { life: body.try_get_u64_le().ok()?, count: body.try_get_u64_le().ok()? };
            let mut root = [0; ChunkHash::BYTES];
            body.try_copy_to_slice(&mut root).ok()?;
            kept.head = Some(Revision { number, root: ChunkHash::from(root) });
        }
        UPDATES => {
            let mut updates = Updates::new();
            while !body.is_empty() {
                updates.push(update(&mut body)?);
            }
            for (path, change) in updates {
                match change {
                    Some(change) => drop(kept.changes.insert(path, change)),
                    None => drop(kept.changes.remove(&path)),
                }
            }
        }
        _ => return None,
    }
    Some(())
}

fn update(body: &mut Bytes) -> Option<(Path, Option<Change>)> {
    let mut path = Path::ROOT;
    for _ in 0..body.try_get_u16_le().ok()? {
        let length = body.try_get_u8().ok()?;
        path.push(Name::new(&take(body, usize::from(length))?).ok()?);
    }
    let flags = body.try_get_u8().ok()?;
    let has = |flag: u8| flags & flag != 0;
    let mut entry = |flag: u8| -> Result<Option<Entry>, Malformed> {
        has(flag).then(|| decode_entry(body).map(|(_, entry)| entry)).transpose()
    };
    let (base, own, sent) = (entry(BASE).ok()?, entry(OWN).ok()?, entry(SENT).ok()?);
    let sent = has(IS_SENT).then_some(Sent(sent));
    Some((path, has(CHANGE).then_some(Change { base, own, sent, is_local: has(IS_LOCAL) })))
}

fn take(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (bytes.len() >= length).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::Folder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use tree::{Attributes, Content, Kind};

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes()).unwrap()
    }

    fn entry(text: &'static str) -> Entry {
        let content = Content::Inline(Bytes::from(text));
        Entry {
            kind: Kind::File { size: text.len() as u64, content, link: 0 },
            attributes: Attributes { mode: 0o644, ..Attributes::default() },
        }
    }

    fn head() -> Revision {
        Revision { number: Number { life: 5, count: 17 }, root: ChunkHash::of(b"root") }
    }

    fn changes() -> Updates {
        let change = |base, own, sent, is_local| Some(Change { base, own, sent, is_local });
        vec![
            (path("a"), change(Some(entry("old")), Some(entry("new")), None, true)),
            (path("dir/b"), change(Some(entry("old")), None, Some(Sent(None)), false)),
            (path("dir/c"), change(None, Some(entry("new")), Some(Sent(Some(entry("sent")))), false)),
        ]
    }

    #[test]
    fn changes_are_there_after_a_start() {
        let dir = Folder::new();
        let (mut journal, nothing) = Journal::open(dir.path(), "main/shop").unwrap();
        assert_eq!(nothing, Kept::default());
        journal.append(&head(), &changes()).unwrap();
        journal.append(&head(), &vec![(path("a"), None)]).unwrap();
        let changes: BTreeMap<Path, Change> =
            changes().into_iter().skip(1).filter_map(|(path, change)| Some((path, change?))).collect();
        let expected = Kept { head: Some(head()), changes, lost: 0 };
        assert_eq!(Journal::read(dir.path(), "main/shop").unwrap(), expected);
        // They are written again without what is over.
        let before = fs::metadata(dir.path().join(FILE)).unwrap().len();
        let (mut journal, kept) = Journal::open(dir.path(), "main/shop").unwrap();
        assert_eq!(kept, expected);
        assert!(fs::metadata(dir.path().join(FILE)).unwrap().len() < before);
        journal.append(&head(), &vec![(path("z"), None)]).unwrap();
        assert_eq!(Journal::open(dir.path(), "main/shop").unwrap().1, expected);
        let other = Journal::open(dir.path(), "main/other").unwrap_err();
        assert_eq!(other.name(), "other-site");
        fs::write(dir.path().join(FILE), "something else").unwrap();
        assert_eq!(Journal::open(dir.path(), "main/shop").unwrap_err().name(), "unreadable");
    }

    /// Another layout needs another number in the magic.
    #[test]
    fn a_journal_has_the_documented_bytes() {
        let dir = Folder::new();
        let (mut journal, _) = Journal::open(dir.path(), "main/shop").unwrap();
        journal.append(&head(), &changes()).unwrap();
        let bytes = fs::read(dir.path().join(FILE)).unwrap();
        let hash = ChunkHash::of(&bytes).to_string();
        let golden = "fcd77b4155d00a958eb363f6905991f1ca4a53af2afd8657ee93ea84e2649eee";
        assert_eq!((bytes.len(), hash.as_str()), (400, golden));
    }

    #[test]
    fn a_journal_of_which_most_is_over_is_written_again() {
        let dir = Folder::new();
        let (mut journal, _) = Journal::open(dir.path(), "main/shop").unwrap();
        let left: BTreeMap<Path, Change> =
            changes().into_iter().filter_map(|(path, change)| Some((path, change?))).collect();
        journal.append(&head(), &changes()).unwrap();
        journal.shorten(left.iter());
        let before = journal.bytes;
        assert_eq!(before, 400, "there is nothing to gain yet");
        let over: Updates = (0..100_000).map(|file| (path(&format!("over/{file}")), None)).collect();
        while journal.bytes < SHORTEN_AFTER {
            journal.append(&head(), &over).unwrap();
        }
        journal.shorten(left.iter());
        assert!(journal.bytes <= before, "{}", journal.bytes);
        journal.append(&head(), &vec![(path("a"), None)]).unwrap();
        let kept = Journal::read(dir.path(), "main/shop").unwrap();
        assert_eq!((kept.head, kept.changes.len(), kept.lost), (Some(head()), left.len() - 1, 0));
    }

    #[test]
    fn a_journal_that_ends_within_a_frame_counts_up_to_there() {
        let dir = Folder::new();
        let (mut journal, _) = Journal::open(dir.path(), "main/shop").unwrap();
        journal.append(&head(), &vec![(path("a"), None)]).unwrap();
        let whole = fs::read(dir.path().join(FILE)).unwrap();
        journal.append(&head(), &changes()).unwrap();
        let more = fs::read(dir.path().join(FILE)).unwrap();
        for end in whole.len() + 1..more.len() {
            let kept = decode(Bytes::copy_from_slice(&more[..end]), "main/shop").unwrap();
            assert_eq!((kept.changes.len(), kept.lost), (0, end - whole.len()));
            let mut flipped = more.clone();
            flipped[end] ^= 1;
            assert_eq!(decode(flipped.into(), "main/shop").unwrap().changes.len(), 0, "{end}");
        }
        // A loss of power leaves no whole frame behind a damaged one.
        let mut damaged = more;
        damaged[whole.len() - 1] ^= 1;
        assert_eq!(decode(damaged.into(), "main/shop"), Err(Unfit::Damaged));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(body in vec(any::<u8>(), 0..200), bytes in vec(any::<u8>(), 0..100)) {
            let mut kept = Kept::default();
            let _ = take_up(&mut kept, body.into());
            let _ = decode([MAGIC, &bytes].concat().into(), "main/shop");
        }
    }
}
