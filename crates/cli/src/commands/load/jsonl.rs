//! Loads JSON lines: one document per line, in batches, each a transaction; of a file together with the mark of how far
//! it came.

use super::input::Input;
use super::mark::Load;
use crate::cli::LoadArgs;
use crate::documents::{BYTE_ORDER_MARK, check_path, documents, refuse_inside_designs};
use crate::output::{self, Output, visible};
use crate::stopper::Interrupt;
use crate::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Display;
use std::io::ErrorKind;
use thorp::Db;
use thorp::limits::OBJECT_BYTES_MAX;

/// The text of one batch, at most, in bytes: far below what a transaction may write.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The longest line: a document, and its name beside it.
const LINE_BYTES_MAX: usize = OBJECT_BYTES_MAX + 64 * 1024;

/// Documents of one batch, if nobody says otherwise.
const BATCH: u32 = 500;

pub(super) fn load(args: &LoadArgs, mut input: Input, output: &mut Output) -> Result {
    let load = if input.is_file() { Some(Load::new(&mut input, &args.into)?) } else { None };
    let interrupt = Interrupt::watch()?;
    let mut lines = Lines::new(args, input);
    lines.look_at_first(&interrupt)?;
    let db = args.target.open_or_create()?;
    let resumed_at = load.as_ref().map_or(Ok(0), |load| db.transact(|tx| load.lines(tx)))?;
    lines.skip_to(resumed_at)?;
    let bar = match &load {
        Some(load) => output::bar("load (bytes)", load.bytes()),
        None => output::spinner("load (bytes)"),
    };
    loop {
        let batch = lines.batch(args.batch.unwrap_or(BATCH) as usize, &interrupt)?;
        if batch.is_empty() {
            break;
        }
        store(&db, load.as_ref(), &batch, lines.number)?;
        lines.stored += batch.len() as u64;
        bar.set_position(lines.bytes);
    }
    bar.finish_and_clear();
    if interrupt.has_come() && !lines.is_over {
        return Err(lines.interrupted());
    }
    if let Some(load) = &load {
        db.transact(|tx| load.complete(tx))?;
    }
    let loaded = lines.stored;
    let resumed = if resumed_at > 0 { format!(", resumed after line {resumed_at}") } else { String::new() };
    let json = json!({"loaded": loaded, "into": args.into, "resumed_at_line": resumed_at});
    output.line(&json, format_args!("{loaded} documents into {}{resumed}", visible(&args.into)))
}

/// One batch and the mark behind it: both or none.
fn store(db: &Db, load: Option<&Load>, batch: &[(String, String)], lines: u64) -> Result {
    db.transact(|tx| {
        refuse_inside_designs(tx, batch.iter().map(|(path, _)| path.as_str()))?;
        let documents = documents(tx)?;
        for (path, document) in batch {
            documents.insert(tx, path, document)?;
        }
        load.map_or(Ok(()), |load| load.note(tx, lines))
    })?;
    Ok(())
}

/// A line as `thorp dump` prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    document: &'a RawValue,
}

/// The result of reading on.
enum Next {
    Document(String, String),
    /// Nothing comes from the pipe at the moment.
    Pause,
    End,
}

/// The documents of an input, line by line.
struct Lines<'a> {
    args: &'a LoadArgs,
    input: Input,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// The first document, if it was looked at and not taken yet.
    first: Option<(String, String)>,
    /// The number of the last line that was read.
    number: u64,
    /// How far the input has been read.
    bytes: u64,
    /// Documents that are in the store.
    stored: u64,
    is_over: bool,
}

impl<'a> Lines<'a> {
    fn new(args: &'a LoadArgs, input: Input) -> Self {
        let (line, first, number, bytes, stored, is_over) = Default::default();
        Self { args, input, line, first, number, bytes, stored, is_over }
    }

    /// Reads up to the first document: if the input is none of JSON lines, that shows before there is a store.
    fn look_at_first(&mut self, interrupt: &Interrupt) -> Result {
        loop {
            match self.next()? {
                Next::Document(path, document) => self.first = Some((path, document)),
                Next::Pause if !interrupt.has_come() => continue,
                Next::Pause | Next::End => {}
            }
            return Ok(());
        }
    }

