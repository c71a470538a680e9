//! A volume's home, compared with its checksums; and with the clean blocks of a cache, attached or not. Writes that are
//! not home are compared with the copies at holders, by the process that has the volume attached.
//!
//! Home reads all of its blocks and tells their checksums, so nothing but those is sent. Beside an attached volume that
//! is no trouble: a block that is written in the meantime has the sum of one write or the other.

mod cache;
mod copies;
mod repair;
mod schedule;

pub use copies::{ComparedCopies, CopyDifference, CopyMeaning, NotCompared};
pub use repair::Repair;
pub(crate) use repair::{AT_HOME, IN_CACHE, NO_COPY};
pub(crate) use schedule::SCRUB_NAME;
pub use schedule::{ScrubReport, Scrubbing};

use crate::attached::{Attached, OperateError};
use crate::control::{self, ControlError};
use crate::extents::{BLOCK, Blocks, sum_of};
use crate::far::FarHome;
use crate::home::{Home, HomeError, open_clean};
use cache::CacheAtRest;
use machines::messages::home::BlockSums;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use types::limits::VOLUME_SUMS_PER_ANSWER_MAX;
use vfs::FileError;

/// Why there is no comparison.
#[derive(Debug)]
pub enum ScrubError {
    /// Home cannot be read.
    Home(HomeError),
    /// A file of the cache cannot be read.
    File(FileError),
    /// There is no cache in this directory.
    NoCache(PathBuf),
    /// It is another volume's.
    OtherCache(PathBuf),
    /// The process that has it attached does not tell.
    Control(ControlError),
}

impl fmt::Display for ScrubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Control(error) => error.fmt(f),
            Self::NoCache(dir) => write!(f, "{} is not a cache of a volume: give the directory of one", dir.display()),
            Self::OtherCache(dir) => write!(f, "{} is the cache of another volume: give one of this", dir.display()),
        }
    }
}

impl std::error::Error for ScrubError {}

impl From<HomeError> for ScrubError {
    fn from(error: HomeError) -> Self {
        Self::Home(error)
    }
}

impl From<FileError> for ScrubError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// A block that is not the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The block: its place in bytes is 4096 times this.
    pub block: u32,
    /// At home.
    pub home: BlockSums,
    /// In the cache, if that has it: the checksum that it keeps, and that of what is read there.
    pub cache: Option<BlockSums>,
}

/// The meaning of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Home's is damaged, and no copy of it is known.
    HomeDamaged,
    /// Home's is damaged, and the cache has what was written there.
    CacheHasIt,
    /// The cache's is damaged.
    CacheDamaged,
    /// The cache's is sound, and of another time than home's.
    CacheDiffers,
}

impl Meaning {
    /// Its name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HomeDamaged => "home_damaged",
            Self::CacheHasIt => "cache_has_it",
            Self::CacheDamaged => "cache_damaged",
            Self::CacheDiffers => "cache_differs",
        }
    }

    /// The same for people, with what to do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::HomeDamaged => {
                "home's is not what was written: restore it from a backup, or write it again through the volume"
            }
            Self::CacheHasIt => {
                "home's is not what was written, and the cache has that: `thorp volume scrub --repair` restores it"
            }
            Self::CacheDamaged => "the cache's is not what was kept there: nothing to do, it is read from home",
            Self::CacheDiffers => {
                "the cache's is of another time than home's: one of the two was put back from an older copy; attach the volume \
                 with another cache if it is this one"
            }
        }
    }
}

impl Difference {
    /// A block whose sums differ.
    fn of(block: u32, home: BlockSums, cache: Option<BlockSums>) -> Option<Self> {
        let differs = cache.is_some_and(|cache| cache.is_damaged() || cache.read != home.read);
        (home.is_damaged() || differs).then_some(Self { block, home, cache })
    }

    /// Returns why it is left as it is, if no checksum tells which of the two is right.
    pub fn left(&self) -> Option<Repair> {
        let meaning = self.meaning();
        (meaning == Meaning::CacheDiffers).then(|| Repair::left(self.block, IN_CACHE, meaning.text()))
    }

    /// Its meaning.
    pub fn meaning(&self) -> Meaning {
        match (self.home.is_damaged(), self.cache) {
            (true, Some(cache)) if cache.read == self.home.kept => Meaning::CacheHasIt,
            (true, _) => Meaning::HomeDamaged,
            (false, Some(cache)) if cache.is_damaged() => Meaning::CacheDamaged,
            (false, _) => Meaning::CacheDiffers,
        }
    }
}

/// The blocks that were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// With home's checksums.
    pub checked: u64,
    /// With none, as home knows none of them.
    pub unknown: u64,
    /// With those of the cache.
    pub cached: u64,
    /// Blocks that are not the same everywhere.
    pub differences: u64,
}

