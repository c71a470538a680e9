//! From the changes of a transaction to the dependencies that they change.
//!
//! 1. A row that changes concerns the dependencies of its old values and those of its new ones (**BothValues**). An old
//!    value is known if the server tells it, or if it belongs to the replica identity and that has not changed. A table
//!    with partitions is shown with its own identity, and its rows have those of the partitions: what the identity of
//!    all values leaves out is not known, and neither is a null.
//! 2. A row with a value that is not known, and a table that is truncated or altered, concern the whole of the table
//!    (**WholeIfUnknown**, **WholeIfAltered**).
//! 3. A transaction that concerns more than an update may name concerns everything.

use crate::map::{Map, Piece, TableRules, Template};
use crate::pgoutput::{self, Old, Value};
use crate::refusal::StreamError;
use crate::rule::Rule;
use coherence::Dependency;
use std::collections::{BTreeSet, HashMap};
use types::Broken;
use types::limits::{DEPENDENCIES_PER_UPDATE_MAX, DEPENDENCY_BYTES_MAX};

/// Tables of one stream.
const TABLES_MAX: usize = 1 << 16;

/// The replica identity of all values (`REPLICA IDENTITY FULL`).
const IDENTITY_FULL: u8 = b'f';

/// The prefix of the messages that name dependencies themselves: `pg_logical_emit_message(true, 'thorp', 'item:42')`.
pub const MESSAGE_PREFIX: &str = "thorp";

/// The dependencies that a transaction changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    names: BTreeSet<Dependency>,
    is_all: bool,
}

impl Changes {
    pub(crate) fn add(&mut self, name: Dependency) {
        self.is_all |= name == Dependency::ALL;
        if !self.is_all {
            self.names.insert(name);
            self.is_all = self.names.len() > DEPENDENCIES_PER_UPDATE_MAX;
        }
        if self.is_all {
            self.names.clear();
        }
    }

    /// All of them, none of which may be everything.
    pub(crate) fn into_names(self) -> Vec<Dependency> {
        if self.is_all { vec![Dependency::ALL] } else { self.names.into_iter().collect() }
    }
}

/// The tables of a stream, with the rules for them.
#[derive(Debug)]
pub(crate) struct Tables {
    map: Map,
    known: HashMap<u32, Known>,
    broken: Broken<Rule>,
}

/// A table as the stream has shown it.
#[derive(Debug)]
struct Known {
    look: Look,
    rules: TableRules,
    /// For each template its columns' places, or nothing if the table lacks one of them.
    places: Option<Vec<Vec<usize>>>,
}

/// How a table looks: when that changes, it was altered.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    name: String,
    identity: u8,
    columns: Vec<ColumnLook>,
}

#[derive(Debug, PartialEq, Eq)]
struct ColumnLook {
    name: Vec<u8>,
    is_identity: bool,
    kind: (u32, u32),
}

/// A value of a row before or after a change.
#[derive(Clone, Copy, Debug)]
enum Told<'a> {
    Text(&'a [u8]),
    Unknown,
}

impl Tables {
    pub(crate) fn new(map: Map, broken: Broken<Rule>) -> Self {
        Self { map, known: HashMap::new(), broken }
    }

    /// The stream begins again, and shows each table again.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// A table is shown.
    pub(crate) fn show(&mut self, shown: &pgoutput::Relation<'_>, changes: &mut Changes) -> Result<(), StreamError> {
        let look = Look::of(shown);
        let earlier = self.known.remove(&shown.table);
        if let Some(earlier) = earlier.filter(|earlier| earlier.look != look)
            && !self.broken.is(Rule::WholeIfAltered)
        {
            earlier.rules.whole.iter().chain(&self.map.rules(&look.name).whole).cloned().for_each(|d| changes.add(d));
        }
        if self.known.len() >= TABLES_MAX {
            return Err(StreamError::TooManyTables);
        }
        let rules = self.map.rules(&look.name).clone();
        let places = rules.rows.iter().map(|template| look.places(template)).collect();
        self.known.insert(shown.table, Known { look, rules, places });
        Ok(())
    }

