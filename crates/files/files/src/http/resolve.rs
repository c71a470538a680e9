//! The file at a path of a revision: directories have an index, and links inside of the site are followed.

use crate::http::refusal::Refusal;
use crate::view::View;
use percent_encoding::percent_decode_str;
use tree::{Entry, Kind, Path};

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

/// Finds the resource of a request's path, which begins with a slash.
pub(crate) fn resolve(view: &View<'_>, path: &str) -> Result<Resource, Refusal> {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let mut path = Path::parse(&decoded).map_err(|_| Refusal::Path)?;
    let mut is_directory = decoded.ends_with(b"/") || path.names().is_empty();
    for _ in 0..LINKS_MAX {
        if path.names().is_empty() {
            path = Path::parse(INDEX).map_err(|_| Refusal::Path)?;
        }
        let Some(entry) = follow_parents(view, &mut path)? else { continue };
        match &entry.kind {
            Kind::Directory(_) if !is_directory => return Ok(Resource::Slash),
            Kind::Directory(_) => {
                path = path.join(&tree::Name::new(INDEX).map_err(|_| Refusal::Path)?);
                is_directory = false;
            }
            Kind::Symlink(target) => path = inside(&path, target)?,
            Kind::File { .. } if is_directory && decoded.ends_with(b"/") && !path_is_index(&path) => {
                return Err(Refusal::NotFound);
            }
            Kind::File { .. } => {
                let name = path.names().last().map_or_else(String::new, ToString::to_string);
                return Ok(Resource::File(entry, name));
            }
        }
    }
    Err(Refusal::NotFound)
}

fn path_is_index(path: &Path) -> bool {
    path.names().last().is_some_and(|name| name.as_bytes() == INDEX)
}

/// The entry at a path. Where a name above it is a link, the path is changed to where the link leads, and there is no
/// entry yet.
fn follow_parents(view: &View<'_>, path: &mut Path) -> Result<Option<Entry>, Refusal> {
    let mut at = Path::ROOT;
    for (index, name) in path.names().iter().enumerate() {
        at.push(name.clone());
        let entry = view.find(&at)?;
        if index + 1 == path.names().len() {
            return Ok(Some(entry));
        }
        if let Kind::Symlink(target) = &entry.kind {
            let mut onto = inside(&at, target)?;
            path.names()[index + 1..].iter().for_each(|name| onto.push(name.clone()));
            *path = onto;
            return Ok(None);
        }
    }
    Err(Refusal::NotFound)
}

/// The path that a link leads to, if that is in the site.
fn inside(link: &Path, target: &[u8]) -> Result<Path, Refusal> {
    if target.starts_with(b"/") {
        return Err(Refusal::NotFound);
    }
    let mut path = link.clone();
    path.pop();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(path.pop().ok_or(Refusal::NotFound)?),
            part => path.push(tree::Name::new(part).map_err(|_| Refusal::NotFound)?),
        }
    }
    Ok(path)
}
