//! The rules by which changes of rows become dependencies, as a file says them.
//!
//! ```toml
//! # Tables that are not named: everything is invalid, which is always right.
//! others = ["*"]
//!
//! [tables."public.items"]
//! rows = ["item:{id}", "category:{category}"]   # for each row, with its old values and with its new ones
//! whole = ["items"]                             # for TRUNCATE, an altered table, a row whose values are not known
//! ```

use coherence::Dependency;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The largest file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// The templates of one list.
const TEMPLATES_MAX: usize = 64;

/// The rules of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    tables: BTreeMap<String, TableRules>,
    others: TableRules,
}

/// The rules of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRules {
    /// The dependencies of a row that changes.
    pub(crate) rows: Vec<Template>,
    /// The dependencies of a change that is not known better.
    pub(crate) whole: Vec<Dependency>,
}

/// A dependency with columns in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(pub(crate) Vec<Piece>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Column(String),
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Column(column) => write!(f, "{{{column}}}"),
        })
    }
}

/// Why a map is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The file is too large.
    Large,
    /// It is not TOML, or says something that a map does not have.
    Form(String),
    /// A table's name is not `schema.table`.
    Name(String),
    /// A list has too many templates.
    Many(String),
    /// A template has a brace that is not one of `{column}`, or is not a name of a dependency.
    Template(String),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Large => write!(f, "a map has at most {FILE_BYTES_MAX} bytes"),
            Self::Form(what) => f.write_str(what.trim_end()),
            Self::Name(name) => write!(f, "a table is called \"schema.table\", got \"{name}\""),
            Self::Many(table) => write!(f, "a list has at most {TEMPLATES_MAX} templates: {table}"),
            Self::Template(text) => {
                write!(
                    f,
                    "a template is a name of 1 to 256 bytes, with columns as {{column}} in `rows`; got \"{text}\""
                )
            }
        }
    }
}

impl std::error::Error for MapError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    tables: BTreeMap<String, Table>,
    others: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rows: Vec<String>,
    whole: Option<Vec<String>>,
}

impl Map {
    /// A map without a rule: every change invalidates everything.
    pub fn everything() -> Self {
        let all = Template(vec![Piece::Text("*".to_owned())]);
        Self { tables: BTreeMap::new(), others: TableRules { rows: vec![all], whole: vec![Dependency::ALL] } }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// The fault in it.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(MapError::Large);
        }
        let file: File = toml::from_str(text).map_err(|error| MapError::Form(error.to_string()))?;
        let tables = file.tables.into_iter().map(|(name, table)| {
            let is_name = name.split('.').count() == 2 && !name.starts_with('.') && !name.ends_with('.');
            if !is_name {
                return Err(MapError::Name(name));
            }
            let rules =
                TableRules { rows: list(&name, &table.rows, template)?, whole: whole(&name, table.whole.as_deref())? };
            Ok((name, rules))
        });
        Ok(Self { tables: tables.collect::<Result<_, _>>()?, others: others(file.others.as_deref())? })
    }

    /// The rules of a table, by its full name.
    pub(crate) fn rules(&self, table: &str) -> &TableRules {
        self.tables.get(table).unwrap_or(&self.others)
    }

    /// Whether changes of tables without rules invalidate everything.
    pub(crate) fn has_all_others(&self) -> bool {
        self.others.whole.contains(&Dependency::ALL)
    }

    /// The names of rules that are not printable ASCII, columns left out.
    pub(crate) fn unsayable(&self) -> impl Iterator<Item = String> {
        let rules = || self.tables.values().chain([&self.others]);
        let rows = rules().flat_map(|rules| &rules.rows).map(ToString::to_string);
        let whole = rules().flat_map(|rules| &rules.whole);
        let whole = whole.map(|dependency| String::from_utf8_lossy(dependency.name()).into_owned());
        let names: BTreeSet<String> = rows.chain(whole).collect();
        names.into_iter().filter(|name| !name.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
    }

    /// The full names of the tables that have rules, with the columns that these read.
    pub fn tables(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.tables.iter().map(|(name, rules)| {
            let pieces = rules.rows.iter().flat_map(|template| &template.0);
            let columns = pieces.filter_map(|piece| match piece {
                Piece::Column(column) => Some(column.as_str()),
                Piece::Text(_) => None,
            });
            (name.as_str(), columns.collect())
        })
    }
}

