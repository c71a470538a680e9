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
//! Edition 3 has `ANCHOR`, `REFERENCE` and `SIGNATURE` sections as well, and several `DATA` sections.
//!
//! [`open`] returns a [`Reader`] over a plain or zipped file. It yields [`Statement`]s and holds one at a time, so a
//! file of any length is read in the memory of its longest statement. The crate defines their content and
//! writes them again: numbers and strings keep the spelling of the file.

mod lexer;
mod open;
mod parser;
mod read;

pub use open::{OpenError, begins_like_a_design, open, read};
pub use read::{Reader, STATEMENT_BYTES_MAX, Statement, StepError};

#[cfg(test)]
mod tests;
