//! A file's bytes as statements, one at a time.

use super::lexer::Misfit;
use super::parser::{self, Parsed};
use crate::{Entity, Extra, Part, Place, Value};
use std::fmt;
use std::io::{self, BufRead};

/// The longest statement that is read, in bytes. Real ones, long lists of points included, stay far below.
pub const STATEMENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The mark that some editors put at the beginning of a file.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The content of a file, statement by statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// An entry of the header, such as `FILE_SCHEMA(('IFC2X3'))`.
    Header(Part),
    /// An entity of the data.
    Entity(Entity),
    /// The beginning of a `DATA` section, or a statement of an `ANCHOR`, `REFERENCE` or `SIGNATURE` section.
    Extra(Extra),
}

/// Why a file could not be read to its end.
#[derive(Debug)]
pub enum StepError {
    /// The file could not be read.
    Io(io::Error),
    /// It is no ISO 10303-21 file.
    NotStep,
    /// A statement makes no sense.
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The column, in bytes, from 1.
        column: u64,
        /// The token that was expected there.
        expected: &'static str,
        /// The token that stands there.
        got: String,
    },
    /// A statement begins at this line and does not end within [`STATEMENT_BYTES_MAX`].
    TooLong(u64),
    /// The file ends before `END-ISO-10303-21;`.
    Cut(u64),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotStep => write!(f, "expected an ISO 10303-21 file (IFC, STEP), which begins with ISO-10303-21;"),
            Self::Syntax { line, column, expected, got } => {
                write!(f, "line {line}, column {column}: expected {expected}, got {got}")
            }
            Self::TooLong(line) => {
                write!(f, "line {line}: a statement that does not end within {STATEMENT_BYTES_MAX} bytes")
            }
            Self::Cut(line) => write!(f, "line {line}: the file ends before END-ISO-10303-21; and is not whole"),
        }
    }
}

impl std::error::Error for StepError {}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where in the file the reader is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Section {
    Start,
    Between,
    Header,
    Anchor,
    Reference,
    Data,
    /// Behind `END-ISO-10303-21;`, where there may be signatures.
    Signatures,
    End,
}

/// Reads statements. After an error or the end there are no more.
pub struct Reader {
    input: Box<dyn BufRead + Send>,
    section: Section,
    statement: Vec<u8>,
    /// Where the statement that is in `statement` begins.
    begins: Position,
    here: Position,
    bytes_read: u64,
    bytes_total: Option<u64>,
}

#[derive(Clone, Copy)]
struct Position {
    line: u64,
    column: u64,
}

impl Position {
    fn after(mut self, text: &[u8]) -> Self {
        for &byte in text {
            if byte == b'\n' {
                self = Self { line: self.line + 1, column: 1 };
            } else {
                self.column += 1;
            }
        }
        self
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({:?}, line {})", self.section, self.here.line)
    }
}

impl Reader {
    /// Reads from `input`, which is `bytes_total` long if that is known.
    pub fn new(input: Box<dyn BufRead + Send>, bytes_total: Option<u64>) -> Self {
        let start = Position { line: 1, column: 1 };
        let statement = Vec::new();
        Self { input, section: Section::Start, statement, begins: start, here: start, bytes_read: 0, bytes_total }
    }

