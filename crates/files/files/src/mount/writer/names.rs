//! Changes of names: each is a publish of its own, but for a file that is not published yet.

use super::Writer;
use super::edition::{Edition, Spot, Stop};
use crate::line::lock;
use crate::mount::nodes::{ROOT, now};
use crate::mount::views::NoAnswer;
use crate::mount::writes::{Draft, Made, Owner, Permit, Writes, link_of};
use crate::records::draw;
use bytes::Bytes;
use fuser::{Errno, FileAttr, RenameFlags};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;
use tree::limits::TARGET_BYTES_MAX;
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Path};

/// The bits of a mode that a directory passes on to what is made in it: its group, and for directories the bit itself.
const SET_GROUP: u16 = 0o2000;

impl Writer {
    /// Makes a directory, a link or an empty file.
    pub(super) fn make_name(
        &self,
        writes: &Writes,
        directory: u64,
        name: &OsStr,
        made: &Made,
        owner: Owner,
    ) -> Result<(Duration, FileAttr), Errno> {
        let ((spot, entry), revision) = self.publish(writes, |edition| {
            let spot = free(edition, writes, directory, name)?;
            let attributes = new_attributes(edition, directory, made, owner)?;
            let kind = match made {
                // The hash of a directory has no part in its inode.
                Made::Directory { .. } => Kind::Directory(ChunkHash::of(b"")),
                Made::File { .. } => Kind::File { size: 0, content: Content::Inline(Bytes::new()), link: 0 },
                Made::Symlink(target) if target.is_empty() => return Err(Errno::ENOENT.into()),
                Made::Symlink(target) if target.len() > TARGET_BYTES_MAX => return Err(Errno::ENAMETOOLONG.into()),
                Made::Symlink(target) => Kind::Symlink(target.clone()),
            };
            let entry = Entry { kind, attributes };
            match made {
                Made::Directory { .. } => edition.set_directory(&spot.path, entry.attributes.clone()),
                Made::File { .. } | Made::Symlink(_) => edition.set(&spot.path, None, entry.clone()),
            }
            edition.touch(directory)?;
            Ok((spot, entry))
        })?;
        let inode = {
            let mut nodes = lock(&self.mounted.nodes);
            let inode = nodes.enter(revision.number, directory, spot.name, entry.clone()).ok_or(Errno::ESTALE)?;
            nodes.change(inode);
            nodes.change(directory);
            inode
        };
        Ok(self.shown(self.mounted.attributes_of(inode, &entry)))
    }

    /// Makes a file, and opens it. It is published when it is closed.
    pub(super) fn create(
        &self,
        writes: &Writes,
        directory: u64,
        name: &OsStr,
        mode: u16,
        owner: Owner,
        permit: Permit,
    ) -> Result<(Duration, FileAttr, u64), Errno> {
        let ((spot, attributes), revision) = self.publish(writes, |edition| {
            let spot = free(edition, writes, directory, name)?;
            let attributes = new_attributes(edition, directory, &Made::File { mode }, owner)?;
            Ok((spot, attributes))
        })?;
        let kind = Kind::File { size: 0, content: Content::Inline(Bytes::new()), link: 0 };
        let entry = Entry { kind, attributes: attributes.clone() };
        let inode = {
            let mut nodes = lock(&self.mounted.nodes);
            let inode = nodes.enter_new(revision.number, directory, spot.name.clone(), entry);
            nodes.touch(directory, Some(now()));
            nodes.given_again(inode);
            inode
        };
        if directory == ROOT {
            self.mounted.touch_top();
        }
        let handle = {
            let mut drafts = lock(&writes.drafts);
            let draft = Draft::new_file(inode, attributes);
            if let Permit::Locked(granted) = permit {
                draft.set_lock(granted);
            }
            drafts.by_inode.insert(inode, Arc::new(draft));
            drafts.new.insert((directory, spot.name), inode);
            self.open_new(inode, true)
        };
        let attr = self.mounted.attributes(inode).map_err(NoAnswer::error)?;
        let (ttl, attr) = self.shown(attr);
        Ok((ttl, attr, handle))
    }

    /// Removes a name.
    pub(super) fn remove(&self, writes: &Writes, directory: u64, name: &OsStr, is_dir: bool) -> Result<(), Errno> {
        let ((spot, gone), _) = self.publish(writes, |edition| {
            let spot = edition.spot(directory, name)?;
            if let Some(draft) = writes.new_at(directory, &spot.name) {
                return if is_dir { Err(Errno::ENOTDIR.into()) } else { Ok((spot, Gone::New(draft))) };
            }
            let entry = spot.entry.clone().ok_or(Errno::ENOENT)?;
            match entry.directory() {
                Some(_) if !is_dir => return Err(Errno::EISDIR.into()),
                None if is_dir => return Err(Errno::ENOTDIR.into()),
                _ => {}
            }
            let gone = self.gone(writes, edition, &spot, &entry)?;
            edition.remove(&spot.path, &entry);
            edition.touch(directory)?;
            Ok((spot, gone))
        })?;
        self.forget(writes, &spot, gone);
        lock(&self.mounted.nodes).change(directory);
        Ok(())
    }

