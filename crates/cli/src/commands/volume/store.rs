//! A store whose volumes a command is about: asked for as long as nobody wants the command to end.
//!
//! A store that is stopped, or cut off, answers nothing, and may be waited for long. A command ends a short while after
//! the first Ctrl-C all the same: that while is for what home is at, and for undoing what was done.

use super::{homes, rebuild};
use crate::Result;
use crate::stopper::Interrupt;
use ::registry::{HomeNode, RegistryError, StoreRegistry, Volume, host_name};
use attach::{FarError, FarHome, GivenUp, VolumeId};
use net::Runtime;
use std::sync::Arc;
use std::time::Duration;

/// So long after the first Ctrl-C home is waited for.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A store.
pub(super) struct Store {
    address: String,
    registry: Arc<StoreRegistry>,
    runtime: Runtime,
    interrupt: Interrupt,
}

impl Store {
    /// Connects to the registry in it.
    pub(super) fn connect(address: &str, interrupt: &Interrupt) -> Result<Self> {
        let registry = Arc::new(registry(address, host_name(), interrupt)?);
        Ok(Self { address: address.to_owned(), registry, runtime: Runtime::start()?, interrupt: interrupt.clone() })
    }

    /// Its address, or several.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Its registry, for what changes it: each call takes a few seconds at the most.
    pub(super) fn registry(&self) -> &Arc<StoreRegistry> {
        &self.registry
    }

    /// The threads of sessions with it.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Tells when the command should end.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The volume of this name.
    pub(super) fn find(&self, name: &str) -> Result<Volume> {
        let (registry, name, address) = (self.registry.clone(), name.to_owned(), self.address.clone());
        self.interrupt.within(Duration::ZERO, move || find(&registry, &address, &name))?
    }

    /// Refuses a name that a volume has.
    pub(super) fn expect_free(&self, name: &str) -> Result {
        let (registry, wanted, address) = (self.registry.clone(), name.to_owned(), self.address.clone());
        let look = move || {
            let found = registry.find(&wanted);
            let is_free = matches!(found, Err(RegistryError::NoSuchName(_)));
            (found, if is_free { rebuild::at_home(&address, &wanted, &registry) } else { None })
        };
        let (found, lost) = self.interrupt.within(Duration::ZERO, look)?;
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        match found {
            Err(RegistryError::NoSuchName(_)) => Ok(()),
            found => Err(found.map_or_else(|error| error, |_| RegistryError::NameTaken(name.to_owned())).into()),
        }
    }

    /// The home of a volume.
    pub(super) fn home(&self, volume: VolumeId) -> Result<FarHome> {
        Ok(self.home_at(&self.home_node(volume)?, volume)?)
    }

    /// The home of a volume at this node.
    pub(super) fn home_at(&self, node: &HomeNode, volume: VolumeId) -> std::result::Result<FarHome, FarError> {
        FarHome::connect_until(&node.address, volume, &self.runtime, self.given_up())
    }

    /// The node that keeps the home of a volume.
    pub(super) fn home_node(&self, volume: VolumeId) -> Result<HomeNode> {
        let registry = self.registry.clone();
        Ok(self.interrupt.within(Duration::ZERO, move || registry.home(volume))??)
    }

    /// The node that keeps the homes of new volumes: the one that the command has reached first.
    pub(super) fn new_home_node(&self) -> Result<HomeNode> {
        let registry = self.registry.clone();
        let nodes = self.interrupt.within(Duration::ZERO, move || registry.nodes())??;
        Ok(nodes.into_iter().next().ok_or("no node of the store has an address")?)
    }

    /// Makes a home of zeros at this node.
    pub(super) fn create_home(&self, node: &HomeNode, volume: VolumeId, size: u64) -> Result<FarHome> {
        let made = FarHome::create_until(&node.address, volume, size, &self.runtime, self.given_up());
        made.map_err(|error| self.may_be_made(error, volume))
    }

    /// Why a home was not made; with how to look for it, if nobody knows that.
    pub(super) fn may_be_made(&self, error: FarError, volume: VolumeId) -> crate::Error {
        match error {
            FarError::GivenUp | FarError::Lost(_) => {
                format!("{error}; {}", homes::of_none(volume, &self.address)).into()
            }
            error => error.into(),
        }
    }

    fn given_up(&self) -> GivenUp {
        let interrupt = self.interrupt.clone();
        Arc::new(move || interrupt.has_come_for(GRACE))
    }
}

/// The volume of this name; or that the registry does not know it, and home does.
pub(super) fn find(registry: &StoreRegistry, address: &str, name: &str) -> Result<Volume> {
    registry.find(name).map_err(|error| match error {
        RegistryError::NoSuchName(_) => {
            rebuild::at_home(address, name, registry).map_or_else(|| error.into(), Into::into)
        }
        error => error.into(),
    })
}

/// A registry in the store at this address, of a party at this place.
pub(super) fn registry(address: &str, place: String, interrupt: &Interrupt) -> Result<StoreRegistry> {
    let address = address.to_owned();
    Ok(interrupt.within(Duration::ZERO, move || StoreRegistry::connect(&address, &place))??)
}
