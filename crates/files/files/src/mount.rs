//! A site as a file system, by FUSE: each open file keeps what it had when it was opened, and the next open sees the
//! newest revision.
//!
//! ```text
//!   kernel --open, inode--> kernel.rs --> views.rs: the newest revision --> handles.rs: a session, until release
//!   member --a switch-----> switches.rs --names that have changed--> kernel: forgets their inodes
//! ```
//! - An inode is a path with one content and its attributes, so nothing that the kernel caches of it can be wrong, and
//!   open files keep their page cache across a switch. Numbers are hashes: equal at all members. A directory's is its
//!   path's, so a directory that stays is one inode.
//! - After a switch, an inode that the newest revision does not have is not opened: `ESTALE`, on which the kernel looks
//!   its path up again.
//! - A session is from open to close. The member keeps its revision as long (rule SessionKeepsView).
//! - Where reads wait for the newest revision, so do lookups and opens; they wait in a list, and not on a thread.
//!
//! | module | duty |
//! |---|---|
//! | `nodes` | the inodes that the kernel knows |
//! | `views` | the revision for a reader, and what is at an inode in it |
//! | `attributes` | entries as `stat` shows them |
//! | `handles` | open files and directories |
//! | `special` | `.thorp`: the state of the mount, and revisions by their numbers |
//! | `kernel` | requests of the kernel, and answers |
//! | `requests` | those that may have to wait for the newest revision |
//! | `waiting` | requests that wait for the newest revision, and the thread that answers them |
//! | `switches` | the thread that tells the kernel what a switch has changed |
//! | `threads` | the start and end of threads |
//! | `writes` | files that programs on this host are writing, and the queue of their changes |
//! | `writer` | the thread that makes these changes |
//! | `own` | these changes, as requests of the kernel see them |
//! | `private` | changes that stay here until they are published together |
//! | `passthrough` | files that the kernel reads by itself |
//! | `assembled` | these files, each in one piece |
//! | `assembler` | the thread that assembles them |
//! | `place` | the directory that is mounted on |

mod assembled;
mod assembler;
mod attributes;
mod handles;
mod kernel;
mod nodes;
mod own;
mod passthrough;
mod place;
mod private;
mod requests;
mod special;
mod switches;
mod threads;
mod views;
mod waiting;
mod writer;
mod writes;

use crate::error::FilesError;
use crate::member::MemberService;
use crate::origin::{OwnSite, Sessions};
use crate::record::SiteName;
use crate::sites::Sites;
use crate::tables::MOUNT_TABLES;
use assembler::Assembling;
use fuser::{Config, MountOption, Session, SessionACL};
use kernel::Kernel;
use ops::Observed;
pub use passthrough::MountPassthrough;
use passthrough::Passthrough;
use place::Mount;
pub use place::MountPlace;
use private::Branch;
pub use private::{PrivateRequest, PrivateState};
use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use threads::Threads;
use views::Mounted;
use waiting::Waiting;
use writer::Writing;
pub use writes::{MountWrites, Publishes};
use writes::{Target, Writes};

/// Threads that answer the kernel: reads of the disk wait on them.
const THREADS: usize = 8;

/// The settings of a mount.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The name of the site's space.
    pub space: String,
    /// The directory to mount on.
    pub at: MountPlace,
    /// Whether other users than the one who mounts may read it, by the permissions of the files.
    pub allows_others: bool,
    /// The bytes of memory for directories and content that were read lately, about.
    pub memory: usize,
    /// Whether a revision that may not be the newest is not opened.
    pub refuses_stale: bool,
    /// The rights of programs on this host.
    pub access: MountAccess,
}

/// The rights of programs that use a mount.
#[derive(Clone, Debug)]
pub enum MountAccess {
    /// To read.
    Read,
    /// To read, and the kernel reads files without this process. It rejects every other way to open such a file, so
    /// none can be written.
    Passthrough(MountPassthrough),
    /// To read and change.
    Write(MountWrites),
}

/// A site that is mounted. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct SiteMount {
    mounted: Arc<Mounted>,
    waiting: Arc<Waiting>,
    mount: Mount,
    end: mpsc::Sender<End>,
    ended: mpsc::Receiver<End>,
    is_over: bool,
    _writing: Option<Writing>,
    _assembling: Option<Assembling>,
    _threads: Threads,
}

/// The reason why a mount ends.
#[derive(Debug)]
enum End {
    /// A handle was used.
    Told,
    /// The kernel has ended it: it was unmounted.
    Unmounted(io::Result<()>),
}

/// Unmounts a site from elsewhere.
#[derive(Clone, Debug)]
pub struct Unmounter(mpsc::Sender<End>);

impl Unmounter {
    /// Unmounts the site, even if files are open. Those cannot be read any longer.
    pub fn unmount(&self) {
        // Without a receiver it was unmounted.
        let _ = self.0.send(End::Told);
    }
}

