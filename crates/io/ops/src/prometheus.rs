//! Tables in Prometheus' text format. A metric is named after its table and its column, and the column's unit
//! determines the end of the name:
//!
//! | unit | metric |
//! |---|---|
//! | `total`, `total bytes` | a counter that ends in `_total` |
//! | `now`, `count`, `counts`, `bytes` | a gauge |
//! | `s`, `ms`, `us` | a gauge that ends in `_seconds` |
//! | `flag` | a gauge: 1 or 0 |
//! | `state` | 1, with the state as a label |
//! | `name`, `number` | a label of the row's other metrics |
//! | `bound`, `bucket`, `sum us` | the parts of a histogram, which has the table's name |
//! | `address`, `text` | none: for people |
//!
//! A column `count` has the name of its table alone.

use crate::service::Tables;
use machine::{Cell, Table, metrics::Column};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The use of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    /// A time, of which so many are a second.
    Time(u32),
    Flag,
    State,
    Label,
    Bound,
    Bucket,
    Sum,
    Text,
}

/// Returns `None` for a unit that does not exist.
fn kind(column: &Column) -> Option<Kind> {
    Some(match column.unit {
        "total" | "total bytes" => Kind::Counter,
        "now" | "count" | "counts" | "bytes" => Kind::Gauge,
        "s" => Kind::Time(1),
        "ms" => Kind::Time(1_000),
        "us" => Kind::Time(1_000_000),
        "flag" => Kind::Flag,
        "state" => Kind::State,
        "name" | "number" => Kind::Label,
        "bound" => Kind::Bound,
        "bucket" => Kind::Bucket,
        "sum us" => Kind::Sum,
        "address" | "text" => Kind::Text,
        _ => return None,
    })
}

/// Returns the name and the type of a column's metric; nothing if it has no metric of its own.
///
/// # Panics
/// The column's unit does not exist: a mistake in the table.
pub fn metric(table: &str, column: &Column) -> Option<(String, &'static str)> {
    let kind = kind(column).unwrap_or_else(|| panic!("{table}.{}: unknown unit {:?}", column.name, column.unit));
    let base = if column.name == "count" { format!("thorp_{table}") } else { format!("thorp_{table}_{}", column.name) };
    let is_in_bytes = column.unit.ends_with("bytes") && !column.name.contains("bytes");
    let bytes = if is_in_bytes { "_bytes" } else { "" };
    match kind {
        Kind::Counter => Some((format!("{base}{bytes}_total"), "counter")),
        Kind::Gauge => Some((format!("{base}{bytes}"), "gauge")),
        Kind::Time(_) => {
            let end = format!("_{}", column.unit);
            Some((format!("{}_seconds", base.strip_suffix(&end).unwrap_or(&base)), "gauge"))
        }
        Kind::Flag | Kind::State => Some((base, "gauge")),
        Kind::Bucket => Some((format!("thorp_{table}"), "histogram")),
        Kind::Label | Kind::Bound | Kind::Sum | Kind::Text => None,
    }
}

/// Returns the text of all tables.
pub(crate) fn text((described, tables): &Tables) -> String {
    let has_description = |table: &Table| described.iter().any(|(name, ..)| *name == table.name);
    debug_assert!(tables.iter().all(has_description), "every table is described");
    let mut text = String::new();
    for table in tables {
        let Some((_, _, columns)) = described.iter().find(|(name, ..)| *name == table.name) else { continue };
        columns.iter().for_each(|column| family(&mut text, table, columns, column));
    }
    text
}

/// Writes the metric of a column, if it has one.
fn family(text: &mut String, table: &Table, columns: &[Column], column: &Column) {
    let Some((name, kind)) = metric(&table.name, column) else { return };
    let samples = match kind {
        "histogram" => histogram(&name, table, columns),
        _ => samples(&name, table, columns, column),
    };
    if !samples.is_empty() {
        let help = column.what.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
    }
}

fn samples(name: &str, table: &Table, columns: &[Column], column: &Column) -> String {
    let mut by_labels = BTreeMap::new();
    for row in &table.rows {
        let mut labels = labels(table, columns, row);
        let Some(value) = value(cell(table, row, column), column, &mut labels) else { continue };
        // Rows that are not told apart by their names are one series: a scrape with two of them would be refused.
        *by_labels.entry(braced(&labels)).or_insert(0) += value;
    }
    let scale = if let Some(Kind::Time(scale)) = kind(column) { scale } else { 1 };
    let line = |(labels, value): (&String, &u64)| format!("{name}{labels} {}\n", scaled(*value, scale));
    by_labels.iter().map(line).collect()
}

/// The labels of a row: its names.
type Labels<'a> = Vec<(&'a str, String)>;

fn labels<'a>(table: &Table, columns: &[Column], row: &[Cell]) -> Labels<'a>
where
    Column: 'a,
{
    let names = columns.iter().filter(|column| kind(column) == Some(Kind::Label));
    names.filter_map(|column| Some((column.name, label(cell(table, row, column))?))).collect()
}

fn label(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Nothing => None,
        Cell::Count(count) => Some(count.to_string()),
        Cell::Text(text) => Some(text.clone()),
    }
}

fn value(cell: &Cell, column: &Column, labels: &mut Labels<'_>) -> Option<u64> {
    match (kind(column)?, cell) {
        (Kind::Flag, Cell::Nothing) => Some(0),
        (Kind::Flag, Cell::Text(_)) => Some(1),
        (Kind::State, state) => {
            labels.push((column.name, label(state)?));
            Some(1)
        }
        (_, Cell::Count(count)) => Some(*count),
        (_, Cell::Nothing | Cell::Text(_)) => None,
    }
}

