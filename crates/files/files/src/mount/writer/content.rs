//! Changes of attributes and content. A file that is being written is published with its attributes.

use super::Writer;
use super::edition::{Edition, Spot, Stop};
use crate::error::FilesError;
use crate::line::lock;
use crate::mount::handles::{Handle, OpenFile};
use crate::mount::nodes::{ROOT, Top, now};
use crate::mount::special;
use crate::mount::views::{Mounted, NoAnswer, Wait};
use crate::mount::writes::{Asked, Change, Draft, Owner, Permit, Snapshot, Writes, has_writer};
use bytes::Bytes;
use fuser::{Errno, FileAttr, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyOpen, TimeOrNow};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};
use tree::limits::XATTRS_BYTES_MAX;
use tree::{Attributes, Entry, Kind, Path, Time};

/// Extended attributes that are a file system's own business: access lists, which this one has not.
const ACCESS_LISTS: &[u8] = b"system.";

/// How long the holder of a lock is waited for: a lease and a bit, after which it has lost the lock.
const LOCK_WITHIN: Duration = Duration::from_secs(15);

impl Mounted {
    /// Opens a file to be written, under the lock of its path. The wait for the lock is on a thread of its own.
    pub(in crate::mount) fn open_written(self: &Arc<Self>, inode: u64, reply: ReplyOpen) {
        if special::is_special(inode) {
            return reply.error(Errno::EROFS);
        }
        let (mounted, path) = (self.clone(), self.path_of(inode));
        self.with_lock(path, move |granted| match (granted, &mounted.writes) {
            (Ok(permit), Some(writes)) => writes.ask(Change::Open { inode, permit, reply }),
            (Err(error), _) => reply.error(error),
            (_, None) => reply.error(Errno::EROFS),
        });
    }

    /// Makes a file, and opens it, under the lock of its path.
    pub(in crate::mount) fn create(
        self: &Arc<Self>,
        directory: u64,
        name: OsString,
        mode: u16,
        owner: Owner,
        reply: ReplyCreate,
    ) {
        let (mounted, path) = (self.clone(), self.path_in(directory, &name));
        self.with_lock(path, move |granted| match (granted, &mounted.writes) {
            (Ok(permit), Some(writes)) => writes.ask(Change::Create { directory, name, mode, owner, permit, reply }),
            (Err(error), _) => reply.error(error),
            (_, None) => reply.error(Errno::EROFS),
        });
    }

    /// Locks a path, unless this mount has it locked, and calls `go_on` with the lock.
    fn with_lock(self: &Arc<Self>, path: Path, go_on: impl FnOnce(Result<Permit, Errno>) + Send + 'static) {
        let Some(writes) = self.writes.as_ref().filter(|writes| !writes.has_lock(&path)) else {
            return go_on(Ok(Permit::Held));
        };
        if let Some(kept) = writes.take_kept_lock(&path) {
            return go_on(Ok(Permit::Locked(kept)));
        }
        let mounted = self.clone();
        let take = move || {
            let Some(writes) = &mounted.writes else { return go_on(Err(Errno::EROFS)) };
            go_on(match writes.target.lock(mounted.origin.site(), &path, LOCK_WITHIN) {
                Ok(lock) => Ok(lock.map_or(Permit::Unlocked, Permit::Locked)),
                Err(FilesError::Locked(..)) => Err(Errno::EBUSY),
                // With so many files open, this one is compared only when it is published.
                Err(FilesError::ServerFull(_)) => Ok(Permit::Unlocked),
                Err(error) => {
                    mounted.report(format!("{path} could not be locked: {error}"));
                    Err(Errno::EIO)
                }
            });
        };
        // Without a thread, the reply is dropped, and the open fails with EIO.
        if let Err(error) = thread::Builder::new().name("mount-lock".to_owned()).spawn(take) {
            self.trouble("a file could not be locked", &FilesError::Thread(error));
        }
    }

