//! A file into the store.
//!
//! Statements other than entities go first. Their last key shows a resumed load how many of them are stored.
//! An entity may refer to any other, before or behind it, so all are given their places first and their contents then:
//! two phases, each in batches of one transaction. How far each phase has come is written with the batch itself; a load
//! that was interrupted continues from there when it is called again with the same file.
//!
//! A load that replaces a design continues beside it, where nobody finds it. When it is whole one transaction gives it
//! the name, and the design that had it before is removed: a transaction sees all of the one or all of the other.

use super::REVISIONS;
use super::missing::{self, Dangling};
use super::plan::Plan;
use super::removal::{give_up, sweep};
use crate::step::{Reader, Statement};
use crate::{DESIGNS, Design, Entity, Extra, Link, Object, Part, State, write_entity, write_extra};
use objects::{Anywhere, AsyncTx, Db, Error, Map, ObjectId, Ref, Result};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;

/// Entities of one transaction.
const BATCH: usize = 1_000;

/// The phase of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the file: bytes.
    Read,
    /// Giving the entities their places: entities.
    Place,
    /// Writing them: entities.
    Write,
    /// Removing what was replaced: entities.
    Remove,
}

/// The fate of another design that has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It stays, and the load is refused.
    New,
    /// It is replaced.
    Replace,
}

/// The name is that of a design from another file, which was not to be replaced.
#[derive(Debug)]
pub struct NameTaken(String);

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is the name of a design from another file: choose another name, or replace it", self.0)
    }
}

impl std::error::Error for NameTaken {}

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// With what.
    pub phase: Phase,
    /// The number of them that are done.
    pub done: u64,
    /// Of how much, if that is known.
    pub total: Option<u64>,
}

/// The summary of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The design.
    pub design: Design,
    /// Entities that an earlier, interrupted load had written.
    pub resumed_at: u64,
    /// Whether it replaced another design.
    pub replaced: bool,
    /// Entities that others refer to and that the file does not have.
    pub missing: BTreeSet<u64>,
}

/// How a file is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The fate of another design that has the name.
    pub how: How,
    /// The treatment of references to entities that the file does not have.
    pub dangling: Dangling,
}

impl From<How> for LoadOptions {
    fn from(how: How) -> Self {
        Self { how, dangling: Dangling::Refuse }
    }
}

/// Loads a file as the design `name`, or continues with a load of it that was interrupted. `may_begin` runs in the
/// transaction that begins it, and can refuse the name.
///
/// # Errors
/// An error in the file, with line and column; [`super::Missing`]; or [`NameTaken`].
pub async fn load(
    db: &Db,
    reader: Reader,
    name: &str,
    options: impl Into<LoadOptions>,
    may_begin: impl AsyncFn(&mut AsyncTx) -> Result<()>,
    mut progress: impl FnMut(Progress),
) -> Result<Loaded> {
    let LoadOptions { how, dangling } = options.into();
    let (file, missing) = File::read(reader, dangling, &mut progress)?;
    let plan = Plan::new(&file.entities).map_err(Error::application)?;
    let begun = db.transact_async(async |mut tx| {
        may_begin(&mut tx).await?;
        begin(&mut tx, name, &file, how).await
    });
    let (design, place) = begun.await?;
    let mut load = Load { db, design, file, plan, places: HashMap::new() };
    load.write_extras().await?;
    load.place(&mut progress).await?;
    let resumed_at = load.write(&mut progress).await?;
    let design = load.design;
    if place == REVISIONS {
        db.transact_async(async |mut tx| publish(&mut tx, name, &design).await).await?;
    }
    let remove = |done| {
        progress(Progress { phase: Phase::Remove, done, total: None });
        ControlFlow::Continue(())
    };
    sweep(db, name, remove).await?;
    Ok(Loaded { design, resumed_at, replaced: place == REVISIONS, missing })
}

/// A file that was read.
struct File {
    header: Vec<Part>,
    entities: Vec<Entity>,
    /// The section of data that each entity is of. Empty if there is only one.
    sections: Vec<u32>,
    /// In the order of the standard. Empty if there is nothing but one section of data without parameters.
    extras: Vec<Extra>,
    checksum: u64,
}

impl File {
    /// Reads a file, and sees to its references. Returns it with the numbers of the entities that it lacks.
    fn read(reader: Reader, dangling: Dangling, progress: &mut impl FnMut(Progress)) -> Result<(Self, BTreeSet<u64>)> {
        let mut file = Self::parse(reader, progress)?;
        let missing = missing::settle(&mut file.entities, &mut file.extras, dangling).map_err(Error::application)?;
        file.checksum = file.checksum()?;
        Ok((file, missing))
    }