/// A cache.
#[derive(Debug)]
enum Cache {
    /// Nobody has it.
    AtRest(CacheAtRest),
    /// A process has it, which reports its clean blocks.
    Attached { dir: PathBuf, identity: String },
}

impl Cache {
    /// The blocks among these that it has.
    fn sums(&self, blocks: &Blocks) -> Result<BTreeMap<u32, BlockSums>, ScrubError> {
        match self {
            Self::AtRest(cache) => Ok(blocks.clone().filter_map(|it| Some((it, cache.sums(it)?))).collect()),
            Self::Attached { dir, identity } => {
                let found = control::clean(dir, identity, blocks.start, blocks.len() as u32);
                Ok(found.map_err(ScrubError::Control)?.into_iter().collect())
            }
        }
    }

    /// Whether blocks are written in the meantime.
    fn is_attached(&self) -> bool {
        matches!(self, Self::Attached { .. })
    }
}

/// A volume that is compared.
#[derive(Debug)]
pub struct Scrub {
    home: Home,
    cache: Option<Cache>,
}

impl Scrub {
    /// A home of this host, which is not attached.
    ///
    /// # Errors
    /// It is attached, or not all is there, or it cannot be read.
    pub fn of_home(path: &Path, beside: Option<&Path>) -> Result<Self, ScrubError> {
        Ok(Self::of(Home::File(open_clean(path, beside)?)))
    }

    /// A home elsewhere, attached or not.
    pub fn of_store(home: FarHome) -> Self {
        Self::of(Home::Far(home))
    }

    fn of(home: Home) -> Self {
        Self { home, cache: None }
    }

    /// Compares it with the clean blocks of a cache, too. The process that has it attached is asked for them, if one
    /// has.
    ///
    /// # Errors
    /// It is another volume's, or cannot be read.
    pub fn with_cache(mut self, dir: &Path) -> Result<Self, ScrubError> {
        let number = self.home.number();
        let attached = || Cache::Attached { dir: dir.to_owned(), identity: self.home.identity() };
        self.cache = Some(CacheAtRest::open(dir, number)?.map_or_else(attached, Cache::AtRest));
        Ok(self)
    }

    /// Has the process that has the volume attached compare what is not written back with the copies at holders;
    /// nothing is compared if there is none here. With `repairs` it repairs what differs.
    ///
    /// # Errors
    /// The process does not tell.
    pub fn copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> Result<ComparedCopies, ScrubError> {
        let Some(Cache::Attached { dir, identity }) = &self.cache else {
            return Ok(ComparedCopies::default());
        };
        control::copies(dir, identity, repairs, is_given_up).map_err(ScrubError::Control)
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.home.size()
    }

    /// Compares all blocks, some at a time, for as long as `go_on` says so; it is told how many bytes were compared,
    /// and the differences in them.
    ///
    /// # Errors
    /// Home cannot be read.
    pub fn run(&self, go_on: &mut dyn FnMut(u64, &[Difference]) -> bool) -> Result<Scrubbed, ScrubError> {
        let is_attached = self.cache.as_ref().is_some_and(Cache::is_attached);
        let cached = |blocks: &Blocks| self.cache.as_ref().map(|cache| cache.sums(blocks)).transpose();
        compare_all(&self.home, is_attached, &|blocks| Ok(cached(blocks)?.unwrap_or_default()), go_on)
    }

    /// The directory of its cache, and its identity, if a process has it attached at this host.
    pub fn attached(&self) -> Option<(&Path, &str)> {
        let Some(Cache::Attached { dir, identity }) = &self.cache else { return None };
        Some((dir, identity))
    }

    /// Repairs these blocks of a home of this host, which is not attached, from its cache, and lets go of it.
    ///
    /// # Errors
    /// A home of a store is repaired through the volume: see [`Scrub::repair_through`].
    pub fn repair(&self, blocks: &[u32]) -> Result<Vec<Repair>, ScrubError> {
        let Home::File(home) = &self.home else { return Ok(Vec::new()) };
        let mut repairs = Vec::new();
        for &block in blocks {
            let sums = home.scrub(&(block..block + 1))?[0];
            repairs.extend(self.repair_cached(block, sums));
            if sums.is_damaged() {
                repairs.push(match self.copy(block, sums.kept) {
                    Some((from, bytes)) if home.repair(block, &bytes)? => Repair::restored(block, AT_HOME, from),
                    Some(_) => Repair::left(block, AT_HOME, "it is damaged again: look at home's disk"),
                    None => Repair::left(block, AT_HOME, NO_COPY),
                });
            }
        }
        // Its time has changed: without this, its checksums and the clean blocks of the cache would be dropped.
        home.release()?;
        Ok(repairs)
    }