    /// Publishes an open file that was closed, if it was written and no other process shares the descriptor. The upload
    /// is on a thread of its own, so that a large file keeps no other change waiting.
    pub(in crate::mount) fn close_draft(self: &Arc<Self>, handle: u64, process: u32, reply: ReplyEmpty) {
        let file = self.handles.file(handle).filter(|file| file.is_written);
        let draft = file.and_then(|file| self.draft(file.inode)).filter(|draft| draft.is_dirty());
        let draft = draft.filter(|draft| !has_writer(process, draft.inode));
        let Some(draft) = draft else { return reply.ok() };
        let inode = draft.inode;
        let mounted = self.clone();
        let publish = move || {
            let Some(writes) = &mounted.writes else { return reply.ok() };
            let content = mounted.upload(writes, &draft);
            writes.ask(Change::Close { inode, content, reply });
        };
        // Without a thread, the reply is dropped, and the close fails with EIO.
        if let Err(error) = thread::Builder::new().name("mount-upload".to_owned()).spawn(publish) {
            self.trouble("a file could not be published", &FilesError::Thread(error));
        }
    }

    /// Puts a draft's content as it is now into the store.
    fn upload(&self, writes: &Writes, draft: &Draft) -> Result<Snapshot, FilesError> {
        let mut content = writes.target.content(self.origin.site());
        let snapshot = draft.snapshot(&mut content)?;
        Ok(snapshot.kept_by(content.end()?))
    }

    /// Whether a change of an open file's content copies what the site has of it.
    pub(in crate::mount) fn copies(&self, handle: u64) -> bool {
        self.written(handle).is_ok_and(|(_, _, draft)| draft.copies(u64::MAX))
    }

    /// Makes a change that copies what the site has of a file, on a thread of its own: the content may have to be
    /// fetched, while other requests are answered.
    pub(in crate::mount) fn copying(self: &Arc<Self>, change: impl FnOnce(&Self) + Send + 'static) {
        let mounted = self.clone();
        // Without a thread, the reply is dropped, and the change fails with EIO.
        if let Err(error) = thread::Builder::new().name("mount-copy".to_owned()).spawn(move || change(&mounted)) {
            self.trouble("a file could not be changed", &FilesError::Thread(error));
        }
    }

    /// Asks for a change of attributes. A file that is open, and that is cut or extended, is copied before.
    pub(in crate::mount) fn set(self: &Arc<Self>, inode: u64, asked: Asked, reply: ReplyAttr) {
        let Some(writes) = &self.writes else { return reply.error(Errno::EROFS) };
        let size = asked.size.unwrap_or_default();
        let draft = writes.draft(inode).filter(|draft| draft.copies(size));
        let Some((draft, file)) = draft.zip(self.opened(inode, asked.handle)) else {
            return writes.ask(Change::Set { inode, asked, reply });
        };
        self.copying(move |mounted| {
            let Some(writes) = &mounted.writes else { return reply.error(Errno::EROFS) };
            let read_base = |offset, bytes| mounted.read_site(&file, offset, bytes).map_err(NoAnswer::error);
            match draft.copy_base(&writes.scratch, &mounted.path_of(inode), &read_base, size) {
                Ok(()) => writes.ask(Change::Set { inode, asked, reply }),
                Err(error) => reply.error(error),
            }
        });
    }

    /// A file that is open: by this handle, or by any.
    fn opened(&self, inode: u64, handle: Option<u64>) -> Option<Arc<OpenFile>> {
        let file = handle.and_then(|handle| self.handles.file(handle));
        file.or_else(|| self.handles.files().into_iter().find(|file| file.inode == inode))
    }

    /// Cuts or extends an open file that is being written.
    fn truncate(&self, writes: &Writes, file: &OpenFile, draft: &Draft, size: u64) -> Result<(), Errno> {
        let read_base = |offset, bytes| self.read_site(file, offset, bytes).map_err(NoAnswer::error);
        draft.truncate(&writes.scratch, &self.path_of(draft.inode), &read_base, size)
    }

    /// Makes an open file at least this large.
    pub(in crate::mount) fn extend(&self, handle: u64, size: u64) -> Result<(), Errno> {
        let (writes, file, draft) = self.written(handle)?;
        if draft.now().1 < size { self.truncate(writes, &file, &draft, size) } else { Ok(()) }
    }

    /// Makes a part of an open file zeros.
    pub(in crate::mount) fn clear(&self, handle: u64, part: Range<u64>) -> Result<(), Errno> {
        let (writes, file, draft) = self.written(handle)?;
        let read_base = |offset, bytes| self.read_site(&file, offset, bytes).map_err(NoAnswer::error);
        draft.clear(&writes.scratch, &self.path_of(file.inode), &read_base, part)
    }

    /// An open file that is being written.
    fn written(&self, handle: u64) -> Result<(&Writes, Arc<OpenFile>, Arc<Draft>), Errno> {
        let file = self.handles.file(handle).ok_or(Errno::EBADF)?;
        let draft = self.draft(file.inode).ok_or(Errno::EBADF)?;
        Ok((self.writes.as_ref().ok_or(Errno::EBADF)?, file, draft))
    }

