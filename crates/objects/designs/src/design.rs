//! How a design is stored, and how applications read it.

use crate::extra::Extra;
use crate::value::{Entity, Part, Value};
use objects::{Map, Mode, Ref, Result, Tx};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Bound;

/// The map of all designs, by name.
pub const DESIGNS: &str = "designs";

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
    /// The entity, with links where the file has numbers.
    #[serde(rename = "e")]
    pub entity: Entity<Link>,
    /// The relations that say what it has.
    #[serde(rename = "r")]
    pub relations: Vec<Link>,
}

impl Object {
    /// The entity as in the file, with numbers for references.
    pub fn to_entity(&self) -> Entity {
        let numbers = self.entity.clone().try_map_refs(|link| Ok::<_, std::convert::Infallible>(link.number));
        numbers.unwrap_or_else(|never| match never {})
    }
}

/// A design in a store: a file of ISO 10303-21 that `thorp load` has made objects of, one for each entity.
///
/// ```no_run
/// # use objects as thorp;
/// use designs::{Design, Value};
/// use thorp::Db;
///
/// let db = Db::open("shed")?;
/// db.transact(|tx| {
///     let Some(house) = Design::find(tx, "house")? else { return Ok(()) };
///     println!("{} entities of {}", house.count, house.schemas().join(", "));
///     let Some(door) = house.get(tx, 123)? else { return Ok(()) };
///     if let Some(Value::Ref(owner)) = door.entity.parts[0].values.get(1) {
///         println!("{} belongs to {}", door.to_entity(), tx.get(owner.object)?.to_entity());
///     }
///     Ok(())
/// })?;
/// # Ok::<(), thorp::Error>(())
/// ```
/// A design may have more entities than one transaction can read: [`Design::entities_from`] reads some of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The entries of the file's header.
    pub header: Vec<Part>,
    /// Every entity by its number.
    pub entities: Map<u64, Ref<Object>>,
    /// How many entities there are.
    pub count: u64,
    /// A checksum of the file's contents, to recognize it when a load is resumed.
    #[doc(hidden)]
    pub checksum: u64,
    /// How far the load has come.
    #[doc(hidden)]
    pub state: Ref<State>,
    /// The elements that walks begin at.
    #[doc(hidden)]
    pub elements: Ref<Vec<Ref<Object>>>,
    /// The statements that are neither of the header nor entities, in the order of the standard. `None` for a file with
    /// one `DATA` section without parameters and nothing else.
    #[serde(default)]
    pub extras: Option<Map<u64, Extra>>,
    /// Every entity by the `DATA` section that it is of, from 0, and its number. `None` if there is only one.
    #[serde(default)]
    pub sections: Option<Map<(u32, u64), Ref<Object>>>,
}

/// How far a load has come: entities that have their place, and those that have their contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Entities that have their place.
    pub placed: u64,
    /// Entities that have their contents.
    pub written: u64,
}

impl Design {
    /// Returns the design of this name.
    pub fn find<M: Mode>(tx: &mut Tx<M>, name: &str) -> M::Out<impl Future<Output = Result<Option<Self>>>> {
        M::run(async move {
            match M::done(tx.find_map::<String, Self>(DESIGNS)).await? {
                Some(designs) => M::done(designs.get(tx, name)).await,
                None => Ok(None),
            }
        })
    }

