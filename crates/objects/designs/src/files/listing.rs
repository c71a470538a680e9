//! The designs of a store with how far they are, for those who list or remove them.

use super::REVISIONS;
use super::removal::REMOVED;
use crate::{DESIGNS, Design, State};
use objects::{AsyncTx, Ref, Result};

/// The names of the maps that designs are kept in.
pub const OWN_NAMES: [&str; 3] = [DESIGNS, REVISIONS, REMOVED];

/// A design, or what an interrupted load or removal has left of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The design.
    pub design: Design,
    /// The progress of its load or removal.
    pub standing: Standing,
}

/// The progress of a design's load or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Loaded completely.
    Whole,
    /// Being loaded, or its load was interrupted.
    Unfinished,
    /// Being loaded in the place of another, or that load was interrupted.
    Revision,
    /// Being removed, or its removal was interrupted.
    Removed,
}

/// Returns all designs and what is left of some. A name may come several times: the design that it is found by is the
/// last.
pub async fn listed(tx: &mut AsyncTx) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    if let Some(removed) = tx.find_map::<(String, Ref<State>), Design>(REMOVED).await? {
        let mut cursor = removed.iter();
        while let Some(((name, _), design)) = cursor.next(tx).await? {
            all.push(Listed { name, design, standing: Standing::Removed });
        }
    }
    for (map, standing) in [(REVISIONS, Standing::Revision), (DESIGNS, Standing::Whole)] {
        let Some(designs) = tx.find_map::<String, Design>(map).await? else { continue };
        let mut cursor = designs.iter();
        while let Some((name, design)) = cursor.next(tx).await? {
            all.push(Listed { name, design, standing });
        }
    }
    tx.read_ahead(all.iter().map(|listed| listed.design.state.id()))?;
    for listed in all.iter_mut().filter(|listed| listed.standing == Standing::Whole) {
        if !listed.design.is_whole(tx).await? {
            listed.standing = Standing::Unfinished;
        }
    }
    Ok(all)
}
