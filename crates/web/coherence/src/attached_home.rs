//! A home of another process, as a cache has it. `shared_home.rs` draws both ends.

use crate::cache::{Cache, Current};
use crate::changes::Changes;
use crate::error::SiteError;
use crate::far::trouble;
use crate::mapping::Mapping;
use crate::one_sided::OneSided;
use crate::thread_tables::ThreadTables;
use crate::version_table::FarTable;
use fabric::Shim;
use homes::{Attached, LookUps, Table};
use machine::RoleId;
use net::Handle;
use net::{AddressError, ConnectError, Host, Machines, Runtime, TakeDescriptor, UpstreamConfig, parse_addresses};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError};
use std::{fmt, io};

/// Where a home is that is a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeAddress {
    /// On this machine, at a socket.
    Socket(PathBuf),
    /// On another one, as `host:port`; its lookups are answered at the next port.
    Network {
        /// Where sessions are taken.
        sessions: String,
        /// Where lookups are answered.
        look_ups: String,
    },
}

impl fmt::Display for HomeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(f),
            Self::Network { sessions, .. } => sessions.fmt(f),
        }
    }
}

impl FromStr for HomeAddress {
    type Err = AddressError;

    /// A path has a slash, which an address has not.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains('/') && !text.contains("://") {
            return Ok(Self::Socket(text.into()));
        }
        let no_address = || AddressError::NoAddress(text.to_owned());
        let addresses = parse_addresses(text)?;
        let [sessions] = <[String; 1]>::try_from(addresses).map_err(|_| no_address())?;
        let (host, port) = sessions.rsplit_once(':').ok_or_else(no_address)?;
        let next = port.parse::<u16>().ok().and_then(|port| port.checked_add(1)).ok_or_else(no_address)?;
        let look_ups = format!("{host}:{next}");
        Ok(Self::Network { sessions, look_ups })
    }
}

/// A home of another process. It is looked for again whenever it is gone.
pub struct AttachedHome {
    cache: Cache,
    changes: Changes,
    host: Arc<Host>,
    role: RoleId,
}

impl AttachedHome {
    /// The home at an address, which need not be there yet: nothing is stored until it is.
    ///
    /// # Errors
    /// A path that is no socket's.
    pub fn attach(address: &HomeAddress, runtime: &Runtime) -> Result<Self, SiteError> {
        match address {
            HomeAddress::Socket(path) => Self::near(path, runtime),
            HomeAddress::Network { sessions, look_ups } => Self::far(sessions, look_ups, None, runtime),
        }
    }

    /// The same of a home on another machine, whose table is read by libfabric with this provider where the home lets
    /// that be. A lookup that cannot be made like that is asked for.
    ///
    /// # Errors
    /// A home that is none of another machine; no libfabric.
    pub fn attach_by_fabric(address: &HomeAddress, provider: &str, runtime: &Runtime) -> Result<Self, SiteError> {
        match address {
            HomeAddress::Socket(path) => {
                let text = format!("the table at {} is read in place: libfabric is for other machines", path.display());
                Err(SiteError::System(io::Error::new(io::ErrorKind::InvalidInput, text)))
            }
            HomeAddress::Network { sessions, look_ups } => Self::far(sessions, look_ups, Some(provider), runtime),
        }
    }

    fn near(socket: &Path, runtime: &Runtime) -> Result<Self, SiteError> {
        let no_path = || SiteError::System(io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"));
        let path = socket.to_str().ok_or_else(no_path)?;
        let mut machines = Machines::new();
        let (role, machine) = machines.add(Attached::new());
        let host = Host::start(machines, runtime);
        let home = Handle::new(machine, host.driver(role));
        let current = Arc::new(Current::default());
        let takes = TakeDescriptor::new({
            let current = current.clone();
            move |file| {
                let table = Table::of_another(Mapping::open(&file)?).map_err(|why| why.to_string())?;
                *current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
                Ok(())
            }
        });
        host.connect(
            role,
            UpstreamConfig { takes: Some(takes), ..UpstreamConfig::unix(homes::messages::caches::CACHE, path) },
        );
        Ok(Self { cache: Cache::near(home.clone(), current), changes: Changes::of(home), host, role })
    }

    fn far(sessions: &str, look_ups: &str, provider: Option<&str>, runtime: &Runtime) -> Result<Self, SiteError> {
        let shim = provider.map(|provider| Ok((Shim::load()?, provider))).transpose().map_err(SiteError::Fabric)?;
        let mut machines = Machines::new();
        let (role, home) = machines.add(Attached::new());
        let table = if shim.is_some() { LookUps::new().reading_window() } else { LookUps::new() };
        let (look_up_role, table) = machines.add(table);
        let host = Host::start(machines, runtime);
        let home = Handle::new(home, host.driver(role));
        let table = Handle::new(table, host.driver(look_up_role));
        let one_sided = shim.map(|(shim, provider)| OneSided::start(shim, provider, table.clone()));
        let table = FarTable::new(look_ups, table, one_sided.transpose().map_err(SiteError::System)?);
        host.connect(role, UpstreamConfig::new(homes::messages::caches::CACHE, sessions));
        host.connect(look_up_role, UpstreamConfig::new(homes::messages::look_ups::CACHE, look_ups));
        Ok(Self { cache: Cache::far(home.clone(), table), changes: Changes::of(home), host, role })
    }

    /// The home, for a cache.
    pub fn cache(&self) -> Cache {
        self.cache.clone()
    }

    /// The way of changes to all caches.
    pub fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// Lookups of this thread have a session of their own from now on, as long as what this gives is there. For a
    /// thread that serves clients as tasks of one runtime.
    pub fn look_up_here<'a>(homes: impl IntoIterator<Item = &'a Self>) -> ThreadTables {
        ThreadTables::open(homes.into_iter().filter_map(|home| home.cache.far_table()))
    }

    /// Why the home is not reached, if it is not.
    pub fn trouble(&self) -> Option<ConnectError> {
        trouble(&self.host, self.role)
    }
}

impl fmt::Debug for AttachedHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedHome").field("cache", &self.cache).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_at_a_socket_or_at_an_address_with_a_port_behind_it() {
        for path in ["/run/thorp/home", "./home", "a/b:7"] {
            assert_eq!(path.parse(), Ok(HomeAddress::Socket(path.into())));
        }
        let network = |sessions: &str, look_ups: &str| {
            Ok(HomeAddress::Network { sessions: sessions.to_owned(), look_ups: look_ups.to_owned() })
        };
        assert_eq!("shed:7430".parse(), network("shed:7430", "shed:7431"));
        assert_eq!("thorp://[::1]:65534".parse(), network("[::1]:65534", "[::1]:65535"));
        for text in ["home", "", "shed:0", "shed:65535", "a:1,b:1", "http://a:1"] {
            assert!(text.parse::<HomeAddress>().is_err(), "{text}");
        }
    }
}