    fn parse(mut reader: Reader, progress: &mut impl FnMut(Progress)) -> Result<Self> {
        let (mut header, mut entities, mut extras) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sections, mut section) = (Vec::new(), 0_u32);
        while let Some(statement) = reader.next() {
            match statement.map_err(Error::application)? {
                Statement::Header(part) => header.push(part),
                Statement::Entity(entity) => {
                    entities.push(entity);
                    sections.push(section.saturating_sub(1));
                }
                Statement::Extra(extra) => {
                    section += u32::from(matches!(extra, Extra::Data(_)));
                    extras.push(extra);
                }
            }
            if entities.len().is_multiple_of(BATCH) {
                let (done, total) = reader.progress();
                progress(Progress { phase: Phase::Read, done, total });
            }
        }
        if let [] | [Extra::Data(_)] = &*extras {
            extras.retain(|extra| *extra != Extra::Data(Vec::new()));
        }
        extras.sort_by_key(Extra::order);
        if section < 2 {
            sections.clear();
        }
        Ok(Self { header, entities, sections, extras, checksum: 0 })
    }

    /// A checksum of what the file says, whatever the layout of its text.
    fn checksum(&self) -> Result<u64> {
        let (mut sum, mut text) = (Fnv::default(), Vec::new());
        for entity in &self.entities {
            write_entity(&mut text, entity).map_err(Error::application)?;
            sum.add(&text);
            text.clear();
        }
        for extra in &self.extras {
            write_extra(&mut text, extra).map_err(Error::application)?;
            sum.add(&text);
            text.clear();
        }
        for section in &self.sections {
            sum.add(&section.to_le_bytes());
        }
        Ok(sum.0)
    }

    /// Whether a design is of this file.
    fn is_of(&self, design: &Design) -> bool {
        design.checksum == self.checksum && design.count == self.entities.len() as u64
    }
}

/// The checksum FNV-1a.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

/// Finds the design that an earlier load of this file began, or begins it; and says in which of the maps of designs it
/// is.
async fn begin(tx: &mut AsyncTx, name: &str, file: &File, how: How) -> Result<(Design, &'static str)> {
    let Some(other) = Design::find(tx, name).await? else {
        return Ok((begin_anew(tx, DESIGNS, name, file).await?, DESIGNS));
    };
    if file.is_of(&other) {
        return Ok((other, DESIGNS));
    }
    if how == How::New {
        return Err(Error::application(NameTaken(name.to_owned())));
    }
    if let Some(revisions) = tx.find_map::<String, Design>(REVISIONS).await?
        && let Some(begun) = revisions.get(tx, name).await?.filter(|begun| file.is_of(begun))
    {
        return Ok((begun, REVISIONS));
    }
    Ok((begin_anew(tx, REVISIONS, name, file).await?, REVISIONS))
}

/// Returns a whole revision its name.
async fn publish(tx: &mut AsyncTx, name: &str, design: &Design) -> Result<()> {
    let revisions = tx.map::<String, Design>(REVISIONS).await?;
    if revisions.remove(tx, name).await?.is_none_or(|revision| revision.state != design.state) {
        let text = format!("somebody else has replaced or removed '{name}' in the meantime: load the file again");
        return Err(Error::application(text));
    }
    match put(tx, DESIGNS, name, design).await? {
        Some(old) => give_up(tx, name, &old).await,
        None => Ok(()),
    }
}

async fn begin_anew(tx: &mut AsyncTx, map: &str, name: &str, file: &File) -> Result<Design> {
    let design = Design {
        header: file.header.clone(),
        entities: Map::create(tx, Anywhere).await?,
        count: file.entities.len() as u64,
        checksum: file.checksum,
        state: tx.create(Anywhere, &State::default()).await?,
        elements: tx.create(Anywhere, &Vec::new()).await?,
        extras: if file.extras.is_empty() { None } else { Some(Map::create(tx, Anywhere).await?) },
        sections: if file.sections.is_empty() { None } else { Some(Map::create(tx, Anywhere).await?) },
    };
    if let Some(unfinished) = put(tx, map, name, &design).await? {
        give_up(tx, name, &unfinished).await?;
    }
    Ok(design)
}

/// Puts a design into one of the maps of designs, in the place of the one that was there.
async fn put(tx: &mut AsyncTx, map: &str, name: &str, design: &Design) -> Result<Option<Design>> {
    let designs = tx.map::<String, Design>(map).await?;
    designs.insert(tx, name, design).await
}

/// The target of links before there are places.
const SOMEWHERE: Ref<Object> = Ref::new(ObjectId::new(types::PageId::new(0, 0), 0), 0);

struct Load<'a> {
    db: &'a Db,
    design: Design,
    file: File,
    plan: Plan,
    /// Where each entity is, by its number.
    places: HashMap<u64, Ref<Object>>,
}

