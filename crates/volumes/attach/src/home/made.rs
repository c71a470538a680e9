//! Homes as they are made and looked at, without being attached.

use super::beside::{expect_alone, split};
use super::check::{CheckProgress, Checks};
use super::error::HomeError;
use super::file::FileHome;
use super::ownership::Ownership;
use crate::extents::BLOCK;
use crate::place::boot;
use rustix::fs::{Mode, OFlags};
use std::path::Path;
use std::sync::Arc;
use vfs::{Directory, Doing, Files};

/// The bytes of the largest volume: the number of a block, and the one behind the last, have 32 bits.
pub const SIZE_MAX: u64 = (u32::MAX as u64 - 1) * BLOCK as u64;

/// How a home stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeStatus {
    /// The size of the volume in bytes.
    pub size: u64,
    /// The number of its attachments so far.
    pub epoch: u64,
    /// The cache that may have writes that are not written back, if one may.
    pub dirty_at: Option<String>,
}

/// Makes a raw file of zeros that takes no room yet.
///
/// # Errors
/// The size is none that a volume can have, or there is such a file already, or files of one, or none can be made.
pub fn create_home(path: &Path, size: u64) -> Result<(), HomeError> {
    check_size(path, size)?;
    expect_alone(path)?;
    let (flags, mode) = (OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
    let made = rustix::fs::open(path, flags, mode).and_then(|file| {
        rustix::fs::ftruncate(&file, size)?;
        rustix::fs::fsync(&file)
    });
    made.map_err(std::io::Error::from).doing("create", || path.to_owned())?;
    let (above, _) = split(path)?;
    Ok(Directory::new(above).sync_dir().doing("sync", || above.to_owned())?)
}

/// Looks at a home; at the files beside it in another directory, if they are in one.
///
/// # Errors
/// It cannot be read.
pub fn home_status(path: &Path, beside: Option<&Path>) -> Result<HomeStatus, HomeError> {
    let path = path.canonicalize().doing("open", || path.to_owned())?;
    let (above, name) = split(&path)?;
    let files = Directory::new(above);
    let home = files.open(&name, vfs::How::Read).doing("open", || path.clone())?;
    let size = home.size().doing("read the length of", || path.clone())?;
    let files_beside = Directory::new(&super::beside(&path, beside)?);
    let ownership = Ownership::read(&files_beside, &format!("{name}.thorp"))?;
    let epoch = ownership.as_ref().map_or(0, |ownership| ownership.epoch);
    let dirty_at = ownership.filter(|ownership| ownership.is_dirty).map(|ownership| ownership.place);
    Ok(HomeStatus { size, epoch, dirty_at })
}

/// Returns a home another size that is not attached, and to which no cache has anything to write.
///
/// # Errors
/// It has the size of before, and why: it would lose something, and may not.
pub fn resize_home(path: &Path, beside: Option<&Path>, size: u64, may_shrink: bool) -> Result<(), HomeError> {
    check_size(path, size)?;
    let home = open_clean(path, beside)?;
    if size < home.size() && !may_shrink {
        return Err(HomeError::Shrinks(home.size()));
    }
    home.resize(size)
}

/// Makes another home with the contents of one that is not attached; both share their blocks until one changes them.
///
/// # Errors
/// There is something of that name, or the file system cannot share blocks, or not all is written back.
pub fn snapshot_home(path: &Path, beside: Option<&Path>, to: &Path) -> Result<(), HomeError> {
    open_clean(path, beside)?.share(to)
}

/// A home that is not attached, with everything there.
pub(crate) fn open_clean(path: &Path, beside: Option<&Path>) -> Result<FileHome, HomeError> {
    let path = path.canonicalize().doing("open", || path.to_owned())?;
    let (above, name) = split(&path)?;
    let beside = Arc::new(Directory::new(&super::beside(&path, beside)?));
    let home = FileHome::open(
        Arc::new(Directory::new(above)),
        &name,
        beside,
        0,
        &Checks::new(boot(), CheckProgress::default()),
    )?;
    // One that continued without its cache has everything here, or in its journal.
    if home.ownership().is_dirty && home.ownership().cache != 0 {
        return Err(HomeError::Dirty(path, home.ownership().place.clone()));
    }
    // A start whose log has all of the journal continues when that finds no room: here nobody has that log.
    home.finish()?;
    Ok(home)
}

/// Whether a volume can have this size.
pub(crate) fn is_size(size: u64) -> bool {
    size > 0 && size.is_multiple_of(BLOCK as u64) && size <= SIZE_MAX
}

/// Refuses a size that no volume can have.
pub(crate) fn check_size(path: &Path, size: u64) -> Result<(), HomeError> {
    if is_size(size) { Ok(()) } else { Err(HomeError::Size(path.to_owned(), size)) }
}
