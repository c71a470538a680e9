//! Which slots depend on a dependency, and on which dependencies a slot depends: both ways, in 20 bytes for each pair,
//! and about 30 above its name for each dependency.
//!
//! A pair is an *edge* in two lists: that of its dependency, which is doubly linked, so that a slot leaves it at once
//! however long it is, and that of its slot.

use crate::messages::hub::Dependency;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// The names that are looked at for an example.
const EXAMPLES_MAX: usize = 4096;

/// Stands for the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Edge {
    slot: u32,
    name: u32,
    /// In the dependency's list.
    before: u32,
    after: u32,
    /// In the slot's list, and in that of the edges that are free.
    next: u32,
}

/// The bytes of a name beside its text: its place, that in the hash table, and the allocator's word.
const NAME_BYTES: usize = size_of::<Name>() + 16;

/// A dependency. One that no slot has is free: it is empty, and has no first edge.
#[derive(Debug)]
struct Name {
    text: Box<[u8]>,
    first: u32,
}

/// The pairs of a slot and a dependency.
#[derive(Debug)]
pub(crate) struct Dependents {
    /// The number of each dependency that any slot has, by its hash.
    numbers: HashTable<u32>,
    names: Vec<Name>,
    names_free: Vec<u32>,
    edges: Vec<Edge>,
    edges_free: u32,
    /// The first edge of each slot.
    slots: Vec<u32>,
    /// The bytes of the names and the edges that are not free.
    bytes: usize,
}

impl Dependents {
    pub(crate) fn new() -> Self {
        let (numbers, names, names_free, edges, slots) = Default::default();
        Self { numbers, names, names_free, edges, edges_free: NONE, slots, bytes: 0 }
    }

    /// The bytes that it takes with a further slot, at most.
    pub(crate) fn bytes_with(&self, dependencies: &[Dependency]) -> usize {
        let pair = |dependency: &Dependency| size_of::<Edge>() + NAME_BYTES + dependency.name().len();
        self.bytes + dependencies.iter().map(pair).sum::<usize>()
    }

    /// A slot without dependencies gets these.
    pub(crate) fn add(&mut self, slot: u32, dependencies: &[Dependency]) {
        if self.slots.len() <= slot as usize {
            self.slots.resize(slot as usize + 1, NONE);
        }
        for dependency in dependencies {
            let name = self.number(dependency);
            // A slot that stands first in a list has just been put there: the dependency was named twice.
            let first = self.names[name as usize].first;
            if self.edges.get(first as usize).is_none_or(|edge| edge.slot != slot) {
                self.link(slot, name);
            }
        }
    }

    /// A slot has no dependencies any more.
    pub(crate) fn clear(&mut self, slot: u32) {
        let Some(first) = self.slots.get_mut(slot as usize) else { return };
        let mut at = core::mem::replace(first, NONE);
        while at != NONE {
            let edge = self.edges[at as usize];
            self.unlink(edge);
            self.bytes -= size_of::<Edge>();
            self.edges[at as usize].next = self.edges_free;
            self.edges_free = at;
            at = edge.next;
        }
    }

    /// Nothing depends on anything.
    pub(crate) fn clear_all(&mut self) {
        *self = Self::new();
    }

    /// The slots that depend on it.
    pub(crate) fn of(&self, dependency: &Dependency) -> impl Iterator<Item = u32> {
        let mut at = self.find(dependency.name()).map_or(NONE, |number| self.names[number as usize].first);
        core::iter::from_fn(move || {
            let edge = self.edges.get(at as usize)?;
            at = edge.after;
            Some(edge.slot)
        })
    }

    /// The dependencies of a slot.
    pub(crate) fn names(&self, slot: u32) -> impl Iterator<Item = Dependency> {
        let mut at = self.slots.get(slot as usize).copied().unwrap_or(NONE);
        core::iter::from_fn(move || {
            let edge = self.edges.get(at as usize)?;
            at = edge.next;
            Dependency::new(Bytes::copy_from_slice(&self.names[edge.name as usize].text))
        })
    }

    /// Whether a slot depends on something that has a name of its own.
    pub(crate) fn has_names(&self) -> bool {
        self.numbers.len() > usize::from(self.find(Dependency::ALL.name()).is_some())
    }

    /// A name that is neither that of everything nor of a URL, if one is among the first.
    pub(crate) fn named(&self) -> Option<Dependency> {
        let texts = self.names.iter().take(EXAMPLES_MAX).filter(|name| name.first != NONE).map(|name| &name.text);
        let mut own = texts.filter(|text| text.as_ref() != Dependency::ALL.name() && !text.starts_with(b"url "));
        own.next().and_then(|text| Dependency::new(Bytes::copy_from_slice(text)))
    }