    /// Writes to an open file. The path is for people who find it set aside.
    pub(in crate::mount) fn write(&self, handle: u64, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (writes, file, draft) = self.written(handle)?;
        let read_base = |offset, bytes| self.read_site(&file, offset, bytes).map_err(NoAnswer::error);
        draft.write(&writes.scratch, &self.path_of(file.inode), &read_base, offset, bytes)
    }
}

impl Writer {
    /// Opens a file to be written, or one that is being written to be read.
    pub(super) fn open(&self, writes: &Writes, inode: u64, permit: Permit) -> Result<u64, Errno> {
        let is_written = !matches!(permit, Permit::Read);
        let Permit::Locked(granted) = permit else { return self.open_as(writes, inode, is_written) };
        if let Some((head, _)) = granted.head() {
            // From this revision on, no other publisher changes it.
            self.wait_for(|number| number.count >= head)?;
        }
        match self.open_as(writes, inode, is_written) {
            Ok(handle) => {
                if let Some(draft) = writes.draft(inode) {
                    draft.set_lock(granted);
                }
                Ok(handle)
            }
            Err(error) => {
                // The last holder has published, so the kernel looks the path up again, and opens another inode.
                writes.keep_lock(granted);
                Err(error)
            }
        }
    }

    fn open_as(&self, writes: &Writes, inode: u64, is_written: bool) -> Result<u64, Errno> {
        if writes.draft(inode).is_some_and(|draft| draft.is_new()) {
            return Ok(self.open_new(inode, is_written));
        }
        let wait = Wait { since: None, is_over: true };
        let (file, top, entry) =
            self.mounted.with_content(|| self.mounted.open_file(inode, wait)).map_err(NoAnswer::error)?;
        let file = if is_written { file.written() } else { file };
        let handle = self.mounted.handles.add(Handle::File(Arc::new(file)));
        if !is_written {
            return Ok(handle);
        }
        if top != Top::Newest {
            self.mounted.close(handle);
            return Err(Errno::EROFS);
        }
        let mut drafts = lock(&writes.drafts);
        drafts.by_inode.entry(inode).or_insert_with(|| {
            // Its inode is needed after the kernel has forgotten it: until it is published.
            lock(&self.mounted.nodes).given_again(inode);
            Arc::new(Draft::of_entry(inode, entry))
        });
        Ok(handle)
    }

    /// Publishes a file with the content that it had when it was closed.
    pub(super) fn close(
        &self,
        writes: &Writes,
        inode: u64,
        content: Result<Snapshot, FilesError>,
    ) -> Result<(), Errno> {
        let Some(draft) = writes.draft(inode) else { return Ok(()) };
        let snapshot = content.map_err(|error| self.refused(&error))?;
        self.publish_draft(writes, &draft, &snapshot)
    }

    /// Publishes a file as it is now.
    pub(super) fn publish_now(&self, writes: &Writes, draft: &Draft) -> Result<(), Errno> {
        let snapshot = self.mounted.upload(writes, draft).map_err(|error| self.refused(&error))?;
        self.publish_draft(writes, draft, &snapshot)
    }

    /// Publishes a draft, if the site still has what it was made from (rule CompareBase).
    fn publish_draft(&self, writes: &Writes, draft: &Draft, snapshot: &Snapshot) -> Result<(), Errno> {
        let is_new = draft.is_new();
        let published = self.publish(writes, |edition| {
            if draft.now().2 {
                return Ok(None);
            }
            let spot = edition.spot_of(draft.inode)?;
            // Another change of this mount may have been published since the upload.
            let base = draft.base();
            if base != spot.entry {
                return Err(Errno::ESTALE.into());
            }
            let entry = rebased(snapshot, base.as_ref());
            for path in base.as_ref().map_or(Ok(vec![spot.path.clone()]), |base| edition.names(&spot.path, base))? {
                edition.set(&path, base.as_ref(), entry.clone());
            }
            if base.is_none() {
                edition.touch_for_new(spot.directory)?;
            }
            Ok(Some((spot, entry)))
        });
        let (published, revision) = published.inspect_err(|_| draft.refused())?;
        let Some((spot, entry)) = published else { return Ok(()) };
        draft.published(snapshot, entry.clone());
        {
            let mut nodes = lock(&self.mounted.nodes);
            nodes.keep(draft.inode, revision.number, spot.directory, spot.name.clone(), entry);
            if is_new {
                nodes.touch(spot.directory, None);
            }
        }
        // Last: a lookup finds the inode at the draft or in the revision.
        lock(&writes.drafts).new.remove(&(spot.directory, spot.name));
        Ok(())
    }