impl Load<'_> {
    /// Writes what is neither of the header nor an entity. How much of it is in shows by its last key.
    async fn write_extras(&self) -> Result<()> {
        let Some(extras) = self.design.extras else { return Ok(()) };
        let last = self.db.transact_async(async |mut tx| extras.iter().backwards().next_key(&mut tx).await).await?;
        let from = last.map_or(0, |last| last + 1);
        let mut keyed = self.file.extras.iter().zip(0..).skip(from as usize).peekable();
        while keyed.peek().is_some() {
            let batch: Vec<(&Extra, u64)> = keyed.by_ref().take(BATCH).collect();
            let batch = &batch;
            let insert = async |mut tx: AsyncTx| {
                for (extra, key) in batch {
                    extras.insert(&mut tx, key, extra).await?;
                }
                Ok(())
            };
            self.db.transact_async(insert).await?;
        }
        Ok(())
    }

    /// Gives every entity a place, in the order of the plan.
    async fn place(&mut self, progress: &mut impl FnMut(Progress)) -> Result<()> {
        let entities = self.design.entities;
        let placed = self.db.transact_async(async |mut tx| entities.iter().collect(&mut tx).await).await?;
        let from = placed.len();
        self.places.extend(placed);
        let mut near: Option<ObjectId> = None;
        for (i, batch) in self.plan.order[from..].chunks(BATCH).enumerate() {
            let done = (from + i * BATCH + batch.len()) as u64;
            let places =
                self.db.transact_async(async |mut tx| self.place_batch(&mut tx, batch, near, done).await).await?;
            near = places.last().map(|(_, object)| object.id());
            self.places.extend(places);
            progress(Progress { phase: Phase::Place, done, total: Some(self.design.count) });
        }
        Ok(())
    }

    async fn place_batch(
        &self,
        tx: &mut AsyncTx,
        batch: &[usize],
        mut near: Option<ObjectId>,
        done: u64,
    ) -> Result<Vec<(u64, Ref<Object>)>> {
        let mut places = Vec::with_capacity(batch.len());
        for &at in batch {
            let number = self.file.entities[at].number;
            // As many bytes as the entity will have: pages that are filled with less would have to grow later.
            let object = tx.create(near, &self.object(at, |_| Ok(SOMEWHERE))?).await?;
            near = Some(object.id());
            self.design.entities.insert(tx, &number, &object).await?;
            if let Some(sections) = self.design.sections {
                sections.insert(tx, &(self.file.sections[at], number), &object).await?;
            }
            places.push((number, object));
        }
        let state = tx.get(self.design.state).await?;
        tx.put(self.design.state, &State { placed: done, ..state }).await?;
        Ok(places)
    }

    /// Writes every entity into its place; gives how many an earlier load had written.
    async fn write(&mut self, progress: &mut impl FnMut(Progress)) -> Result<u64> {
        let state = self.design.state;
        let from = self.db.transact_async(async |mut tx| tx.get(state).await).await?.written;
        for (i, batch) in self.plan.order[from as usize..].chunks(BATCH).enumerate() {
            let done = from + (i * BATCH + batch.len()) as u64;
            self.db.transact_async(async |mut tx| self.write_batch(&mut tx, batch, done).await).await?;
            progress(Progress { phase: Phase::Write, done, total: Some(self.design.count) });
        }
        Ok(from)
    }

    async fn write_batch(&self, tx: &mut AsyncTx, batch: &[usize], done: u64) -> Result<()> {
        for &at in batch {
            let object = self.object(at, |number| self.place_of(number))?;
            tx.put(self.place_of(object.entity.number)?, &object).await?;
        }
        if done == self.design.count {
            let elements = self.plan.elements.iter().map(|&at| self.place_of(self.file.entities[at].number));
            tx.put(self.design.elements, &elements.collect::<Result<Vec<_>>>()?).await?;
        }
        let state = tx.get(self.design.state).await?;
        tx.put(self.design.state, &State { written: done, ..state }).await
    }

    /// An entity as it is stored, with links to where `place` says.
    fn object(&self, at: usize, place: impl Fn(u64) -> Result<Ref<Object>>) -> Result<Object> {
        let link = |number| Ok::<_, Error>(Link { number, object: place(number)? });
        let entity = self.file.entities[at].clone().try_map_refs(link)?;
        let relations = self.plan.relations[at].iter().map(|&at| link(self.file.entities[at].number));
        Ok(Object { entity, relations: relations.collect::<Result<_>>()? })
    }

    fn place_of(&self, number: u64) -> Result<Ref<Object>> {
        let place = self.places.get(&number).copied();
        place.ok_or_else(|| {
            Error::application(format!("#{number} has lost its place: load the file under another name"))
        })
    }
}
