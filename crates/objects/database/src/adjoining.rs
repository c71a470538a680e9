//! A client that outlives the store of its process. Each term of a node has a store of its own, which is made again
//! from the directory. The application keeps its database.

use crate::database::Local;
use crate::open::{new_client, runtime};
use crate::{Config, Database, LocalStore, Recovered, Result};
use client::Client;
use machine::RoleId;
use net::{Host, Machines, Shared};
use std::fmt;
use std::sync::Arc;
use types::ClientId;

/// A client, without a store until one is there.
#[derive(Clone)]
pub struct AdjoiningClient {
    id: ClientId,
    host: Arc<Host>,
    role: RoleId,
    client: Shared<Client>,
}

impl AdjoiningClient {
    /// Starts a client with these settings.
    pub fn start(config: &Config) -> Result<Self> {
        let (id, mut machines) = (new_client(), Machines::new());
        let (role, client) = machines.add(Client::new(config.client.clone(), id));
        machines.link_adjoining_server(role, RoleId::ONLY);
        Ok(Self { id, host: Host::start(machines, runtime()?), role, client })
    }

    /// Starts a store that the client has no session with yet.
    pub fn start_store(&self, recovered: Recovered) -> Result<LocalStore> {
        Ok(recovered.start_adjoining(self.id, self.role, runtime()?))
    }

    /// The store takes sessions: the client begins one, unless it has one.
    pub fn meet(&self, store: &LocalStore) {
        self.host.adjoin(store.host());
        self.host.meet_adjoining(self.role);
    }

    /// The store is gone.
    pub fn part(&self) {
        self.host.part_from_adjoining(self.role);
    }

    /// There will be no other store: the application's calls fail, and say why.
    pub fn stop(&self, why: &str) {
        self.host.driver(self.role).call(&mut |hosted, _| {
            hosted.stop(why);
            true
        });
    }

    /// A database over the client. `local` runs its stores.
    pub fn open(self, config: &Config, local: Box<dyn Local>) -> Arc<Database> {
        let driver = self.host.driver(self.role);
        Arc::new(Database::new(self.client, driver, config.client.patience, Some(local)))
    }
}

impl fmt::Debug for AdjoiningClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdjoiningClient").field("id", &self.id).finish_non_exhaustive()
    }
}
