//! The status of a node, as any node answers an operator.
//!
//! It is tables that name their columns: a program that shows them need not know them, and the answer can grow
//! without a new layout.

use alloc::string::String;
use alloc::vec::Vec;

/// How a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The tables, each of another name.
    pub tables: Vec<Table>,
}

/// Things of one kind, one in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table's name.
    pub name: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows. Each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// There is nothing to say.
    Nothing,
    /// A count, a size, a version.
    Count(u64),
    /// A name, an address, a reason.
    Text(String),
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(fact: Option<T>) -> Self {
        fact.map_or(Self::Nothing, Into::into)
    }
}