    /// A row changes: `old` or `new` is missing if it was inserted or is deleted.
    pub(crate) fn change(
        &self,
        table: u32,
        old: Option<&Old<'_>>,
        new: Option<&[Value<'_>]>,
        changes: &mut Changes,
    ) -> Result<(), StreamError> {
        let known = self.known.get(&table).ok_or(StreamError::UnknownTable(table))?;
        let columns = known.look.columns.len();
        let told = match old {
            Some(Old::Key(row) | Old::Row(row)) => Some(row.len()),
            Some(Old::None) | None => None,
        };
        if let Some(got) = told.into_iter().chain(new.map(<[_]>::len)).find(|&count| count != columns) {
            return Err(StreamError::Columns { table, expected: columns, got });
        }
        let Some(places) = &known.places else {
            known.whole(changes);
            return Ok(());
        };
        let before = old.map(|old| move |at: usize| known.old_value(old, new, at));
        if let Some(before) = before.filter(|_| new.is_none() || !self.broken.is(Rule::BothValues)) {
            known.row(places, before, self.broken, changes);
        }
        if let Some(new) = new {
            known.row(places, |at| known.new_value(old, new, at), self.broken, changes);
        }
        Ok(())
    }

    /// All rows of a table are gone.
    pub(crate) fn truncate(&self, table: u32, changes: &mut Changes) -> Result<(), StreamError> {
        self.known.get(&table).ok_or(StreamError::UnknownTable(table))?.whole(changes);
        Ok(())
    }
}

/// An application names dependencies, one in each line. A line that is no name stands for everything.
pub(crate) fn said(content: &[u8], changes: &mut Changes) {
    for line in content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        changes.add(Dependency::new(line.to_vec()).unwrap_or(Dependency::ALL));
    }
}

impl Look {
    fn of(shown: &pgoutput::Relation<'_>) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes);
        let schema = if shown.schema.is_empty() { "pg_catalog".into() } else { text(shown.schema) };
        let column = |column: &pgoutput::Column<'_>| ColumnLook {
            name: column.name.to_vec(),
            is_identity: column.is_identity,
            kind: (column.kind, column.modifier),
        };
        Self {
            name: format!("{schema}.{}", text(shown.name)),
            identity: shown.identity,
            columns: shown.columns.iter().map(column).collect(),
        }
    }

    fn places(&self, template: &Template) -> Option<Vec<usize>> {
        let columns = template.0.iter().filter_map(|piece| match piece {
            Piece::Column(name) => Some(self.columns.iter().position(|column| column.name == name.as_bytes())),
            Piece::Text(_) => None,
        });
        columns.collect()
    }
}

impl Known {
    fn whole(&self, changes: &mut Changes) {
        self.rules.whole.iter().cloned().for_each(|name| changes.add(name));
    }

    /// A row with these values.
    fn row<'a>(
        &self,
        places: &[Vec<usize>],
        value: impl Fn(usize) -> Told<'a>,
        broken: Broken<Rule>,
        changes: &mut Changes,
    ) {
        for (template, places) in self.rules.rows.iter().zip(places) {
            match template.with(places, &value) {
                Some(name) => changes.add(name),
                None if broken.is(Rule::WholeIfUnknown) => {}
                None => self.whole(changes),
            }
        }
    }

    fn old_value<'a>(&self, old: &Old<'a>, new: Option<&[Value<'a>]>, at: usize) -> Told<'a> {
        let is_identity = self.look.columns[at].is_identity;
        match old {
            Old::Row(row) => Told::before(row[at]),
            // A key is told with nulls for everything that does not belong to it.
            Old::Key(row) if is_identity => Told::before(row[at]),
            // An identity of all values is always told, unless a partition has another one.
            Old::None if is_identity && self.look.identity != IDENTITY_FULL => {
                new.map_or(Told::Unknown, |new| new[at].into())
            }
            Old::Key(_) | Old::None => Told::Unknown,
        }
    }

    fn new_value<'a>(&self, old: Option<&Old<'a>>, new: &[Value<'a>], at: usize) -> Told<'a> {
        match (new[at], old) {
            (Value::Unchanged, Some(Old::Row(row))) => Told::before(row[at]),
            (Value::Unchanged, Some(Old::Key(row))) if self.look.columns[at].is_identity => Told::before(row[at]),
            (value, _) => value.into(),
        }
    }
}

impl<'a> Told<'a> {
    /// An old value. A partition whose replica identity is smaller than its table's has nulls for what it leaves out.
    fn before(value: Value<'a>) -> Self {
        match value {
            Value::Null => Self::Unknown,
            value => value.into(),
        }
    }
}

impl<'a> From<Value<'a>> for Told<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Text(text) => Self::Text(text),
            // A row whose text is `null` shares the name: it is marked more often than it had to be.
            Value::Null => Self::Text(b"null"),
            Value::Unchanged => Self::Unknown,
        }
    }
}

