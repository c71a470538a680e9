//! A member: a host that follows a site of a store elsewhere, and has its revisions on its own disk, whole or with a
//! part of their content.
//!
//! | module | duty |
//! |---|---|
//! | `disk` | the thread that does the machine's work on the directory |
//! | `fetching` | readers of content that is not here |
//! | `state` | the record of the revisions in it |

mod disk;
pub(crate) mod fetching;
mod state;

use crate::error::FilesError;
use crate::local::open_chunks;
#[cfg(feature = "fuse")]
use crate::origin::Sessions;
use crate::origin::{LocalChunks, NotRead, Origin};
use crate::record::SiteName;
use crate::records::draw;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use disk::MemberDisk;
use fetching::{Fetching, Lack, Reading, Unpark, fetch};
use machine::{RoleId, Table};
use net::{Handle, Host, Machines, Runtime, UpstreamConfig, UpstreamState};
use spread::messages::{SUBSCRIBER, VisitorKey, WhenStale};
use spread::{Member, MemberConfig, Opened, PATIENCE, READY, SiteKey, Visit};
#[cfg(feature = "fuse")]
use spread::{Number, Revision};
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tree::{ChunkHash, Source};
use vfs::make_directory;

/// How long a page may ask for more after its last request.
const VISIT: Duration = Duration::from_secs(60);

/// The time from a switch to the removal of unused chunks.
const COLLECT_AFTER: Duration = Duration::from_secs(60);

/// The site that a member follows.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The addresses of the store, or of the group's redirector, separated by commas: they are tried in turn.
    pub addresses: String,
    /// The space of the site.
    pub space: String,
    /// The site.
    pub site: SiteName,
    /// The member's directory, which is made if there is none.
    pub dir: PathBuf,
    /// The number of unread revisions after which it is sent no more of them, and fetches the newest for the next
    /// visitor. None sends it every revision.
    pub idle_after: Option<u32>,
    /// The bytes of content that are kept, beside the directories of revisions; content that was used longest ago makes
    /// room. None keeps all content.
    pub content_bytes: Option<u64>,
}

/// A member that runs.
pub struct MemberService {
    followed: Followed,
    member: Handle<Member>,
    host: Arc<Host>,
    role: RoleId,
    chunks: Arc<Chunks>,
    visitors: Arc<Visitors>,
}

impl MemberService {
    /// Opens the member's directory, and follows the site from now on.
    ///
    /// # Errors
    /// A directory that is in use, that belongs to another site or to a store, or that cannot be read.
    pub fn start(followed: Followed) -> Result<Self, FilesError> {
        let failed = |why: String| FilesError::Server(followed.addresses.clone(), why);
        let upstream = UpstreamConfig::parse(SUBSCRIBER, &followed.addresses).map_err(|it| failed(it.to_string()))?;
        make_directory(&followed.dir)
            .map_err(|error| FilesError::Unwritable(followed.dir.clone(), std::io::Error::other(error)))?;
        let key = SiteKey { space: followed.space.clone(), name: followed.site.to_string() };
        state::claim(&followed.dir, &key)?;
        let chunks = Arc::new(open_chunks(&followed.dir)?);
        if followed.content_bytes.is_some() {
            // An earlier run may have kept more.
            chunks.compact()?;
        }
        let state = state::read(&followed.dir, &key)?;
        let disk = MemberDisk::start(&followed.dir, key.clone(), chunks.clone())?;
        let config = MemberConfig {
            key,
            life: draw()?,
            visit: VISIT,
            collect_after: COLLECT_AFTER,
            patience: PATIENCE,
            idle_after: followed.idle_after,
            content_bytes: followed.content_bytes,
            broken: types::Broken::NONE,
        };
        let mut machines = Machines::new();
        let (role, member) = machines.add_with_disk(Member::new(config, state), disk);
        let runtime = Runtime::start().map_err(FilesError::Thread)?;
        let host = Host::start(machines, &runtime);
        host.connect(role, upstream);
        Ok(Self {
            member: Handle::new(member, host.driver(role)),
            followed,
            host,
            role,
            chunks,
            visitors: Arc::new(Visitors(Notify::new())),
        })
    }

    /// The number of the revision that is served; none before the first.
    pub fn revision(&self) -> Option<u64> {
        self.member.look(|member| member.current()).map(|current| current.number.count)
    }

    /// The state of the session with the store or the group.
    pub fn upstream(&self) -> UpstreamState {
        self.host.server_state(self.role)
    }

    /// The obstacle to a newer revision, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.member.look(|member| member.trouble().map(str::to_owned))
    }

    /// The site.
    pub fn site(&self) -> &SiteName {
        &self.followed.site
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.followed.dir
    }

    /// Waits for a first revision, for at most this long. Returns its number.
    pub fn wait_ready(&self, within: Duration) -> Option<u64> {
        let begun = std::time::Instant::now();
        loop {
            if let Some(revision) = self.revision() {
                return Some(revision);
            }
            let left = within.checked_sub(begun.elapsed())?;
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            self.member.driver().wake_on(READY, &waker);
            std::thread::park_timeout(left.min(Duration::from_millis(100)));
        }
    }
}

