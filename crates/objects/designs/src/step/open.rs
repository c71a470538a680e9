//! A path or a pipe as a reader: a plain file, or a zip archive with one such file in it (`.ifczip`).

use super::read::{BYTE_ORDER_MARK, Reader};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The endings by which the design in an archive is found. Without such a name, the contents tell.
const ENDINGS: [&str; 5] = [".ifc", ".stp", ".step", ".p21", ".spf"];

/// Members of an archive whose beginnings are looked at.
const MEMBERS_MAX: usize = 100;

/// The bytes of a beginning that show whether it is that of a design.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;

/// The largest member of an archive that is unpacked, in bytes: a small archive must not fill the memory.
const UNPACKED_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The largest archive that is taken from a pipe, in bytes.
const PIPED_ARCHIVE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The first bytes of an archive, of one without members, and of a part of one.
const ARCHIVES: [&[u8]; 3] = [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"];

/// The first token of a file.
const FIRST_TOKEN: &[u8] = b"ISO-10303-21";

/// Returns whether a design begins with these bytes: a file of ISO 10303-21, behind blanks, comments and a byte order
/// mark, or a zip archive. `None`: more bytes will tell.
pub fn begins_like_a_design(bytes: &[u8]) -> Option<bool> {
    let is_begun = |token: &[u8]| token.starts_with(bytes);
    if ARCHIVES.iter().any(|magic| bytes.starts_with(magic)) {
        return Some(true);
    }
    if ARCHIVES.iter().any(|magic| is_begun(magic)) || is_begun(BYTE_ORDER_MARK) {
        return None;
    }
    let mut rest = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start();
    while let Some(comment) = rest.strip_prefix(b"/*") {
        let end = comment.windows(2).position(|two| two == b"*/")?;
        rest = comment[end + 2..].trim_ascii_start();
    }
    match rest {
        [] | b"/" => None,
        rest if rest.starts_with(FIRST_TOKEN) => Some(true),
        rest => {
            if FIRST_TOKEN.starts_with(rest) {
                None
            } else {
                Some(false)
            }
        }
    }
}

/// Why a path could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file could not be read.
    Io(PathBuf, std::io::Error),
    /// It is an archive that cannot be unpacked.
    Archive(PathBuf, String),
    /// It is an archive without a design in it.
    NothingInside(PathBuf),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Archive(path, why) => write!(f, "cannot unpack {}: {why}", path.display()),
            Self::NothingInside(path) => {
                let expected = "expected an ISO 10303-21 file (IFC, STEP)";
                write!(f, "{} is an archive without a design: {expected}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens an ISO 10303-21 file, plain or zipped. Whether it is one shows at the first statement.
pub fn open(path: &Path) -> Result<Reader, OpenError> {
    let io = |error| OpenError::Io(path.to_owned(), error);
    let mut file = File::open(path).map_err(io)?;
    let bytes_total = file.metadata().map_err(io)?.len();
    let magic = magic(&mut file).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    if ARCHIVES.contains(&&*magic) {
        return open_archive(path, BufReader::new(file));
    }
    Ok(Reader::new(Box::new(BufReader::with_capacity(1 << 20, file)), Some(bytes_total)))
}

/// The same for what can be read only once, such as a pipe; `name` is what errors call it. An archive has its table of
/// contents at its end, and is kept in memory.
pub fn read(mut input: Box<dyn BufRead + Send>, name: &Path) -> Result<Reader, OpenError> {
    let io = |error| OpenError::Io(name.to_owned(), error);
    let magic = magic(&mut input).map_err(io)?;
    let is_archive = ARCHIVES.contains(&&*magic);
    let mut input = Cursor::new(magic).chain(input);
    if !is_archive {
        return Ok(Reader::new(Box::new(input), None));
    }
    let mut archive = Vec::new();
    input.by_ref().take(PIPED_ARCHIVE_BYTES_MAX + 1).read_to_end(&mut archive).map_err(io)?;
    if archive.len() as u64 > PIPED_ARCHIVE_BYTES_MAX {
        let why = format!("it is larger than {} MiB, and a pipe: load it from a file", PIPED_ARCHIVE_BYTES_MAX >> 20);
        return Err(OpenError::Archive(name.to_owned(), why));
    }
    open_archive(name, Cursor::new(archive))
}

fn magic(input: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut magic = Vec::new();
    input.take(ARCHIVES[0].len() as u64).read_to_end(&mut magic)?;
    Ok(magic)
}

fn open_archive(path: &Path, file: impl BufRead + Seek) -> Result<Reader, OpenError> {
    let bad = |error: &dyn fmt::Display| OpenError::Archive(path.to_owned(), error.to_string());
    let mut archive = zip::ZipArchive::new(file).map_err(|error| bad(&error))?;
    let Some(at) = find_design(&mut archive) else { return Err(OpenError::NothingInside(path.to_owned())) };
    let member = archive.by_index(at).map_err(|error| bad(&error))?;
    let mut text = Vec::new();
    // The archive borrows the file it reads from, so its member is unpacked at once, whatever size it claims to have.
    member.take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| bad(&error))?;
    let bytes_total = text.len() as u64;
    if bytes_total > UNPACKED_BYTES_MAX {
        let why = format!("its design is larger than {} MiB: unpack it first", UNPACKED_BYTES_MAX >> 20);
        return Err(OpenError::Archive(path.to_owned(), why));
    }
    Ok(Reader::new(Box::new(Cursor::new(text)), Some(bytes_total)))
}

/// The member of an archive that is a design: by its name, or else by its contents.
fn find_design(archive: &mut zip::ZipArchive<impl Read + Seek>) -> Option<usize> {
    let is_named = |name: &str| ENDINGS.iter().any(|ending| name.to_ascii_lowercase().ends_with(ending));
    let named = (0..archive.len()).find(|&at| archive.name_for_index(at).is_some_and(is_named));
    named.or_else(|| (0..archive.len().min(MEMBERS_MAX)).find(|&at| is_design(archive, at)))
}

fn is_design(archive: &mut zip::ZipArchive<impl Read + Seek>, at: usize) -> bool {
    let mut beginning = Vec::new();
    let Ok(member) = archive.by_index(at) else { return false };
    // Archives in archives are not opened.
    member.take(BEGINNING_BYTES_MAX as u64).read_to_end(&mut beginning).is_ok()
        && !ARCHIVES.iter().any(|magic| beginning.starts_with(magic))
        && begins_like_a_design(&beginning) == Some(true)
}
