//! `cargo xtask tidy`: what no compiler checks. Each finding is one line: where, what, and what to do.

mod circles;
mod english;
mod layers;
pub(crate) mod library;
mod modules;
mod paths;
mod sentences;
mod terms;
mod words;

use crate::{Result, output_of, root};
use std::path::PathBuf;
use std::process::Command;

/// Runs every check and prints everything that they find.
pub(crate) fn run() -> Result {
    let files = tracked_files()?;
    let mut findings = layers::check()?;
    findings.extend(circles::check(&files));
    findings.extend(english::check()?);
    findings.extend(library::check()?);
    findings.extend(modules::check(&files));
    findings.extend(paths::check(&files));
    findings.extend(sentences::check(&files));
    findings.extend(terms::check(&files)?);
    findings.extend(words::check(&files));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to say", files.len());
            Ok(())
        }
        count => Err(format!("{count} things are not tidy")),
    }
}

/// The name of a package as code, folders and ARCHITECTURE.md have it.
fn short_name(name: &serde_json::Value) -> &str {
    let name = name.as_str().unwrap_or_default();
    name.strip_prefix("thorp-").unwrap_or(name)
}

/// The folder of a package, as a path from the root.
fn folder_of(package: &serde_json::Value) -> String {
    let manifest = std::path::Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(manifest);
    folder.strip_prefix(root()).unwrap_or(folder).display().to_string()
}

/// The files that git knows or would add, as paths from the root; those that are gone from the disk are left out.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let files = output_of(&mut git)?.lines().map(PathBuf::from).collect::<Vec<_>>();
    Ok(files.into_iter().filter(|file| root().join(file).is_file()).collect())
}

/// A file's text; `None` for one that is not text.
fn text(file: &std::path::Path) -> Option<String> {
    std::fs::read(root().join(file)).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}
