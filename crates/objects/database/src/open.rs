//! Opening a database: a directory of this process. `connect` is for a server.

use crate::{Config, Database, Error, Recovered, Result};
use client::Client;
use net::Runtime;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use types::ClientId;

impl Database {
    /// Opens the store in a directory, in this process; a missing or empty directory becomes a new store.
    ///
    /// # Errors
    /// [`Error::Open`] with a line that says what is wrong and what to do.
    pub fn open(dir: &Path, config: &Config) -> Result<Arc<Self>> {
        let read_only = config.disk.read_only;
        let recovered = Recovered::read(dir, &config.disk_config(), config.store.clone(), |_| {});
        let recovered = recovered.map_err(|error| Error::Open(error.to_string()))?;
        // There is no connection that would carry little at first, and nothing to ask for before it is needed.
        let client = client::Config {
            first_window_bytes: usize::MAX,
            follows: false,
            first: None,
            read_only,
            ..config.client.clone()
        };
        let local = recovered.start(Some(Client::new(client, new_client())), runtime()?);
        let (client, driver) = local.client().expect("it was started with one");
        Ok(Arc::new(Self::new(client, driver, config.client.patience, Some(Box::new(local)))))
    }
}

/// A client for a store in the same process, with this many bytes of memory for pages. There is no connection that would
/// carry little at first, and nothing to ask for before it is needed.
pub fn client_beside(cache_bytes: usize) -> Client {
    let config = client::Config {
        cache_bytes_limit: cache_bytes,
        first_window_bytes: usize::MAX,
        follows: false,
        first: None,
        ..client::Config::default()
    };
    Client::new(config, new_client())
}

/// An identity that nobody else has.
pub(crate) fn new_client() -> ClientId {
    // The standard library's hasher is the nearest randomness: each is keyed again.
    ClientId(RandomState::new().hash_one(()))
}

/// The threads of all databases of this process, however many databases.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started =
        Runtime::start().map_err(|error| Error::Open(format!("cannot start threads for the network: {error}")))?;
    Ok(RUNTIME.get_or_init(|| started))
}
