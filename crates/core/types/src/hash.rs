//! Hash maps with a fixed hasher: the same run visits the same order, which the simulator's replay depends on.

use foldhash::fast::FixedState;

/// A hash map whose order depends on nothing but what was done to it.
pub type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// A hash set, likewise.
pub type Set<K> = hashbrown::HashSet<K, FixedState>;

/// The place of a key in a map, found in one look: taken or free.
pub use hashbrown::hash_map::Entry as MapEntry;
