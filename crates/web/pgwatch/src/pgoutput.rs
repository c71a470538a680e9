//! The messages of a stream of changes: `pgoutput`, protocol version 1, as PostgreSQL 14 and later send them.
//!
//! A parser of bytes that anybody may have made: it takes nothing for granted, allocates no more than in proportion to
//! what is there, and says what it expected.

use crate::lsn::{Lsn, Xid};
use std::fmt;

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A transaction begins. The stream has whole transactions, in the order of their commits.
    Begin {
        /// Its number.
        xid: Xid,
    },
    /// It ends.
    Commit {
        /// The position behind its commit's record: who has confirmed it has confirmed the commit.
        end: Lsn,
    },
    /// How a table looks, before the first change of it and again when it has changed.
    Relation(Relation<'a>),
    /// A row is new.
    Insert {
        /// The number of its table.
        table: u32,
        /// Its values.
        new: Row<'a>,
    },
    /// A row has changed.
    Update {
        /// The number of its table.
        table: u32,
        /// Its values before, as far as they are told.
        old: Old<'a>,
        /// Its values.
        new: Row<'a>,
    },
    /// A row is gone.
    Delete {
        /// The number of its table.
        table: u32,
        /// Its values before, as far as they are told.
        old: Old<'a>,
    },
    /// All rows of these tables are gone.
    Truncate {
        /// The numbers of the tables.
        tables: Vec<u32>,
    },
    /// A message of an application: `pg_logical_emit_message`.
    Said {
        /// Whether it is part of its transaction.
        is_transactional: bool,
        /// The name of its receiver.
        prefix: &'a [u8],
        /// Its text.
        content: &'a [u8],
    },
    /// A type, or where a transaction came from: nothing that a watcher has to know.
    Other,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation<'a> {
    /// Its number.
    pub table: u32,
    /// Its schema, which is empty for `pg_catalog`.
    pub schema: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Its replica identity: `d`, `n`, `f` or `i`.
    pub identity: u8,
    /// Its columns, in order.
    pub columns: Vec<Column<'a>>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Whether it belongs to the replica identity: its old value is told when it changes.
    pub is_identity: bool,
    /// Its name.
    pub name: &'a [u8],
    /// The number of its type.
    pub kind: u32,
    /// The type's modifier.
    pub modifier: u32,
}

/// The values of a row.
pub type Row<'a> = Vec<Value<'a>>;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// As it was before, which is not told: it is kept out of line.
    Unchanged,
    /// Its text.
    Text(&'a [u8]),
}

/// The values of a row before, as far as they are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Old<'a> {
    /// Nothing: those of the replica identity are unchanged.
    None,
    /// The values of the columns of the replica identity; the others are not told.
    Key(Row<'a>),
    /// All values.
    Row(Row<'a>),
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It ends too soon.
    Short {
        /// The part that was expected next.
        expected: &'static str,
    },
    /// It continues behind its end.
    Long,
    /// A letter that means nothing there.
    Letter {
        /// The letters that were expected.
        expected: &'static str,
        /// The letter.
        got: u8,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { expected } => write!(f, "expected {expected}, and the message ends"),
            Self::Long => f.write_str("expected the end of the message, and it goes on"),
            Self::Letter { expected, got } => write!(f, "expected {expected}, got `{}`", got.escape_ascii()),
        }
    }
}

impl std::error::Error for ParseError {}

type Parsed<T> = Result<T, ParseError>;

impl<'a> Message<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// The part that was expected, and what was there.
    pub fn parse(bytes: &'a [u8]) -> Parsed<Self> {
        let mut input = Input(bytes);
        let message = match input.byte("a kind of message")? {
            b'B' => begin(&mut input)?,
            b'C' => commit(&mut input)?,
            b'R' => Self::Relation(relation(&mut input)?),
            b'I' => insert(&mut input)?,
            b'U' => update(&mut input)?,
            b'D' => delete(&mut input)?,
            b'T' => truncate(&mut input)?,
            b'M' => said(&mut input)?,
            b'O' | b'Y' => return Ok(Self::Other),
            got => return Err(ParseError::Letter { expected: "a kind of message", got }),
        };
        if input.0.is_empty() { Ok(message) } else { Err(ParseError::Long) }
    }
}

fn begin<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    input.skip(8, "the commit's position")?;
    input.skip(8, "a time")?;
    Ok(Message::Begin { xid: Xid(input.word("a transaction's number")?) })
}

fn commit<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    input.skip(1, "flags")?;
    input.skip(8, "the commit's position")?;
    let end = Lsn(input.long("the end of the commit")?);
    input.skip(8, "a time")?;
    Ok(Message::Commit { end })
}

fn relation<'a>(input: &mut Input<'a>) -> Parsed<Relation<'a>> {
    let table = input.word("a table's number")?;
    let schema = input.text("a schema's name")?;
    let name = input.text("a table's name")?;
    let identity = input.byte("a replica identity")?;
    let count = input.short("a number of columns")?;
    let columns = (0..count).map(|_| column(input)).collect::<Parsed<_>>()?;
    Ok(Relation { table, schema, name, identity, columns })
}

fn column<'a>(input: &mut Input<'a>) -> Parsed<Column<'a>> {
    let is_identity = input.byte("a column's flags")? & 1 != 0;
    let name = input.text("a column's name")?;
    let kind = input.word("a type's number")?;
    Ok(Column { is_identity, name, kind, modifier: input.word("a type's modifier")? })
}

