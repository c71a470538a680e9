//! What commands print: values on standard output, for people or for programs; progress on standard error, if a person
//! is there to see it.

use crate::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufWriter, Stdout, Write};
use std::time::Duration;

/// Standard output.
pub(crate) struct Output {
    json: bool,
    stdout: BufWriter<Stdout>,
}

impl Output {
    /// Prints JSON, or text for people.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, stdout: BufWriter::new(std::io::stdout()) }
    }

    /// Whether a program reads along.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of JSON, or one for people.
    pub(crate) fn line(&mut self, json: &Value, text: impl Display) -> Result {
        if self.json {
            writeln!(self.stdout, "{json}")?;
        } else {
            writeln!(self.stdout, "{text}")?;
        }
        Ok(())
    }

    /// Prints a line as it is, for both.
    pub(crate) fn raw(&mut self, text: impl Display) -> Result {
        Ok(writeln!(self.stdout, "{text}")?)
    }

    /// Prints rows in two columns, or all of them as one object of JSON.
    pub(crate) fn table(&mut self, rows: &[(&str, Value)]) -> Result {
        if self.json {
            let object: serde_json::Map<_, _> = rows.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
            return self.raw(Value::Object(object));
        }
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in rows {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.raw(format_args!("  {:<width$}  {text}", name.replace('_', " ")))?;
        }
        Ok(())
    }

    /// Where text goes that is written piece by piece.
    pub(crate) fn writer(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// Brings everything out.
    pub(crate) fn flush(&mut self) -> Result {
        Ok(self.stdout.flush()?)
    }
}

/// A bar for work of known length. Nothing is shown when standard error is no terminal.
pub(crate) fn bar(what: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:30} {human_pos}/{human_len}  {eta}");
    let bar = ProgressBar::new(length).with_message(what);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A sign of life for work of unknown length.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
