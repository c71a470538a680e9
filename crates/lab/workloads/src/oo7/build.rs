//! Builds a module: one transaction for each composite part, then the assemblies, then the name that it is found by.
//!
//! A build that is interrupted leaves objects that nothing refers to, and no module.

use super::schema::{
    Assembly, AtomicPart, BaseAssembly, ComplexAssembly, CompositePart, Connection, Document, Manual, Module, Size,
};
use crate::random::Random;
use objects::{Anywhere, AsyncTx, Db, Error, Map, Ref, Result};
use std::iter;

/// Build dates are drawn from these many days, and coordinates and lengths from as many numbers.
const DATES: u32 = 10_000;
const COORDINATES: i32 = 100_000;
const LENGTHS: u32 = 1000;

/// How far a build is: what is done, of how many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps that are committed.
    pub done: u64,
    /// All steps.
    pub total: u64,
}

/// Builds the module `id`, the same for the same seed.
///
/// # Errors
/// One that says so if there is such a module; else what the store says.
pub async fn build(db: &Db, id: u32, size: Size, seed: u64, mut progress: impl FnMut(Progress)) -> Result<Ref<Module>> {
    if db.transact_async(async |mut tx| tx.root::<Module>(&Module::name(id)).await).await?.is_some() {
        return Err(Error::application(format!("the store holds an OO7 module {id} already")));
    }
    let total = u64::from(size.composite_parts) + 1;
    let mut random = Random::new(seed);
    let by_date = db.transact_async(async |mut tx| Map::create(&mut tx, Anywhere).await).await?;
    let mut parts = Vec::with_capacity(size.composite_parts as usize);
    for number in 0..size.composite_parts {
        // A try that is refused must draw the same numbers again.
        let part = db.transact_async(async |mut tx| {
            let mut drawn = random.clone();
            let part = composite_part(&mut tx, number, size, by_date, &mut drawn).await?;
            Ok((part, drawn))
        });
        let (part, drawn) = part.await?;
        random = drawn;
        parts.push(part);
        progress(Progress { done: u64::from(number) + 1, total });
    }
    let module = db.transact_async(async |mut tx| {
        let root = assemblies(&mut tx, size, &parts, &mut random.clone()).await?;
        let text = text("manual", id, size.manual_bytes);
        let manual = tx.create(Anywhere, &Manual { title: format!("Manual of module {id}"), text }).await?;
        let module = Module { id, build_date: 0, manual, root, by_date };
        let module = tx.create(root, &module).await?;
        tx.set_root(&Module::name(id), module).await?;
        Ok(module)
    });
    let module = module.await?;
    progress(Progress { done: total, total });
    Ok(module)
}

/// Builds a composite part. Its objects refer to each other in circles, so they are created first, in the order that
/// they are to lie in, and get their values when all have their places.
async fn composite_part(
    tx: &mut AsyncTx,
    number: u32,
    size: Size,
    by_date: Map<(u32, u32), Ref<AtomicPart>>,
    random: &mut Random,
) -> Result<Ref<CompositePart>> {
    let here = Placeholders::create(tx, number, size).await?;
    let count = here.parts.len();
    for (i, &part) in here.parts.iter().enumerate() {
        let id = number * size.atomic_parts + i as u32;
        let build_date = random.below(DATES as usize) as u32;
        let others: Vec<usize> = iter::once((i + 1) % count)
            .chain(iter::repeat_with(|| random.below(count)).take(size.connections as usize - 1))
            .collect();
        for (&connection, other) in here.connections[i].iter().zip(others) {
            let length = random.below(LENGTHS as usize) as u32;
            let to = here.parts[other];
            tx.put(connection, &Connection { kind: kind(length, size), length, from: part, to }).await?;
        }
        let (x, y) = (coordinate(random), coordinate(random));
        let to = here.connections[i].clone();
        tx.put(part, &AtomicPart { id, kind: kind(id, size), build_date, x, y, to, part_of: here.composite }).await?;
        by_date.insert(tx, &(build_date, id), &part).await?;
    }
    let build_date = random.below(DATES as usize) as u32;
    let Placeholders { composite, document, parts, .. } = here;
    tx.put(composite, &CompositePart { id: number, build_date, document, root: parts[0], parts }).await?;
    Ok(composite)
}

