//! The dependencies that are marked, and those that were since a ticket was given.
//!
//! 1. A dependency is marked from the moment at which its home has learned of an update until that is visible, once for
//!    each update (**CountMarks**). A response that is fetched in the meantime may be from before the update, and is
//!    not stored (**StoreIfUnmarked**).
//! 2. A response that was asked for before the unmarking may be from before, too, and is not stored afterwards
//!    (**StoreIfUntouched**). So the home has a clock that counts unmarkings: a ticket has its time, and each
//!    dependency that was unmarked.
//! 3. So many unmarkings are remembered. A ticket from before them is void (**VoidForgotten**).

use crate::messages::caches::NotStored;
use crate::messages::hub::{Dependency, UpdateId};
use crate::rule::Rule;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use types::{Broken, Map};

/// The marks of a home.
#[derive(Debug)]
pub(crate) struct Marks {
    updates: Map<UpdateId, Vec<Dependency>>,
    marked: Map<Dependency, u32>,
    clock: u64,
    /// The last unmarking of each dependency that is remembered, and all of them in order.
    unmarked: Map<Dependency, u64>,
    order: VecDeque<(u64, Dependency)>,
    remembered_max: usize,
    /// Tickets through this time are void.
    void_through: u64,
    broken: Broken<Rule>,
}

impl Marks {
    pub(crate) fn new(remembered_max: usize, broken: Broken<Rule>) -> Self {
        let (updates, marked, unmarked, order) = Default::default();
        Self { updates, marked, clock: 1, unmarked, order, remembered_max, void_through: 0, broken }
    }

    /// The time, for a ticket.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// The number of updates that are marked.
    pub(crate) fn updates(&self) -> usize {
        self.updates.len()
    }

    /// Forgets all marks; no earlier ticket counts any more.
    pub(crate) fn reset(&mut self) {
        let Self { clock, remembered_max, broken, .. } = *self;
        *self = Self { clock: clock + 1, void_through: clock, ..Self::new(remembered_max, broken) };
    }

    pub(crate) fn mark(&mut self, update: UpdateId, dependencies: Vec<Dependency>) {
        for dependency in &dependencies {
            *self.marked.entry(dependency.clone()).or_default() += 1;
        }
        // A hub gives each number once; one that does not has its earlier marks lapse like a seen update's.
        if let Some(earlier) = self.updates.insert(update, dependencies) {
            self.let_go(earlier);
        }
    }

    pub(crate) fn unmark(&mut self, update: UpdateId) {
        let Some(dependencies) = self.updates.remove(&update) else { return };
        self.let_go(dependencies);
    }

    fn let_go(&mut self, dependencies: Vec<Dependency>) {
        let at = self.clock;
        self.clock += 1;
        for dependency in dependencies {
            match self.marked.get_mut(&dependency) {
                Some(count) if *count > 1 && !self.broken.is(Rule::CountMarks) => *count -= 1,
                _ => drop(self.marked.remove(&dependency)),
            }
            self.unmarked.insert(dependency.clone(), at);
            self.order.push_back((at, dependency));
        }
        while self.order.len() > self.remembered_max {
            let (at, dependency) = self.order.pop_front().expect("there are more than none");
            if self.unmarked.get(&dependency) == Some(&at) {
                self.unmarked.remove(&dependency);
            }
            if !self.broken.is(Rule::VoidForgotten) {
                self.void_through = at;
            }
        }
    }

    /// Whether a response with these dependencies, which was asked for at `clock`, may be stored.
    pub(crate) fn allow(&self, clock: u64, dependencies: &[Dependency]) -> Result<(), NotStored> {
        if clock <= self.void_through {
            return Err(NotStored::TicketVoid);
        }
        for dependency in dependencies.iter().chain([&Dependency::ALL]) {
            if self.marked.contains_key(dependency) && !self.broken.is(Rule::StoreIfUnmarked) {
                return Err(NotStored::Marked);
            }
            let is_touched = self.unmarked.get(dependency).is_some_and(|&at| at >= clock);
            if is_touched && !self.broken.is(Rule::StoreIfUntouched) {
                return Err(NotStored::Touched);
            }
        }
        Ok(())
    }
}