    /// Passes over lines that are in already.
    fn skip_to(&mut self, lines: u64) -> Result {
        if self.number <= lines {
            self.first = None;
        }
        while self.number < lines && self.read_line()?.is_some_and(|whole| whole) {
            self.line.clear();
        }
        Ok(())
    }

    /// The next documents, by path; none at the end. A pipe that pauses ends a batch, so that what has come is in.
    fn batch(&mut self, count: usize, interrupt: &Interrupt) -> Result<Vec<(String, String)>> {
        let mut batch: Vec<_> = self.first.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(|(_, document)| document.len()).sum();
        // A file's batches are as large as they should be, so that its load continues in whole ones.
        if self.is_over || (interrupt.has_come() && batch.is_empty()) {
            return Ok(batch);
        }
        while batch.len() < count && bytes < BATCH_BYTES_MAX {
            match self.next()? {
                Next::Document(path, document) => {
                    bytes += document.len();
                    batch.push((path, document));
                }
                Next::Pause if batch.is_empty() && !interrupt.has_come() => {}
                Next::Pause | Next::End => break,
            }
        }
        Ok(batch)
    }

    fn next(&mut self) -> Result<Next> {
        loop {
            match self.read_line()? {
                None => return Ok(Next::Pause),
                Some(false) => {
                    self.is_over = true;
                    return Ok(Next::End);
                }
                Some(true) => {}
            }
            let line = std::mem::take(&mut self.line);
            let text = std::str::from_utf8(&line).map_err(|error| self.wrong(&error))?;
            let text = if self.number == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text }.trim();
            if !text.is_empty() {
                let (path, document) = self.document(text)?;
                return Ok(Next::Document(path, document));
            }
        }
    }

    /// Whether there is another line; `None` while it is still to come.
    fn read_line(&mut self) -> Result<Option<bool>> {
        let before = self.line.len();
        let read = self.input.read_line(&mut self.line, LINE_BYTES_MAX);
        self.bytes += (self.line.len() - before) as u64;
        match read {
            Ok(_) if self.line.is_empty() => Ok(Some(false)),
            Ok(_) => {
                self.number += 1;
                if self.line.len() == LINE_BYTES_MAX {
                    let what = format!("the line is longer than {} MiB", OBJECT_BYTES_MAX >> 20);
                    return Err(self.wrong(&what));
                }
                Ok(Some(true))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.wrong(&error)),
        }
    }

    /// A line's document, and its path.
    fn document(&self, text: &str) -> Result<(String, String)> {
        let (name, document) = if let Some(key) = &self.args.key {
            (self.name_by_key(text, key)?, text)
        } else {
            let Named { name, document } = serde_json::from_str(text).map_err(|error| {
                let shape = "{\"name\": NAME, \"document\": DOCUMENT}";
                self.wrong(&format_args!("{error}; without --key FIELD a line is {shape}, as from `thorp dump`"))
            })?;
            (name.into_owned(), document.get())
        };
        if document.len() > OBJECT_BYTES_MAX {
            return Err(self.wrong(&format_args!("the document is larger than {} MiB", OBJECT_BYTES_MAX >> 20)));
        }
        let path = format!("{}/{name}", self.args.into);
        check_path(&path).map_err(|error| self.wrong(&error))?;
        Ok((path, document.to_owned()))
    }

    fn name_by_key(&self, text: &str, key: &str) -> Result<String> {
        let document: Value = serde_json::from_str(text).map_err(|error| self.wrong(&error))?;
        match &document[key] {
            Value::String(name) => Ok(name.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(&format_args!("field '{key}' should be a string or a number and is {other}"))),
        }
    }

    /// The error for the current line. The lines before it that are not in yet are left out: they come in when the file
    /// is right and loaded again.
    fn wrong(&self, what: &dyn Display) -> Error {
        let again = if self.input.is_file() { "load again" } else { "load all of it again" };
        format!("{}, line {}: {what}; correct it and {again}", self.input.name(), self.number).into()
    }

    fn interrupted(&self) -> Error {
        let again = if self.input.is_file() {
            "load the same file again to go on"
        } else {
            "a pipe cannot be gone on with: load all of it again, or what is missing"
        };
        format!("interrupted at line {}: {} documents are in; {again}", self.number, self.stored).into()
    }
}
