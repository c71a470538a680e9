//! The traversals of OO7.

use super::schema::{Assembly, AtomicPart, CompositePart, Connection, Module};
use objects::{AsyncTx, Map, Ref, Result};
use std::collections::HashSet;

/// Which traversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// Reads.
    T1,
    /// Changes the root part of each composite part.
    T2a,
    /// Changes every atomic part once.
    T2b,
    /// Changes every atomic part four times.
    T2c,
    /// Changes the build date of the root part of each composite part, which is indexed.
    T3a,
    /// Changes the build date of every atomic part once.
    T3b,
    /// Changes the build date of every atomic part four times.
    T3c,
}

/// The counts of a traversal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// Atomic parts, each as often as a composite part with it was visited.
    pub parts: u64,
    /// Connections.
    pub connections: u64,
    /// Changes made.
    pub updates: u64,
    /// The sum of `x` minus `y` over all visits, as they were before: a change swaps the two, so half of all states of
    /// a part that is changed as a whole give the same sum with its sign turned.
    pub balance: i64,
}

impl Visited {
    fn add(&mut self, other: Self) {
        self.parts += other.parts;
        self.connections += other.connections;
        self.updates += other.updates;
        self.balance += other.balance;
    }
}

impl Traversal {
    /// How often an atomic part is changed.
    const fn updates(self, is_root: bool) -> u64 {
        match self {
            Self::T1 => 0,
            Self::T2a | Self::T3a => is_root as u64,
            Self::T2b | Self::T3b => 1,
            Self::T2c | Self::T3c => 4,
        }
    }

    const fn changes_dates(self) -> bool {
        matches!(self, Self::T3a | Self::T3b | Self::T3c)
    }
}

/// Traverses a whole module: each composite part as often as a base assembly has it.
pub async fn traverse_module(tx: &mut AsyncTx, module: Ref<Module>, traversal: Traversal) -> Result<Visited> {
    let root = tx.get(module).await?.root;
    let (mut visited, mut assemblies) = (Visited::default(), vec![root]);
    while let Some(assembly) = assemblies.pop() {
        match tx.get(assembly).await? {
            Assembly::Complex(complex) => assemblies.extend(complex.below.iter().rev()),
            Assembly::Base(base) => {
                for part in base.parts {
                    visited.add(traverse(tx, module, part, traversal).await?);
                }
            }
        }
    }
    Ok(visited)
}

/// The composite parts that the assemblies of a module have, each once, in the order in which they lie.
pub async fn composite_parts(tx: &mut AsyncTx, module: Ref<Module>) -> Result<Vec<Ref<CompositePart>>> {
    let root = tx.get(module).await?.root;
    let (mut parts, mut assemblies) = (Vec::new(), vec![root]);
    while let Some(assembly) = assemblies.pop() {
        match tx.get(assembly).await? {
            Assembly::Complex(complex) => assemblies.extend(complex.below),
            Assembly::Base(base) => parts.extend(base.parts),
        }
    }
    parts.sort_unstable_by_key(|part| part.id());
    parts.dedup();
    Ok(parts)
}

/// Traverses one composite part, depth first along its connections.
pub async fn traverse(
    tx: &mut AsyncTx,
    module: Ref<Module>,
    composite: Ref<CompositePart>,
    traversal: Traversal,
) -> Result<Visited> {
    let by_date = if traversal.changes_dates() { Some(tx.get(module).await?.by_date) } else { None };
    let CompositePart { root, parts, .. } = tx.get(composite).await?;
    tx.read_ahead(parts.iter().map(|part| part.id()))?;
    let (mut visited, mut seen, mut parts) = (Visited::default(), HashSet::from([root]), vec![root]);
    while let Some(part) = parts.pop() {
        let atomic = tx.get(part).await?;
        visited.parts += 1;
        visited.balance += i64::from(atomic.x) - i64::from(atomic.y);
        for &connection in &atomic.to {
            let Connection { to, .. } = tx.get(connection).await?;
            visited.connections += 1;
            if seen.insert(to) {
                parts.push(to);
            }
        }
        visited.updates += update(tx, part, atomic, traversal.updates(part == root), by_date).await?;
    }
    Ok(visited)
}

/// Changes an atomic part so many times: swaps its coordinates, or moves its build date and its place in the index.
async fn update(
    tx: &mut AsyncTx,
    part: Ref<AtomicPart>,
    mut atomic: AtomicPart,
    times: u64,
    by_date: Option<Map<(u32, u32), Ref<AtomicPart>>>,
) -> Result<u64> {
    for _ in 0..times {
        if let Some(by_date) = by_date {
            by_date.remove(tx, &(atomic.build_date, atomic.id)).await?;
            // Odd dates become even and even ones odd, as in OO7: the index neither grows nor drifts.
            atomic.build_date ^= 1;
            by_date.insert(tx, &(atomic.build_date, atomic.id), &part).await?;
        } else {
            std::mem::swap(&mut atomic.x, &mut atomic.y);
        }
        tx.put(part, &atomic).await?;
    }
    Ok(times)
}
