//! The file at a path of a revision: directories have an index, and links inside of the site are followed.

use crate::http::refusal::{Missed, Refusal};
use crate::http::rules::is_hidden;
use crate::reader::Reader;
use percent_encoding::percent_decode_str;
use tree::{ChunkHash, Entry, Kind, Name, Path};

/// The file that stands for a directory.
const INDEX: &[u8] = b"index.html";

/// The file that stands for those that are missing, in its directory and below.
const MISSING: &[u8] = b"404.html";

/// Links that are followed for one request.
const LINKS_MAX: usize = 16;

/// The path of a request, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    path: Path,
    /// Whether it ends with a slash.
    is_directory: bool,
}

impl Asked {
    /// Decodes the path of a request; none if it is badly encoded, or climbs.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let decoded = decode(path)?;
        let path = Path::parse(&decoded).ok()?;
        Some(Self { path, is_directory: decoded.ends_with(b"/") })
    }

    /// The path as rules match it: without its first slash, and with one slash between names.
    pub(crate) fn text(&self) -> Vec<u8> {
        let names: Vec<&[u8]> = self.path.names().iter().map(Name::as_bytes).collect();
        let mut text = names.join(&b'/');
        if self.is_directory && !text.is_empty() {
            text.push(b'/');
        }
        text
    }
}

/// A file of a site.
#[derive(Debug)]
pub(crate) struct FileAt {
    /// The file.
    pub(crate) kind: Kind,
    /// The directory that it is in, where links lead to.
    pub(crate) directory: ChunkHash,
    /// Its name there.
    pub(crate) name: Name,
}

/// The resource at a path.
#[derive(Debug)]
pub(crate) enum Resource {
    /// A file.
    File(FileAt),
    /// A directory whose path was given without its slash.
    Slash,
}

/// The entry that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// A file, or a directory without its slash.
    File,
    /// A directory, whose path has its slash.
    Directory,
    /// The index of a directory.
    Index,
}

/// Finds the resource at a path in the tree below a root; none if there is none.
pub(crate) fn resolve(reader: Reader<'_>, root: ChunkHash, asked: &Asked) -> Result<Option<Resource>, Missed> {
    let wanted = if asked.is_directory { Wanted::Directory } else { Wanted::File };
    none_if_missing(resolve_wanted(reader, root, asked.path.clone(), wanted))
}

/// Finds the file at a path that may be a directory without its slash; none if there is none.
pub(crate) fn resolve_page(reader: Reader<'_>, root: ChunkHash, asked: &Asked) -> Result<Option<FileAt>, Missed> {
    let found = match resolve(reader, root, asked)? {
        Some(Resource::Slash) => resolve(reader, root, &Asked { is_directory: true, ..asked.clone() })?,
        found => found,
    };
    Ok(match found {
        Some(Resource::File(file)) => Some(file),
        Some(Resource::Slash) | None => None,
    })
}

/// Finds the page that a site has for missing files: the one that is nearest to a path, upward from its directory.
pub(crate) fn resolve_missing(reader: Reader<'_>, root: ChunkHash, asked: &Asked) -> Result<Option<FileAt>, Missed> {
    let missing = Name::new(MISSING).map_err(|_| Refusal::NotFound)?;
    let (mut directories, names) = (vec![root], asked.path.names());
    for name in names {
        let entry = reader.entry(directories[directories.len() - 1], name)?;
        let Some(below) = entry.and_then(|entry| entry.directory()) else { break };
        directories.push(below);
    }
    for (depth, directory) in directories.into_iter().enumerate().rev() {
        if reader.entry(directory, &missing)?.is_none() {
            continue;
        }
        let mut path = Path::ROOT;
        names[..depth].iter().chain([&missing]).for_each(|name| path.push(name.clone()));
        if let Some(file) = resolve_page(reader, root, &Asked { path, is_directory: false })? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn resolve_wanted(reader: Reader<'_>, root: ChunkHash, mut path: Path, mut wanted: Wanted) -> Result<Resource, Missed> {
    for _ in 0..LINKS_MAX {
        match (locate(reader, root, &mut path)?, wanted) {
            (Located::Moved, _) => {}
            (Located::Directory, Wanted::File) => return Ok(Resource::Slash),
            (Located::Directory, Wanted::Directory) => (path, wanted) = (index(&path)?, Wanted::Index),
            (Located::File(file), Wanted::File | Wanted::Index) if path.names().len() == 1 && is_hidden(&file.name) => {
                return Err(Refusal::NotFound.into());
            }
            (Located::File(file), Wanted::File | Wanted::Index) => return Ok(Resource::File(file)),
            (Located::File(_), Wanted::Directory) | (Located::Directory, Wanted::Index) => {
                return Err(Refusal::NotFound.into());
            }
        }
    }
    Err(Refusal::NotFound.into())
}

fn none_if_missing(found: Result<Resource, Missed>) -> Result<Option<Resource>, Missed> {
    match found {
        Err(Missed::Refused(Refusal::NotFound)) => Ok(None),
        found => found.map(Some),
    }
}

/// Decodes a path; none if a percent sign is not followed by two hexadecimal digits.
fn decode(path: &str) -> Option<Vec<u8>> {
    let is_encoded =
        |part: &str| part.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    path.split('%').skip(1).all(is_encoded).then(|| percent_decode_str(path).collect())
}

fn index(directory: &Path) -> Result<Path, Refusal> {
    Ok(directory.join(&Name::new(INDEX).map_err(|_| Refusal::Path)?))
}

/// The entry at a path.
enum Located {
    /// A directory, perhaps the root.
    Directory,
    File(FileAt),
    /// A name in the path is a link: the path is now the one that it leads to.
    Moved,
}

fn locate(reader: Reader<'_>, root: ChunkHash, path: &mut Path) -> Result<Located, Missed> {
    let mut directory = root;
    for (index, name) in path.names().iter().enumerate() {
        let entry = reader.entry(directory, name)?.ok_or(Refusal::NotFound)?;
        match &entry.kind {
            Kind::Directory(below) => directory = *below,
            Kind::Symlink(target) => {
                let mut onto = inside(&path.names()[..index], target)?;
                for name in &path.names()[index + 1..] {
                    onto.push(name.clone());
                }
                *path = onto;
                return Ok(Located::Moved);
            }
            Kind::File { .. } if index + 1 == path.names().len() => {
                let (Entry { kind, .. }, name) = (entry, name.clone());
                return Ok(Located::File(FileAt { kind, directory, name }));
            }
            Kind::File { .. } => return Err(Refusal::NotFound.into()),
        }
    }
    Ok(Located::Directory)
}

/// The path that a link in a directory leads to, if that is in the site.
fn inside(directory: &[Name], target: &[u8]) -> Result<Path, Refusal> {
    if target.starts_with(b"/") {
        return Err(Refusal::NotFound);
    }
    let mut path = Path::ROOT;
    directory.iter().cloned().for_each(|name| path.push(name));
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(path.pop().ok_or(Refusal::NotFound)?),
            part => path.push(Name::new(part).map_err(|_| Refusal::NotFound)?),
        }
    }
    Ok(path)
}
