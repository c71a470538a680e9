//! How a design stands in the store.

use crate::random::Random;
use crate::step::{Entity, Part};
use objects::{AsyncTx, Map, Ref, Result};
use serde::{Deserialize, Serialize};

/// The map of all designs, by name.
pub const DESIGNS: &str = "designs";

/// Designs that are being loaded to replace the ones of their names.
pub(super) const REVISIONS: &str = "designs/revisions";

/// Relations of the IFC schema by which something has something else: the type, which parameter names the owners, and
/// which one what they have.
pub(super) const RELATIONS: [(&str, usize, usize); 4] = [
    ("IFCRELAGGREGATES", 4, 5),
    ("IFCRELDEFINESBYPROPERTIES", 4, 5),
    ("IFCRELDEFINESBYTYPE", 4, 5),
    ("IFCRELASSOCIATESMATERIAL", 4, 5),
];

/// The types of the elements that the workload begins its walks at.
pub(super) const ELEMENTS: [&str; 2] = ["IFCWINDOW", "IFCDOOR"];

/// A reference of one entity to another: its number in the file, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The entity's number.
    #[serde(rename = "n")]
    pub number: u64,
    /// Its object.
    #[serde(rename = "o")]
    pub object: Ref<Object>,
}

/// One entity as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// The entity.
    #[serde(rename = "e")]
    pub entity: Entity<Link>,
    /// The relations that say what it has.
    #[serde(rename = "r")]
    pub relations: Vec<Link>,
}

/// A design in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The entries of the file's header.
    pub header: Vec<Part>,
    /// Every entity by its number.
    pub entities: Map<u64, Ref<Object>>,
    /// How many entities there are.
    pub count: u64,
    /// A checksum of the file's contents, to know it again when a load is resumed.
    pub(super) checksum: u64,
    /// How far the load has come.
    pub(super) state: Ref<State>,
    /// The elements that walks begin at.
    pub(super) elements: Ref<Vec<Ref<Object>>>,
}

/// How far a load has come: entities that have their place, and those that have their contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) placed: u64,
    pub(super) written: u64,
}

impl Design {
    /// The design of this name.
    pub async fn find(tx: &mut AsyncTx, name: &str) -> Result<Option<Self>> {
        match tx.find_map::<String, Self>(DESIGNS).await? {
            Some(designs) => designs.get(tx, name).await,
            None => Ok(None),
        }
    }

    /// The names of all designs.
    pub async fn names(tx: &mut AsyncTx) -> Result<Vec<String>> {
        let Some(designs) = tx.find_map::<String, Self>(DESIGNS).await? else { return Ok(Vec::new()) };
        Ok(designs.iter().collect(tx).await?.into_iter().map(|(name, _)| name).collect())
    }

    /// Puts it into one of the maps of designs, in the place of the one that was there.
    pub(super) async fn store(&self, tx: &mut AsyncTx, map: &str, name: &str) -> Result<Option<Self>> {
        let designs = tx.map::<String, Self>(map).await?;
        designs.insert(tx, name, self).await
    }

    /// Whether all of the file has been loaded.
    pub async fn is_whole(&self, tx: &mut AsyncTx) -> Result<bool> {
        Ok(tx.get(self.state).await?.written == self.count)
    }

    /// The entity of this number.
    pub async fn get(&self, tx: &mut AsyncTx, number: u64) -> Result<Option<Object>> {
        match self.entities.get(tx, &number).await? {
            Some(object) => tx.get(object).await.map(Some),
            None => Ok(None),
        }
    }

    /// One of the design's windows and doors; of a design without any, one of the entities that nothing refers to.
    /// `None` for a design without entities.
    pub async fn pick(&self, tx: &mut AsyncTx, random: &mut Random) -> Result<Option<Ref<Object>>> {
        let elements = self.elements(tx).await?;
        Ok(if elements.is_empty() { None } else { Some(elements[random.below(elements.len())]) })
    }

    /// All windows and doors, see [`Design::pick`].
    pub async fn elements(&self, tx: &mut AsyncTx) -> Result<Vec<Ref<Object>>> {
        tx.get(self.elements).await
    }
}

impl Object {
    /// The entity as in the file, with numbers for references.
    pub fn to_entity(&self) -> Entity {
        let numbers = self.entity.clone().try_map_refs(|link| Ok::<_, std::convert::Infallible>(link.number));
        numbers.unwrap_or_else(|never| match never {})
    }
}
