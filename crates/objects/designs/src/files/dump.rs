//! A design out of the store, as the text of a file.
//!
//! ```text
//!   header -> Extras: anchors, references, DATA(...) -> Entities of the section -> Extras -> ... -> Extras: signatures
//! ```
//! Each arrow is a batch that one transaction reads, so a dump of any length takes little memory.

use crate::{Design, Extra, Object, write_entity, write_extra, write_header};
use objects::{AsyncTx, Db, Error, Result};
use std::io::{self, Write};
use std::ops::Bound;

/// Entities that are fetched together, and that one transaction of a dump in parts reads.
const BATCH: usize = 1_000;

/// Writes a design as a file, its entities in the order of their numbers, as it is in one transaction. The text holds
/// if the transaction commits. Calls `progress` with the number of entities that are written.
pub async fn dump(
    tx: &mut AsyncTx,
    design: &Design,
    out: &mut impl Write,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let mut dump = Dump::begin(design, out).map_err(Error::application)?;
    while dump.next != Next::Nothing {
        let batch = dump.next.batch(tx, design).await?;
        dump.write(&batch).map_err(Error::application)?;
        progress(dump.written);
    }
    Ok(())
}

/// The same for a design that others change all the time: each batch is a transaction of its own, so an entity that is
/// changed in the meantime is written as it was before or as it is since.
pub async fn dump_in_parts(
    db: &Db,
    design: &Design,
    out: &mut impl Write,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let mut dump = Dump::begin(design, out).map_err(Error::application)?;
    while dump.next != Next::Nothing {
        let next = dump.next;
        let batch = db.transact_async(async |mut tx| next.batch(&mut tx, design).await).await?;
        dump.write(&batch).map_err(Error::application)?;
        progress(dump.written);
    }
    Ok(())
}

/// The next batch to read.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    /// Statements other than entities, from this place on.
    Extras(Bound<u64>),
    /// The entities of a section, from this number on.
    Entities(u32, Bound<u64>),
    Nothing,
}

/// A batch that was read.
enum Batch {
    Extras(Vec<(u64, Extra)>),
    Entities(Vec<Object>),
}

impl Next {
    async fn batch(self, tx: &mut AsyncTx, design: &Design) -> Result<Batch> {
        let (section, from) = match self {
            Self::Extras(from) => return Ok(Batch::Extras(extras(tx, design, from).await?)),
            Self::Entities(section, from) => (section, from),
            Self::Nothing => return Ok(Batch::Entities(Vec::new())),
        };
        design.entities_of_section_from(tx, section, from, BATCH).await.map(Batch::Entities)
    }
}

/// Reads the next statements other than entities. A design without any has one section of data.
async fn extras(tx: &mut AsyncTx, design: &Design, from: Bound<u64>) -> Result<Vec<(u64, Extra)>> {
    let Some(extras) = design.extras else {
        let is_first = from == Bound::Unbounded;
        return Ok(if is_first { vec![(0, Extra::Data(Vec::new()))] } else { Vec::new() });
    };
    let (mut cursor, mut batch) = (extras.range((from, Bound::Unbounded)), Vec::new());
    while batch.len() < BATCH
        && let Some(extra) = cursor.next(tx).await?
    {
        batch.push(extra);
    }
    Ok(batch)
}

/// A section that was begun.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Anchors,
    References,
    Signatures,
}

/// A file that is being written.
struct Dump<'a, W> {
    out: &'a mut W,
    next: Next,
    /// The last statement that was not an entity.
    behind: Bound<u64>,
    /// Sections of data that were begun.
    sections: u32,
    open: Option<Section>,
    /// Entities that are written.
    written: u64,
}

impl<'a, W: Write> Dump<'a, W> {
    fn begin(design: &Design, out: &'a mut W) -> io::Result<Self> {
        write_header(out, &design.header)?;
        let behind = Bound::Unbounded;
        Ok(Self { out, next: Next::Extras(behind), behind, sections: 0, open: None, written: 0 })
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        match batch {
            Batch::Extras(extras) => self.write_extras(extras),
            Batch::Entities(entities) => self.write_entities(entities),
        }
    }

    /// Writes statements up to the beginning of a section of data, whose entities are next.
    fn write_extras(&mut self, extras: &[(u64, Extra)]) -> io::Result<()> {
        for (key, extra) in extras {
            self.behind = Bound::Excluded(*key);
            self.turn_to(match extra {
                Extra::Anchor { .. } => Some(Section::Anchors),
                Extra::Reference { .. } => Some(Section::References),
                Extra::Data(_) => None,
                Extra::Signature(_) => Some(Section::Signatures),
            })?;
            write_extra(self.out, extra)?;
            if let Extra::Data(_) = extra {
                self.next = Next::Entities(self.sections, Bound::Unbounded);
                self.sections += 1;
                return Ok(());
            }
        }
        self.next = Next::Extras(self.behind);
        if extras.is_empty() {
            self.next = Next::Nothing;
            self.turn_to(Some(Section::Signatures))?;
        }
        Ok(())
    }

    /// Writes the end of the section that is open, and the beginning of this one.
    fn turn_to(&mut self, section: Option<Section>) -> io::Result<()> {
        if self.open == section {
            return Ok(());
        }
        if self.open.is_some() {
            self.out.write_all(b"ENDSEC;\n")?;
        }
        self.open = section;
        self.out.write_all(match section {
            Some(Section::Anchors) => b"ANCHOR;\n",
            Some(Section::References) => b"REFERENCE;\n",
            Some(Section::Signatures) => b"END-ISO-10303-21;\n",
            None => b"",
        })
    }

    fn write_entities(&mut self, entities: &[Object]) -> io::Result<()> {
        for object in entities {
            write_entity(self.out, &object.to_entity())?;
        }
        self.written += entities.len() as u64;
        self.next = if let (Some(last), Next::Entities(section, _)) = (entities.last(), self.next) {
            Next::Entities(section, Bound::Excluded(last.entity.number))
        } else {
            self.out.write_all(b"ENDSEC;\n")?;
            Next::Extras(self.behind)
        };
        Ok(())
    }
}
