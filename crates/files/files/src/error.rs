//! The errors of published files, each with a name and the remedy.

use chunks::ChunkError;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::task::JoinError;
#[cfg(feature = "fuse")]
use tree::ApplyError;
use tree::{ChunkHash, MergeError, PathError, ReadError};
use types::said;

/// The reason why something was not published or cannot be read.
#[derive(Debug)]
pub enum FilesError {
    /// A name that no site can have.
    SiteName(String),
    /// The store has no site of this name.
    NoSite(String),
    /// The store has a site of this name already.
    IsThere(String),
    /// The site does not have this revision, or no longer.
    NoRevision(String, u64),
    /// The site has no such path in this revision.
    NoPath(String),
    /// The path leads to an entry of another kind.
    WrongKind(String, &'static str),
    /// Another publish came first.
    Overtaken {
        /// The site.
        site: String,
        /// The revision that this publish was made from.
        base: u64,
        /// The head by now.
        head: u64,
    },
    /// The newest revision has changed what a publish changes, too.
    Conflict {
        /// The site.
        site: String,
        /// The revision that this publish was made from.
        base: u64,
        /// The head by now.
        head: u64,
        /// The first paths that both have changed.
        paths: String,
    },
    /// The site has changed what is changed in a private mount, too.
    PrivateConflict {
        /// The site.
        site: String,
        /// The site's revision that the mount has taken up.
        head: u64,
        /// The first paths in conflict.
        paths: String,
    },
    /// A publish of private changes is under way.
    Publishing,
    /// A directory has private changes of a mount, and is about to be used without them.
    PrivateChanges(PathBuf, usize),
    /// The revision that a publish was made from is not kept, so it cannot be merged.
    NotKept {
        /// The site.
        site: String,
        /// The revision that this publish was made from.
        base: u64,
    },
    /// A lock under which a publish changes a path has ended.
    LockOver(String),
    /// Another publisher has locked a path of a site, and has not released it in time.
    Locked(String, String),
    /// Two trees have too many changes to be merged.
    TooManyChanges,
    /// The newest revision of a copy is not one of those that would be copied before it.
    Diverged {
        /// The site, as the copy names it.
        site: String,
        /// The newest revision of the copy.
        head: u64,
        /// The newest revision of its source.
        newest: u64,
    },
    /// A revision that is copied needs a chunk that cannot be read.
    NotWhole {
        /// The site.
        site: String,
        /// The revision.
        revision: u64,
        /// The first path that needs the chunk.
        path: String,
        /// The reason why it cannot be read.
        why: String,
    },
    /// The revision is the head, or the only one.
    IsHead(String, u64),
    /// A pattern of `--exclude` that cannot be read.
    Pattern(String),
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file that is neither a regular file, a directory nor a symbolic link.
    Special(PathBuf, &'static str),
    /// The directory to publish is that of a store, or has it inside.
    StoreInside(PathBuf),
    /// The directory to publish is inside that of a store.
    InsideStore(PathBuf, PathBuf),
    /// A directory without files, which would replace a revision that has some.
    Empty(PathBuf),
    /// A file that was written each time that it was read.
    Changing(PathBuf),
    /// A file, name, target or attribute that is larger than a site holds.
    TooLarge(PathBuf, &'static str),
    /// A file cannot be written.
    Unwritable(PathBuf, io::Error),
    /// The directory to write to is not empty.
    NotEmpty(PathBuf),
    /// A path with a part that cannot be a name.
    Path(PathError),
    /// The store of chunks failed.
    Chunks(ChunkError),
    /// The store lacks a chunk of a tree.
    MissingChunk(ChunkHash),
    /// Content that is not here, at a server that keeps a part: it must be fetched.
    Elsewhere(ChunkHash),
    /// The store or relay does not send content that is not here.
    ContentGone(ChunkHash),
    /// Content that is not here did not come in time.
    ContentLate(ChunkHash),
    /// Content that was fetched could not be stored, or not be read from where it was stored.
    ContentUnkept(ChunkHash),
    /// A chunk that cannot be a node of a tree.
    Malformed(String),
    /// The store failed.
    Store(objects::Error),
    /// The system gives no random numbers.
    NoRandom(String),
    /// The address to serve at cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The work was interrupted.
    Interrupted,
    /// A server cannot be reached, or failed, for this reason.
    Server(String, String),
    /// A server has no room.
    ServerFull(String),
    /// The sites of the space have another home by now, in a store of several nodes.
    OtherHome,
    /// A node wants the sites of a space that should not be there.
    Stays(String),
    /// A request for a store came to a group's redirector.
    Relay(String),
    /// A revision was published, and the wait for all servers has failed, for this reason.
    NotEverywhere(String, u64, String),
    /// A publish was sent to the store, and its answer did not come, for this reason.
    NotKnown(String, String),
    /// A member's directory has another site.
    OtherSite(PathBuf, String),
    /// A directory that a member must not take for its own, and why.
    NotMembers(PathBuf, &'static str),
    /// A site cannot be mounted on a directory, or be unmounted.
    Mount(PathBuf, io::Error),
    /// A directory to mount on that has the member's files inside.
    MountOver(PathBuf, PathBuf),
    /// A thread could not be started.
    Thread(io::Error),
    /// A thread that read for a client panicked, with this message.
    Panicked(String),
}

impl FilesError {
    /// The name of the reason.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SiteName(_) => "site-name",
            Self::NoSite(_) => "no-site",
            Self::IsThere(_) => "is-there",
            Self::NoRevision(..) => "no-revision",
            Self::NoPath(_) => "no-path",
            Self::WrongKind(..) => "wrong-kind",
            Self::Overtaken { .. } => "overtaken",
            Self::Conflict { .. } | Self::PrivateConflict { .. } => "conflict",
            Self::Publishing => "publishing",
            Self::PrivateChanges(..) => "private-changes",
            Self::NotKept { .. } => "not-kept",
            Self::Locked(..) => "locked",
            Self::LockOver(_) => "lock-over",
            Self::TooManyChanges => "too-many-changes",
            Self::Diverged { .. } => "diverged",
            Self::NotWhole { .. } => "not-whole",
            Self::IsHead(..) => "is-head",
            Self::Pattern(_) => "pattern",
            Self::Unreadable(..) => "unreadable",
            Self::Special(..) => "special-file",
            Self::StoreInside(_) => "store-inside",
            Self::InsideStore(..) => "inside-store",
            Self::Empty(_) => "empty",
            Self::Changing(_) => "changing",
            Self::TooLarge(..) => "too-large",
            Self::Unwritable(..) => "unwritable",
            Self::NotEmpty(_) => "not-empty",
            Self::Path(_) => "path",
            Self::Chunks(_) => "chunks",
            Self::MissingChunk(_) => "missing-chunk",
            Self::Elsewhere(_) => "elsewhere",
            Self::ContentGone(_) => "content-gone",
            Self::ContentLate(_) => "content-late",
            Self::ContentUnkept(_) => "content-unkept",
            Self::Malformed(_) => "malformed",
            Self::Store(_) => "store",
            Self::NoRandom(_) => "no-random",
            Self::Listen(..) => "listen",
            Self::Interrupted => "interrupted",
            Self::Server(..) => "server",
            Self::ServerFull(_) => "server-full",
            Self::OtherHome => "other-home",
            Self::Stays(_) => "stays",
            Self::Relay(_) => "relay",
            Self::NotEverywhere(..) => "not-everywhere",
            Self::NotKnown(..) => "not-known",
            Self::OtherSite(..) => "other-site",
            Self::NotMembers(..) => "not-members",
            Self::Mount(..) => "mount",
            Self::MountOver(..) => "mount-over",
            Self::Thread(_) => "thread",
            Self::Panicked(_) => "panicked",
        }
    }
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SiteName(name) => write!(
                f,
                "'{name}' cannot be a site's name: it has 1 to 64 letters, digits, '-', '_' and '.', and begins with a \
                 letter or digit"
            ),
            Self::NoSite(site) => write!(f, "there is no site '{site}': `thorp site list` lists those there are"),
            Self::IsThere(site) => write!(f, "there is a site '{site}' already: `thorp site set` changes its settings"),
            Self::NoRevision(site, number) => {
                write!(f, "'{site}' has no revision {number}, or no longer: `thorp site log {site}` lists those it has")
            }
            Self::NoPath(path) => write!(f, "'{path}' is not in this revision of the site"),
            Self::WrongKind(path, expected) => write!(f, "'{path}' is not {expected}"),
            Self::Overtaken { site, base, head } => write!(
                f,
                "another publish of '{site}' came first: this one was made from revision {base}, and {head} is the \
                 newest. Nothing was changed; publish again from revision {head} to replace it, or with --merge to \
                 keep its changes"
            ),
            Self::Conflict { site, base, head, paths } => write!(
                f,
                "revision {head} of '{site}' has changed paths that this publish changes too, since revision {base}: \
                 {paths}. Nothing was published; get revision {head}, change these there, and publish with --base \
                 {head}"
            ),
            Self::PrivateConflict { site, head, paths } => write!(
                f,
                "revision {head} of '{site}' has changed paths that are changed privately, too: {paths}. Nothing was \
                 published. The site's files are in .thorp/at/{head} of the mount: replace them with --overwrite, or \
                 drop the private changes with --discard"
            ),
            Self::Publishing => {
                f.write_str("private changes are being published: discard what is left when that has ended")
            }
            Self::PrivateChanges(dir, changes) => write!(
                f,
                "{} has {changes} private changes that were not published: mount with --private, and publish or \
                 discard them with `thorp publish --path`",
                dir.display()
            ),
            Self::NotKept { site, base } => write!(
                f,
                "revision {base} of '{site}', from which this publish was made, is not kept, so it cannot be merged: \
                 get the newest revision and make the changes there; `thorp site set {site} --keep` keeps more of them"
            ),
            Self::Locked(site, path) => {
                write!(f, "another publisher is changing {path} of '{site}': try again when it has finished")
            }
            Self::LockOver(site) => write!(
                f,
                "a lock of this publish of '{site}' has ended, and others may have changed its file. Nothing was \
                 published; lock the file again, and repeat the change on its newest content"
            ),
            Self::TooManyChanges => f.write_str(
                "there are more changes than a merge compares: get the newest revision, make the changes there, and \
                 publish from it",
            ),
            Self::Diverged { site, head, newest } => write!(
                f,
                "'{site}' has revision {head} there, which is not an older copy of the source, whose newest is \
                 {newest}: name another directory or another name with --to, or remove the site there with `thorp \
                 site rm`. Nothing was copied"
            ),
            Self::NotWhole { site, revision, path, why } => write!(
                f,
                "{site}@{revision} cannot be copied, as {path} needs a chunk that cannot be read: {why}. Revisions \
                 that were copied before are whole"
            ),
            Self::IsHead(site, number) => write!(f, "revision {number} is the newest of '{site}' already"),
            Self::Pattern(why) => write!(f, "a pattern to exclude cannot be read: {why}"),
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Special(path, kind) => write!(
                f,
                "{} is {kind}, which a site cannot hold: remove it or exclude it with --exclude",
                path.display()
            ),
            Self::StoreInside(path) => {
                let path = path.display();
                write!(f, "{path} is the directory of a store: keep it elsewhere, or leave it out with --exclude")
            }
            Self::InsideStore(path, store) => {
                let (path, store) = (path.display(), store.display());
                write!(f, "{path} is inside {store}, the directory of a store: publish a directory outside of it")
            }
            Self::Empty(path) => write!(
                f,
                "{} has no files, and the newest revision has: is a disk not mounted? `--allow-empty` publishes it",
                path.display()
            ),
            Self::Changing(path) => write!(
                f,
                "{} was written each time that it was read: publish again when its writer has finished",
                path.display()
            ),
            Self::TooLarge(path, what) => write!(f, "{}: {what} than a site holds", path.display()),
            Self::Unwritable(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::NotEmpty(path) => write!(f, "{} is not empty: name a new or an empty directory", path.display()),
            Self::Path(error) => write!(f, "{error}"),
            Self::Chunks(error @ ChunkError::Damaged { .. }) => {
                write!(f, "{error}: `thorp publish --repair` of its directory does so")
            }
            Self::Chunks(error) => write!(f, "{error}"),
            Self::MissingChunk(hash) => {
                write!(
                    f,
                    "chunk {hash} is damaged or missing: `thorp publish --repair` of its directory writes it again, or \
                     restore a backup"
                )
            }
            Self::Elsewhere(hash) => write!(f, "content {hash} is not kept here, and must be fetched"),
            Self::ContentGone(hash) => write!(
                f,
                "content {hash} is not kept here, and the store does not send it: open the file again, as its revision \
                 may no longer be held for this server"
            ),
            Self::ContentLate(hash) => write!(
                f,
                "content {hash} is not kept here, and did not come from the store in time: try again, or look at its \
                 connection"
            ),
            Self::ContentUnkept(hash) => write!(
                f,
                "content {hash} was fetched from the store, and cannot be stored here, or not be read back: make room \
                 on the disk of the directory, or replace the disk"
            ),
            Self::Malformed(why) => write!(f, "the site's tree cannot be read: {why}"),
            Self::Store(error) => write!(f, "{error}"),
            Self::NoRandom(why) => write!(f, "the system gives no random numbers: {why}"),
            Self::Listen(address, error) => write!(f, "cannot serve at {address}: {error}"),
            Self::Interrupted => f.write_str("interrupted: nothing was published; what was uploaded is kept"),
            Self::Server(addresses, why) => write!(f, "the store at {addresses}: {why}"),
            Self::ServerFull(why) => write!(f, "the store has no room: {why}; nothing was published"),
            Self::OtherHome => f.write_str("the sites of the space are at another node by now: try again"),
            Self::Stays(space) => write!(f, "the sites of space '{space}' do not move to that node"),
            Self::Relay(addresses) => write!(
                f,
                "{addresses} is the redirector of a group, which takes no publishes: name the store with --server"
            ),
            Self::NotEverywhere(site, number, why) => {
                write!(f, "{why}; {site}@{number} is published, and some servers may not have it yet")
            }
            Self::NotKnown(site, why) => {
                write!(f, "{why}; whether a revision was published is not known: `thorp site log {site}` lists them")
            }
            Self::OtherSite(dir, site) => {
                write!(f, "{} is the directory of the site {site}: name another one with --cache", dir.display())
            }
            Self::NotMembers(dir, why) => {
                write!(f, "{} {why}: name a new or an empty directory with --cache", dir.display())
            }
            Self::Mount(at, error) => write!(f, "{}: {}", at.display(), mount_error(error)),
            Self::MountOver(at, files) => {
                write!(f, "{} has the files of --cache inside, {}: mount elsewhere", at.display(), files.display())
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Panicked(said) => {
                write!(f, "a reader panicked ('{said}'), which is an error of Thorp's own: please report it")
            }
        }
    }
}

/// The reason why a directory cannot be mounted on, and the remedy.
fn mount_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if Path::new("/dev/fuse").exists() => {
            "there is no such directory to mount on".to_owned()
        }
        io::ErrorKind::NotFound => {
            "cannot mount: there is no /dev/fuse here, the kernel's device for such mounts".to_owned()
        }
        io::ErrorKind::AlreadyExists => "a site is mounted here already: unmount it first".to_owned(),
        io::ErrorKind::NotADirectory => "only a directory can be mounted on".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("{error}: users other than root mount with fusermount3, of the package fuse3")
        }
        _ => format!("cannot mount: {error}"),
    }
}

