//! The configuration file of a proxy: TOML, in which each option of the command is a key of the same name.
//!
//! The keys become the options that they are named for, in front of those of the command line, and clap reads both: so
//! a value in the file is checked as one on the command line is. A key that the command line gives as well is left out.

use crate::cli::{Cli, Command, ProxyArgs};
use crate::error::usage;
use crate::{Error, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args, CommandFactory, Parser};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Options that no file may have.
const NOT_IN_A_FILE: [&str; 2] = ["config", "check-config"];

/// The name of the command, among the words of its line.
const COMMAND: &str = "proxy";

/// The options of a command line with those that a file adds.
pub(super) fn with_options_of(file: &Path, line: impl Iterator<Item = OsString>) -> Result<ProxyArgs> {
    let line: Vec<OsString> = line.collect();
    let text = read(file).map_err(|why| format!("{}: {why}", file.display()))?;
    let at = |span: Option<Range<usize>>, why: &str| -> Error {
        let number = 1 + text[..span.map_or(0, |span| span.start)].matches('\n').count();
        format!("{}:{number}: {why}", file.display()).into()
    };
    // The description of the whole command line, which is made once and asked about each value.
    let mut cli = Cli::command();
    let matches = cli.try_get_matches_from_mut(&line)?;
    let given = matches.subcommand_matches(COMMAND).ok_or("the command line is of another command")?;
    let command = ProxyArgs::augment_args(clap::Command::new(COMMAND));
    let malformed = |error: toml::de::Error| {
        at(error.span(), &format!("{} (a text stands in quotes: listen = \"127.0.0.1:8080\")", error.message()))
    };
    let table = DeTable::parse(&text).map_err(malformed)?;
    let mut keys: Vec<_> = table.get_ref().iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    let mut words = Vec::new();
    for (key, value) in keys {
        let name: &str = key.get_ref();
        let option = command.get_arguments().find(|option| option.get_long() == Some(name));
        let option = option.filter(|_| !NOT_IN_A_FILE.contains(&name));
        let option = option.ok_or_else(|| at(Some(key.span()), &unknown(&mut cli, name)))?;
        let options = options(&mut cli, option, name, value.get_ref());
        let options = options.map_err(|why| at(Some(value.span()), &format!("{name}: {why}")))?;
        if given.value_source(option.get_id().as_str()) != Some(ValueSource::CommandLine) {
            words.extend(options.into_iter().map(OsString::from));
        }
    }
    let place = line.iter().position(|word| word == COMMAND).map_or(0, |index| index + 1);
    let line = line[..place].iter().cloned().chain(words).chain(line[place..].iter().cloned());
    let parsed = Cli::try_parse_from(line).map_err(|error| {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        usage(format!("{} and the command line together: {text}", file.display()))
    })?;
    match parsed.command {
        Command::Proxy(args) => Ok(*args),
        _ => Err("the command line is of another command".into()),
    }
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("a configuration has at most {FILE_BYTES_MAX} bytes").into());
    }
    Ok(text)
}

/// The text for a key that is none, with the one that was meant, perhaps.
fn unknown(cli: &mut clap::Command, name: &str) -> String {
    if NOT_IN_A_FILE.contains(&name) {
        return format!("'{name}' is for the command line alone: take it out");
    }
    let refused = cli.try_get_matches_from_mut(["thorp", COMMAND, &format!("--{name}=")]);
    let meant = refused.err().and_then(|error| match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => Some(option.trim_start_matches('-').to_owned()),
        _ => None,
    });
    let hint = match meant {
        Some(meant) => format!("is '{meant}' meant?"),
        None => "`thorp proxy --help` has them, without the dashes in front".to_owned(),
    };
    format!("'{name}' is not an option of a proxy: {hint}")
}

/// A value as the words of a command line.
fn options(cli: &mut clap::Command, option: &Arg, name: &str, value: &DeValue<'_>) -> Result<Vec<String>> {
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    let values = match value {
        DeValue::Boolean(is_set) if is_flag => return Ok(is_set.then(|| format!("--{name}")).into_iter().collect()),
        _ if is_flag => return Err("expected true or false".into()),
        DeValue::Array(values) if matches!(option.get_action(), ArgAction::Append) => {
            values.iter().map(|value| word(value.get_ref())).collect::<Result<Vec<_>>>()?
        }
        value => vec![word(value)?],
    };
    let words: Vec<_> = values.iter().map(|value| format!("--{name}={value}")).collect();
    words.iter().try_for_each(|word| check(cli, word))?;
    Ok(words)
}

fn word(value: &DeValue<'_>) -> Result<String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Ok(number?.to_string())
        }
        _ => {
            Err("expected a string or a whole number, or a list of them where the option may be given several times"
                .into())
        }
    }
}

/// Whether an option takes its value. Whether the options go together is looked at when all are there.
fn check(cli: &mut clap::Command, word: &str) -> Result {
    let Err(error) = cli.try_get_matches_from_mut(["thorp", COMMAND, word]) else { return Ok(()) };
    match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::InvalidUtf8 | ErrorKind::NoEquals => {
            let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let value = word.split_once('=').map_or("", |(_, value)| value);
            Err(if text.contains(value) { text } else { format!("'{value}': {text}") }.into())
        }
        _ => Ok(()),
    }
}
