//! The crates that an application takes in with the library: few, and none of ours that a registry would refuse.
//!
//! 1. `thorp` pulls in at most [`CRATES_MAX`] crates, itself included. Its features may bring more.
//! 2. Those of ours among them, and among those of its features, are packages that could be published: a name that
//!    begins with `thorp`, what a registry shows of it, and a version wherever one of them uses another. So neither
//!    the simulator nor anything of the program's is among them.

use crate::{Result, cargo, metadata, output_of};
use serde_json::Value;
use std::collections::BTreeSet;

/// The most crates that the library may come to.
const CRATES_MAX: usize = 50;

pub(super) fn check() -> Result<Vec<String>> {
    let packages = ours(&crates_of(&tree(&["--all-features"])?))?;
    Ok(check_count(crates_of(&tree(&[])?).len()).into_iter().chain(packages.iter().flat_map(check_package)).collect())
}

/// The names of the library's packages.
pub(crate) fn packages() -> Result<Vec<String>> {
    let packages = ours(&crates_of(&tree(&["--all-features"])?))?;
    Ok(packages.iter().filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

/// The metadata that cargo has of those of the crates that are ours.
fn ours(crates: &BTreeSet<(&str, &str)>) -> Result<Vec<Value>> {
    let mut metadata = metadata()?;
    let packages = metadata["packages"].as_array_mut().map(std::mem::take).ok_or("cargo metadata lists no packages")?;
    let is_used = |package: &Value| crates.iter().any(|(name, _)| package["name"] == **name);
    Ok(packages.into_iter().filter(is_used).collect())
}

/// The crates of the library with these features.
fn tree(features: &[&str]) -> Result<String> {
    let words = ["tree", "--package", "thorp", "--edges", "normal,build", "--prefix", "none"];
    output_of(cargo().args(words).args(features))
}

/// Names and versions in what `cargo tree` prints: `name v1.2.3 (where it is from)`, a line for each use.
fn crates_of(tree: &str) -> BTreeSet<(&str, &str)> {
    let words = tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    words.filter_map(|words| Some((*words.first()?, *words.get(1)?))).collect()
}

fn check_count(count: usize) -> Option<String> {
    (count > CRATES_MAX).then(|| {
        let see = "see `cargo tree -p thorp -e normal,build`";
        format!("crates/thorp/Cargo.toml: the library pulls in {count} crates, of at most {CRATES_MAX}: {see}")
    })
}

fn check_package(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let folder = super::folder_of(package);
    let mut findings = Vec::new();
    let mut find = |what: String| findings.push(format!("{folder}/Cargo.toml: {what}"));
    if name != "thorp" && !name.starts_with("thorp-") {
        find(format!("the library uses `{name}`, whose package is not named `thorp-{name}`: it is no part of it"));
    }
    let is_empty = |field: &&str| match &package[*field] {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if package["publish"].is_array() {
        find("a part of the library is not kept from being published".to_owned());
    }
    for field in ["description", "license", "readme", "keywords", "categories"].iter().filter(|field| is_empty(field)) {
        find(format!("a package that can be published says its `{field}`"));
    }
    let uses = package["dependencies"].as_array().into_iter().flatten();
    let by_path = uses.filter(|used| used["path"].is_string() && used["kind"] != "dev" && used["req"] == "*");
    for used in by_path.filter_map(|used| used["name"].as_str()) {
        find(format!("`{used}` is used by its path alone: say its version too"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_version_of_a_crate_counts_once() {
        let tree = "thorp v0.1.0 (/x)\nsyn v2.0.1\nsyn v3.0.9\nsyn v2.0.1 (*)\nserde_derive v1.0.1 (proc-macro)\n";
        assert_eq!(crates_of(tree).len(), 4);
        assert!(crates_of(tree).contains(&("serde_derive", "v1.0.1")));
    }

    #[test]
    fn a_crate_too_many_is_found() {
        assert_eq!((check_count(CRATES_MAX), check_count(CRATES_MAX + 1).is_some()), (None, true));
    }

    #[test]
    fn a_package_that_a_registry_would_refuse_is_found() {
        let with = |field: &str, value: Value| {
            let mut package = json!({
                "name": "thorp-types",
                "description": "words",
                "license": "MIT",
                "readme": "README.md",
                "keywords": ["cache"],
                "categories": ["database"],
                "dependencies": [{"name": "thorp-framing", "path": "/x", "kind": null, "req": "^0.1.0"}],
            });
            package[field] = value;
            check_package(&package).len()
        };
        assert_eq!(with("name", json!("thorp")), 0);
        assert_eq!(with("name", json!("sim")), 1);
        assert_eq!(with("description", Value::Null), 1);
        assert_eq!(with("keywords", json!([])), 1);
        assert_eq!(with("publish", json!([])), 1);
        let by_path = |kind: Value| json!([{"name": "sim", "path": "/x", "kind": kind, "req": "*"}]);
        assert_eq!(with("dependencies", by_path(Value::Null)), 1);
        assert_eq!(with("dependencies", by_path(json!("dev"))), 0, "what only tests use is not published");
    }
}