impl std::error::Error for FilesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(_, error)
            | Self::Unwritable(_, error)
            | Self::Listen(_, error)
            | Self::Mount(_, error)
            | Self::Thread(error) => Some(error),
            Self::Chunks(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(feature = "fuse")]
impl From<ApplyError<Self, Self>> for FilesError {
    fn from(why: ApplyError<Self, Self>) -> Self {
        match why {
            ApplyError::Read(error) => error.into(),
            ApplyError::Sink(error) => error,
            ApplyError::NotDirectory(path) => Self::NoPath(path.to_string()),
        }
    }
}

impl From<ChunkError> for FilesError {
    fn from(error: ChunkError) -> Self {
        Self::Chunks(error)
    }
}

impl From<objects::Error> for FilesError {
    fn from(error: objects::Error) -> Self {
        Self::Store(error)
    }
}

impl From<PathError> for FilesError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<ReadError<Self>> for FilesError {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::Source(error) => error,
            ReadError::Malformed(..) => Self::Malformed(error.to_string()),
        }
    }
}

impl<K: Into<Self>> From<MergeError<Self, K>> for FilesError {
    fn from(error: MergeError<Self, K>) -> Self {
        match error {
            MergeError::Read(error) => error.into(),
            MergeError::Sink(error) => error.into(),
            MergeError::TooMany => Self::TooManyChanges,
        }
    }
}

impl From<Infallible> for FilesError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<JoinError> for FilesError {
    /// The error of a thread that read for a client and ended without a result: it panicked, or the server stopped
    /// before the read began.
    fn from(error: JoinError) -> Self {
        error.try_into_panic().map_or(Self::Interrupted, |panic| Self::Panicked(said(&*panic).to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;

    #[test]
    fn a_publish_that_cannot_wait_names_its_revision() {
        let lost = FilesError::Server("127.0.0.1:7411".to_owned(), "no server".to_owned()).to_string();
        assert_eq!(
            FilesError::NotEverywhere("shop".to_owned(), 7, lost).to_string(),
            "the store at 127.0.0.1:7411: no server; shop@7 is published, and some servers may not have it yet"
        );
    }

    #[test]
    fn a_reader_that_panics_is_an_error_to_report() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let read = || -> Result<(), FilesError> { panic!("piece {} is not there", 7) };
        let error = FilesError::from(runtime.block_on(async { spawn_blocking(read).await }).unwrap_err());
        assert_eq!(error.name(), "panicked");
        assert_eq!(
            error.to_string(),
            "a reader panicked ('piece 7 is not there'), which is an error of Thorp's own: please report it"
        );
    }
}