fn list<T>(table: &str, texts: &[String], read: fn(&str) -> Result<T, MapError>) -> Result<Vec<T>, MapError> {
    if texts.len() > TEMPLATES_MAX {
        return Err(MapError::Many(table.to_owned()));
    }
    texts.iter().map(|text| read(text)).collect()
}

fn whole(table: &str, texts: Option<&[String]>) -> Result<Vec<Dependency>, MapError> {
    texts.map_or_else(|| Ok(vec![Dependency::ALL]), |texts| list(table, texts, dependency))
}

/// Of other tables no columns are known: whatever happens to one is a change of the whole.
fn others(texts: Option<&[String]>) -> Result<TableRules, MapError> {
    let whole = whole("others", texts)?;
    let rows = whole.iter().map(|dependency| {
        let text = String::from_utf8_lossy(dependency.name()).into_owned();
        Template(vec![Piece::Text(text)])
    });
    Ok(TableRules { rows: rows.collect(), whole })
}

fn dependency(text: &str) -> Result<Dependency, MapError> {
    let is_plain = !text.contains(['{', '}']);
    Dependency::new(text.to_owned()).filter(|_| is_plain).ok_or_else(|| MapError::Template(text.to_owned()))
}

fn template(text: &str) -> Result<Template, MapError> {
    let refuse = || MapError::Template(text.to_owned());
    dependency(&text.replace(['{', '}'], "")).map_err(|_| refuse())?;
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (column, after) = behind.split_once('}').ok_or_else(refuse)?;
        if column.is_empty() || column.contains('{') || before.contains('}') {
            return Err(refuse());
        }
        pieces.extend([Piece::Text(before.to_owned()), Piece::Column(column.to_owned())]);
        rest = after;
    }
    if rest.contains('}') {
        return Err(refuse());
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(Template(pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_rules_for_tables_and_for_others() {
        let map = Map::parse("others = []\n[tables.\"public.items\"]\nrows = [\"item:{id}\", \"all\"]\n").unwrap();
        let rules = map.rules("public.items");
        assert_eq!(rules.whole, [Dependency::ALL]);
        assert_eq!(rules.rows.len(), 2);
        assert!(map.rules("public.sessions").whole.is_empty());
        assert_eq!(map.tables().collect::<Vec<_>>(), [("public.items", vec!["id"])]);
        assert_eq!(Map::parse("").unwrap().rules("a.b").whole, [Dependency::ALL]);
        assert_eq!(Map::parse("").unwrap(), Map::everything());
    }

    #[test]
    fn names_that_no_response_can_say_are_found() {
        let text = "[tables.\"public.items\"]\nrows = [\"artículo:{id}\", \"item:{id}\"]\nwhole = [\"tab\\there\"]\n";
        let map = Map::parse(text).unwrap();
        assert_eq!(map.unsayable().collect::<Vec<_>>(), ["artículo:{id}", "tab\there"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |rows: &str| Map::parse(&format!("[tables.\"public.items\"]\nrows = {rows}\n")).unwrap_err();
        for text in ["item:{id", "item:id}", "{}", "a{b{c}}", "", "}{a}"] {
            assert_eq!(refused(&format!("[\"{text}\"]")), MapError::Template(text.to_owned()));
        }
        assert!(matches!(refused("3"), MapError::Form(_)));
        assert!(matches!(refused("[]\nrow = []"), MapError::Form(_)));
        assert!(matches!(refused(&format!("[{}]", "\"a\",".repeat(65))), MapError::Many(_)));
        assert!(matches!(Map::parse("[tables.items]\nrows = []\n"), Err(MapError::Name(_))));
        assert_eq!(Map::parse(&" ".repeat(FILE_BYTES_MAX + 1)), Err(MapError::Large));
    }
}