/// The objects of a composite part, before they refer to each other.
struct Placeholders {
    composite: Ref<CompositePart>,
    document: Ref<Document>,
    parts: Vec<Ref<AtomicPart>>,
    connections: Vec<Vec<Ref<Connection>>>,
}

impl Placeholders {
    /// Creates them near each other, with values that are as large as those that they will have: a page that is filled
    /// with smaller ones would have to grow later, and be more than the 8 KiB that a page is meant to be.
    async fn create(tx: &mut AsyncTx, number: u32, size: Size) -> Result<Self> {
        let text = text("composite part", number, size.document_bytes);
        let document = tx.create(Anywhere, &Document { title: format!("Composite part {number}"), text }).await?;
        let composite = CompositePart {
            id: number,
            build_date: DATES,
            document,
            root: document.cast(),
            parts: vec![document.cast(); size.atomic_parts as usize],
        };
        let composite = tx.create(document, &composite).await?;
        let part = AtomicPart {
            id: number * size.atomic_parts,
            kind: kind(0, size),
            build_date: DATES,
            x: COORDINATES,
            y: COORDINATES,
            to: vec![composite.cast(); size.connections as usize],
            part_of: composite,
        };
        let connection =
            Connection { kind: kind(0, size), length: LENGTHS, from: composite.cast(), to: composite.cast() };
        let (mut parts, mut connections) = (Vec::new(), Vec::new());
        let mut near: Ref<[u8]> = composite.cast();
        for _ in 0..size.atomic_parts {
            near = tx.create(near, &part).await?.cast();
            parts.push(near.cast());
            let mut own = Vec::with_capacity(size.connections as usize);
            for _ in 0..size.connections {
                near = tx.create(near, &connection).await?.cast();
                own.push(near.cast());
            }
            connections.push(own);
        }
        Ok(Self { composite, document, parts, connections })
    }
}

/// Builds the tree of assemblies from its leaves up, level by level, so that each level lies together.
async fn assemblies(
    tx: &mut AsyncTx,
    size: Size,
    parts: &[Ref<CompositePart>],
    random: &mut Random,
) -> Result<Ref<Assembly>> {
    let mut id = 0;
    let mut level = Vec::new();
    for _ in 0..size.base_assemblies() {
        let drawn = (0..size.fan_out).map(|_| parts[random.below(parts.len())]).collect();
        let base = BaseAssembly { id, build_date: random.below(DATES as usize) as u32, parts: drawn };
        level.push(tx.create(level.last().copied(), &Assembly::Base(base)).await?);
        id += 1;
    }
    while level.len() > 1 {
        let mut above = Vec::new();
        for below in level.chunks(size.fan_out as usize) {
            let build_date = random.below(DATES as usize) as u32;
            let complex = ComplexAssembly { id, build_date, below: below.to_vec() };
            above.push(tx.create(level.last().copied(), &Assembly::Complex(complex)).await?);
            id += 1;
        }
        level = above;
    }
    Ok(level[0])
}

fn coordinate(random: &mut Random) -> i32 {
    i32::try_from(random.below(COORDINATES as usize)).expect("it is below a hundred thousand")
}

/// One of ten kinds, ten characters long as in OO7 unless objects should be larger.
fn kind(number: u32, size: Size) -> String {
    format!("type {:01$}", number % 10, size.kind_bytes.saturating_sub(5))
}

/// A text of this many bytes that says what it is about.
fn text(about: &str, number: u32, bytes: usize) -> String {
    let sentence = format!("I am the documentation of {about} {number}. ");
    sentence.chars().cycle().take(bytes).collect()
}
