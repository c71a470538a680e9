//! ISO 10303-21, the clear text encoding of the exchange structure: the files of IFC, STEP and their kin, read and
//! written statement by statement.
//!
//! ```text
//!   ISO-10303-21;
//!   HEADER; FILE_SCHEMA(('IFC2X3')); ... ENDSEC;
//!   DATA;   #12=IFCDOOR('2O2Fr$t4X7Zf8NOew3FLOH',#5,$,(1.,2.5E-1),.T.);   <- an Entity
//!   ENDSEC;
//!   END-ISO-10303-21;
//! ```
//!
//! [`open`] gives a [`Reader`] over a plain or zipped file; it yields [`Statement`]s and holds one at a time, so a file
//! of any length is read in the memory of its longest statement. [`write`] is its inverse: numbers keep their text,
//! strings their characters.

mod lexer;
mod open;
mod parser;
mod read;
mod strings;
mod value;
mod write;

pub use open::{OpenError, open, read};
pub use read::{Reader, STATEMENT_BYTES_MAX, Statement, StepError};
pub use value::{Entity, Part, Value};
pub use write::{write_entity, write_footer, write_header};

#[cfg(test)]
mod tests;
