//! The file at a path of a revision: directories have an index, and links inside of the site are followed.

use crate::http::refusal::{Missed, Refusal};
use crate::reader::Reader;
use percent_encoding::percent_decode_str;
use tree::{ChunkHash, Entry, Kind, Name, Path};

/// The file that stands for a directory.
const INDEX: &[u8] = b"index.html";

/// Links that are followed for one request.
const LINKS_MAX: usize = 16;

/// The resource at a path.
#[derive(Debug)]
pub(crate) enum Resource {
    /// A file, and the name by which its type is known.
    File(Entry, String),
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

/// Finds the resource of a request's path, which begins with a slash, in the tree below a root.
pub(crate) fn resolve(reader: Reader<'_>, root: ChunkHash, path: &str) -> Result<Resource, Missed> {
    let decoded = decode(path).ok_or(Refusal::Path)?;
    let mut path = Path::parse(&decoded).map_err(|_| Refusal::Path)?;
    let mut wanted = if decoded.ends_with(b"/") { Wanted::Directory } else { Wanted::File };
    for _ in 0..LINKS_MAX {
        match (locate(reader, root, &mut path)?, wanted) {
            (Located::Moved, _) => {}
            (Located::Directory, Wanted::File) => return Ok(Resource::Slash),
            (Located::Directory, Wanted::Directory) => (path, wanted) = (index(&path)?, Wanted::Index),
            (Located::File(entry), Wanted::File | Wanted::Index) => {
                let name = path.names().last().map_or_else(String::new, ToString::to_string);
                return Ok(Resource::File(entry, name));
            }
            (Located::File(_), Wanted::Directory) | (Located::Directory, Wanted::Index) => {
                return Err(Refusal::NotFound.into());
            }
        }
    }
    Err(Refusal::NotFound.into())
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
    File(Entry),
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
            Kind::File { .. } if index + 1 == path.names().len() => return Ok(Located::File(entry)),
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
