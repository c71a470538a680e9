//! The place of a directory on this machine: whether the process that had locked it before is known to be dead.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The system's name of the time from its start to its stop, on Linux. Without one, nothing is known of what ran
/// before.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The most characters of it that are taken.
const BOOT_CHARS_MAX: usize = 64;

/// The place of a directory with a lock, and the machine's boot. A copy of the directory has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    boot: String,
    device: u64,
    directory: u64,
    lock: u64,
}

/// Returns a number of the machine's boot, or 0 if that is not known. While it stays the same, whatever a process has
/// written is in its files, however that process ended.
pub(crate) fn boot() -> u32 {
    fs::read(BOOT).map_or(0, |name| crc32c::crc32c(&name))
}

impl Place {
    /// That of a directory which this process has locked by this file.
    pub(crate) fn of(directory: &Path, lock: &str) -> Self {
        let boot = fs::read_to_string(BOOT).unwrap_or_default();
        let boot = boot.chars().filter(char::is_ascii_graphic).take(BOOT_CHARS_MAX).collect();
        let (lock, directory) = (fs::metadata(directory.join(lock)).ok(), fs::metadata(directory).ok());
        let number = |of: &Option<fs::Metadata>| of.as_ref().map_or(0, MetadataExt::ino);
        let device = directory.as_ref().map_or(0, MetadataExt::dev);
        Self { boot, device, directory: number(&directory), lock: number(&lock) }
    }

    /// Whether this is the directory that it was at the other place, whatever became of the machine.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        (self.directory, self.lock) == (other.directory, other.lock) && self.directory > 0 && self.lock > 0
    }

    /// Whether the process that had locked the directory at the other place is dead, as it is locked here
    /// (**OwnerKnownDead**).
    pub(crate) fn follows(&self, other: &Self) -> bool {
        self == other && self.is_in(other) && !self.boot.is_empty()
    }

    /// The values of its fields in a marker: boot, device, directory, lock.
    pub(crate) fn values(&self) -> [String; 4] {
        let [device, directory, lock] = [self.device, self.directory, self.lock].map(|it| format!("{it:016x}"));
        [self.boot.clone(), device, directory, lock]
    }

    /// The place that these values say.
    pub(crate) fn from_values(values: &[String]) -> Option<Self> {
        let [boot, numbers @ ..] = values else { return None };
        let numbers: Option<Vec<_>> = numbers.iter().map(|it| u64::from_str_radix(it, 16).ok()).collect();
        let [device, directory, lock] = numbers?[..] else { return None };
        Some(Self { boot: boot.clone(), device, directory, lock })
    }
}
