//! Takes a design out of the store.
//!
//! A design is more than one transaction may delete. So the first one takes its name away, and notes it among those
//! that should be removed: from then on nobody finds it. Its objects are deleted in batches; a removal that was
//! interrupted continues when it is called again, or when a design of that name is loaded.

use super::REVISIONS;
use crate::{DESIGNS, Design, State};
use objects::{AsyncTx, Db, Key, Map, Ref, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;

/// Designs that nobody finds any more and whose objects are not all deleted.
pub(super) const REMOVED: &str = "designs/removed";

/// Entities that one transaction deletes.
const BATCH: usize = 1_000;

type Removed = Map<(String, Ref<State>), Design>;

/// The summary of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Whether there was a design of this name, or what was left of one.
    pub found: bool,
    /// Entities that were deleted.
    pub entities: u64,
    /// Whether nothing is left.
    pub is_complete: bool,
}

/// Removes the design of this name, and the remains of others that had it. Calls `progress` with the number of entities
/// that are deleted; it may break the removal off.
pub async fn remove(db: &Db, name: &str, progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<Removal> {
    let taken = db.transact_async(async |mut tx| take(&mut tx, name).await).await?;
    let swept = sweep(db, name, progress).await?;
    Ok(Removal { found: taken || swept.found, ..swept })
}

/// Takes the name away from its design, and from a revision that was to take its place.
async fn take(tx: &mut AsyncTx, name: &str) -> Result<bool> {
    let mut found = false;
    for map in [DESIGNS, REVISIONS] {
        let Some(designs) = tx.find_map::<String, Design>(map).await? else { continue };
        if let Some(design) = designs.remove(tx, name).await? {
            give_up(tx, name, &design).await?;
            found = true;
        }
    }
    Ok(found)
}

/// Notes a design that has lost its name.
pub(super) async fn give_up(tx: &mut AsyncTx, name: &str, design: &Design) -> Result<()> {
    let removed: Removed = tx.map(REMOVED).await?;
    removed.insert(tx, &(name.to_owned(), design.state), design).await.map(drop)
}

/// Deletes what is left of designs that had this name.
pub(super) async fn sweep(db: &Db, name: &str, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<Removal> {
    let mut removal = Removal::default();
    loop {
        let deleted = db.transact_async(async |mut tx| sweep_some(&mut tx, name).await).await?;
        let Some(deleted) = deleted else { return Ok(Removal { is_complete: true, ..removal }) };
        removal.found = true;
        removal.entities += deleted;
        if progress(removal.entities).is_break() {
            return Ok(removal);
        }
    }
}

/// Deletes some entities of a design without a name, or else everything that it has beside them; `None` if there is no
/// such design.
async fn sweep_some(tx: &mut AsyncTx, name: &str) -> Result<Option<u64>> {
    let Some(removed) = tx.find_map::<(String, Ref<State>), Design>(REMOVED).await? else { return Ok(None) };
    let least = (name.to_owned(), Ref::new(objects::ObjectId::new(types::PageId::new(0, 0), 0), 0));
    let Some((key, design)) = removed.range(least..).next(tx).await?.filter(|((of, _), _)| of == name) else {
        return Ok(None);
    };
    let (mut cursor, mut batch) = (design.entities.iter(), Vec::new());
    while batch.len() < BATCH
        && let Some(entity) = cursor.next(tx).await?
    {
        batch.push(entity);
    }
    tx.read_ahead(batch.iter().map(|(_, object)| object.id()))?;
    for (number, object) in &batch {
        tx.delete(*object).await?;
        design.entities.remove(tx, number).await?;
    }
    if batch.is_empty() {
        if drain(tx, design.sections).await? || drain(tx, design.extras).await? {
            return Ok(Some(0));
        }
        tx.delete(design.elements).await?;
        tx.delete(design.state).await?;
        // A map that is empty is one object.
        tx.delete(design.entities.root()).await?;
        if let Some(sections) = design.sections {
            tx.delete(sections.root()).await?;
        }
        if let Some(extras) = design.extras {
            tx.delete(extras.root()).await?;
        }
        removed.remove(tx, &key).await?;
    }
    Ok(Some(batch.len() as u64))
}

/// Takes some entries out of a map. Returns whether there were any.
async fn drain<K: Key, V: Serialize + DeserializeOwned>(tx: &mut AsyncTx, map: Option<Map<K, V>>) -> Result<bool> {
    let Some(map) = map else { return Ok(false) };
    let (mut cursor, mut keys) = (map.iter(), Vec::new());
    while keys.len() < BATCH
        && let Some(key) = cursor.next_key(tx).await?
    {
        keys.push(key);
    }
    for key in &keys {
        map.remove(tx, key).await?;
    }
    Ok(!keys.is_empty())
}