    /// Forgets a draft that no program has open. Unpublished content is set aside.
    pub(super) fn release(&self, writes: &Writes, inode: u64) {
        let Some(draft) = writes.draft(inode).filter(|_| !self.mounted.handles.has(inode)) else { return };
        // Pages of a mapping that were written behind the close, and those of a program that was killed.
        if draft.is_unpublished() && !draft.was_refused() {
            // The error has no program any longer: it is reported, and the file set aside.
            let _ = self.publish_now(writes, &draft);
        }
        let mut drafts = lock(&writes.drafts);
        if self.mounted.handles.has(inode) {
            return;
        }
        drafts.by_inode.remove(&inode);
        drafts.new.retain(|_, of| *of != inode);
        if draft.is_unpublished() {
            self.set_aside(writes, &draft);
            if draft.is_new() {
                lock(&self.mounted.nodes).remove(inode);
            }
        }
        lock(&self.mounted.nodes).forget(inode, 1);
    }

    fn set_aside(&self, writes: &Writes, draft: &Draft) {
        let path = self.mounted.path_of(draft.inode);
        let report = match draft.set_aside(&writes.scratch) {
            Some(Ok(to)) => format!("{path} could not be published, and is kept in {}", to.display()),
            Some(Err(error)) => format!("{path} could not be published or be set aside: {error}"),
            None => return,
        };
        self.mounted.report(report);
    }

    /// The mount is over: what is open was not published.
    pub(super) fn end(&self, writes: &Writes) {
        let drafts: Vec<Arc<Draft>> = lock(&writes.drafts).by_inode.values().cloned().collect();
        for draft in drafts.iter().filter(|draft| draft.is_dirty()) {
            self.set_aside(writes, draft);
        }
    }

    /// Sets attributes and the size of an inode.
    pub(super) fn set(&self, writes: &Writes, inode: u64, asked: &Asked) -> Result<FileAttr, Errno> {
        if inode == ROOT {
            self.mounted.set_top(|top| *top = with(top, asked));
            return self.mounted.attributes(inode).map_err(NoAnswer::error);
        }
        if let Some(size) = asked.size {
            self.resize(writes, inode, size, asked.handle)?;
        }
        let is_more = asked.mode.is_some() || asked.uid.is_some() || asked.gid.is_some() || asked.modified.is_some();
        if is_more {
            self.set_attributes(writes, inode, |attributes| Ok(with(attributes, asked)))?;
        }
        let mut nodes = lock(&self.mounted.nodes);
        if let Some(accessed) = asked.accessed {
            nodes.set_accessed(inode, time(accessed));
        }
        nodes.change(inode);
        drop(nodes);
        self.mounted.attributes(inode).map_err(NoAnswer::error)
    }

    /// Sets an extended attribute or, without a value, removes it.
    pub(super) fn set_xattr(
        &self,
        writes: &Writes,
        inode: u64,
        name: &OsStr,
        value: Option<&Bytes>,
        flags: i32,
    ) -> Result<(), Errno> {
        if inode == ROOT || name.as_bytes().starts_with(ACCESS_LISTS) {
            return Err(Errno::EOPNOTSUPP);
        }
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.set_attributes(writes, inode, |attributes| {
            let mut xattrs = attributes.xattrs.clone();
            let found = xattrs.binary_search_by(|(other, _)| other.cmp(&name));
            match (found, value) {
                (Ok(_), Some(_)) if flags & libc_flags::CREATE != 0 => return Err(Errno::EEXIST),
                (Err(_), Some(_)) if flags & libc_flags::REPLACE != 0 => return Err(Errno::NO_XATTR),
                (Err(_), None) => return Err(Errno::NO_XATTR),
                (Ok(at), Some(value)) => xattrs[at].1 = value.clone(),
                (Err(at), Some(value)) => xattrs.insert(at, (name.clone(), value.clone())),
                (Ok(at), None) => drop(xattrs.remove(at)),
            }
            let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
            if bytes > XATTRS_BYTES_MAX {
                return Err(Errno::ENOSPC);
            }
            Ok(Attributes { xattrs, ..attributes.clone() })
        })?;
        lock(&self.mounted.nodes).change(inode);
        Ok(())
    }

