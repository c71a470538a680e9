//! The places of whose changes a hub should be told, and who speaks for each.

use crate::messages::hub::{Fence, SourceName, UpdateId};
use crate::rule::Rule;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use types::{Broken, GoodbyeReason};

/// A source.
#[derive(Debug, Default)]
struct Source {
    /// The life of the updater that speaks for it since it has caught up, while that has a lease.
    updater: Option<u64>,
    /// The number of the last one that has caught up, and its life: another one has to have a greater number.
    fence: Fence,
    fenced_by: u64,
    /// By this everything is marked until it has caught up.
    mark: Option<UpdateId>,
}

impl Source {
    /// Whether an updater may speak for it that has this number there.
    fn takes(&self, life: u64, fence: Fence, broken: Broken<Rule>) -> bool {
        let is_later = fence > self.fence || fence == self.fence && life == self.fenced_by;
        is_later || broken.is(Rule::FenceSources)
    }
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

    /// Whether an updater may come for a source: for one that has had its turn there, nobody else has had a later one.
    pub(super) fn check(
        &self,
        name: &SourceName,
        life: u64,
        fence: Fence,
        broken: Broken<Rule>,
    ) -> Result<(), (GoodbyeReason, String)> {
        let Some(source) = self.0.get(name) else {
            let text = format!("'{name}' is none of the sources that this hub was told to expect");
            return Err((GoodbyeReason::UnknownSource, text));
        };
        if fence != Fence::NONE && !source.takes(life, fence, broken) {
            return Err((GoodbyeReason::Superseded, format!("another updater has got hold of '{name}' since")));
        }
        Ok(())
    }

    /// Everything should be marked by this update until a source has caught up; says whether it is not marked already.
    pub(super) fn mark(&mut self, name: &SourceName, update: UpdateId) -> bool {
        let unmarked = self.0.get_mut(name).filter(|source| source.mark.is_none());
        unmarked.is_some_and(|source| source.mark.replace(update).is_none())
    }

    /// An updater speaks for a source from now on, unless another one has had a later turn there.
    pub(super) fn caught_up(
        &mut self,
        name: &SourceName,
        life: u64,
        fence: Fence,
        broken: Broken<Rule>,
    ) -> Option<CaughtUp> {
        let source = self.0.get_mut(name).filter(|source| source.takes(life, fence, broken))?;
        let deposed = source.updater.replace(life).filter(|&earlier| earlier != life);
        (source.fence, source.fenced_by) = (fence, life);
        Some(CaughtUp { deposed, mark: source.mark.take() })
    }

    /// The source that an updater speaks for.
    pub(super) fn of(&self, life: u64) -> Option<&SourceName> {
        self.0.iter().find(|(_, source)| source.updater == Some(life)).map(|(name, _)| name)
    }

    /// An updater is gone; gives the source that it has spoken for.
    pub(super) fn left(&mut self, life: u64) -> Option<SourceName> {
        let (name, source) = self.0.iter_mut().find(|(_, source)| source.updater == Some(life))?;
        source.updater = None;
        Some(name.clone())
    }

    /// Returns the sources that are away or have not caught up.
    pub(super) fn away(&self) -> impl Iterator<Item = &SourceName> {
        self.0.iter().filter(|(_, source)| source.mark.is_some()).map(|(name, _)| name)
    }
}