    /// Returns the names of all designs.
    pub fn names<M: Mode>(tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Vec<String>>>> {
        M::run(async move {
            let mut names = Vec::new();
            let Some(designs) = M::done(tx.find_map::<String, Self>(DESIGNS)).await? else { return Ok(names) };
            let mut cursor = designs.iter();
            while let Some(name) = M::done(cursor.next_key(tx)).await? {
                names.push(name);
            }
            Ok(names)
        })
    }

    /// Returns whether all of the file has been loaded.
    pub fn is_whole<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<bool>>> {
        M::run(async move { Ok(M::done(tx.get(self.state)).await?.written == self.count) })
    }

    /// Returns the entity of this number.
    pub fn get<M: Mode>(&self, tx: &mut Tx<M>, number: u64) -> M::Out<impl Future<Output = Result<Option<Object>>>> {
        M::run(async move {
            match M::done(self.entities.get(tx, &number)).await? {
                Some(object) => M::done(tx.get(object)).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Returns the next entities in the order of their numbers, at most `count`: none at the end. Called with what was
    /// returned last, in one transaction or in several, it visits all of a design in little memory.
    ///
    /// ```no_run
    /// # use objects::{Db, Result};
    /// # use designs::Design;
    /// # fn walls(db: &Db, house: &Design) -> Result<()> {
    /// use std::ops::Bound;
    ///
    /// let (mut from, mut walls) = (Bound::Unbounded, 0);
    /// loop {
    ///     let entities = db.transact(|tx| house.entities_from(tx, from, 1_000))?;
    ///     let Some(last) = entities.last() else { break };
    ///     from = Bound::Excluded(last.entity.number);
    ///     walls += entities.iter().filter(|object| object.entity.is_a("IfcWall")).count();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn entities_from<M: Mode>(
        &self,
        tx: &mut Tx<M>,
        from: Bound<u64>,
        count: usize,
    ) -> M::Out<impl Future<Output = Result<Vec<Object>>>> {
        M::run(async move {
            let (mut cursor, mut places) = (self.entities.range((from, Bound::Unbounded)), Vec::new());
            while places.len() < count
                && let Some((_, object)) = M::done(cursor.next(tx)).await?
            {
                places.push(object);
            }
            M::done(read_all(tx, places)).await
        })
    }

    /// Like [`Design::entities_from`], for the entities of one `DATA` section.
    pub fn entities_of_section_from<M: Mode>(
        &self,
        tx: &mut Tx<M>,
        section: u32,
        from: Bound<u64>,
        count: usize,
    ) -> M::Out<impl Future<Output = Result<Vec<Object>>>> {
        M::run(async move {
            let Some(sections) = self.sections else {
                let is_there = section == 0;
                return if is_there { M::done(self.entities_from(tx, from, count)).await } else { Ok(Vec::new()) };
            };
            let from = match from {
                Bound::Unbounded => Bound::Included((section, 0)),
                Bound::Included(number) => Bound::Included((section, number)),
                Bound::Excluded(number) => Bound::Excluded((section, number)),
            };
            let end = Bound::Included((section, u64::MAX));
            if from == Bound::Excluded((section, u64::MAX)) {
                return Ok(Vec::new());
            }
            let (mut cursor, mut places) = (sections.range((from, end)), Vec::new());
            while places.len() < count
                && let Some((_, object)) = M::done(cursor.next(tx)).await?
            {
                places.push(object);
            }
            M::done(read_all(tx, places)).await
        })
    }

    /// The windows and doors; of a design without any, the entities that nothing refers to.
    pub fn elements<M: Mode>(&self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Vec<Ref<Object>>>>> {
        tx.get(self.elements)
    }

    /// The names of the file's schemas, such as `IFC2X3`.
    pub fn schemas(&self) -> Vec<String> {
        let schemas = self.header.iter().filter(|part| part.kind == "FILE_SCHEMA").flat_map(|part| &part.values);
        let mut names = BTreeSet::new();
        schemas.for_each(|value| push_texts(value, &mut names));
        names.into_iter().collect()
    }
}

fn read_all<M: Mode>(tx: &mut Tx<M>, places: Vec<Ref<Object>>) -> M::Out<impl Future<Output = Result<Vec<Object>>>> {
    M::run(async move {
        tx.read_ahead(places.iter().map(|object| object.id()))?;
        let mut objects = Vec::with_capacity(places.len());
        for object in places {
            objects.push(M::done(tx.get(object)).await?);
        }
        Ok(objects)
    })
}

fn push_texts(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Text(text) => drop(names.insert(text.characters().into_owned())),
        Value::List(values) => values.iter().for_each(|value| push_texts(value, names)),
        _ => {}
    }
}