    /// How many bytes have been read, and of how many, for progress.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes_read, self.bytes_total)
    }

    /// The next statement.
    fn read(&mut self) -> Result<Option<Statement>, StepError> {
        while self.section != Section::End {
            if self.section == Section::Signatures && !self.finds_a_signature()? {
                break;
            }
            self.read_statement()?;
            if matches!(self.section, Section::Between | Section::Signatures)
                && let Some(content) = self.signature()?
            {
                return Ok(Some(Statement::Extra(Extra::Signature(content))));
            }
            let parsed = self.parse()?;
            self.section = match (self.section, parsed) {
                (Section::Start, Parsed::Mark(word)) if word == "ISO-10303-21" => Section::Between,
                (Section::Start, _) => return Err(StepError::NotStep),
                (Section::Between, Parsed::Mark(word)) if word == "HEADER" => Section::Header,
                (Section::Between, Parsed::Mark(word)) if word == "ANCHOR" => Section::Anchor,
                (Section::Between, Parsed::Mark(word)) if word == "REFERENCE" => Section::Reference,
                (Section::Between, Parsed::Mark(word)) if word == "DATA" => {
                    return Ok(Some(self.begin_data(Vec::new())));
                }
                (Section::Between, Parsed::Entry(part)) if part.kind == "DATA" => {
                    return Ok(Some(self.begin_data(part.values)));
                }
                (Section::Between, Parsed::Mark(word)) if word == "END-ISO-10303-21" => Section::Signatures,
                (Section::Between, _) => return Err(self.misplaced("the beginning of a section or END-ISO-10303-21")),
                (Section::Signatures | Section::End, _) => return Err(self.misplaced("a SIGNATURE section")),
                (_, Parsed::Mark(word)) if word == "ENDSEC" => Section::Between,
                (Section::Header, Parsed::Entry(part)) => return Ok(Some(Statement::Header(part))),
                (Section::Data, Parsed::Entity(entity)) => return Ok(Some(Statement::Entity(entity))),
                (Section::Anchor, Parsed::Extra(extra @ Extra::Anchor { .. }))
                | (Section::Reference, Parsed::Extra(extra @ Extra::Reference { .. })) => {
                    return Ok(Some(Statement::Extra(extra)));
                }
                (Section::Header, _) => return Err(self.misplaced("an entry of the header or ENDSEC")),
                (Section::Anchor, _) => return Err(self.misplaced("an anchor, such as <name>=#1, or ENDSEC")),
                (Section::Reference, _) => return Err(self.misplaced("a reference, such as #1=<file#name>, or ENDSEC")),
                (Section::Data, _) => return Err(self.misplaced("an entity or ENDSEC")),
            };
        }
        self.section = Section::End;
        Ok(None)
    }

    fn begin_data(&mut self, parameters: Vec<Value>) -> Statement {
        self.section = Section::Data;
        Statement::Extra(Extra::Data(parameters))
    }

    fn parse(&mut self) -> Result<Parsed, StepError> {
        if self.section == Section::Start && self.statement.starts_with(BYTE_ORDER_MARK) {
            self.statement.drain(..BYTE_ORDER_MARK.len());
        }
        parser::parse(&self.statement).map_err(|misfit| match self.section {
            Section::Start => StepError::NotStep,
            _ => self.syntax(&misfit),
        })
    }

    /// Whether there is another signature behind the end of the file proper. Programs leave other things there, such as
    /// zeros: they are none of the file.
    fn finds_a_signature(&mut self) -> Result<bool, StepError> {
        loop {
            let buffer = self.input.fill_buf()?;
            let blanks = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let first = buffer.get(blanks).copied();
            if first.is_some() || buffer.is_empty() {
                return Ok(first == Some(b'S'));
            }
            self.here = self.here.after(buffer);
            self.bytes_read += blanks as u64;
            self.input.consume(blanks);
        }
    }

    /// All between `SIGNATURE` and its `ENDSEC`, if the statement begins a signature. Both `SIGNATURE` and `SIGNATURE;`
    /// are in use.
    fn signature(&mut self) -> Result<Option<String>, StepError> {
        let begin = self.statement.trim_ascii_start();
        let Some(begin) = begin.strip_prefix(b"SIGNATURE") else { return Ok(None) };
        let mut content = begin.to_vec();
        if content.trim_ascii().is_empty() {
            self.read_statement()?;
            content.push(b';');
            content.extend_from_slice(&self.statement);
        }
        let content = content.strip_suffix(b"ENDSEC").ok_or_else(|| self.misplaced("ENDSEC behind a signature"))?;
        let is_one = |byte: &u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b";+/=-_".contains(byte);
        if !content.iter().all(is_one) {
            return Err(self.misplaced("a signature in base 64"));
        }
        Ok(Some(content.iter().copied().map(char::from).collect()))
    }

    /// Reads up to the next semicolon that stands neither in a string nor in a comment.
    fn read_statement(&mut self) -> Result<(), StepError> {
        self.statement.clear();
        self.begins = self.here;
        let mut scan = Scan::Plain;
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                let nothing_came = self.section == Section::Start;
                return Err(if nothing_came { StepError::NotStep } else { StepError::Cut(self.here.line) });
            }
            let end = buffer.iter().position(|&byte| scan.ends_with(byte));
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.statement.extend_from_slice(&buffer[..taken]);
            self.here = self.here.after(&buffer[..taken]);
            self.input.consume(taken);
            self.bytes_read += taken as u64;
            if end.is_some() {
                self.statement.pop();
                return Ok(());
            }
            // Not a STEP file at all, most likely: do not read gigabytes of it to find out.
            if self.section == Section::Start && self.statement.len() > 64 * 1024 {
                return Err(StepError::NotStep);
            }
            if self.statement.len() > STATEMENT_BYTES_MAX {
                return Err(StepError::TooLong(self.begins.line));
            }
        }
    }

    fn syntax(&self, misfit: &Misfit) -> StepError {
        let at = misfit.at.min(self.statement.len());
        let Position { line, column } = self.begins.after(&self.statement[..at]);
        let got = match &self.statement[at..] {
            [] => "the end of the statement".to_owned(),
            rest => format!("'{}'", String::from_utf8_lossy(&rest[..rest.len().min(20)])),
        };
        StepError::Syntax { line, column, expected: misfit.expected, got }
    }

    fn misplaced(&self, expected: &'static str) -> StepError {
        let blanks = self.statement.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.syntax(&Misfit { at: blanks, expected })
    }
}

impl Iterator for Reader {
    type Item = Result<Statement, StepError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose()?;
        if next.is_err() {
            self.section = Section::End;
        }
        Some(next)
    }
}

/// The construct that the scan for a statement's end is inside of.
#[derive(Clone, Copy)]
enum Scan {
    Plain,
    Slash,
    Comment,
    Star,
    Text(Place),
    Binary,
    Resource,
}

impl Scan {
    /// Takes one more byte. Returns whether the statement ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        *self = match (*self, byte) {
            (Self::Plain | Self::Slash, b';') => return true,
            // A doubled apostrophe closes the text and opens it again, which comes to the same.
            (Self::Plain | Self::Slash, b'\'') => Self::Text(Place::Plain),
            (Self::Plain | Self::Slash, b'"') => Self::Binary,
            (Self::Plain | Self::Slash, b'<') => Self::Resource,
            (Self::Plain | Self::Slash, b'/') => Self::Slash,
            (Self::Comment | Self::Star, b'*') => Self::Star,
            (Self::Slash, b'*') | (Self::Comment, _) => Self::Comment,
            (Self::Star, byte) if byte != b'/' => Self::Comment,
            (Self::Text(mut place), byte) => {
                if place.is_closed_by(byte) {
                    Self::Plain
                } else {
                    Self::Text(place)
                }
            }
            (Self::Binary, byte) if byte != b'"' => Self::Binary,
            (Self::Resource, byte) if byte != b'>' => Self::Resource,
            _ => Self::Plain,
        };
        false
    }
}
