//! The file server of a store, in the process that serves it.
//!
//! | module | duty |
//! |---|---|
//! | `disk` | the threads that do the machine's work on chunks and records |
//! | `records` | records of sites as the machine needs them |
//! | `homes` | where the sites of a store of several nodes are |
//! | `node` | the file server of a node, and the spaces that it takes up and has come |

mod disk;
mod homes;
mod node;
mod records;

pub use homes::{NodeAt, Places, ShardAt};
pub use node::NodeSites;

use crate::error::FilesError;
use crate::record::life_now;
use disk::ServerDisk;
use homes::Homes;
use net::{Beside, Handle, Host, Machines, Runtime};
use objects::Db;
use spread::messages::FILE_SERVER;
use spread::server_work::SiteState;
use spread::{FileServer, ServerConfig};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::limits::SESSIONS_MAX;

/// A subscriber or publisher whose machine is silent for this long is considered gone.
const SILENCE: Duration = Duration::from_secs(30);

/// The file server of a store.
#[derive(Debug)]
pub struct FileService {
    host: Arc<Host>,
    role: machine::RoleId,
    disk: Weak<ServerDisk>,
}

impl FileService {
    /// Starts the file server of the store in `dir`, which `db` has open. Subscribers have leases of this length.
    ///
    /// # Errors
    /// Records that cannot be read, and chunks that cannot be opened.
    pub fn start(db: Db, dir: &Path, lease: Duration, runtime: &Runtime) -> Result<Self, FilesError> {
        let sites = records::load(&db)?;
        let disk = ServerDisk::start(db, dir)?;
        let last = sites.iter().filter_map(SiteState::last_life).max().unwrap_or_default();
        let config = ServerConfig { lease, ..ServerConfig::new(life_now().max(last + 1)) };
        let mut machines = Machines::new();
        let weak = Arc::downgrade(&disk);
        let (role, _) = machines.add_with_disk(FileServer::new(config, sites), disk);
        Ok(Self { host: Host::start(machines, runtime), role, disk: weak })
    }

    /// The file server of a node, which has no sites yet.
    fn of_node(
        homes: Arc<Homes>,
        dir: &Path,
        lease: Duration,
        runtime: &Runtime,
    ) -> Result<(Self, Handle<FileServer>), FilesError> {
        let disk = ServerDisk::of_node(homes, dir)?;
        let config = ServerConfig { lease, is_alone: false, ..ServerConfig::new(life_now()) };
        let mut machines = Machines::new();
        let weak = Arc::downgrade(&disk);
        let (role, server) = machines.add_with_disk(FileServer::new(config, Vec::new()), disk);
        let host = Host::start(machines, runtime);
        let server = Handle::new(server, host.driver(role));
        Ok((Self { host, role, disk: weak }, server))
    }

    /// Asks why the bucket of the chunks cannot be used, if its last request has failed.
    pub fn bucket_trouble(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let disk = self.disk.clone();
        move || disk.upgrade()?.bucket_trouble()
    }

    /// The machine, for a listener at whose address sessions of others are taken, too: so many of its own at a time.
    pub fn beside(&self, sessions_max: usize) -> Beside {
        let sessions_max = sessions_max.min(SESSIONS_MAX);
        Beside {
            host: self.host.clone(),
            role: self.role,
            codec: FILE_SERVER,
            port: machine::Port::Session,
            sessions_max,
            silence: Some(SILENCE),
        }
    }
}