    /// Repairs these blocks of a home of a store, through the volume, which is attached for this alone.
    ///
    /// # Errors
    /// Home does not answer, or it was given up.
    pub fn repair_through(
        &self,
        attached: &Attached,
        blocks: &[u32],
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<Repair>, OperateError> {
        let mut repairs = Vec::new();
        for &block in blocks {
            let sums = self.home.scrub(&(block..block + 1))?[0];
            repairs.extend(self.repair_cached(block, sums));
        }
        repairs.extend(attached.repair_from(blocks, &|block, kept| self.copy(block, kept), is_given_up)?);
        Ok(repairs)
    }

    /// A block of a cache that is not attached is compared each time that it is read.
    fn repair_cached(&self, block: u32, home: BlockSums) -> Option<Repair> {
        let Some(Cache::AtRest(cache)) = &self.cache else { return None };
        let is_damaged = cache.sums(block)?.is_damaged();
        let sound = || Repair::restored(block, IN_CACHE, "home, from where it is read");
        let left = || Repair::left(block, IN_CACHE, "home's is damaged, too");
        is_damaged.then(|| if home.is_damaged() { left() } else { sound() })
    }

    /// A block of the cache, if it has this checksum.
    fn copy(&self, block: u32, kept: u32) -> Option<(String, Vec<u8>)> {
        let Some(Cache::AtRest(cache)) = &self.cache else { return None };
        let bytes = cache.read(block).filter(|bytes| sum_of(bytes) == kept)?;
        Some(("the clean blocks of the cache".to_owned(), bytes))
    }
}

/// Looks up the blocks among these that a cache has.
type Cached<'a> = dyn Fn(&Blocks) -> Result<BTreeMap<u32, BlockSums>, ScrubError> + 'a;

/// Compares all blocks of a home with the clean ones of a cache, some at a time. Blocks of an attached volume may be
/// written at the same time.
pub(crate) fn compare_all(
    home: &Home,
    is_attached: bool,
    cached: &Cached<'_>,
    go_on: &mut dyn FnMut(u64, &[Difference]) -> bool,
) -> Result<Scrubbed, ScrubError> {
    let (mut all, mut at) = (Scrubbed::default(), 0);
    loop {
        // The volume may become smaller during a scrub.
        let end = (home.size() / BLOCK as u64) as u32;
        if at >= end {
            return Ok(all);
        }
        let until = end.min(at + VOLUME_SUMS_PER_ANSWER_MAX as u32);
        let mut counted = Scrubbed::default();
        let mut differences = compare(home, cached, &(at..until), &mut counted)?;
        // A block that was written in between differs once, and not twice in the same way.
        if !differences.is_empty() && is_attached {
            let again = compare(home, cached, &(at..until), &mut Scrubbed::default())?;
            differences.retain(|difference| again.contains(difference));
        }
        let Scrubbed { checked, unknown, cached, .. } = counted;
        (all.checked, all.unknown, all.cached) = (all.checked + checked, all.unknown + unknown, all.cached + cached);
        all.differences += differences.len() as u64;
        at = until;
        if !go_on(u64::from(at) * BLOCK as u64, &differences) {
            return Ok(all);
        }
    }
}

fn compare(
    home: &Home,
    cached: &Cached<'_>,
    blocks: &Blocks,
    counted: &mut Scrubbed,
) -> Result<Vec<Difference>, ScrubError> {
    let cached = cached(blocks)?;
    let mut differences = Vec::new();
    for (block, home) in blocks.clone().zip(home.scrub(blocks)?) {
        let cache = cached.get(&block).copied();
        *if home.kept == 0 { &mut counted.unknown } else { &mut counted.checked } += 1;
        counted.cached += u64::from(cache.is_some());
        differences.extend(Difference::of(block, home, cache));
    }
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_says_what_it_means() {
        let sums = |kept, read| BlockSums { kept, read };
        let meaning = |home, cache| Difference::of(7, home, cache).map(|it| it.meaning());
        assert_eq!(meaning(sums(5, 5), None), None);
        assert_eq!(meaning(sums(0, 5), Some(sums(5, 5))), None);
        assert_eq!(meaning(sums(5, 6), None), Some(Meaning::HomeDamaged));
        assert_eq!(meaning(sums(5, 6), Some(sums(5, 5))), Some(Meaning::CacheHasIt));
        assert_eq!(meaning(sums(5, 6), Some(sums(4, 4))), Some(Meaning::HomeDamaged));
        assert_eq!(meaning(sums(5, 5), Some(sums(5, 6))), Some(Meaning::CacheDamaged));
        assert_eq!(meaning(sums(0, 5), Some(sums(6, 6))), Some(Meaning::CacheDiffers));
    }
}
