//! Published files: a directory becomes a revision of a site all at once, and any revision that is kept can come back.
//!
//! ```text
//!   directory -- scan: files, links, attributes --> chunks, durable, then one transaction: revision 17 is the head
//!   revision  -- view: lists, content ------------> programs, another directory, visitors by HTTP
//! ```
//! A site is a tree of chunks under a name. Its record is in the store, as ordinary objects; its chunks are in a folder
//! of the store's directory. A publish writes only the chunks that are missing, and is seen whole or not at all. The
//! rules of publishes, holds and leases between machines are those of `spread`.
//!
//! | module | duty |
//! |---|---|
//! | `sites` | the sites of a store: publish, roll back, log, read, verify |
//! | `record`, `records` | a site's record as objects; the records of a space |
//! | `home` | the node that has the sites of a space, in a store of several |
//! | `depot` | where chunks and records are kept, as `sites` needs it |
//! | `locks` | locks of paths, for those who change single files |
//! | `stored`, `line` | chunks in a directory as a source of trees; the work of a disk, and its threads |
//! | `local`, `remote` | the two places: a directory of this process, and a server |
//! | `server` | the file server in the process of a store |
//! | `relay` | the relay in the process of a group's redirector |
//! | `member` | a host that follows a site, and has whole revisions of it |
//! | `walk`, `exclude`, `scan` | a directory, listed ahead; what is left out; as a tree: what is read and refused |
//! | `xattrs` | the extended attributes of files |
//! | `content` | the content of a file in chunks |
//! | `index` | the files of a directory that was published, so that unchanged ones need not be read |
//! | `upload` | chunks on their way into the store |
//! | `doctor` | the sites of a closed store: looked over, and salvaged |
//! | `view` | a revision: lists and content |
//! | `export` | a revision as a directory |
//! | `origin` | where revisions come from that are served or mounted: the own store, or a member's directory |
//! | `memory`, `reader` | what was read lately; what a reader needs, at once or from the disk |
//! | `http` | a site over HTTP |
//! | `mount` | a site as a file system |
//! | `tables` | the figures of a site's server |
//! | `error` | the errors of all of them |

mod content;
mod depot;
mod doctor;
mod error;
mod exclude;
mod export;
mod home;
mod http;
mod index;
mod line;
mod local;
mod locks;
mod member;
mod memory;
#[cfg(feature = "fuse")]
mod mount;
mod origin;
mod reader;
mod record;
mod records;
mod relay;
mod remote;
mod scan;
mod server;
mod sites;
mod stored;
pub mod tables;
mod upload;
mod view;
mod walk;
mod xattrs;

pub use chunks::BucketUrl;
pub use depot::{Collected, Follower};
pub use doctor::{SalvagedSites, SiteFinding, SitesReport, check_sites, has_chunks, salvage_sites};
pub use error::FilesError;
pub use export::{Exported, export};
pub use http::{SiteConfig, SiteServer, SiteStopper, SkippedRule, Tally};
pub use local::keep_chunks_in_bucket;
pub use locks::Lock;
pub use member::{Followed, MemberService};
#[cfg(feature = "fuse")]
pub use mount::{
    MountAccess, MountConfig, MountPassthrough, MountPlace, MountWrites, PrivateRequest, PrivateState, Publishes,
    SiteMount, Unmounter,
};
pub use record::{Revision, SiteName};
pub use records::Summary;
pub use relay::SiteRelay;
pub use remote::Server;
pub use scan::{Progress, Scanned};
pub use server::{FileService, NodeAt, NodeSites, Places, ShardAt};
pub use serving::{CertificateFiles, LoadedCertificates};
pub use sites::{ConnectSites, Copied, Damage, Difference, Publish, Published, Rollback, SiteCopy, Sites};
pub use spread::messages::{Consistency, Token, WhenStale};
pub use spread::server_work::Settings;
pub use spread::{LockState, SiteSettings};
pub use tree::{Change, Entry, Kind, Part, Path};
pub use view::View;
