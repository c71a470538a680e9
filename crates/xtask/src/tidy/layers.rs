//! The table of folders in ARCHITECTURE.md, held to the code: which crate may use which.
//!
//! 1. Every crate is in the table, in the row of its folder.
//! 2. A crate uses crates of its own folder and of folders of lower rank: `core` <- `io` <- the front ends <- `lab` <-
//!    programs. Any other use is in the table of exceptions there, with its reason. Tests may use any crate.
//! 3. The pure crates are `#![no_std]`, so that a clock, a socket or a thread cannot even be named in them.

use super::{folder_of, short_name};
use crate::{Result, metadata, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The folders by rank. Crates outside of them are programs, and the library's front page.
const RANKS: &[&[&str]] = &[&["core"], &["io"], &["objects", "web", "volumes", "files"], &["lab"]];

pub(super) fn check() -> Result<Vec<String>> {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).map_err(|e| e.to_string())?;
    let table = Table::parse(&architecture);
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(packages.iter().flat_map(|package| table.check(package)).chain(table.unused(packages)).collect())
}

/// The crates by their folders, and the uses that no rank allows.
struct Table<'a> {
    crates: BTreeMap<&'a str, Place<'a>>,
    exceptions: BTreeSet<(&'a str, &'a str)>,
}

#[derive(Clone, Copy)]
struct Place<'a> {
    folder: &'a str,
    is_pure: bool,
}

impl<'a> Table<'a> {
    /// Reads rows like `` | `core` | `types` | `net` | ... |``, and like `` | `net` | `store` | ... |`` of the
    /// exceptions.
    fn parse(text: &'a str) -> Self {
        let mut crates = BTreeMap::new();
        for [folder, pure, others] in rows(text, "| folder ") {
            let folder = folder.first().copied().unwrap_or_default();
            crates.extend(pure.into_iter().map(|name| (name, Place { folder, is_pure: true })));
            crates.extend(others.into_iter().map(|name| (name, Place { folder, is_pure: false })));
        }
        let exceptions = rows::<2>(text, "| crate | uses ").flat_map(|[from, to]| {
            from.into_iter().flat_map(move |from| to.clone().into_iter().map(move |to| (from, to)))
        });
        Self { crates, exceptions: exceptions.collect() }
    }

    fn check(&self, package: &Value) -> Vec<String> {
        let name = short_name(&package["name"]);
        let folder = folder_of(package);
        let Some(place) = self.crates.get(name) else {
            return vec![format!("ARCHITECTURE.md: crate `{name}` is missing from the table of folders")];
        };
        let mut findings = Vec::new();
        let expected = if place.folder.is_empty() { "crates" } else { place.folder };
        if folder.split('/').nth_back(1) != Some(expected) {
            findings.push(format!("{folder}: ARCHITECTURE.md has `{name}` in `{}`", place.folder));
        }
        for used in used(package).filter(|used| !self.may_use(name, used)) {
            findings.push(format!("{folder}/Cargo.toml: `{name}` may not use `{used}` by ARCHITECTURE.md"));
        }
        if place.is_pure && !is_no_std(&folder) {
            findings.push(format!("{folder}/src/lib.rs: a pure crate begins with #![no_std]"));
        }
        findings
    }

    fn may_use(&self, name: &str, used: &str) -> bool {
        let (Some(from), Some(to)) = (self.crates.get(name), self.crates.get(used)) else { return true };
        from.folder == to.folder || rank(to.folder) < rank(from.folder) || self.exceptions.contains(&(name, used))
    }

    /// Exceptions that no crate needs.
    fn unused(&self, packages: &[Value]) -> impl Iterator<Item = String> {
        let uses = |&&(from, to): &&(&str, &str)| {
            packages.iter().any(|it| short_name(&it["name"]) == from && used(it).any(|used| used == to))
        };
        let unused = self.exceptions.iter().filter(move |it| !uses(it));
        unused.map(|(from, to)| format!("ARCHITECTURE.md: `{from}` does not use `{to}`: remove the exception"))
    }
}

/// The rows of a table whose head begins so, each as the names in its first cells.
fn rows<'a, const N: usize>(text: &'a str, head: &str) -> impl Iterator<Item = [Vec<&'a str>; N]> {
    let rows = text.lines().skip_while(move |line| !line.starts_with(head)).skip(2);
    rows.take_while(|line| line.starts_with('|')).map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.split('`').skip(1).step_by(2).collect());
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
}

fn rank(folder: &str) -> usize {
    RANKS.iter().position(|rank| rank.contains(&folder)).unwrap_or(RANKS.len())
}

/// The crates of the workspace that a package uses, but for its tests. A crate from elsewhere may have the same name.
fn used(package: &Value) -> impl Iterator<Item = &str> {
    let used = package["dependencies"].as_array().into_iter().flatten();
    let used = used.filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string());
    used.map(|dependency| short_name(&dependency["name"]))
}

fn is_no_std(folder: &str) -> bool {
    let lib = root().join(folder).join("src/lib.rs");
    std::fs::read_to_string(lib).is_ok_and(|text| text.lines().any(|line| line == "#![no_std]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = "\
| folder | pure crates | others | what they are |
|---|---|---|---|
| `core` | `types` | `old` | words |
| `web` | | `proxy`, `homes` | pages |
| `volumes` | | `nbd`, `registry` | blocks |
| | | `cli` | the program |

| crate | uses | because |
|---|---|---|
| `registry` | `homes` | of a reason |
";

    fn findings(path: &str, uses: &[&str], kind: Option<&str>) -> Vec<String> {
        let name = path.rsplit('/').next().unwrap();
        let dependencies: Vec<_> = uses.iter().map(|u| json!({"name": u, "kind": kind, "path": "crates"})).collect();
        let manifest = root().join("crates").join(path).join("Cargo.toml");
        Table::parse(TABLE).check(&json!({"name": name, "dependencies": dependencies, "manifest_path": manifest}))
    }

    #[test]
    fn a_crate_may_use_its_own_folder_and_those_of_lower_rank() {
        assert_eq!(findings("web/proxy", &["homes", "old", "bytes"], None), Vec::<String>::new());
        assert_eq!(findings("web/proxy", &["nbd"], None).len(), 1, "another front end");
        assert_eq!(findings("volumes/registry", &["homes"], None).len(), 0, "an exception");
        assert_eq!(findings("volumes/registry", &["proxy", "cli"], None).len(), 2);
        assert_eq!(findings("core/old", &["proxy"], None).len(), 1, "of higher rank");
        assert_eq!(findings("core/old", &["proxy"], Some("dev")).len(), 0, "tests may use any");
        assert_eq!(findings("cli", &["proxy", "nbd"], None).len(), 0);
        assert_eq!(findings("web/new", &[], None).len(), 1, "a crate that the table does not have");
    }

    #[test]
    fn a_crate_is_where_the_table_has_it() {
        assert_eq!(findings("volumes/proxy", &[], None).len(), 1);
        assert_eq!(findings("proxy", &[], None).len(), 1);
        assert_eq!(findings("web/cli", &[], None).len(), 1);
        assert_eq!(findings("core/types", &[], None), Vec::<String>::new(), "it is pure");
    }

    #[test]
    fn an_exception_that_nobody_needs_is_found() {
        assert_eq!(Table::parse(TABLE).unused(&[]).count(), 1);
        let package = json!({"name": "registry", "dependencies": [{"name": "thorp-homes", "kind": null, "path": ""}]});
        assert_eq!(Table::parse(TABLE).unused(&[package]).count(), 0);
    }
}
