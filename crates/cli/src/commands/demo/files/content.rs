//! The site: pages with links and parts, whose contents follow from their numbers and versions. Each page names the
//! version that each of its parts has to have beside it.

use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the site.
pub(super) const FILES: u64 = PAGES + PARTS_CHANGED * BLOCKS;

/// The pages.
pub(super) const PAGES: u64 = 100;

/// The parts that each version changes: one part of every page, of a block that comes in its turn.
pub(super) const PARTS_CHANGED: u64 = PAGES;

/// Blocks of parts. A page has a part of each.
const BLOCKS: u64 = 19;

const LINKS: u64 = 3;

/// The directory to publish, in its newest version.
pub(super) struct Content {
    dir: PathBuf,
    version: u64,
}

impl Content {
    /// Writes the first version into a new directory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn create(dir: &Path) -> Result<Self> {
        let content = Self { dir: dir.to_owned(), version: 1 };
        let blocks = (0..BLOCKS).map(|block| format!("parts/{block}"));
        for folder in blocks.chain(["pages".to_owned()]) {
            let path = dir.join(folder);
            fs::create_dir_all(&path).map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        }
        for (path, text) in content.files() {
            content.write(&path, &text)?;
        }
        Ok(content)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Writes the next version, and returns the bytes of the files that it has changed.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn change(&mut self) -> Result<u64> {
        self.version += 1;
        let mut changed = 0;
        for page in self.pages() {
            let parts = page.parts().filter(|part| part.version == self.version);
            for (path, text) in parts.map(Part::file).chain([page.file()]) {
                self.write(&path, &text)?;
                changed += text.len() as u64;
            }
        }
        Ok(changed)
    }

    /// The paths and texts of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, String)> {
        self.pages().flat_map(|page| page.parts().map(Part::file).chain([page.file()]))
    }

    fn pages(&self) -> impl Iterator<Item = Page> + use<> {
        let version = self.version;
        (0..PAGES).map(move |number| Page { number, version })
    }

    fn write(&self, path: &str, text: &str) -> Result {
        let path = self.dir.join(path);
        Ok(fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?)
    }
}

/// A page in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) number: u64,
    pub(super) version: u64,
}

impl Page {
    /// Reads a page. Returns `None` if its text is not exactly that of a page.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (number, version) = text.lines().next()?.strip_prefix("page ")?.split_once(" version ")?;
        let page = Self { number: number.parse().ok()?, version: version.parse().ok()? };
        (page.text() == text).then_some(page)
    }

    pub(super) fn path(number: u64) -> String {
        format!("pages/{number}")
    }

    /// The numbers of the pages that it leads to.
    pub(super) fn links(self) -> [u64; LINKS as usize] {
        [1, 7, 31].map(|step| (self.number * 3 + step) % PAGES)
    }

    /// The parts that belong to this version of the page.
    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        (0..BLOCKS).map(move |block| {
            // Each version changes the next block; the first one has written all of them.
            let versions_ago = (self.version + BLOCKS - block) % BLOCKS;
            let version = self.version.saturating_sub(versions_ago).max(1);
            Part { block, number: self.number, version }
        })
    }

    pub(super) fn text(self) -> String {
        let Self { number, version } = self;
        let links = self.links().map(|link| format!("link {}\n", Self::path(link))).concat();
        let parts: Vec<_> = self.parts().map(|it| format!("part {} version {}\n", it.path(), it.version)).collect();
        format!("page {number} version {version}\n{links}{}{}", parts.concat(), filler(version))
    }

    fn file(self) -> (String, String) {
        (Self::path(self.number), self.text())
    }
}

/// A part of a page in one version: an image, say, or a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    block: u64,
    number: u64,
    pub(super) version: u64,
}

impl Part {
    pub(super) fn path(self) -> String {
        format!("parts/{}/{}", self.block, self.number)
    }

    pub(super) fn text(self) -> String {
        let line = format!("part {} version {}\n", self.path(), self.version);
        line.repeat(50 + self.number as usize) + &filler(self.version)
    }

    fn file(self) -> (String, String) {
        (self.path(), self.text())
    }
}

/// Makes consecutive versions of a file differ in size: rsync skips a file whose size and second of change are the
/// same.
fn filler(version: u64) -> String {
    ".".repeat(version as usize % 61) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_changes_all_pages_and_one_part_of_each() {
        for version in 1..300 {
            let [older, newer] = [version, version + 1].map(|version| Page { number: 17, version });
            assert_eq!(Page::read(&newer.text()), Some(newer));
            assert_ne!(older.text().len(), newer.text().len());
            let changed: Vec<_> = older.parts().zip(newer.parts()).filter(|(older, newer)| older != newer).collect();
            assert_eq!(changed.len(), 1, "version {version}");
            let (older, newer) = changed[0];
            assert_eq!(newer.version, version + 1);
            assert_ne!(older.text().len(), newer.text().len(), "version {version}");
        }
    }

    #[test]
    fn a_page_with_a_line_of_another_version_is_none() {
        let [older, newer] = [1, 2].map(|version| Page { number: 3, version }.text());
        let (first, _) = newer.split_once('\n').unwrap();
        let (_, rest) = older.split_once('\n').unwrap();
        assert_eq!(Page::read(&format!("{first}\n{rest}")), None);
        assert_eq!(Page::read(""), None);
    }
}
