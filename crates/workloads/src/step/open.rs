//! A path as a reader: a plain file, or a zip archive with one such file in it (`.ifczip`).

use super::read::Reader;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The endings that an archive's member is looked for by.
const ENDINGS: [&str; 5] = [".ifc", ".stp", ".step", ".p21", ".spf"];

/// The largest member of an archive that is unpacked, in bytes: a small archive must not fill the memory.
const UNPACKED_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

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
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    if magic == *b"PK\x03\x04" {
        return open_archive(path, file);
    }
    Ok(Reader::new(Box::new(BufReader::with_capacity(1 << 20, file)), Some(bytes_total)))
}

fn open_archive(path: &Path, file: File) -> Result<Reader, OpenError> {
    let bad = |error: &dyn fmt::Display| OpenError::Archive(path.to_owned(), error.to_string());
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|error| bad(&error))?;
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
