//! A path or a pipe as a reader: a plain file, or a zip archive with one such file in it (`.ifczip`).

use super::read::Reader;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The endings that an archive's member is looked for by.
const ENDINGS: [&str; 5] = [".ifc", ".stp", ".step", ".p21", ".spf"];

/// The largest member of an archive that is unpacked, in bytes: a small archive must not fill the memory.
const UNPACKED_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The largest archive that is taken from a pipe, in bytes.
const PIPED_ARCHIVE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The first bytes of an archive.
const ARCHIVE: &[u8] = b"PK\x03\x04";

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
                write!(f, "{} is an archive without a file that ends in {}", path.display(), ENDINGS.join(", "))
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
    if magic == ARCHIVE {
        return open_archive(path, BufReader::new(file));
    }
    Ok(Reader::new(Box::new(BufReader::with_capacity(1 << 20, file)), Some(bytes_total)))
}

/// The same for what can be read only once, such as a pipe; `name` is what errors call it. An archive has its table of
/// contents at its end, and is kept in memory.
pub fn read(mut input: Box<dyn BufRead + Send>, name: &Path) -> Result<Reader, OpenError> {
    let io = |error| OpenError::Io(name.to_owned(), error);
    let magic = magic(&mut input).map_err(io)?;
    let is_archive = magic == ARCHIVE;
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
    input.take(ARCHIVE.len() as u64).read_to_end(&mut magic)?;
    Ok(magic)
}

fn open_archive(path: &Path, file: impl BufRead + Seek) -> Result<Reader, OpenError> {
    let bad = |error: &dyn fmt::Display| OpenError::Archive(path.to_owned(), error.to_string());
    let mut archive = zip::ZipArchive::new(file).map_err(|error| bad(&error))?;
    let is_design = |name: &str| ENDINGS.iter().any(|ending| name.to_ascii_lowercase().ends_with(ending));
    let Some(name) = archive.file_names().find(|name| is_design(name)).map(str::to_owned) else {
        return Err(OpenError::NothingInside(path.to_owned()));
    };
    let member = archive.by_name(&name).map_err(|error| bad(&error))?;
    let mut text = Vec::new();
    // The archive borrows the file it reads from, so its member is unpacked at once, whatever size it claims to have.
    member.take(UNPACKED_BYTES_MAX).read_to_end(&mut text).map_err(|error| bad(&error))?;
    let bytes_total = text.len() as u64;
    Ok(Reader::new(Box::new(Cursor::new(text)), Some(bytes_total)))
}