impl Template {
    /// The dependency with these values; `None` if one is not known, or it is too long.
    fn with<'a>(&self, places: &[usize], value: impl Fn(usize) -> Told<'a>) -> Option<Dependency> {
        let (mut name, mut places) = (Vec::new(), places.iter());
        for piece in &self.0 {
            let text = match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Column(_) => match value(*places.next()?) {
                    Told::Text(text) => text,
                    Told::Unknown => return None,
                },
            };
            if name.len() + text.len() > DEPENDENCY_BYTES_MAX {
                return None;
            }
            name.extend_from_slice(text);
        }
        Dependency::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::{Column, Relation};

    const TEXT: &str = "[tables.\"public.items\"]\nrows = [\"item:{id}\", \"of:{owner}\"]\nwhole = [\"items\"]\n";

    fn columns(is_full: bool) -> Vec<Column<'static>> {
        let column = |is_identity, name| Column { is_identity, name, kind: 25, modifier: 0 };
        vec![column(true, b"id"), column(is_full, b"owner"), column(is_full, b"about")]
    }

    fn items(is_full: bool) -> Relation<'static> {
        let identity = if is_full { b'f' } else { b'd' };
        Relation { table: 7, schema: b"public", name: b"items", identity, columns: columns(is_full) }
    }

    fn tables(is_full: bool, broken: Broken<Rule>) -> Tables {
        let mut tables = Tables::new(Map::parse(TEXT).unwrap(), broken);
        tables.show(&items(is_full), &mut Changes::default()).unwrap();
        tables
    }

    fn texts(changes: Changes) -> Vec<String> {
        changes.into_names().iter().map(ToString::to_string).collect()
    }

    fn changed(tables: &Tables, old: Option<&Old<'_>>, new: Option<&[Value<'_>]>) -> Vec<String> {
        let mut changes = Changes::default();
        tables.change(7, old, new, &mut changes).unwrap();
        texts(changes)
    }

    fn row<const N: usize>(values: [&'static str; N]) -> Vec<Value<'static>> {
        values.map(|value| if value == "-" { Value::Null } else { Value::Text(value.as_bytes()) }).into()
    }

    #[test]
    fn a_row_concerns_what_depends_on_its_old_and_its_new_values() {
        let full = tables(true, Broken::NONE);
        let old = Old::Row(row(["42", "ann", "a"]));
        let new = row(["42", "bob", "b"]);
        assert_eq!(changed(&full, Some(&old), Some(&new)), ["item:42", "of:ann", "of:bob"]);
        assert_eq!(changed(&full, None, Some(&new)), ["item:42", "of:bob"]);
        assert_eq!(changed(&full, Some(&old), None), ["item:42", "of:ann"]);
        let broken = tables(true, Broken::rule(Rule::BothValues));
        assert_eq!(changed(&broken, Some(&old), Some(&new)), ["item:42", "of:bob"], "the mutant");
    }

    #[test]
    fn an_old_value_that_is_not_told_concerns_the_whole_table() {
        let by_key = tables(false, Broken::NONE);
        let new = row(["42", "bob", "b"]);
        assert_eq!(changed(&by_key, Some(&Old::None), Some(&new)), ["item:42", "items", "of:bob"]);
        let old = Old::Key(row(["41", "-", "-"]));
        assert_eq!(changed(&by_key, Some(&old), Some(&new)), ["item:41", "item:42", "items", "of:bob"]);
        assert_eq!(changed(&by_key, Some(&old), None), ["item:41", "items"]);
        let broken = tables(false, Broken::rule(Rule::WholeIfUnknown));
        assert_eq!(changed(&broken, Some(&old), None), ["item:41"], "the mutant");
    }

    /// The table has the identity of all values, and its partition that of its key.
    #[test]
    fn an_old_value_that_a_partition_leaves_out_concerns_the_whole_table() {
        let full = tables(true, Broken::NONE);
        let new = row(["42", "bob", "b"]);
        assert_eq!(changed(&full, Some(&Old::None), Some(&new)), ["item:42", "items", "of:bob"]);
        let old = Old::Row(row(["41", "-", "-"]));
        assert_eq!(changed(&full, Some(&old), Some(&new)), ["item:41", "item:42", "items", "of:bob"]);
        assert_eq!(changed(&full, Some(&old), None), ["item:41", "items"]);
        let other = Old::Key(row(["-", "ann", "-"]));
        assert_eq!(changed(&tables(false, Broken::NONE), Some(&other), None), ["items"], "the key of another index");
    }

    #[test]
    fn a_value_out_of_line_is_the_old_one() {
        let full = tables(true, Broken::NONE);
        let old = Old::Row(row(["42", "ann", "a"]));
        let new = [Value::Text(b"42"), Value::Unchanged, Value::Unchanged];
        assert_eq!(changed(&full, Some(&old), Some(&new)), ["item:42", "of:ann"]);
        let by_key = tables(false, Broken::NONE);
        assert_eq!(changed(&by_key, Some(&Old::None), Some(&new)), ["item:42", "items"]);
    }

    #[test]
    fn values_without_a_name_of_their_own() {
        let full = tables(true, Broken::NONE);
        let long = "x".repeat(DEPENDENCY_BYTES_MAX);
        let new = [Value::Text(b"1"), Value::Text(long.as_bytes()), Value::Null];
        assert_eq!(changed(&full, None, Some(&new)), ["item:1", "items"], "too long");
        assert_eq!(changed(&full, None, Some(&row(["1", "-", "-"]))), ["item:1", "of:null"]);
    }

    #[test]
    fn a_table_that_is_truncated_or_altered_changes_as_a_whole() {
        let altered = |broken| {
            let (mut tables, mut changes) = (tables(false, broken), Changes::default());
            tables.show(&items(false), &mut changes).unwrap();
            assert_eq!(changes, Changes::default(), "shown again as it was");
            tables.show(&items(true), &mut changes).unwrap();
            texts(changes)
        };
        assert_eq!(altered(Broken::NONE), ["items"]);
        assert!(altered(Broken::rule(Rule::WholeIfAltered)).is_empty(), "the mutant");
        let mut changes = Changes::default();
        tables(false, Broken::NONE).truncate(7, &mut changes).unwrap();
        assert_eq!(texts(changes), ["items"]);
    }

    #[test]
    fn a_column_that_is_not_there_leaves_the_whole_table() {
        let (mut tables, mut changes) = (tables(false, Broken::NONE), Changes::default());
        let renamed = Relation { columns: vec![columns(false)[0]], ..items(false) };
        tables.show(&renamed, &mut Changes::default()).unwrap();
        tables.change(7, None, Some(&row(["1"])), &mut changes).unwrap();
        assert_eq!(texts(changes), ["items"]);
    }

    #[test]
    fn without_a_map_each_row_is_everything() {
        for map in [Map::everything(), Map::parse("").unwrap()] {
            let (mut tables, mut changes) = (Tables::new(map, Broken::NONE), Changes::default());
            tables.show(&items(false), &mut changes).unwrap();
            assert_eq!(changed(&tables, None, Some(&row(["1", "ann", "a"]))), ["*"]);
            assert_eq!(changed(&tables, Some(&Old::Key(row(["1", "-", "-"]))), None), ["*"]);
        }
    }

    #[test]
    fn what_the_stream_has_not_shown_is_refused() {
        let (tables, mut changes) = (tables(false, Broken::NONE), Changes::default());
        let unknown = tables.change(8, None, Some(&row(["1"])), &mut changes);
        assert_eq!(unknown, Err(StreamError::UnknownTable(8)));
        let short = tables.change(7, Some(&Old::Row(row(["1"]))), None, &mut changes);
        assert_eq!(short, Err(StreamError::Columns { table: 7, expected: 3, got: 1 }));
    }

    #[test]
    fn too_many_are_everything() {
        let mut changes = Changes::default();
        for number in 0..=DEPENDENCIES_PER_UPDATE_MAX {
            changes.add(Dependency::new(format!("item:{number}")).unwrap());
        }
        assert_eq!(texts(changes), ["*"]);
    }

    #[test]
    fn an_application_names_dependencies_itself() {
        let mut changes = Changes::default();
        said(b"item:1\nitem:2\n", &mut changes);
        assert_eq!(texts(changes.clone()), ["item:1", "item:2"]);
        said(&[b'x'; DEPENDENCY_BYTES_MAX + 1], &mut changes);
        assert_eq!(texts(changes), ["*"]);
    }
}
