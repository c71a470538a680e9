//! Tables as JSON: each is a list of objects under its name.

use machine::{Cell, Table, metrics::Metrics};
use serde_json::{Map, Value};

/// Returns the tables as an object, as `thorp status --json` prints them.
pub fn json(tables: &[Table]) -> Value {
    Value::Object(tables.iter().map(|table| (table.name.clone(), rows(table))).collect())
}

fn rows(table: &Table) -> Value {
    let row = |row: &Vec<Cell>| {
        let fields = table.columns.iter().cloned().zip(row.iter().map(json_cell));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    table.rows.iter().map(row).collect()
}

fn json_cell(cell: &Cell) -> Value {
    match cell {
        Cell::Nothing => Value::Null,
        Cell::Count(count) => (*count).into(),
        Cell::Text(text) => text.as_str().into(),
    }
}

/// Returns a row of the fields of an object that have the columns' names.
pub fn row<const N: usize>(metrics: &Metrics<N>, object: &Value) -> [Cell; N] {
    metrics.columns.map(|column| match &object[column.name] {
        Value::Bool(is) => u64::from(*is).into(),
        // A time in seconds may have a fraction, which no alarm needs.
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|number| number as u64)).into(),
        Value::String(text) => text.as_str().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => Cell::Nothing,
    })
}