    /// Changes the attributes of an inode in the site, or in the draft of a file that is being written.
    fn set_attributes(
        &self,
        writes: &Writes,
        inode: u64,
        change: impl Fn(&Attributes) -> Result<Attributes, Errno>,
    ) -> Result<(), Errno> {
        if let Some(draft) = writes.draft(inode).filter(|draft| draft.is_unpublished() || draft.now().2) {
            // They are published with its content.
            draft.set_attributes(change(&draft.now().0)?, true);
            return Ok(());
        }
        let (set, revision) = self.publish(writes, |edition| {
            let (spot, before) = self.current(edition, inode)?;
            let attributes = change(&before.attributes)?;
            let after = Entry { attributes: attributes.clone(), ..before.clone() };
            if after != before {
                match before.directory() {
                    Some(_) => edition.set_directory(&spot.path, attributes),
                    None => {
                        for path in edition.names(&spot.path, &before)? {
                            edition.set(&path, Some(&before), after.clone());
                        }
                    }
                }
            }
            Ok((spot, after))
        })?;
        let (spot, entry) = set;
        lock(&self.mounted.nodes).keep(inode, revision.number, spot.directory, spot.name, entry.clone());
        if let Some(draft) = writes.draft(inode) {
            draft.set_attributes(entry.attributes.clone(), false);
            draft.rebase(entry);
        }
        Ok(())
    }

    /// The place of an inode with what is there, which is still the inode.
    fn current(&self, edition: &Edition<'_>, inode: u64) -> Result<(Spot, Entry), Stop> {
        let spot = edition.spot_of(inode)?;
        let entry = spot.entry.clone().ok_or(Errno::ENOENT)?;
        let is_it = lock(&self.mounted.nodes).number(spot.directory, &spot.name, &entry) == Some(inode);
        if is_it { Ok((spot, entry)) } else { Err(Errno::ESTALE.into()) }
    }

    /// Cuts or extends a file. Unless a program has it open to be written, it is published at once.
    fn resize(&self, writes: &Writes, inode: u64, size: u64, handle: Option<u64>) -> Result<(), Errno> {
        let opened = if writes.draft(inode).is_some() { None } else { Some(self.open_as(writes, inode, true)?) };
        let cut = match (self.mounted.opened(inode, handle.or(opened)), writes.draft(inode)) {
            (Some(file), Some(draft)) => self.mounted.truncate(writes, &file, &draft, size),
            _ => Err(Errno::ESTALE),
        };
        let Some(handle) = opened else { return cut };
        let published = cut.and_then(|()| match writes.draft(inode) {
            Some(draft) => self.publish_now(writes, &draft),
            None => Ok(()),
        });
        self.mounted.close(handle);
        self.release(writes, inode);
        published
    }
}

/// The flags of `setxattr`.
mod libc_flags {
    pub(super) const CREATE: i32 = 1;
    pub(super) const REPLACE: i32 = 2;
}

/// The entry of a snapshot, where the site's may have got names or attributes since.
fn rebased(snapshot: &Snapshot, base: Option<&Entry>) -> Entry {
    let mut entry = snapshot.entry.clone();
    if let (Kind::File { link, .. }, Some(Kind::File { link: now, .. })) = (&mut entry.kind, base.map(|it| &it.kind)) {
        *link = *now;
    }
    entry
}

/// Attributes with those that are set.
fn with(attributes: &Attributes, asked: &Asked) -> Attributes {
    Attributes {
        mode: asked.mode.unwrap_or(attributes.mode),
        uid: asked.uid.unwrap_or(attributes.uid),
        gid: asked.gid.unwrap_or(attributes.gid),
        modified: asked.modified.map_or(attributes.modified, time),
        xattrs: attributes.xattrs.clone(),
    }
}

/// A time that is set.
fn time(asked: TimeOrNow) -> Time {
    let TimeOrNow::SpecificTime(at) = asked else { return now() };
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => Time { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() },
        Err(before) => {
            // Nanoseconds count forward from the second before.
            let before = before.duration();
            let (seconds, nanoseconds) = (before.as_secs().cast_signed(), before.subsec_nanos());
            if nanoseconds == 0 {
                Time { seconds: -seconds, nanoseconds: 0 }
            } else {
                Time { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds }
            }
        }
    }
}