impl SiteMount {
    /// Mounts a site of the store that this process has open.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::Mount`], and the store's.
    pub fn start(sites: Arc<Sites>, site: SiteName, config: &MountConfig) -> Result<Self, FilesError> {
        sites.visitor_key(&site)?;
        Self::of(Arc::new(OwnSite::new(sites, site)), config)
    }

    /// Mounts the site that a member follows.
    ///
    /// # Errors
    /// [`FilesError::Mount`].
    pub fn follow(member: Arc<MemberService>, config: &MountConfig) -> Result<Self, FilesError> {
        Self::of(member, config)
    }

    fn of(origin: Arc<dyn Sessions>, config: &MountConfig) -> Result<Self, FilesError> {
        let at = config.at.path().to_owned();
        let failed = |error: io::Error| FilesError::Mount(at.clone(), error);
        let source = format!("{}{}/{}", place::SOURCE, config.space, origin.site());
        let (mut origin, mut writes, mut passthrough) = (origin, None, None);
        match config.access.clone() {
            MountAccess::Read => {}
            MountAccess::Passthrough(settings) => passthrough = Some(Passthrough::open(settings)?),
            MountAccess::Write(settings) => {
                let dir = &settings.dir;
                let target = match settings.publishes.clone() {
                    Publishes::Together(connect) => {
                        let branch = Arc::new(Branch::open(dir, origin, &config.space, &settings.reports)?);
                        origin = branch.clone();
                        Target::Private(branch, connect)
                    }
                    Publishes::Each(sites) => {
                        private::refuse(dir, &format!("{}/{}", config.space, origin.site()))?;
                        Target::Store(sites)
                    }
                };
                writes = Some(Writes::open(settings, target)?);
            }
        }
        let (writes, changes) = writes.unzip();
        let top = config.at.attributes().clone();
        let mounted = Arc::new(Mounted::new(origin, config.memory, config.refuses_stale, top, writes, passthrough));
        let writing = changes.map(|changes| Writing::start(&mounted, changes)).transpose()?;
        let (waiting, mut threads) = (Waiting::new().map_err(failed)?, Threads::new());
        let kernel = Kernel { mounted: mounted.clone(), waiting: waiting.clone() };
        let session = Session::new(kernel, &at, &options(source, config)).map_err(failed)?;
        mounted.begin_passthrough(&session);
        let assembling = Assembling::start(&mounted).map_err(FilesError::Thread)?;
        switches::start(&mounted, session.notifier(), &mut threads).map_err(failed)?;
        waiting.start(&mounted, &mut threads).map_err(failed)?;
        let (end, ended) = mpsc::channel();
        let sender = end.clone();
        let run = move || drop(sender.send(End::Unmounted(session.run())));
        thread::Builder::new().name("mount".to_owned()).spawn(run).map_err(failed)?;
        let mount = Mount::find(&at);
        Ok(Self {
            mounted,
            waiting,
            mount,
            end,
            ended,
            is_over: false,
            _writing: writing,
            _assembling: assembling,
            _threads: threads,
        })
    }

    /// The directory that it is mounted on.
    pub fn at(&self) -> &Path {
        self.mount.at()
    }

    /// A handle that unmounts it.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(self.end.clone())
    }

    /// The mount as its operators see it.
    pub fn observed(&self) -> Arc<dyn ops::Service> {
        let (one, other) = (self.mounted.clone(), self.mounted.clone());
        Arc::new(Observed { tables: move || (MOUNT_TABLES.to_vec(), one.tables()), troubles: move || other.troubles() })
    }

    /// Waits until it is unmounted, by a handle or from outside. Returns how many files and directories were open,
    /// which can no longer be read.
    ///
    /// # Errors
    /// A mount that cannot be undone, or has failed.
    pub fn wait(&mut self) -> Result<usize, FilesError> {
        let ended = self.ended.recv().unwrap_or(End::Told);
        self.is_over = true;
        let failed = |error: io::Error| FilesError::Mount(self.at().to_owned(), error);
        match ended {
            End::Told => {
                let open = self.mounted.handles.len();
                self.mount.undo().map_err(failed)?;
                Ok(open)
            }
            End::Unmounted(ended) => ended.map(|()| 0).map_err(failed),
        }
    }
}

impl Drop for SiteMount {
    fn drop(&mut self) {
        if !self.is_over {
            // An error has no reader any longer.
            let _ = self.mount.undo();
        }
        // The thread that notifies the kernel may be waiting for the lock of a directory that a request keeps.
        self.waiting.end(&self.mounted);
    }
}

/// The options of the mount: nothing in a site is a device, or gives its reader another user's rights.
fn options(source: String, config: &MountConfig) -> Config {
    let mut options = Config::default();
    options.mount_options = vec![
        MountOption::FSName(source),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
    ];
    let is_written = matches!(config.access, MountAccess::Write(_));
    options.mount_options.push(if is_written { MountOption::RW } else { MountOption::RO });
    options.acl = if config.allows_others { SessionACL::All } else { SessionACL::Owner };
    (options.n_threads, options.clone_fd) = (Some(THREADS), true);
    options
}