/// The visitors who wait for the newest revision: the machine wakes one waiter, which wakes all.
struct Visitors(Notify);

impl Wake for Visitors {
    fn wake(self: Arc<Self>) {
        self.0.notify_waiters();
    }
}

impl fmt::Debug for MemberService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberService").field("followed", &self.followed).finish_non_exhaustive()
    }
}

impl Source for MemberService {
    type Error = FilesError;

    /// A chunk that is damaged is fetched again, for the next request.
    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        match self.chunks.get(hash) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => {
                self.member.call(|member| member.damaged(*hash));
                Err(FilesError::MissingChunk(*hash))
            }
            Err(error) => {
                if let ChunkError::Damaged { .. } = error {
                    self.member.call(|member| member.damaged(*hash));
                }
                Err(error.into())
            }
        }
    }
}

impl Origin for MemberService {
    fn site(&self) -> &SiteName {
        &self.followed.site
    }

    fn open(&self, visit: Visit, _: bool) -> Result<Opened, NotRead> {
        if self.member.look(|member| member.is_over()) {
            return Err(FilesError::Server(self.followed.addresses.clone(), "the member has ended".to_owned()).into());
        }
        Ok(self.member.call_if(|member, now| {
            let opened = member.open(now, visit);
            (opened, matches!(opened, Opened::Later(_)))
        }))
    }

    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let waiting = self.visitors.0.notified();
        self.member.driver().wake_on(READY, &Waker::from(self.visitors.clone()));
        Box::pin(waiting)
    }

    fn visitor_key(&self, _: bool) -> Result<Option<VisitorKey>, NotRead> {
        Ok(self.member.look(|member| member.visitor_key()))
    }

    fn refuses_stale(&self) -> bool {
        self.member.look(|member| member.when_stale()) == WhenStale::Refuse
    }

    fn source(&self) -> &dyn Source<Error = FilesError> {
        self
    }

    fn chunks(&self) -> LocalChunks {
        let (chunks, bytes) = self.chunks.size().unwrap_or_default();
        LocalChunks { chunks, bytes }
    }

    /// A chunk of content. Where a part is kept, a reader waits for what is not here ([`Origin::fetch`]).
    fn content(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        if self.followed.content_bytes.is_none() {
            return self.chunk(hash);
        }
        match self.chunks.get(hash) {
            Ok(Some(bytes)) => {
                self.member.look(|member| member.used(hash));
                Ok(bytes)
            }
            Ok(None) | Err(ChunkError::Damaged { .. }) => Err(FilesError::Elsewhere(*hash)),
            Err(error) => Err(error.into()),
        }
    }

    fn keep(&self, hash: ChunkHash) -> Option<Reading> {
        self.followed.content_bytes.and_then(|_| Reading::begin(&self.member, hash, false))
    }

    fn fetch(&self, lack: Lack) -> Fetching {
        fetch(&self.member, lack)
    }

    fn head(&self) -> Result<u64, FilesError> {
        Ok(self.revision().unwrap_or_default())
    }

    fn troubles(&self) -> Vec<String> {
        let of_member = self.member.look(|member| member.trouble().map(str::to_owned));
        let of_server = match self.host.server_state(self.role) {
            UpstreamState::Down(why) | UpstreamState::Over(why) => Some(format!("the store is not reached: {why}")),
            UpstreamState::Connecting | UpstreamState::Up(_) => None,
        };
        let of_revision = self.member.call_if(|member, now| {
            let trouble = match (member.current(), member.stale(now)) {
                (None, _) => Some("there is no revision yet".to_owned()),
                (_, Some(unknown)) => {
                    Some(format!("there may be a newer revision: the last lease was over {} s ago", unknown.as_secs()))
                }
                _ => None,
            };
            (trouble, false)
        });
        of_member.into_iter().chain(of_server).chain(of_revision).collect()
    }

    fn tables(&self) -> Vec<Table> {
        self.member.look(|member| machine::Machine::status(member))
    }
}

#[cfg(feature = "fuse")]
impl Sessions for MemberService {
    fn current(&self) -> Result<Option<Revision>, FilesError> {
        Ok(self.member.look(|member| member.current()))
    }

    fn is_lazy(&self) -> bool {
        self.member.look(|member| member.is_lazy())
    }

    fn kept(&self) -> Result<Vec<Revision>, FilesError> {
        Ok(self.member.look(|member| member.kept().collect()))
    }

    fn visit(&self, number: Number) -> Option<ChunkHash> {
        self.member.call_if(|member, now| (member.visit(now, number), false))
    }

    fn begin(&self, number: Number) -> Option<ChunkHash> {
        self.member.call_if(|member, _| (member.begin(number), false))
    }

    fn end(&self, number: Number) {
        self.member.call_if(|member, _| (member.end(number), false));
    }
}
