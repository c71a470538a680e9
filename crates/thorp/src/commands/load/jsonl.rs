//! Loads JSON lines: one document per line, in batches, each a transaction together with the mark of how far it came.

use super::mark::Load;
use crate::Result;
use crate::cli::LoadArgs;
use crate::documents::{check_path, documents};
use crate::output::{self, Output};
use crate::target;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use thorp::Db;
use thorp::limits::OBJECT_BYTES_MAX;

/// The text of one batch, at most, in bytes: far below what a transaction may write.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) fn load(args: &LoadArgs, key: &str, output: &mut Output) -> Result {
    let load = Load::new(&args.file, &args.into)?;
    let db = target::open(&args.target)?;
    let resumed_at = db.transact(|tx| load.lines(tx))?;
    let mut lines = Lines::new(args, key, resumed_at)?;
    let bar = output::bar("load (bytes)", load.bytes());
    loop {
        let batch = lines.batch(args.batch as usize)?;
        if batch.is_empty() {
            break;
        }
        store(&db, &load, &batch, lines.number)?;
        bar.set_position(lines.bytes);
    }
    db.transact(|tx| load.complete(tx))?;
    bar.finish_and_clear();
    let loaded = lines.documents;
    let resumed = if resumed_at > 0 { format!(", resumed after line {resumed_at}") } else { String::new() };
    let json = json!({"loaded": loaded, "into": args.into, "resumed_at_line": resumed_at});
    output.line(&json, format_args!("{loaded} documents into {}{resumed}", args.into))
}

/// One batch and the mark behind it: both or none.
fn store(db: &Db, load: &Load, batch: &[(String, String)], lines: u64) -> Result {
    db.transact(|tx| {
        let documents = documents(tx)?;
        for (path, document) in batch {
            documents.insert(tx, path, document)?;
        }
        load.note(tx, lines)
    })?;
    Ok(())
}

/// The documents of a file, line by line.
struct Lines<'a> {
    args: &'a LoadArgs,
    key: &'a str,
    input: BufReader<File>,
    /// The number of the last line that was read.
    number: u64,
    /// How far the file has been read.
    bytes: u64,
    documents: u64,
}

impl<'a> Lines<'a> {
    /// From behind the first `skip` lines on.
    fn new(args: &'a LoadArgs, key: &'a str, skip: u64) -> Result<Self> {
        let input = BufReader::with_capacity(1 << 20, File::open(&args.file)?);
        let mut lines = Self { args, key, input, number: 0, bytes: 0, documents: 0 };
        while lines.number < skip && lines.line()?.is_some() {}
        Ok(lines)
    }

    fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = self
            .input
            .by_ref()
            .take(OBJECT_BYTES_MAX as u64 + 2)
            .read_line(&mut line)
            .map_err(|error| self.wrong(&error))?;
        self.number += u64::from(read > 0);
        self.bytes += read as u64;
        Ok((read > 0).then_some(line))
    }

    /// The next documents, by path; none at the end.
    fn batch(&mut self, count: usize) -> Result<Vec<(String, String)>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < count && bytes < BATCH_BYTES_MAX {
            let Some(line) = self.line()? else { break };
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            let path = self.path(text)?;
            bytes += text.len();
            batch.push((path, text.to_owned()));
            self.documents += 1;
        }
        Ok(batch)
    }

    /// The path of a document: the collection, and the value of the key field.
    fn path(&self, text: &str) -> Result<String> {
        if text.len() > OBJECT_BYTES_MAX {
            return Err(self.wrong(&format_args!("the line is longer than {} MiB", OBJECT_BYTES_MAX >> 20)));
        }
        let document: Value = serde_json::from_str(text).map_err(|error| self.wrong(&error))?;
        let name = match &document[self.key] {
            Value::String(name) => name.clone(),
            Value::Number(number) => number.to_string(),
            other => {
                let key = self.key;
                return Err(self.wrong(&format_args!("field '{key}' should be a string or a number and is {other}")));
            }
        };
        let path = format!("{}/{name}", self.args.into);
        check_path(&path).map_err(|error| self.wrong(&error))?;
        Ok(path)
    }

    /// What is wrong with the current line. The lines before it that are not in yet are left out: they come in when
    /// the file is right and loaded again.
    fn wrong(&self, what: &dyn std::fmt::Display) -> crate::Error {
        format!("{}, line {}: {what}; correct it and load again", self.args.file.display(), self.number).into()
    }
}
