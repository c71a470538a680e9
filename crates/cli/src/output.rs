//! The output of commands: values on standard output, for people or for programs; progress on standard error, if a
//! person is there to see it.

use crate::{Error, Result};
use attach::{CheckProgress, HomeCheck};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stdout, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Standard output.
pub(crate) struct Output {
    json: bool,
    stdout: BufWriter<Stdout>,
}

impl Output {
    /// Prints JSON, or text for people.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, stdout: BufWriter::new(io::stdout()) }
    }

    /// Whether a program reads along.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of JSON, or one for people.
    pub(crate) fn line(&mut self, json: &Value, text: impl Display) -> Result {
        if self.json { self.raw(json) } else { self.raw(text) }
    }

    /// Prints a line as it is, for both.
    pub(crate) fn raw(&mut self, text: impl Display) -> Result {
        writeln!(self.stdout, "{text}").map_err(cannot_write)
    }

    /// Prints a name as it is, and a zero byte behind it, which no name of a shell's has.
    pub(crate) fn until_null(&mut self, name: &str) -> Result {
        write!(self.stdout, "{name}\0").map_err(cannot_write)
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
        self.stdout.flush().map_err(cannot_write)
    }
}

/// Why there is no output, or not all of it. A reader that has hung up has enough of it, which is for `main` to see.
pub(crate) fn cannot_write(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => error.into(),
        _ => format!("cannot write the output: {error}").into(),
    }
}

/// The number of a volume, a partition or a domain: nobody counts them.
pub(crate) fn number(number: u64) -> String {
    format!("{number:016x}")
}

/// A text with the characters that control a terminal, line breaks among them, spelt out: a name of somebody else's
/// does not get to do anything where it is shown, and stays on its line.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return text.into();
    }
    let spelt = text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.into() });
    spelt.collect::<String>().into()
}

/// A bar for work of known length. Nothing is shown when standard error is no terminal.
pub(crate) fn bar(what: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:30} {human_pos}/{human_len}  {eta}");
    let bar = ProgressBar::new(length).with_message(what);
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.tick();
    bar
}

/// The progress of work on a known number of bytes: a bar on a terminal, and elsewhere a line now and then, as a log
/// has it.
pub(crate) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    told_at: Mutex<Instant>,
}

impl Progress {
    /// How often a line is written where there is no terminal.
    const TELL_EVERY: Duration = Duration::from_secs(5);

    /// Work of this kind on `length` bytes.
    pub(crate) fn new(what: &'static str, length: u64) -> Self {
        Self { bar: bar(what, length), what, told_at: Mutex::new(Instant::now()) }
    }

    /// So many of `length` bytes are done.
    pub(crate) fn set(&self, done: u64, length: u64) {
        self.bar.set_length(length);
        self.bar.set_position(done);
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_hidden() && told_at.elapsed() >= Self::TELL_EVERY {
            *told_at = Instant::now();
            eprintln!("{}: {done} of {length} bytes", self.what);
        }
    }

    /// The work is over.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Shows how far homes have come that are compared with their checksums, and what was found.
pub(crate) fn checks() -> CheckProgress {
    let under_way: Mutex<BTreeMap<PathBuf, Progress>> = Mutex::default();
    CheckProgress::new(move |HomeCheck { path, bytes, bytes_total, damaged }| {
        let mut under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Progress::new("comparing a volume's file with its checksums", bytes_total);
        under_way.entry(path.to_owned()).or_insert_with(new).set(bytes, bytes_total);
        if bytes < bytes_total {
            return;
        }
        if let Some(progress) = under_way.remove(path) {
            progress.end();
        }
        if damaged > 0 {
            eprintln!(
                "{}: {damaged} blocks of the volume are not what was written there, as its file was changed or exchanged \
                 while the volume was open: reads of them fail, and `thorp volume scrub` names them; bring back the file \
                 that was there, or restore them from a backup",
                path.display()
            );
        }
    })
}

/// A bar for work of known length that writes to standard output piece by piece. On a terminal the output itself is
/// the progress.
pub(crate) fn bar_beside_output(what: &'static str, length: u64) -> ProgressBar {
    if io::stdout().is_terminal() { ProgressBar::hidden() } else { bar(what, length) }
}

/// A count for work of unknown length.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg:24} {human_pos}");
    let spinner = ProgressBar::new_spinner().with_message(what);
    let spinner = spinner.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}
