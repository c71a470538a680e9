//! The table of floors in ARCHITECTURE.md, held to the code: it says which crate may know which.
//!
//! 1. Every crate stands in the table.
//! 2. A crate uses only crates of lower floors; peers never use each other. Tests may look anywhere.
//! 3. The crates of the floors of pure machines are `#![no_std]`, so that a clock, a socket or a thread cannot even be
//!    named in them.

use super::short_name;
use crate::{Result, metadata, root};
use serde_json::Value;
use std::collections::BTreeMap;

/// The highest floor without I/O.
const PURE_FLOORS: u32 = 5;

/// Above all floors: what nobody may use.
const ROOF: u32 = u32::MAX;

pub(super) fn check() -> Result<Vec<String>> {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).map_err(|e| e.to_string())?;
    let floors = parse_table(&architecture);
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(packages.iter().flat_map(|package| check_package(package, &floors)).collect())
}

/// Reads rows like `` | 3 | `cache`, `directory` | ... |``. A row without a number is above all others.
fn parse_table(text: &str) -> BTreeMap<String, u32> {
    let mut floors = BTreeMap::new();
    let rows = text.lines().skip_while(|line| !line.starts_with("| floor ")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let mut cells = row.split('|').skip(1).map(str::trim);
        let (Some(floor), Some(crates)) = (cells.next(), cells.next()) else { continue };
        for name in crates.split(',').map(|name| name.trim().trim_matches('`')) {
            floors.insert(name.to_owned(), floor.parse().unwrap_or(ROOF));
        }
    }
    floors
}

fn check_package(package: &Value, floors: &BTreeMap<String, u32>) -> Vec<String> {
    let name = short_name(&package["name"]);
    let Some(&floor) = floors.get(name) else {
        return vec![format!("ARCHITECTURE.md: crate `{name}` is missing from the table of floors")];
    };
    let used = package["dependencies"].as_array().into_iter().flatten();
    let used = used.filter(|dependency| dependency["kind"] != "dev").map(|d| short_name(&d["name"]));
    let mut findings: Vec<String> = used
        .filter_map(|other| Some((other, *floors.get(other)?)))
        .filter(|&(_, other_floor)| other_floor >= floor)
        .map(|(other, _)| format!("crates/{name}/Cargo.toml: uses `{other}`, which is not of a lower floor"))
        .collect();
    if floor <= PURE_FLOORS && !is_no_std(name) {
        findings.push(format!("crates/{name}/src/lib.rs: a crate of floor {floor} begins with #![no_std]"));
    }
    findings
}

fn is_no_std(name: &str) -> bool {
    let lib = root().join("crates").join(name).join("src/lib.rs");
    std::fs::read_to_string(lib).is_ok_and(|text| text.lines().any(|line| line == "#![no_std]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| floor | crates | what they are |
|---|---|---|
| 1 | `types` | words |
| 3 | `cache`, `wire` | peers |
| | `xtask` | above all |

| 9 | `not` | of this table |
";

    fn findings(name: &str, uses: &[&str], kind: Option<&str>) -> usize {
        let dependencies: Vec<_> = uses.iter().map(|u| serde_json::json!({"name": u, "kind": kind})).collect();
        let package = serde_json::json!({"name": name, "dependencies": dependencies});
        check_package(&package, &parse_table(TABLE)).iter().filter(|line| !line.contains("no_std")).count()
    }

    #[test]
    fn a_crate_may_use_only_lower_floors() {
        assert_eq!(findings("wire", &["types", "bytes"], None), 0);
        assert_eq!(findings("wire", &["cache"], None), 1, "a peer");
        assert_eq!(findings("thorp-wire", &["thorp-types", "thorp-cache"], None), 1, "a peer, as a registry calls it");
        assert_eq!(findings("types", &["wire", "cache"], None), 2, "higher floors");
        assert_eq!(findings("types", &["wire"], Some("dev")), 0, "tests may look anywhere");
        assert_eq!(findings("wire", &["xtask"], None), 1, "nobody uses what stands above all");
        assert_eq!(findings("not", &[], None), 1, "a crate that the table does not know");
    }
}
