//! The objects of OO7, and how many of them there are.

use objects::{AsyncTx, Error, Map, Ref, Result};
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// How large a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Composite parts of the module.
    pub composite_parts: u32,
    /// Atomic parts of a composite part.
    pub atomic_parts: u32,
    /// Connections that leave an atomic part.
    pub connections: u32,
    /// Levels of assemblies, the base assemblies among them.
    pub levels: u32,
    /// Assemblies below an assembly, and composite parts of a base assembly.
    pub fan_out: u32,
    /// The text of a document, in bytes.
    pub document_bytes: usize,
    /// The text of the manual, in bytes.
    pub manual_bytes: usize,
    /// The kind of an atomic part or a connection, in bytes: what sets how large these are, and with them the module.
    pub kind_bytes: usize,
}

impl Size {
    /// The small module of OO7.
    pub const SMALL: Self = Self { atomic_parts: 20, document_bytes: 2_000, manual_bytes: 100_000, ..Self::MEDIUM };

    /// The medium module of OO7.
    pub const MEDIUM: Self = Self {
        composite_parts: 500,
        atomic_parts: 200,
        connections: 3,
        levels: 7,
        fan_out: 3,
        document_bytes: 20_000,
        manual_bytes: 1_000_000,
        kind_bytes: 10,
    };

    /// The medium module with somewhat larger objects: a traversal of a composite part reads nine pages, and all of
    /// them, as the figures of the BuddyCache paper want it (docs/experiments.md).
    pub const BUDDYCACHE: Self = Self { kind_bytes: 20, ..Self::MEDIUM };

    /// Base assemblies of the module.
    pub const fn base_assemblies(self) -> u32 {
        self.fan_out.pow(self.levels - 1)
    }

    /// Atomic parts that a traversal of the whole module visits, each as often as it is reached.
    pub const fn visits(self) -> u64 {
        self.base_assemblies() as u64 * self.fan_out as u64 * self.atomic_parts as u64
    }
}

/// A design.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Module {
    /// Its number.
    pub id: u32,
    /// When it was built.
    pub build_date: u32,
    /// Its manual.
    pub manual: Ref<Manual>,
    /// The assembly that everything hangs from.
    pub root: Ref<Assembly>,
    /// All atomic parts by build date and number.
    pub by_date: Map<(u32, u32), Ref<AtomicPart>>,
}

/// The text that goes with a module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manual {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// A node of the tree of assemblies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Assembly {
    /// One with assemblies below it.
    Complex(ComplexAssembly),
    /// One with composite parts below it.
    Base(BaseAssembly),
}

/// An assembly of assemblies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComplexAssembly {
    /// Its number.
    pub id: u32,
    /// When it was built.
    pub build_date: u32,
    /// The assemblies below it.
    pub below: Vec<Ref<Assembly>>,
}

/// An assembly of composite parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BaseAssembly {
    /// Its number.
    pub id: u32,
    /// When it was built.
    pub build_date: u32,
    /// Its composite parts, drawn from all of the module.
    pub parts: Vec<Ref<CompositePart>>,
}

/// A part that is a graph of atomic parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompositePart {
    /// Its number.
    pub id: u32,
    /// When it was built.
    pub build_date: u32,
    /// Its documentation.
    pub document: Ref<Document>,
    /// The atomic part where a traversal begins.
    pub root: Ref<AtomicPart>,
    /// All its atomic parts.
    pub parts: Vec<Ref<AtomicPart>>,
}

/// The documentation of a composite part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// The smallest part. There are many: the names of their fields are short in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicPart {
    /// Its number.
    #[serde(rename = "i")]
    pub id: u32,
    /// Its kind.
    #[serde(rename = "k")]
    pub kind: String,
    /// When it was built.
    #[serde(rename = "d")]
    pub build_date: u32,
    /// Where it is.
    pub x: i32,
    /// Where it is.
    pub y: i32,
    /// The connections that leave it.
    #[serde(rename = "t")]
    pub to: Vec<Ref<Connection>>,
    /// The composite part that it belongs to.
    #[serde(rename = "p")]
    pub part_of: Ref<CompositePart>,
}

/// A connection between two atomic parts of one composite part. There are most of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Its kind.
    #[serde(rename = "k")]
    pub kind: String,
    /// Its length.
    #[serde(rename = "l")]
    pub length: u32,
    /// Where it begins.
    #[serde(rename = "f")]
    pub from: Ref<AtomicPart>,
    /// Where it ends.
    #[serde(rename = "t")]
    pub to: Ref<AtomicPart>,
}

impl Module {
    /// The name that a module is found by.
    pub(super) fn name(id: u32) -> String {
        format!("oo7/{id}")
    }

    /// Finds the module of this number.
    ///
    /// # Errors
    /// An error that says how to build it, if there is none.
    pub async fn open(tx: &mut AsyncTx, id: u32) -> Result<Ref<Self>> {
        let found = tx.root(&Self::name(id)).await?;
        found.ok_or_else(|| Error::application(format!("the store holds no OO7 module {id}: build one first")))
    }

    /// Goes down the assemblies by a random way, to one of the composite parts at its end.
    pub async fn pick(tx: &mut AsyncTx, module: Ref<Self>, random: &mut Random) -> Result<Ref<CompositePart>> {
        Self::pick_below(tx, module, 0, random).await
    }

    /// The same in a part of the module: on so many levels the first way down is taken.
    pub async fn pick_below(
        tx: &mut AsyncTx,
        module: Ref<Self>,
        levels: u32,
        random: &mut Random,
    ) -> Result<Ref<CompositePart>> {
        let (mut assembly, mut fixed) = (tx.get(module).await?.root, levels);
        loop {
            match tx.get(assembly).await? {
                Assembly::Complex(complex) if fixed > 0 => {
                    (assembly, fixed) = (complex.below[0], fixed - 1);
                }
                Assembly::Complex(complex) => assembly = complex.below[random.below(complex.below.len())],
                Assembly::Base(base) => return Ok(base.parts[random.below(base.parts.len())]),
            }
        }
    }
}