/// Writes a histogram: rows in the order of their bounds, whose counts include those of the rows before.
fn histogram(name: &str, table: &Table, columns: &[Column]) -> String {
    let mut text = String::new();
    let of = |kind_of: Kind| columns.iter().find(|column| kind(column) == Some(kind_of));
    let (Some(bound), Some(bucket), Some(sum)) = (of(Kind::Bound), of(Kind::Bucket), of(Kind::Sum)) else {
        return text;
    };
    for row in &table.rows {
        let mut labels = labels(table, columns, row);
        let all = braced(&labels);
        let (Some(le), Cell::Count(count)) = (label(cell(table, row, bound)), cell(table, row, bucket)) else {
            continue;
        };
        labels.push(("le", le));
        let _ = writeln!(text, "{name}_bucket{} {count}", braced(&labels));
        // The last bucket of each row of names has the sum.
        if let Cell::Count(sum) = cell(table, row, sum) {
            let sum = scaled(*sum, 1_000_000);
            let _ = writeln!(text, "{name}_sum{all} {sum}\n{name}_count{all} {count}");
        }
    }
    text
}

fn cell<'a>(table: &Table, row: &'a [Cell], column: &Column) -> &'a Cell {
    let at = table.columns.iter().position(|name| name == column.name);
    at.and_then(|at| row.get(at)).unwrap_or(&Cell::Nothing)
}

fn braced(labels: &Labels<'_>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn scaled(value: u64, scale: u32) -> String {
    if scale == 1 { value.to_string() } else { (value as f64 / f64::from(scale)).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::metrics::Metrics;

    const DISKS: Metrics<7> = Metrics {
        name: "disks",
        what: "a disk",
        columns: [
            Column::new("disk", "name", "its name"),
            Column::new("state", "state", "its state"),
            Column::new("room", "bytes", "free \\ bytes"),
            Column::new("in", "total bytes", "read"),
            Column::new("count", "total", "requests"),
            Column::new("age_ms", "ms", "its age"),
            Column::new("is_full", "flag", "whether it is full"),
        ],
    };

    const TIMES: Metrics<4> = Metrics {
        name: "disk_seconds",
        what: "a bound",
        columns: [
            Column::new("disk", "name", "its name"),
            Column::new("le", "bound", "seconds"),
            Column::new("requests", "bucket", "requests that took at most this long"),
            Column::new("sum_us", "sum us", "the time of all"),
        ],
    };

    #[test]
    fn a_unit_says_how_a_metric_is_named_and_counted() {
        let full =
            ["a\"b\n".into(), "old".into(), 5_u64.into(), 7_u64.into(), 8_u64.into(), 1500_u64.into(), "yes".into()];
        let rest = ["c".into(), Cell::Nothing, Cell::Nothing, 1_u64.into(), 2_u64.into(), Cell::Nothing, Cell::Nothing];
        let table = DISKS.table([full, rest].into_iter());
        let expected = "\
# HELP thorp_disks_state its state
# TYPE thorp_disks_state gauge
thorp_disks_state{disk=\"a\\\"b\\n\",state=\"old\"} 1
# HELP thorp_disks_room_bytes free \\\\ bytes
# TYPE thorp_disks_room_bytes gauge
thorp_disks_room_bytes{disk=\"a\\\"b\\n\"} 5
# HELP thorp_disks_in_bytes_total read
# TYPE thorp_disks_in_bytes_total counter
thorp_disks_in_bytes_total{disk=\"a\\\"b\\n\"} 7
thorp_disks_in_bytes_total{disk=\"c\"} 1
# HELP thorp_disks_total requests
# TYPE thorp_disks_total counter
thorp_disks_total{disk=\"a\\\"b\\n\"} 8
thorp_disks_total{disk=\"c\"} 2
# HELP thorp_disks_age_seconds its age
# TYPE thorp_disks_age_seconds gauge
thorp_disks_age_seconds{disk=\"a\\\"b\\n\"} 1.5
# HELP thorp_disks_is_full whether it is full
# TYPE thorp_disks_is_full gauge
thorp_disks_is_full{disk=\"a\\\"b\\n\"} 1
thorp_disks_is_full{disk=\"c\"} 0
";
        assert_eq!(text(&(vec![DISKS.described()], vec![table])), expected);
    }

    #[test]
    fn rows_with_the_same_names_are_one_series() {
        let row = |count: u64| {
            ["c".into(), Cell::Nothing, Cell::Nothing, Cell::Nothing, count.into(), Cell::Nothing, Cell::Nothing]
        };
        let text = text(&(vec![DISKS.described()], vec![DISKS.table([row(2), row(3)].into_iter())]));
        assert!(text.contains("\nthorp_disks_total{disk=\"c\"} 5\n"), "{text}");
    }

    #[test]
    fn a_histogram_has_a_sum_and_a_count() {
        let rows = [
            ["c".into(), "0.1".into(), 2_u64.into(), Cell::Nothing],
            ["c".into(), "+Inf".into(), 3_u64.into(), 1_250_000_u64.into()],
        ];
        let expected = "\
# HELP thorp_disk_seconds requests that took at most this long
# TYPE thorp_disk_seconds histogram
thorp_disk_seconds_bucket{disk=\"c\",le=\"0.1\"} 2
thorp_disk_seconds_bucket{disk=\"c\",le=\"+Inf\"} 3
thorp_disk_seconds_sum{disk=\"c\"} 1.25
thorp_disk_seconds_count{disk=\"c\"} 3
";
        assert_eq!(text(&(vec![TIMES.described()], vec![TIMES.table(rows.into_iter())])), expected);
    }
}
