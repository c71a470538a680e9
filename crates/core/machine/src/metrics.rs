//! The figures of a node for an operator, table by table: names, units, meanings. The one list of them: the tables of
//! `thorp status` take their columns from it, and docs/metrics.md is made from it.

use crate::{Cell, Table};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use types::{ClientId, Vector};

/// One thing that is told.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The unit that it is counted in: `total` since the process started, `now` at the moment, `count` a number of the
    /// store's updates. The crate `ops` lists all units, with the metrics of Prometheus that they become.
    pub unit: &'static str,
    /// The meaning.
    pub what: &'static str,
}

/// A table of them.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<const N: usize> {
    /// Its name.
    pub name: &'static str,
    /// The meaning of a row.
    pub what: &'static str,
    /// The columns and their meanings.
    pub columns: [Column; N],
}

impl Column {
    /// A column.
    pub const fn new(name: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self { name, unit, what }
    }
}

impl<const N: usize> Metrics<N> {
    /// The table with these rows.
    pub fn table(&self, rows: impl Iterator<Item = [Cell; N]>) -> Table {
        let columns = self.columns.iter().map(|column| String::from(column.name)).collect();
        Table { name: self.name.into(), columns, rows: rows.map(Vec::from).collect() }
    }

    /// The table with one row, each fact of which says its name again.
    pub fn one(&self, facts: [(&str, Cell); N]) -> Table {
        let named = facts.iter().map(|(name, _)| *name).eq(self.columns.iter().map(|column| column.name));
        debug_assert!(named, "the facts of table {} are not called as its columns", self.name);
        let row = facts.map(|(_, fact)| fact);
        self.table(core::iter::once(row))
    }

    /// Its name, what a row of it is, and its columns.
    pub const fn described(&self) -> Described<'_> {
        (self.name, self.what, &self.columns)
    }
}

/// A table's name, what a row of it is, and its columns.
pub type Described<'a> = (&'a str, &'a str, &'a [Column]);

/// The number of updates between some counts and the newest ones.
pub fn lag(newest: &Vector, counts: &Vector) -> u64 {
    newest.total().saturating_sub(counts.total())
}

/// The cell that names a client.
pub fn name(client: ClientId) -> Cell {
    format!("{client:?}").into()
}
