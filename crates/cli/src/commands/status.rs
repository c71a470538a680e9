//! `thorp status`: how a store or a redirector stands.

use crate::cli::StatusArgs;
use crate::output::Output;
use crate::{Result, target};
use machine::{Cell, Status, Table};
use net::{ConnectError, ask_status, parse_addresses};
use std::time::Duration;

/// How long one address has for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn run(args: &StatusArgs, output: &mut Output) -> Result {
    let address = target::server(args.address.as_deref());
    let status = ask(&parse_addresses(&address)?)?;
    if output.is_json() {
        return output.raw(ops::json(&status.tables));
    }
    for (number, table) in status.tables.iter().filter(|table| !table.rows.is_empty()).enumerate() {
        if number > 0 {
            output.raw("")?;
        }
        output.raw(table.name.replace('_', " "))?;
        lines(table).into_iter().try_for_each(|line| output.raw(line))?;
    }
    Ok(())
}

/// Asks the first that answers.
fn ask(addresses: &[String]) -> Result<Status> {
    let mut why = None;
    for address in addresses {
        match ask_status(address, ANSWER_WITHIN) {
            Ok(status) => return Ok(status),
            Err(error) => why = Some(error),
        }
    }
    let why = why.expect("an address is given");
    Err(match why {
        ConnectError::NoServer { .. } | ConnectError::NotThorp { .. } => {
            format!("{why}; check the address and the port").into()
        }
        ConnectError::Silent { .. } => {
            format!("{why}; it may be stopped, or too busy, or no Thorp store: look at its process").into()
        }
        _ => why.into(),
    })
}

/// A table for a person: a single row stands upright, and empty columns are left out.
fn lines(table: &Table) -> Vec<String> {
    if let [row] = &table.rows[..] {
        let width = width(table.columns.iter().map(String::as_str));
        let told = table.columns.iter().zip(row).filter(|(_, cell)| **cell != Cell::Nothing);
        return told.map(|(name, cell)| format!("  {:<width$}  {}", name.replace('_', " "), text(cell))).collect();
    }
    let heads = table.columns.iter().map(|column| vec![column.replace('_', " ")]);
    let mut columns: Vec<Vec<String>> = heads.collect();
    for row in &table.rows {
        columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(text(cell)));
    }
    let widths: Vec<_> = columns.iter().map(|column| width(column.iter().map(String::as_str))).collect();
    let line = |at: usize| {
        let cells = columns.iter().zip(&widths).map(|(column, &width)| format!("  {:<width$}", column[at]));
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..=table.rows.len()).map(line).collect()
}

fn width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// A cell as it is read. Text that came over the network does not get to control a terminal.
fn text(cell: &Cell) -> String {
    match cell {
        Cell::Nothing => "-".into(),
        Cell::Count(count) => count.to_string(),
        Cell::Text(text) => text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
        Table { name: "t".into(), columns: columns.iter().map(|&column| column.into()).collect(), rows }
    }

    #[test]
    fn a_single_row_stands_upright() {
        let row = vec![7_u64.into(), Cell::Nothing, "a:1".into()];
        assert_eq!(lines(&table(&["pages_sent", "leader", "at"], vec![row])), ["  pages sent  7", "  at          a:1"]);
    }

    #[test]
    fn several_rows_are_a_table() {
        let rows = vec![vec!["c1".into(), 7_u64.into()], vec![Cell::Nothing, "\u{1b}[2J".into()]];
        let expected = ["  client  is", "  c1      7", "  -       \u{fffd}[2J"];
        assert_eq!(lines(&table(&["client", "is"], rows)), expected);
    }
}