    /// Moves a name to another place, or exchanges the two.
    pub(super) fn rename(
        &self,
        writes: &Writes,
        from: &(u64, OsString),
        to: &(u64, OsString),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let exchanges = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if !(flags - RenameFlags::RENAME_EXCHANGE - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return Err(Errno::EINVAL);
        }
        let new = |place: &(u64, OsString)| {
            let name = Name::new(place.1.as_encoded_bytes()).ok()?;
            writes.new_at(place.0, &name)
        };
        let (source, target) = (new(from), new(to));
        if let Some(source) = &source {
            if target.is_none() && !exchanges && self.move_new(writes, source, from, to)? {
                return Ok(());
            }
            // It replaces a published file or exchanges names with it, so it must be published.
            self.publish_now(writes, source)?;
        }
        if let Some(target) = target.filter(|_| exchanges) {
            self.publish_now(writes, &target)?;
        }
        let (moved, _) = self.publish(writes, |edition| {
            let (source, target) = (edition.spot(from.0, &from.1)?, edition.spot(to.0, &to.1)?);
            let entry = source.entry.clone().ok_or(Errno::ENOENT)?;
            let is_within = |path: &Path, of: &Path| path != of && path.names().starts_with(of.names());
            let new = writes.new_at(to.0, &target.name);
            if flags.contains(RenameFlags::RENAME_NOREPLACE) && (target.entry.is_some() || new.is_some()) {
                return Err(Errno::EEXIST.into());
            }
            if is_within(&target.path, &source.path) {
                return Err(Errno::EINVAL.into());
            }
            let same = |other: &Entry| link_of(&entry).is_some() && link_of(&entry) == link_of(other);
            if source.path == target.path || target.entry.as_ref().is_some_and(same) {
                return Ok(None);
            }
            let mut gone = new.map(Gone::New);
            match target.entry.clone() {
                Some(other) if exchanges => {
                    if is_within(&source.path, &target.path) {
                        return Err(Errno::EINVAL.into());
                    }
                    edition.set(&source.path, Some(&entry), other.clone());
                    edition.set(&target.path, Some(&other), entry.clone());
                }
                None if exchanges => return Err(Errno::ENOENT.into()),
                other => {
                    if let Some(other) = &other {
                        gone = Some(self.gone_for(writes, edition, &target, other, &entry)?);
                    } else if gone.is_some() && entry.directory().is_some() {
                        return Err(Errno::ENOTDIR.into());
                    }
                    edition.remove(&source.path, &entry);
                    edition.set(&target.path, other.as_ref(), entry.clone());
                }
            }
            edition.touch(from.0)?;
            edition.touch(to.0)?;
            Ok(Some((source, target, gone)))
        })?;
        let Some((source, target, gone)) = moved else { return Ok(()) };
        let inodes = {
            let nodes = lock(&self.mounted.nodes);
            let inode = |spot: &Spot| nodes.number(spot.directory, &spot.name, spot.entry.as_ref()?);
            (inode(&source), inode(&target))
        };
        if let Some(gone) = gone {
            self.forget(writes, &target, gone);
        }
        let number = self.mounted.last().map(|revision| revision.number).unwrap_or_default();
        let mut nodes = lock(&self.mounted.nodes);
        let mut keep = |inode: Option<u64>, at: &Spot, entry: Option<Entry>| {
            if let Some((inode, entry)) = inode.zip(entry) {
                nodes.keep(inode, number, at.directory, at.name.clone(), entry);
                nodes.change(inode);
            }
        };
        keep(inodes.0, &target, source.entry.clone());
        if exchanges {
            keep(inodes.1, &source, target.entry.clone());
        }
        nodes.change(from.0);
        nodes.change(to.0);
        Ok(())
    }

    /// Renames an unpublished file to a name that is free. Returns whether it was.
    fn move_new(
        &self,
        writes: &Writes,
        draft: &Draft,
        from: &(u64, OsString),
        to: &(u64, OsString),
    ) -> Result<bool, Errno> {
        let ((source, target), revision) =
            self.publish(writes, |edition| Ok((edition.spot(from.0, &from.1)?, edition.spot(to.0, &to.1)?)))?;
        if target.entry.is_some() {
            return Ok(false);
        }
        let mut drafts = lock(&writes.drafts);
        drafts.new.remove(&(source.directory, source.name));
        drafts.new.insert((target.directory, target.name.clone()), draft.inode);
        lock(&self.mounted.nodes).move_new(draft.inode, revision.number, target.directory, target.name);
        for directory in [from.0, to.0] {
            lock(&self.mounted.nodes).touch(directory, Some(now()));
        }
        Ok(true)
    }

