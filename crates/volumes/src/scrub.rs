//! A volume's home, compared with its checksums; and with the clean blocks of a cache, attached or not. Writes that are not
//! home are compared with the copies at holders, by the process that has the volume attached.
//!
//! Home reads all of its blocks and tells their checksums, so nothing but those is sent. Beside an attached volume that is no
//! trouble: a block that is written meanwhile has the sum of one write or the other.

mod cache;
mod copies;

pub use copies::{ComparedCopies, CopyDifference, CopyMeaning, NotCompared};

use crate::control::{self, ControlError};
use crate::extents::{BLOCK, Blocks};
use crate::far::FarHome;
use crate::home::{Home, HomeError, open_clean};
use cache::CacheAtRest;
use protocol::volume_home::BlockSums;
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
            Self::NoCache(dir) => write!(f, "{} is no cache of a volume: give the directory of one", dir.display()),
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
                "home's is not what was written: restore it from a backup, or write it anew through the volume"
            }
            Self::CacheHasIt => {
                "home's is not what was written, and the cache has that: attach the volume with this cache, and write the block \
                 anew"
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
    /// A process has it, which tells of its clean blocks.
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

    /// Whether blocks are written meanwhile.
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

    /// Compares it with the clean blocks of a cache, too. The process that has it attached is asked for them, if one has.
    ///
    /// # Errors
    /// It is another volume's, or cannot be read.
    pub fn with_cache(mut self, dir: &Path) -> Result<Self, ScrubError> {
        let number = self.home.number();
        let attached = || Cache::Attached { dir: dir.to_owned(), identity: self.home.identity() };
        self.cache = Some(CacheAtRest::open(dir, number)?.map_or_else(attached, Cache::AtRest));
        Ok(self)
    }

    /// Has the process that has the volume attached compare what is not home with the copies at holders; nothing is compared if
    /// there is none here.
    ///
    /// # Errors
    /// The process does not tell.
    pub fn copies(&self, is_given_up: &dyn Fn() -> bool) -> Result<ComparedCopies, ScrubError> {
        let Some(Cache::Attached { dir, identity }) = &self.cache else {
            return Ok(ComparedCopies::default());
        };
        control::copies(dir, identity, is_given_up).map_err(ScrubError::Control)
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.home.size()
    }

    /// Compares all blocks, some at a time, for as long as `go_on` says so; it is told how many bytes were compared, and the
    /// differences in them.
    ///
    /// # Errors
    /// Home cannot be read.
    pub fn run(&self, go_on: &mut dyn FnMut(u64, &[Difference]) -> bool) -> Result<Scrubbed, ScrubError> {
        let (mut all, mut at, end) = (Scrubbed::default(), 0, (self.size() / BLOCK as u64) as u32);
        while at < end {
            let until = end.min(at + VOLUME_SUMS_PER_ANSWER_MAX as u32);
            let mut counted = Scrubbed::default();
            let mut differences = self.compare(&(at..until), &mut counted)?;
            // A block that was written in between differs once, and not twice in the same way.
            if !differences.is_empty() && self.cache.as_ref().is_some_and(Cache::is_attached) {
                let again = self.compare(&(at..until), &mut Scrubbed::default())?;
                differences.retain(|difference| again.contains(difference));
            }
            let Scrubbed { checked, unknown, cached, .. } = counted;
            (all.checked, all.unknown, all.cached) =
                (all.checked + checked, all.unknown + unknown, all.cached + cached);
            all.differences += differences.len() as u64;
            at = until;
            if !go_on(u64::from(at) * BLOCK as u64, &differences) {
                break;
            }
        }
        Ok(all)
    }

    fn compare(&self, blocks: &Blocks, counted: &mut Scrubbed) -> Result<Vec<Difference>, ScrubError> {
        let cached = self.cache.as_ref().map(|cache| cache.sums(blocks)).transpose()?.unwrap_or_default();
        let mut differences = Vec::new();
        for (block, home) in blocks.clone().zip(self.home.scrub(blocks)?) {
            let cache = cached.get(&block).copied();
            *if home.kept == 0 { &mut counted.unknown } else { &mut counted.checked } += 1;
            counted.cached += u64::from(cache.is_some());
            differences.extend(Difference::of(block, home, cache));
        }
        Ok(differences)
    }
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
