//! rsync beside it: the same versions of the directory, copied file by file into a second one, where a reader follows
//! the same pages.

use super::content::Page;
use super::readers::{Readers, Step, Tally};
use crate::Result;
use fixtures::installed::{find, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy that rsync makes, and its reader.
pub(super) struct Rsync {
    program: PathBuf,
    from: PathBuf,
    to: PathBuf,
    reader: Option<Readers>,
}

impl Rsync {
    /// Copies the directory for the first time, and starts the reader. Returns `None` if rsync is not installed.
    ///
    /// # Errors
    /// rsync fails, in its own words.
    pub(super) fn start(from: &Path, to: &Path) -> Result<Option<Self>> {
        let Some(program) = find("rsync") else { return Ok(None) };
        let mut rsync = Self { program, from: from.to_owned(), to: to.to_owned(), reader: None };
        rsync.copy()?;
        rsync.reader = Some(Readers::start([reader(to)])?);
        Ok(Some(rsync))
    }

    /// Copies what has changed.
    ///
    /// # Errors
    /// rsync fails, in its own words.
    pub(super) fn copy(&mut self) -> Result {
        // With the slash, its contents and not the directory itself.
        let from = format!("{}/", self.from.display());
        let mut command = Command::new(&self.program);
        let copied = succeed(command.args(["-a", "--delete", &from]).arg(&self.to));
        copied.map(drop).map_err(|why| format!("rsync: {why}").into())
    }

    /// Ends the reader, and returns what it has seen.
    ///
    /// # Errors
    /// The reader has panicked.
    pub(super) fn end(mut self) -> Result<Tally> {
        self.reader.take().map_or_else(|| Ok(Tally::default()), Readers::end)
    }
}

/// Reads pages with their parts as files.
fn reader(dir: &Path) -> Step {
    let (dir, mut next, mut newest, mut random) = (dir.to_owned(), 0, 0, 0);
    Box::new(move |tally| {
        let read = |path: String| fs::read_to_string(dir.join(path)).unwrap_or_default();
        tally.pages += 1;
        let Some(page) = Page::read(&read(Page::path(next))) else {
            return tally.mix(format!("page {next} is not whole"));
        };
        if page.version < newest {
            tally.go_back(format!("page {next} of version {} came after {newest}", page.version));
        }
        newest = newest.max(page.version);
        // All of them are read, as a browser does.
        let parts: Vec<_> = page.parts().map(|part| read(part.path()) == part.text()).collect();
        if parts.contains(&false) {
            tally.mix(format!("page {next} of version {} has a part that does not belong to it", page.version));
        }
        let links = page.links();
        next = links[types::splitmix(&mut random) as usize % links.len()];
    })
}

#[cfg(test)]
mod tests {
    use super::super::content::{Content, PAGES};
    use super::*;

    /// A copy that stopped between the pages and their parts is found, and one that is complete is not.
    #[test]
    fn the_reader_finds_pages_that_mix_versions() {
        let dir = fixtures::Folder::new();
        let mut content = Content::create(dir.path()).unwrap();
        let mut step = reader(dir.path());
        let mut tally = Tally::default();
        step(&mut tally);
        content.change().unwrap();
        step(&mut tally);
        assert_eq!((tally.pages, tally.mixed, tally.gone_back), (2, 0, 0), "{tally:?}");
        for number in 0..PAGES {
            let [older, newer] = [1, 2].map(|version| Page { number, version });
            let (part, _) = older.parts().zip(newer.parts()).find(|(older, newer)| older != newer).unwrap();
            fs::write(dir.path().join(part.path()), part.text()).unwrap();
        }
        step(&mut tally);
        assert_eq!((tally.pages, tally.mixed), (3, 1), "{tally:?}");
    }
}