    fn find(&self, text: &[u8]) -> Option<u32> {
        self.numbers.find(hash(text), |&number| *self.names[number as usize].text == *text).copied()
    }

    fn number(&mut self, dependency: &Dependency) -> u32 {
        let text = dependency.name();
        if let Some(number) = self.find(text) {
            return number;
        }
        let number = self.names_free.pop().unwrap_or_else(|| {
            self.names.push(Name { text: Box::default(), first: NONE });
            self.names.len() as u32 - 1
        });
        self.names[number as usize].text = text.into();
        self.bytes += NAME_BYTES + text.len();
        let names = &self.names;
        self.numbers.insert_unique(hash(text), number, |&number| hash(&names[number as usize].text));
        number
    }

    fn link(&mut self, slot: u32, name: u32) {
        let first = &mut self.names[name as usize].first;
        let edge = Edge { slot, name, before: NONE, after: *first, next: self.slots[slot as usize] };
        let at = if self.edges_free == NONE {
            self.edges.push(edge);
            self.edges.len() as u32 - 1
        } else {
            let at = self.edges_free;
            self.edges_free = core::mem::replace(&mut self.edges[at as usize], edge).next;
            at
        };
        *first = at;
        self.bytes += size_of::<Edge>();
        if edge.after != NONE {
            self.edges[edge.after as usize].before = at;
        }
        self.slots[slot as usize] = at;
    }

    /// Takes an edge out of its dependency's list; a dependency without slots is forgotten.
    fn unlink(&mut self, edge: Edge) {
        if edge.after != NONE {
            self.edges[edge.after as usize].before = edge.before;
        }
        if edge.before != NONE {
            self.edges[edge.before as usize].after = edge.after;
            return;
        }
        let name = &mut self.names[edge.name as usize];
        name.first = edge.after;
        if edge.after == NONE {
            let text = core::mem::take(&mut name.text);
            self.bytes -= NAME_BYTES + text.len();
            if let Ok(number) = self.numbers.find_entry(hash(&text), |&number| number == edge.name) {
                number.remove();
            }
            self.names_free.push(edge.name);
        }
    }
}

fn hash(text: &[u8]) -> u64 {
    FixedState::default().hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::format;
    use proptest::prelude::*;

    fn named(number: u8) -> Dependency {
        Dependency::new(format!("item:{number}")).unwrap()
    }

    #[test]
    fn a_dependency_that_is_named_twice_is_one() {
        let mut dependents = Dependents::new();
        dependents.add(3, &[named(1), named(2), named(1), named(1)]);
        assert_eq!(dependents.of(&named(1)).collect::<Vec<_>>(), [3]);
        assert_eq!(dependents.names(3).count(), 2);
    }

    proptest! {
        /// As a map from slots to sets of dependencies.
        #[test]
        fn it_is_a_relation(steps in prop::collection::vec((0..6u32, prop::collection::btree_set(0..5u8, 0..4)), 1..60)) {
            let (mut dependents, mut model) = (Dependents::new(), BTreeMap::<u32, BTreeSet<u8>>::new());
            for (slot, names) in steps {
                dependents.clear(slot);
                dependents.add(slot, &names.iter().map(|&name| named(name)).collect::<Vec<_>>());
                model.insert(slot, names);
                for name in 0..5 {
                    let expected: BTreeSet<u32> =
                        model.iter().filter(|(_, names)| names.contains(&name)).map(|(&slot, _)| slot).collect();
                    let got: Vec<u32> = dependents.of(&named(name)).collect();
                    prop_assert_eq!(got.len(), expected.len());
                    prop_assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), expected);
                }
                for (&slot, names) in &model {
                    let expected: BTreeSet<_> = names.iter().map(|&name| named(name)).collect();
                    prop_assert_eq!(dependents.names(slot).collect::<BTreeSet<_>>(), expected);
                }
                let pairs: usize = model.values().map(BTreeSet::len).sum();
                prop_assert!(dependents.edges.len() <= 6 * 3 && pairs <= dependents.edges.len());
                let used: BTreeSet<_> = model.values().flatten().collect();
                prop_assert_eq!(dependents.numbers.len(), used.len());
                let names = used.len() * (NAME_BYTES + "item:0".len());
                prop_assert_eq!(dependents.bytes_with(&[]), names + pairs * size_of::<Edge>());
            }
        }
    }
}
