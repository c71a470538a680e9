//! Why a stream of changes is not read on. The connection is given up, and the next one begins the stream again.

use crate::pgoutput::ParseError;
use std::fmt;

/// A thing that a server has sent and that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// Bytes that are no message.
    Parse(ParseError),
    /// A transaction begins inside of another, or what belongs inside of one comes without it.
    Order(&'static str),
    /// A commit is not behind the one before it.
    Backwards,
    /// A change of a table that was not shown.
    UnknownTable(u32),
    /// A row has other columns than its table.
    Columns {
        /// The number of the table.
        table: u32,
        /// Its columns.
        expected: usize,
        /// The columns of the row.
        got: usize,
    },
    /// More tables than are taken.
    TooManyTables,
}

impl From<ParseError> for StreamError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Order(got) => write!(f, "expected whole transactions, got {got}"),
            Self::Backwards => f.write_str("expected commits in the order of the log, got one from before"),
            Self::UnknownTable(table) => write!(f, "expected the table {table} to be shown first, got a change of it"),
            Self::Columns { table, expected, got } => {
                write!(f, "expected {expected} values of a row of table {table}, got {got}")
            }
            Self::TooManyTables => f.write_str("expected at most 65536 tables, got more"),
        }
    }
}

impl std::error::Error for StreamError {}
