//! Edits of the newest revision, and their publish.

use crate::error::FilesError;
use crate::line::lock;
use crate::mount::nodes::{Place, ROOT, Top, now};
use crate::mount::special;
use crate::mount::views::{Mounted, NoAnswer, Wait};
use crate::mount::writes::{Writes, link_of};
use crate::upload::Made;
use fuser::Errno;
use spread::Revision;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tree::limits::DEPTH_MAX;
use tree::{Attributes, BadName, ChunkHash, Edit, Entry, Growth, Name, Path, Time, apply};

/// The newest revision with edits.
pub(super) struct Edition<'a> {
    mounted: &'a Mounted,
    writes: &'a Writes,
    base: Revision,
    edits: BTreeMap<Path, Edit>,
    growth: Growth,
}

/// A name in a directory of the newest revision.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) directory: u64,
    pub(super) name: Name,
    pub(super) path: Path,
    /// The entry of that name.
    pub(super) entry: Option<Entry>,
}

/// The reason why an edit is not made.
#[derive(Debug)]
pub(super) enum Stop {
    /// The program gets an error.
    Error(Errno),
    /// A newer revision has come in between.
    Again,
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Error(error)
    }
}

impl From<NoAnswer> for Stop {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Error(error) => Self::Error(error),
            NoAnswer::Later(_) | NoAnswer::Elsewhere(_) => Self::Again,
        }
    }
}

impl<'a> Edition<'a> {
    pub(super) fn of(mounted: &'a Mounted, writes: &'a Writes, base: Revision) -> Self {
        Self { mounted, writes, base, edits: BTreeMap::new(), growth: Growth::default() }
    }

    pub(super) fn has_edits(&self) -> bool {
        !self.edits.is_empty()
    }

    /// A name in a directory.
    pub(super) fn spot(&self, directory: u64, name: &OsStr) -> Result<Spot, Stop> {
        if special::is_special(directory) {
            return Err(Errno::EROFS.into());
        }
        let name = Name::new(name.as_bytes()).map_err(|why| match why {
            BadName::TooLong => Errno::ENAMETOOLONG,
            BadName::Empty | BadName::Dots | BadName::Separator => Errno::EINVAL,
        })?;
        let above = lock(&self.mounted.nodes).path(directory).ok_or(Errno::ENOENT)?;
        if above.top != Top::Newest {
            return Err(Errno::EROFS.into());
        }
        if above.below.len() >= DEPTH_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let (directory_in, _) = self.mounted.directory(directory, Wait::default())?;
        if directory_in.revision != self.base {
            return Err(Stop::Again);
        }
        let entry = self.mounted.entry(directory_in, &name)?;
        if entry.is_none() && directory == ROOT && special::is_name(&name) {
            return Err(Errno::EPERM.into());
        }
        let mut path = Path::ROOT;
        above.below.into_iter().for_each(|(_, name)| path.push(name));
        path.push(name.clone());
        Ok(Spot { directory, name, path, entry })
    }

    /// The place of an inode, and the entry that is there now.
    pub(super) fn spot_of(&self, inode: u64) -> Result<Spot, Stop> {
        let place = lock(&self.mounted.nodes).get(inode).map(|node| node.place.clone()).ok_or(Errno::ESTALE)?;
        let Place::In { directory, name, .. } = place else { return Err(Errno::EROFS.into()) };
        self.spot(directory, OsStr::from_bytes(name.as_bytes()))
    }

    /// The attributes of a directory.
    pub(super) fn directory(&self, directory: u64) -> Result<Attributes, Stop> {
        if directory == ROOT {
            return Ok(self.mounted.top());
        }
        let entry = self.spot_of(directory)?.entry.filter(|entry| entry.directory().is_some());
        Ok(entry.ok_or(Errno::ENOENT)?.attributes)
    }

    /// Whether a directory has no entry.
    pub(super) fn is_empty(&self, node: ChunkHash) -> Result<bool, Stop> {
        let entries = tree::Tree::new(self.mounted.origin.source(), self.base.root).entries(node);
        let entries = entries.map_err(|error| self.mounted.failed(FilesError::from(error).into()))?;
        Ok(entries.is_empty())
    }

    /// All paths of a file that is at one.
    pub(super) fn names(&self, path: &Path, entry: &Entry) -> Result<Vec<Path>, Stop> {
        let Some(link) = link_of(entry) else { return Ok(vec![path.clone()]) };
        let names = lock(&self.writes.links).names(&self.mounted.origin.source(), self.base.root, link);
        let names = names.map_err(|error| self.mounted.failed(error.into()))?;
        Ok(if names.is_empty() { vec![path.clone()] } else { names.into_iter().collect() })
    }

    /// Makes the entry at a path another one.
    pub(super) fn set(&mut self, path: &Path, before: Option<&Entry>, after: Entry) {
        self.growth.add(before, Some(&after));
        self.edits.insert(path.clone(), Edit::Set(path.clone(), after));
    }

    /// Changes the attributes of a directory, or makes an empty one.
    pub(super) fn set_directory(&mut self, path: &Path, attributes: Attributes) {
        self.edits.insert(path.clone(), Edit::Directory(path.clone(), attributes));
    }

    /// Removes a file, a link or an empty directory, or a directory that is set elsewhere.
    pub(super) fn remove(&mut self, path: &Path, before: &Entry) {
        self.growth.add(Some(before), None);
        self.edits.insert(path.clone(), Edit::Remove(path.clone()));
    }

    /// Notes that a name in a directory was changed. The root has no attributes in a tree.
    pub(super) fn touch(&mut self, directory: u64) -> Result<(), Stop> {
        if directory == ROOT {
            self.mounted.touch_top();
            return Ok(());
        }
        self.touch_at(directory, now())
    }

    /// Notes that a new file appears in a directory: at the time of its creation, unless the time of the directory was
    /// changed since.
    pub(super) fn touch_for_new(&mut self, directory: u64) -> Result<(), Stop> {
        let touched = lock(&self.mounted.nodes).get(directory).and_then(|node| node.own.touched);
        touched.map_or(Ok(()), |at| self.touch_at(directory, at))
    }

    fn touch_at(&mut self, directory: u64, at: Time) -> Result<(), Stop> {
        let Spot { path, entry, .. } = self.spot_of(directory)?;
        let attributes = entry.ok_or(Errno::ENOENT)?.attributes;
        self.set_directory(&path, Attributes { modified: attributes.modified.max(at), ..attributes });
        Ok(())
    }

    /// Publishes the edits, merged with concurrent publishes by others. Returns the revision that has them.
    pub(super) fn publish(self) -> Result<Revision, FilesError> {
        let edits: Vec<Edit> = self.edits.into_values().collect();
        let mut nodes = Made::default();
        let root = apply(&self.mounted.origin.source(), self.base.root, &edits, &mut nodes)?;
        if root == self.base.root {
            return Ok(self.base);
        }
        let (site, locks) = (self.mounted.origin.site(), self.writes.locks_of(&edits));
        let published = self.writes.target.publish(site, self.base, root, &nodes.0, self.growth, locks.clone());
        if let Err(FilesError::LockOver(_)) = &published {
            self.writes.locks_are_over(&locks);
        }
        published
    }
}
