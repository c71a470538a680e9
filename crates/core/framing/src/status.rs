//! The status of a node, as the answer to an operator's question ([`Wants::Status`](crate::Wants)), whatever the node's
//! family.

use crate::field::{check_count, cut, get_text, put_text};
use crate::layout::{Layout, Meta, Reader};
use crate::length::TEXT_BYTES_MIN;
use crate::{Codec, End, Limits, WireError, family};
use alloc::string::String;
use machine::{Cell, Goodbye, Message, Pace, Status, Table};
use types::limits::{STATUS_CELLS_MAX, STATUS_COLUMNS_MAX, STATUS_TABLES_MAX, STATUS_TEXT_BYTES_MAX};
use zerocopy::little_endian::{U16, U32, U64};

family! {
    of "status";

    /// The messages of a node to an operator.
    pub enum Answer, heard by "operator", in order {
        /// How it stands.
        38 Status,
        /// Ends the connection, with the reason.
        39 Goodbye,
    }

    /// The messages of an operator to a node, who has asked with his preface.
    pub(crate) enum Question, heard by "node" {
        /// Ends the connection, with the reason.
        39 Goodbye,
    }
}

impl Message for Question {
    fn pace(&self) -> Pace {
        Pace::Ordered
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        let Self::Goodbye(goodbye) = self;
        Some(goodbye)
    }
}

/// The end of a node that is asked.
pub const NODE: &dyn Codec = End::<Question, Answer>::CODEC;

/// The end of an operator, who has asked with his preface.
pub const OPERATOR: &dyn Codec = End::<Answer, Question>::CODEC;

const TABLES: &str = "tables of a status";
const COLUMNS: &str = "columns of a table";
const CELLS: &str = "cells of a status";
const TEXT: &str = "bytes of a text of a status";

/// A cell begins with what it is.
const NOTHING: u8 = 0;
const COUNT: u8 = 1;
const A_TEXT: u8 = 2;

/// The most that a text takes, with its length.
const TEXT_BYTES: usize = TEXT_BYTES_MIN + STATUS_TEXT_BYTES_MAX;

/// The bytes of a table beside its name, its columns' names and its cells: how many columns it has, and rows.
const COUNTS_BYTES: usize = size_of::<U16>() + size_of::<U32>();
const TABLE_BYTES_MIN: usize = TEXT_BYTES_MIN + COUNTS_BYTES;
const TABLE_BYTES_MAX: usize = TEXT_BYTES + COUNTS_BYTES + STATUS_COLUMNS_MAX * TEXT_BYTES;
const CELL_BYTES_MIN: usize = size_of::<u8>();
const CELL_BYTES_MAX: usize = size_of::<u8>() + TEXT_BYTES;

/// Of each table its name, its columns' names, how many rows there are, and their cells.
impl Layout for Status {
    const LIMITS: Limits =
        Limits::fields::<U16>().and_up_to(STATUS_TABLES_MAX * TABLE_BYTES_MAX + STATUS_CELLS_MAX * CELL_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(TABLES, self.tables.len(), STATUS_TABLES_MAX)?;
        check_count(CELLS, self.tables.iter().map(cells).sum(), STATUS_CELLS_MAX)?;
        meta.put(&U16::new(self.tables.len() as u16));
        self.tables.iter().try_for_each(|table| put_table(meta, table))
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let tables = usize::from(reader.get::<U16>()?.get());
        check_count(TABLES, tables, STATUS_TABLES_MAX)?;
        let mut cells_left = STATUS_CELLS_MAX;
        Ok(Self { tables: reader.list(tables, TABLE_BYTES_MIN, |reader| get_table(reader, &mut cells_left))? })
    }
}

fn cells(table: &Table) -> usize {
    table.rows.len() * table.columns.len()
}

fn put_table(meta: &mut Meta<'_>, table: &Table) -> Result<(), WireError> {
    put(meta, &table.name)?;
    let (columns, rows) = (table.columns.len(), table.rows.len());
    check_count(COLUMNS, columns, STATUS_COLUMNS_MAX)?;
    meta.put(&U16::new(columns as u16));
    table.columns.iter().try_for_each(|column| put(meta, column))?;
    meta.put(&U32::new(rows as u32));
    table.rows.iter().try_for_each(|row| {
        if row.len() != columns {
            return Err(WireError::Count { what: "cells of a row", max: columns, got: row.len() });
        }
        row.iter().try_for_each(|cell| put_cell(meta, cell))
    })
}

fn get_table(reader: &mut Reader<'_>, cells_left: &mut usize) -> Result<Table, WireError> {
    let name = get(reader)?;
    let columns = usize::from(reader.get::<U16>()?.get());
    check_count(COLUMNS, columns, STATUS_COLUMNS_MAX)?;
    let columns = reader.list(columns, TEXT_BYTES_MIN, get)?;
    let rows = reader.get::<U32>()?.get() as usize;
    // Rows without cells would cost memory and no bytes.
    let cells = rows.saturating_mul(columns.len().max(1));
    check_count(CELLS, cells, *cells_left)?;
    *cells_left -= cells;
    let row = |reader: &mut Reader<'_>| reader.list(columns.len(), CELL_BYTES_MIN, get_cell);
    let rows = reader.list(rows, columns.len().max(1) * CELL_BYTES_MIN, row)?;
    Ok(Table { name, columns, rows })
}

fn put_cell(meta: &mut Meta<'_>, cell: &Cell) -> Result<(), WireError> {
    match cell {
        Cell::Nothing => meta.put(&NOTHING),
        Cell::Count(count) => {
            meta.put(&COUNT);
            meta.put(&U64::new(*count));
        }
        Cell::Text(text) => {
            meta.put(&A_TEXT);
            put(meta, text)?;
        }
    }
    Ok(())
}

fn get_cell(reader: &mut Reader<'_>) -> Result<Cell, WireError> {
    match *reader.get::<u8>()? {
        NOTHING => Ok(Cell::Nothing),
        COUNT => Ok(Cell::Count(reader.get::<U64>()?.get())),
        A_TEXT => Ok(Cell::Text(get(reader)?)),
        got => Err(WireError::Code { what: "kind of cell", got: got.into() }),
    }
}

/// A text, which is told as far as it goes: it is for a person.
fn put(meta: &mut Meta<'_>, text: &str) -> Result<(), WireError> {
    put_text(meta, TEXT, cut(text, STATUS_TEXT_BYTES_MAX), STATUS_TEXT_BYTES_MAX)
}

fn get(reader: &mut Reader<'_>) -> Result<String, WireError> {
    get_text(reader, TEXT, STATUS_TEXT_BYTES_MAX)
}
