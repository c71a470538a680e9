//! The guide's table of attacks names tests that exist.

use std::path::{Path, PathBuf};

/// The text of all Rust files in a directory and its folders.
fn sources(dir: &Path) -> String {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => std::fs::read_to_string(path).unwrap(),
        _ => String::new(),
    };
    paths.map(text).collect()
}

#[test]
fn the_tests_of_the_attack_table_exist() {
    let folders = ["src", "tests/proxy", "../http/src", "../../io/ops/src"];
    let sources = folders.map(|dir| sources(Path::new(dir))).concat();
    let guide = std::fs::read_to_string("../../../docs/web.md").unwrap();
    let table = guide.split("## Hostile clients").nth(1).and_then(|rest| rest.split("###").next()).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let tests = rows.filter_map(|row| row.rsplit(" | ").next());
    let names: Vec<&str> = tests.flat_map(|tests| tests.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "no test is called {name}");
    }
}