fn insert<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    let table = input.word("a table's number")?;
    match input.byte("`N`")? {
        b'N' => Ok(Message::Insert { table, new: row(input)? }),
        got => Err(ParseError::Letter { expected: "`N`", got }),
    }
}

fn update<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    let expected = "`K`, `O` or `N`";
    let table = input.word("a table's number")?;
    let old = match input.byte(expected)? {
        b'N' => return Ok(Message::Update { table, old: Old::None, new: row(input)? }),
        b'K' => Old::Key(row(input)?),
        b'O' => Old::Row(row(input)?),
        got => return Err(ParseError::Letter { expected, got }),
    };
    match input.byte("`N`")? {
        b'N' => Ok(Message::Update { table, old, new: row(input)? }),
        got => Err(ParseError::Letter { expected: "`N`", got }),
    }
}

fn delete<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    let table = input.word("a table's number")?;
    let old = match input.byte("`K` or `O`")? {
        b'K' => Old::Key(row(input)?),
        b'O' => Old::Row(row(input)?),
        got => return Err(ParseError::Letter { expected: "`K` or `O`", got }),
    };
    Ok(Message::Delete { table, old })
}

fn truncate<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    let count = input.word("a number of tables")?;
    input.skip(1, "flags")?;
    // No room is made for what was announced: the bytes have to be there.
    let tables = (0..count).map(|_| input.word("a table's number")).collect::<Parsed<_>>()?;
    Ok(Message::Truncate { tables })
}

fn said<'a>(input: &mut Input<'a>) -> Parsed<Message<'a>> {
    let is_transactional = input.byte("flags")? & 1 != 0;
    input.skip(8, "a position")?;
    let prefix = input.text("a prefix")?;
    let length = input.word("a length")?;
    Ok(Message::Said { is_transactional, prefix, content: input.bytes(length as usize, "a content")? })
}

fn row<'a>(input: &mut Input<'a>) -> Parsed<Row<'a>> {
    let count = input.short("a number of values")?;
    (0..count).map(|_| value(input)).collect()
}

fn value<'a>(input: &mut Input<'a>) -> Parsed<Value<'a>> {
    match input.byte("a kind of value")? {
        b'n' => Ok(Value::Null),
        b'u' => Ok(Value::Unchanged),
        b't' => {
            let length = input.word("a length")?;
            Ok(Value::Text(input.bytes(length as usize, "a value")?))
        }
        // Binary values are never asked for.
        got => Err(ParseError::Letter { expected: "`n`, `u` or `t`", got }),
    }
}

/// The bytes that were not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize, expected: &'static str) -> Parsed<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(ParseError::Short { expected })?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Parsed<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(ParseError::Short { expected })?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn skip(&mut self, count: usize, expected: &'static str) -> Parsed<()> {
        self.bytes(count, expected).map(drop)
    }

    fn byte(&mut self, expected: &'static str) -> Parsed<u8> {
        self.array(expected).map(|[byte]| byte)
    }

    fn short(&mut self, expected: &'static str) -> Parsed<u16> {
        self.array(expected).map(u16::from_be_bytes)
    }

    fn word(&mut self, expected: &'static str) -> Parsed<u32> {
        self.array(expected).map(u32::from_be_bytes)
    }

    fn long(&mut self, expected: &'static str) -> Parsed<u64> {
        self.array(expected).map(u64::from_be_bytes)
    }

    /// Bytes that end with a zero.
    fn text(&mut self, expected: &'static str) -> Parsed<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(ParseError::Short { expected })?;
        let text = self.bytes(end, expected)?;
        self.skip(1, expected)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UPDATE: &[u8] = b"U\0\0\0\x07K\0\x02t\0\0\0\x0242nN\0\x02t\0\0\0\x0243u";

    #[test]
    fn an_update_has_its_old_key_and_its_new_row() {
        let old = Old::Key(vec![Value::Text(b"42"), Value::Null]);
        let new = vec![Value::Text(b"43"), Value::Unchanged];
        assert_eq!(Message::parse(UPDATE), Ok(Message::Update { table: 7, old, new }));
    }

    #[test]
    fn an_announced_length_is_no_length() {
        let message = b"T\xff\xff\xff\xff\0\0\0\0\x01";
        assert_eq!(Message::parse(message), Err(ParseError::Short { expected: "a table's number" }));
        let message = b"M\x01\0\0\0\0\0\0\0\0thorp\0\xff\xff\xff\xffx";
        assert_eq!(Message::parse(message), Err(ParseError::Short { expected: "a content" }));
    }

    #[test]
    fn each_cut_of_a_message_is_refused() {
        for end in 0..UPDATE.len() {
            assert!(Message::parse(&UPDATE[..end]).is_err(), "{end}");
        }
        assert_eq!(Message::parse(&[UPDATE, b"x"].concat()), Err(ParseError::Long));
    }

    proptest! {
        /// There is no panic, and nothing is made larger than what came.
        #[test]
        fn any_bytes_are_read_or_refused(kind in prop::sample::select(b"BCRIUDTMOYx".to_vec()),
                                         mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            bytes.insert(0, kind);
            if let Ok(Message::Truncate { tables }) = Message::parse(&bytes) {
                prop_assert!(tables.len() * 4 < bytes.len());
            }
        }

        /// The same near to what is right.
        #[test]
        fn a_changed_byte_is_read_or_refused(at in 0..UPDATE.len(), byte: u8) {
            let mut bytes = UPDATE.to_vec();
            bytes[at] = byte;
            let _ = Message::parse(&bytes);
        }
    }
}
