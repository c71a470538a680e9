//! The homes of volumes in the process of a store or of a node, for owners that come to the same address.

use crate::Result;
use crate::cli::ServeArgs;
use crate::descriptors;
use crate::output::checks;
use attach::HomeServer;
use net::{Beside, Runtime};

/// The homes in the directory that was named, if one was.
pub(super) struct Homes {
    server: Option<HomeServer>,
    room: Room,
}

/// The sessions that the homes may have at a time.
#[derive(Clone, Copy)]
pub(super) struct Room(usize);

impl Room {
    pub(super) fn of(args: &ServeArgs) -> Result<Self> {
        Ok(Self(if args.volumes.is_some() { descriptors::home_sessions_max()? } else { 0 }))
    }

    /// The files that these sessions may have open.
    pub(super) fn files(self) -> usize {
        self.0 * descriptors::PER_HOME_SESSION
    }
}

impl Homes {
    pub(super) fn start(args: &ServeArgs, room: Room, runtime: &Runtime) -> Result<Self> {
        let start = |dir| Ok::<_, crate::Error>(HomeServer::start_told(dir, runtime, checks())?);
        Ok(Self { server: args.volumes.as_deref().map(start).transpose()?, room })
    }

    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Their sessions at the address of the store.
    pub(super) fn beside(&self) -> impl Iterator<Item = Beside> {
        self.server.iter().map(|server| server.beside(self.room.0))
    }
}
