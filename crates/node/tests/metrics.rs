//! docs/metrics.md says what there is: it is made from the list of it.

use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "# The figures of a node

`thorp status` asks a store or a redirector how it stands, and shows these tables; with `--json` each is a list of objects
under its name. The roles that a process has not leave theirs out. `total` counts since the process started, `now` what
there is at the moment, and a `count` is the number of an update of the store ([terms.md](terms.md)).
";

fn page() -> String {
    let mut page = String::from(HEAD);
    for (name, what, columns) in node::metrics::all() {
        let _ = write!(page, "\n## {name}\nOne row: {what}.\n\n| column | unit | what it says |\n|---|---|---|\n");
        for column in columns {
            let _ = writeln!(page, "| {} | {} | {} |", column.name, column.unit, column.what);
        }
    }
    page
}

#[test]
fn the_page_says_what_there_is() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page(), "docs/metrics.md is not what the tables say; UPDATE=1 writes it anew");
}

#[test]
fn names_are_told_once() {
    let mut tables: Vec<_> = node::metrics::all().iter().map(|(name, ..)| *name).collect();
    tables.sort_unstable();
    assert!(tables.windows(2).all(|two| two[0] != two[1]), "{tables:?}");
    for (name, _, columns) in node::metrics::all() {
        let mut names: Vec<_> = columns.iter().map(|column| column.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{name}: {names:?}");
    }
}
