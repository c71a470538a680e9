//! The lives of a holder's directory: of its copies, and of its earlier states, none is considered it.
//!
//! `machines::Life` says which one that is. While the registry has its life, another process may be in it: one that is
//! known to be dead, as this is the same directory of the same boot under the same lock, or has left, is not waited
//! for; any other must have been silent for as long as a member may be.

use super::error::FolderError;
use super::marker::Marker;
use crate::place::Place;
use machines::{Life, PartitionId};
use registry::{Lived, Registry, RegistryError, SILENCE};
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use types::Broken;
use vfs::Files;
use vfs::random;

/// How often it is looked whether the process before shows a heartbeat.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The registry of a holder's lives, and a hearer of how long it is waited for a process that may be in the last one.
pub struct Lives<'a> {
    pub(super) registry: &'a dyn Registry,
    pub(super) waits: &'a mut dyn FnMut(Duration),
}

impl<'a> Lives<'a> {
    /// Those of this registry. `waits` is told before a wait.
    pub fn new(registry: &'a dyn Registry, waits: &'a mut dyn FnMut(Duration)) -> Self {
        Self { registry, waits }
    }

    /// The process of the last life must be dead, if one was in it.
    fn wait(&mut self, dir: &Path, partition: PartitionId, lived: Lived) -> Result<(), FolderError> {
        (self.waits)(SILENCE);
        let until = Instant::now() + SILENCE;
        while Instant::now() < until {
            thread::sleep(LOOK_EVERY);
            let now = self.registry.life(partition)?;
            if now.is_some_and(|it| it.life != lived.life || (it.heartbeat != lived.heartbeat && !it.is_gone)) {
                return Err(FolderError::Lives(dir.to_owned()));
            }
            if now.is_none_or(|it| it.is_gone) {
                break;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Lives<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lives").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// A folder that this process has locked, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Locked<'a> {
    pub(super) files: &'a dyn Files,
    pub(super) dir: &'a Path,
    pub(super) place: &'a Place,
}

/// Begins the next life of a folder, in the registry too if there is one.
pub(super) fn begin(marker: &mut Marker, at: Locked<'_>, lives: Option<&mut Lives<'_>>) -> Result<(), FolderError> {
    let Locked { files, dir, place } = at;
    let partition = PartitionId(marker.partition);
    let Some(lives) = lives else {
        let life = Life { incarnation: marker.life.incarnation + 1, number: random()? };
        (marker.life, marker.next, marker.place) = (life, None, place.clone());
        return Ok(marker.write(files)?);
    };
    let replaced = |error| match error {
        RegistryError::Replaced(_) => FolderError::Older(dir.to_owned()),
        error => FolderError::Registry(error),
    };
    let lived = lives.registry.life(partition)?;
    if let Some(lived) = lived {
        let life = marker.life.at_start(marker.next, Some(lived.life), Broken::NONE);
        marker.life = life.ok_or_else(|| FolderError::Older(dir.to_owned()))?;
        if !lived.is_gone && !place.follows(&marker.place) {
            lives.wait(dir, partition, lived)?;
        }
    }
    let next = Life { incarnation: marker.life.incarnation + 1, number: random()? };
    (marker.next, marker.place) = (Some(next), place.clone());
    marker.write(files)?;
    lives.registry.begin(partition, marker.life, next).map_err(replaced)?;
    (marker.life, marker.next) = (next, None);
    Ok(marker.write(files)?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Scratch, settings};
    use super::super::{HolderError, HolderNames, HolderServer};
    use super::*;
    use net::Runtime;
    use registry::MemoryRegistry;
    use std::fs;
    use std::sync::Arc;

    const ROOM: u64 = 16 << 20;
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Starts the holder of a folder, when the process before has let go of it, and registers it.
    fn start(dir: &Path, registry: &MemoryRegistry, runtime: &Runtime) -> Result<HolderServer, HolderError> {
        let begun = Instant::now();
        let holder = loop {
            match HolderServer::start_known(&settings(dir, ROOM), Lives::new(registry, &mut |_| {}), runtime) {
                Err(HolderError::Folder(FolderError::InUse(_))) if begun.elapsed() < PATIENCE => thread::yield_now(),
                started => break started?,
            }
        };
        let names = HolderNames { name: "one".into(), domain: "rack".into(), address: holder.address().to_string() };
        holder.register(Arc::new(registry.clone()), names)?;
        Ok(holder)
    }

    /// A copy of a holder's folder.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to.join("r")).unwrap();
        for file in fs::read_dir(from.join("r")).unwrap() {
            let file = file.unwrap();
            // A segment may be made in the meantime, under another name.
            let _ = fs::copy(file.path(), to.join("r").join(file.file_name()));
        }
    }

    #[test]
    fn an_older_state_of_a_folder_is_refused_and_may_be_made_anew() {
        let (scratch, runtime, registry) = (Scratch::new("older"), Runtime::start().unwrap(), MemoryRegistry::new());
        let [dir, old] = ["holder", "old"].map(|name| scratch.0.join(name));
        fs::create_dir(&dir).unwrap();
        let partition = start(&dir, &registry, &runtime).unwrap().partition();
        copy(&dir, &old);
        drop(start(&dir, &registry, &runtime).unwrap());
        let refused = start(&old, &registry, &runtime).unwrap_err();
        assert!(matches!(refused, HolderError::Folder(FolderError::Older(_))), "{refused}");
        assert!(refused.to_string().contains("--as-new"), "{refused}");
        assert_eq!(start(&dir, &registry, &runtime).unwrap().partition(), partition, "the newest one is the holder");
        let mut dropped = None;
        HolderServer::make_anew(&settings(&old, ROOM), &mut |it| dropped = Some(it)).unwrap();
        assert_eq!(dropped.map(|it| (it.partition, it.copies)), Some((partition, Some((0, 0)))));
        assert_ne!(start(&old, &registry, &runtime).unwrap().partition(), partition);
    }

    #[test]
    fn of_two_copies_of_a_folder_one_is_the_holder() {
        let (scratch, runtime, registry) = (Scratch::new("copies"), Runtime::start().unwrap(), MemoryRegistry::new());
        let [dir, other] = ["holder", "other"].map(|name| scratch.0.join(name));
        fs::create_dir(&dir).unwrap();
        let holder = start(&dir, &registry, &runtime).unwrap();
        copy(&dir, &other);
        let refused = start(&other, &registry, &runtime).unwrap_err();
        assert!(matches!(refused, HolderError::Folder(FolderError::Lives(_))), "{refused}");
        drop(holder);
        // One that left in good order is not waited for, and a life that has ended is nobody's.
        let (begun, holder) = (Instant::now(), start(&other, &registry, &runtime).unwrap());
        assert!(begun.elapsed() < SILENCE);
        let refused = start(&dir, &registry, &runtime).unwrap_err();
        assert!(matches!(refused, HolderError::Folder(FolderError::Older(_))), "{refused}");
        drop(holder);
    }

    #[test]
    fn a_holder_that_was_started_again_elsewhere_counts_no_more() {
        let (scratch, runtime, registry) = (Scratch::new("again"), Runtime::start().unwrap(), MemoryRegistry::new());
        let dir = scratch.0.join("holder");
        fs::create_dir(&dir).unwrap();
        let holder = start(&dir, &registry, &runtime).unwrap();
        let partition = holder.partition();
        let lived = registry.life(partition).unwrap().unwrap();
        registry.begin(partition, lived.life, Life { incarnation: lived.life.incarnation + 1, number: 77 }).unwrap();
        let why = holder.wait_failed_within(PATIENCE).expect("it has been replaced");
        assert!(why.contains("started again elsewhere"), "{why}");
        drop(holder);
        assert!(!registry.life(partition).unwrap().unwrap().is_gone, "the other one is there");
    }
}
