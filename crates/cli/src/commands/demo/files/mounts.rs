//! Mounts of the site, and their readers.

use super::acknowledged::Acknowledged;
use super::content::{PAGES, Page};
use super::readers::{Step, Tally};
use crate::Result;
use fixtures::{Process, Program};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A mounted site, for as long as this lives.
pub(super) struct Mount {
    pub(super) process: Process,
    at: PathBuf,
}

impl Mount {
    /// Mounts the site of a redirector with these words in a folder, which is made.
    ///
    /// # Errors
    /// Its own words for why it did not start.
    pub(super) fn start(program: &Program, site: &str, at: &Path, words: &[&str]) -> Result<Self> {
        fs::create_dir_all(at).map_err(|error| format!("cannot create {}: {error}", at.display()))?;
        let place = at.to_string_lossy();
        let process = program.start("a mount of the site", &[&["mount", site, &place], words].concat())?;
        Ok(Self { process, at: at.to_owned() })
    }

    /// Where it is mounted.
    pub(super) fn at(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // In whatever state the process is: one that was killed leaves its mount behind.
        let _ = self.process.kill();
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

/// A program on the host of a mount: it opens pages with their parts in the newest revision, and pages one by one.
pub(super) struct MountReader {
    at: PathBuf,
    acknowledged: Acknowledged,
    /// The page that it opens next.
    page: u64,
    /// The newest version that it has seen.
    newest: u64,
    random: u64,
}

impl MountReader {
    pub(super) fn new(number: usize, at: &Path, acknowledged: Acknowledged) -> Self {
        Self { at: at.to_owned(), acknowledged, page: number as u64 % PAGES, newest: 0, random: number as u64 }
    }

    /// The program as a reader: each step opens a page with its parts, and a page alone.
    pub(super) fn into_step(mut self) -> Step {
        Box::new(move |tally| {
            if let Err(error) = self.open_pages(tally) {
                refuse(&error, tally);
            }
        })
    }

    fn open_pages(&mut self, tally: &mut Tally) -> io::Result<()> {
        let asked = Instant::now();
        let status: Value = serde_json::from_str(&fs::read_to_string(self.at.join(".thorp/status"))?)?;
        let is_stale = !status["stale_seconds"].is_null();
        tally.stale += u64::from(is_stale);
        let oldest = if is_stale { 0 } else { self.acknowledged.oldest_fresh(asked) };

        // The link is resolved once, and the revision is kept while its directory is open.
        let revision = fs::canonicalize(self.at.join(".thorp/newest"))?;
        let _held = File::open(&revision)?;
        let Some(page) = self.open_page(&revision, oldest, tally)? else { return Ok(()) };
        for part in page.parts() {
            if fs::read_to_string(revision.join(part.path()))? != part.text() {
                let Page { number, version } = page;
                let (path, place) = (part.path(), self.at.display());
                tally.mix(format!("page {number} of version {version} in {place} has another {path}"));
            }
        }

        let links = page.links();
        self.page = links[types::splitmix(&mut self.random) as usize % links.len()];
        self.open_page(&self.at.clone(), oldest, tally).map(drop)
    }

    /// Opens the next page below a directory. Returns `None` if its text is that of no page.
    fn open_page(&mut self, directory: &Path, oldest: u64, tally: &mut Tally) -> io::Result<Option<Page>> {
        let text = fs::read_to_string(directory.join(Page::path(self.page)))?;
        tally.pages += 1;
        let Some(page) = Page::read(&text).filter(|page| page.number == self.page) else {
            tally.mix(format!("page {} in {} mixes versions in itself", self.page, directory.display()));
            return Ok(None);
        };
        let (Page { number, version }, place) = (page, self.at.display());
        if version < self.newest {
            tally.go_back(format!("page {number} in {place} was of version {version} after {}", self.newest));
        }
        if version < oldest {
            tally.conceal(format!("page {number} in {place} was of version {version} a lease after {oldest}"));
        }
        self.newest = self.newest.max(version);
        Ok(Some(page))
    }
}

/// Counts a read that has failed.
fn refuse(error: &io::Error, tally: &mut Tally) {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // A killed process, and a revision that was removed before its page was opened.
        Some(Errno::NOTCONN | Errno::CONNABORTED) => tally.unanswered += 1,
        Some(Errno::STALE | Errno::NOENT) => tally.refused += 1,
        _ => tally.err(format!("a mount answered: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::acknowledged::LEASE;
    use super::super::content::Content;
    use super::*;
    use std::time::Duration;

    /// A folder as a mount shows it, whose site is not replaced any longer.
    #[test]
    fn a_page_that_is_old_and_does_not_say_so_is_found() {
        let folder = fixtures::Folder::new();
        let (mut content, acknowledged) = (Content::create(folder.path()).unwrap(), Acknowledged::default());
        fs::create_dir(folder.path().join(".thorp")).unwrap();
        std::os::unix::fs::symlink("..", folder.path().join(".thorp/newest")).unwrap();
        let say = |status: &str| fs::write(folder.path().join(".thorp/status"), status).unwrap();
        let (mut step, mut tally) =
            (MountReader::new(0, folder.path(), acknowledged.clone()).into_step(), Tally::default());
        say("{\"stale_seconds\": null}");
        step(&mut tally);
        acknowledged.add(2);
        step(&mut tally);
        assert_eq!((tally.pages, tally.concealed, &tally.finding), (4, 0, &None));
        std::thread::sleep(LEASE + Duration::from_millis(1));
        step(&mut tally);
        assert_eq!((tally.concealed, tally.stale), (2, 0), "{tally:?}");
        say("{\"stale_seconds\": 1}");
        step(&mut tally);
        assert_eq!((tally.concealed, tally.stale), (2, 1), "{tally:?}");
        content.change().unwrap();
        say("{\"stale_seconds\": null}");
        step(&mut tally);
        assert_eq!((tally.pages, tally.concealed, tally.mixed, tally.gone_back), (10, 2, 0, 0), "{tally:?}");
        fs::write(folder.path().join(".thorp/status"), "").unwrap();
        step(&mut tally);
        assert_eq!(tally.wrong, 1, "{tally:?}");
    }
}
