//! The faults of a store that should be watched, and the holes that it leaves.

use coherence::{Finding, Severity};
use machine::{Cell, Status, Table};
use net::{ConnectError, ask_status};
use std::time::Duration;
use types::CATALOG_SPACE;

/// How long a store has for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Looks at what the promise rests on, at the first of these addresses that answers. Nothing is changed.
///
/// # Errors
/// No store answers.
pub fn check(addresses: &[String]) -> Result<Vec<Finding>, ConnectError> {
    let mut last = None;
    for address in addresses {
        match ask_status(address, ANSWER_WITHIN) {
            Ok(status) => return Ok(findings(&status)),
            Err(why) => last = Some(why),
        }
    }
    last.map_or(Ok(Vec::new()), Err)
}

fn findings(status: &Status) -> Vec<Finding> {
    let Some(spaces) = status.tables.iter().find(|table| table.name == "spaces") else {
        let (text, remedy) = ("no store answers", "name the store's own address, and not that of a redirector");
        return vec![finding(Severity::Broken, text.to_owned(), remedy)];
    };
    let (leased, others): (Vec<_>, Vec<_>) = spaces.rows.iter().partition(|row| is_leased(spaces, row));
    let none_is_leased = leased.is_empty().then(|| {
        let remedy = "start it with `--leased 0`, or with the numbers of the spaces that responses are made from, \
                      which `thorp spaces` lists; a store of several nodes is created with it";
        finding(Severity::Broken, "the store leases no space, so it asks no watcher".to_owned(), remedy)
    });
    let unwatched = others.into_iter().filter_map(|row| number(spaces, row)).map(|space| {
        let text = format!("space {space} is not leased: no change there invalidates anything");
        finding(Severity::Hole, text, "add it to `--leased` of a store of one node, or make no response from it")
    });
    none_is_leased.into_iter().chain(unwatched).collect()
}

fn finding(severity: Severity, text: String, remedy: &str) -> Finding {
    Finding { severity, text, remedy: remedy.to_owned() }
}

fn cell<'a>(table: &Table, row: &'a [Cell], column: &str) -> Option<&'a Cell> {
    row.get(table.columns.iter().position(|name| name == column)?)
}

fn is_leased(spaces: &Table, row: &[Cell]) -> bool {
    matches!(cell(spaces, row, "leased"), Some(Cell::Text(said)) if said == "yes")
}

/// The number of a space that applications use.
fn number(spaces: &Table, row: &[Cell]) -> Option<u64> {
    match cell(spaces, row, "space") {
        Some(&Cell::Count(space)) if space != u64::from(CATALOG_SPACE) => Some(space),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str, rows: &[(u64, Cell)]) -> Status {
        let columns = ["space", "leased"].map(str::to_owned).to_vec();
        let rows = rows.iter().map(|(space, leased)| vec![Cell::Count(*space), leased.clone()]).collect();
        Status { tables: vec![Table { name: name.to_owned(), columns, rows }] }
    }

    fn severities(status: &Status) -> Vec<(Severity, String)> {
        findings(status).into_iter().map(|finding| (finding.severity, finding.text)).collect()
    }

    #[test]
    fn a_store_is_watched_where_it_is_leased() {
        let yes = Cell::Text("yes".into());
        assert_eq!(severities(&status("spaces", &[(0, yes.clone()), (CATALOG_SPACE.into(), Cell::Nothing)])), []);
        let hole = (Severity::Hole, "space 3 is not leased: no change there invalidates anything".to_owned());
        assert_eq!(severities(&status("spaces", &[(0, yes), (3, Cell::Nothing)])), std::slice::from_ref(&hole));
        let broken = (Severity::Broken, "the store leases no space, so it asks no watcher".to_owned());
        assert_eq!(severities(&status("spaces", &[(3, Cell::Nothing)])), [broken, hole]);
        assert_eq!(severities(&status("members", &[])), [(Severity::Broken, "no store answers".to_owned())]);
    }
}