    /// Adds a name to a file.
    pub(super) fn link(
        &self,
        writes: &Writes,
        inode: u64,
        directory: u64,
        name: &OsStr,
    ) -> Result<(Duration, FileAttr), Errno> {
        if let Some(draft) = writes.draft(inode).filter(|draft| draft.is_new()) {
            self.publish_now(writes, &draft)?;
        }
        let ((at, entry), revision) = self.publish(writes, |edition| {
            let spot = free(edition, writes, directory, name)?;
            let at = edition.spot_of(inode)?;
            let before = at.entry.clone().ok_or(Errno::ENOENT)?;
            if lock(&self.mounted.nodes).number(at.directory, &at.name, &before) != Some(inode) {
                return Err(Errno::ESTALE.into());
            }
            // A tree has one node for each directory, and no number for links to symbolic links.
            let Kind::File { size, content, link } = before.kind.clone() else { return Err(Errno::EPERM.into()) };
            let link = if link > 0 { link } else { draw().map_err(|_| Errno::EIO)?.max(1) };
            let entry = Entry { kind: Kind::File { size, content, link }, attributes: before.attributes.clone() };
            for path in edition.names(&at.path, &before)? {
                edition.set(&path, Some(&before), entry.clone());
            }
            edition.set(&spot.path, None, entry.clone());
            edition.touch(directory)?;
            Ok((at, entry))
        })?;
        {
            let mut nodes = lock(&self.mounted.nodes);
            nodes.keep(inode, revision.number, at.directory, at.name, entry.clone());
            nodes.given_again(inode);
            nodes.change(inode);
            nodes.change(directory);
        }
        if let Some(draft) = writes.draft(inode) {
            draft.rebase(entry.clone());
        }
        Ok(self.shown(self.mounted.attributes_of(inode, &entry)))
    }

    /// The inode that loses a name when an entry is removed.
    fn gone(&self, writes: &Writes, edition: &Edition<'_>, spot: &Spot, entry: &Entry) -> Result<Gone, Stop> {
        let inode = lock(&self.mounted.nodes).number(spot.directory, &spot.name, entry);
        if let Some(node) = entry.directory() {
            let is_empty = edition.is_empty(node)? && inode.is_none_or(|inode| writes.new_in(inode).is_empty());
            return if is_empty { Ok(Gone::Inode(inode, None)) } else { Err(Errno::ENOTEMPTY.into()) };
        }
        let other = edition.names(&spot.path, entry)?.into_iter().find(|path| *path != spot.path);
        Ok(Gone::Inode(inode, other.map(|path| (path, entry.clone()))))
    }

    /// The inode that loses a name when an entry is replaced.
    fn gone_for(
        &self,
        writes: &Writes,
        edition: &Edition<'_>,
        spot: &Spot,
        entry: &Entry,
        by: &Entry,
    ) -> Result<Gone, Stop> {
        match (entry.directory(), by.directory()) {
            (Some(_), None) => Err(Errno::EISDIR.into()),
            (None, Some(_)) => Err(Errno::ENOTDIR.into()),
            _ => self.gone(writes, edition, spot, entry),
        }
    }

    /// The inode at a place is no longer there.
    fn forget(&self, writes: &Writes, spot: &Spot, gone: Gone) {
        match gone {
            Gone::New(draft) => {
                draft.set_removed();
                lock(&writes.drafts).new.remove(&(spot.directory, spot.name.clone()));
                lock(&self.mounted.nodes).remove(draft.inode);
                lock(&self.mounted.nodes).touch(spot.directory, Some(now()));
            }
            Gone::Inode(Some(inode), None) => {
                if let Some(draft) = writes.draft(inode) {
                    draft.set_removed();
                }
                lock(&self.mounted.nodes).remove(inode);
            }
            Gone::Inode(Some(inode), Some((path, entry))) => {
                let mut nodes = lock(&self.mounted.nodes);
                let number = self.mounted.last().map(|revision| revision.number).unwrap_or_default();
                if let Some((name, above)) = path.names().split_last()
                    && let Some(directory) = nodes.find(above)
                {
                    nodes.keep(inode, number, directory, name.clone(), entry);
                }
                nodes.change(inode);
            }
            Gone::Inode(None, _) => {}
        }
    }
}

/// An inode that loses a name.
enum Gone {
    /// A file that no revision has.
    New(Arc<Draft>),
    /// An inode, with another name that it has still.
    Inode(Option<u64>, Option<(Path, Entry)>),
}

/// A name that is free.
fn free(edition: &Edition<'_>, writes: &Writes, directory: u64, name: &OsStr) -> Result<Spot, Stop> {
    let spot = edition.spot(directory, name)?;
    let is_free = spot.entry.is_none() && writes.new_at(directory, &spot.name).is_none();
    if is_free { Ok(spot) } else { Err(Errno::EEXIST.into()) }
}

/// The attributes of something new in a directory.
fn new_attributes(edition: &Edition<'_>, directory: u64, made: &Made, owner: Owner) -> Result<Attributes, Stop> {
    let above = edition.directory(directory)?;
    let passes_on = above.mode & SET_GROUP != 0;
    let mode = match made {
        Made::Directory { mode } if passes_on => mode | SET_GROUP,
        Made::Directory { mode } | Made::File { mode } => *mode,
        Made::Symlink(_) => 0o777,
    };
    let gid = if passes_on { above.gid } else { owner.1 };
    Ok(Attributes { mode, uid: owner.0, gid, modified: now(), xattrs: Vec::new() })
}
