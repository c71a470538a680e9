//! The line of table 1: as short as the paper's LAN, between a store and the place of its clients and their redirector.
//!
//! With a lab (`--lab`) it is a line of real packets. Elsewhere a relay in this process delays the bytes, and its four
//! threads add as much to each message of Base as to each of Buddy.

use super::costs::Lab;
use crate::{Place, Result};
use fixtures::Emulator;
use objects::Ref;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The delay of the emulated line, one way: a lab should be made with the same.
const ONE_WAY: Duration = Duration::from_micros(100);

/// A store behind a short line.
pub(crate) enum Lan {
    /// A store at the other end of a lab's line.
    Lab(Box<Lab>),
    /// A relay before a store on loopback, and that store's objects.
    Emulated(Emulator, Vec<Ref<[u8]>>),
}

impl Lan {
    /// Puts a line before the store of `lab`; in a lab, starts a store at the line's other end.
    pub(crate) fn start(lab: &Lab, place: &Place) -> Result<Self> {
        let Some(apart) = &place.apart else {
            return Ok(Self::Emulated(Emulator::start(lab.store(), ONE_WAY, None)?, lab.objects.clone()));
        };
        Ok(Self::Lab(Box::new(Lab::start_in(&place.dir.join("apart"), |dir| apart.serve(dir))?)))
    }

    /// The address at which clients reach the store.
    pub(crate) fn store(&self) -> SocketAddr {
        match self {
            Self::Lab(lab) => lab.store(),
            Self::Emulated(line, _) => line.address(),
        }
    }

    /// The store's objects, each on a page of its own.
    pub(crate) fn objects(&self) -> &[Ref<[u8]>] {
        match self {
            Self::Lab(lab) => &lab.objects,
            Self::Emulated(_, objects) => objects,
        }
    }
}

impl fmt::Display for Lan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lab(_) => "lab",
            Self::Emulated(..) => "emulated",
        })
    }
}
