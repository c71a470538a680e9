//! The places of whose changes a hub is to be told, and who speaks for each.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use protocol::homes::{SourceName, UpdateId};
use types::GoodbyeReason;

/// The updaters of a source that are remembered as deposed.
const DEPOSED_MAX: usize = 64;

/// A source.
#[derive(Debug, Default)]
struct Source {
    /// The life of the updater that speaks for it since it has caught up, while that has a lease.
    updater: Option<u64>,
    /// By this everything is marked until it has caught up.
    mark: Option<UpdateId>,
    /// The lives of those whose place was taken, the last ones: they do not take it back.
    deposed: VecDeque<u64>,
}

/// All sources of a hub.
#[derive(Debug)]
pub(super) struct Sources(BTreeMap<SourceName, Source>);

/// The changes that a source brings which has caught up.
#[derive(Debug)]
pub(super) struct CaughtUp {
    /// The updater that spoke for it until now.
    pub(super) deposed: Option<u64>,
    /// Everything is marked by this no longer.
    pub(super) mark: Option<UpdateId>,
}

impl Sources {
    pub(super) fn new(names: &[SourceName]) -> Self {
        Self(names.iter().map(|name| (name.clone(), Source::default())).collect())
    }

    /// Whether an updater may come for a source, and take the place of another one there.
    pub(super) fn check(&self, name: &SourceName, life: u64) -> Result<(), (GoodbyeReason, String)> {
        let Some(source) = self.0.get(name) else {
            let text = format!("'{name}' is none of the sources that this hub was told to expect");
            return Err((GoodbyeReason::UnknownSource, text));
        };
        if source.deposed.contains(&life) {
            return Err((GoodbyeReason::Superseded, format!("another updater speaks for '{name}' by now")));
        }
        Ok(())
    }

    /// Everything is to be marked by this update until a source has caught up; says whether it is not marked already.
    pub(super) fn mark(&mut self, name: &SourceName, update: UpdateId) -> bool {
        let unmarked = self.0.get_mut(name).filter(|source| source.mark.is_none());
        unmarked.is_some_and(|source| source.mark.replace(update).is_none())
    }

    /// An updater speaks for a source from now on, unless it is deposed there.
    pub(super) fn caught_up(&mut self, name: &SourceName, life: u64) -> Option<CaughtUp> {
        let source = self.0.get_mut(name).filter(|source| !source.deposed.contains(&life))?;
        let deposed = source.updater.replace(life).filter(|&earlier| earlier != life);
        if let Some(earlier) = deposed {
            source.deposed.truncate(DEPOSED_MAX - 1);
            source.deposed.push_front(earlier);
        }
        Some(CaughtUp { deposed, mark: source.mark.take() })
    }

    /// An updater is gone; gives the source that it has spoken for.
    pub(super) fn left(&mut self, life: u64) -> Option<SourceName> {
        let (name, source) = self.0.iter_mut().find(|(_, source)| source.updater == Some(life))?;
        source.updater = None;
        Some(name.clone())
    }

    /// How many are away.
    pub(super) fn away(&self) -> usize {
        self.0.values().filter(|source| source.mark.is_some()).count()
    }
}
