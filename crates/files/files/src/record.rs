//! The record of a site, as ordinary objects of a store: its settings, its head, and its revisions.
//!
//! ```text
//!   "sites" -> map: name -> SiteRecord{head, keep, revisions} -> map: number -> Revision{root, time, note}
//! ```

use crate::error::FilesError;
use objects::{Anywhere, Map, Result, Tx};
use serde::{Deserialize, Serialize};
use spread::messages::{Consistency, VisitorKey, WhenStale};
use spread::server_work::Settings;
use spread::{Number, SiteSettings};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tree::{ChunkHash, Growth};
use types::lease::millis;

/// The name of the map in its space.
pub(crate) const ROOT: &str = "sites";

/// The characters of a site's name.
const NAME_CHARS_MAX: usize = 64;

/// The sites of a space.
pub(crate) type SiteMap = Map<String, SiteRecord>;

/// The name of a site: 1 to 64 letters, digits, `-`, `_` and `.`, the first a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteName(String);

impl SiteName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`FilesError::SiteName`].
    pub fn parse(text: &str) -> Result<Self, FilesError> {
        let is_char = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
        let is_first = text.starts_with(|char: char| char.is_ascii_alphanumeric());
        let is_name = is_first && text.len() <= NAME_CHARS_MAX && text.chars().all(is_char);
        if is_name { Ok(Self(text.to_owned())) } else { Err(FilesError::SiteName(text.to_owned())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The record of a site.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SiteRecord {
    /// The number of the newest revision; 0 before the first.
    pub(crate) head: u64,
    /// How many of the newest revisions are kept.
    pub(crate) keep: u32,
    /// When the site was created, in seconds since 1970.
    pub(crate) created_s: u64,
    pub(crate) revisions: Map<u64, Revision>,
    /// The key that signs the cookies of visitors, drawn when the site was created.
    pub(crate) visitor_key: [u8; 32],
    /// The last publishes by a server, the oldest first: one that is asked for again is not made again.
    pub(crate) publishes: Vec<Made>,
    /// The consistency that readers see.
    #[serde(with = "consistency")]
    pub(crate) consistency: Consistency,
    /// The length of leases in milliseconds, if it differs from the store's.
    #[serde(default)]
    pub(crate) lease_ms: Option<u32>,
    /// Whether servers refuse to serve when their lease is over.
    #[serde(default)]
    pub(crate) refuses_stale: bool,
}

/// The consistency in a record: its number.
mod consistency {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use spread::messages::Consistency;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde has it")]
    pub(super) fn serialize<S: Serializer>(consistency: &Consistency, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(*consistency as u32)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Consistency, D::Error> {
        let number = u32::deserialize(from)?;
        let known = Consistency::ALL.into_iter().find(|known| *known as u32 == number);
        known.ok_or_else(|| D::Error::custom(format!("{number} is not the number of a consistency")))
    }
}

/// A publish that was made: its publisher and number, and the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) publisher: u64,
    pub(crate) number: u64,
    pub(crate) revision: u64,
}

/// A revision of a site: an immutable tree under a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The number: 1, 2, 3 …
    pub number: u64,
    /// The life of the store that published it, which orders the revisions of a store and those of its copies.
    pub(crate) life: u64,
    root: [u8; ChunkHash::BYTES],
    /// The time of its publish, in seconds since 1970.
    pub published_s: u64,
    /// The note of its publisher.
    pub note: String,
    /// Files and links in it.
    pub files: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// The revision that a rollback brought back.
    pub of: Option<u64>,
}

impl Revision {
    pub(crate) fn new(
        number: Number,
        root: ChunkHash,
        note: String,
        (files, bytes): (u64, u64),
        of: Option<u64>,
    ) -> Self {
        let Number { life, count } = number;
        Self { number: count, life, root: *root.as_bytes(), published_s: now_s(), note, files, bytes, of }
    }

    /// Its number among those of all copies of the store.
    pub(crate) fn full_number(&self) -> Number {
        Number { life: self.life, count: self.number }
    }

    /// The files and bytes of a tree that is larger than that of this revision.
    pub(crate) fn grown(&self, growth: Growth) -> (u64, u64) {
        (self.files.saturating_add_signed(growth.files), self.bytes.saturating_add_signed(growth.bytes))
    }

    /// The topmost node of its tree.
    pub fn root(&self) -> ChunkHash {
        self.root.into()
    }
}

impl SiteRecord {
    /// A site without a revision.
    pub(crate) fn create(tx: &mut Tx, settings: SiteSettings, visitor_key: [u8; 32]) -> Result<Self> {
        let mut record = Self {
            head: 0,
            keep: 0,
            created_s: now_s(),
            revisions: Map::create(tx, Anywhere)?,
            visitor_key,
            publishes: Vec::new(),
            consistency: Consistency::default(),
            lease_ms: None,
            refuses_stale: false,
        };
        record.set(settings.or_usual());
        Ok(record)
    }

    /// The settings.
    pub(crate) fn settings(&self) -> Settings {
        let lease = self.lease_ms.map(|lease| Duration::from_millis(lease.into()));
        let when_stale = if self.refuses_stale { WhenStale::Refuse } else { WhenStale::Serve };
        let (keep, consistency) = (self.keep, self.consistency);
        Settings { keep, visitor_key: VisitorKey(self.visitor_key), consistency, lease, when_stale }
    }

    /// Changes settings.
    pub(crate) fn set(&mut self, change: SiteSettings) {
        let mut settings = self.settings();
        settings.set(change);
        (self.keep, self.consistency) = (settings.keep, settings.consistency);
        self.lease_ms = settings.lease.map(millis);
        self.refuses_stale = settings.when_stale == WhenStale::Refuse;
    }

    /// Makes a revision the head.
    pub(crate) fn switch(&mut self, tx: &mut Tx, revision: &Revision) -> Result<()> {
        self.revisions.insert(tx, &revision.number, revision)?;
        self.head = revision.number;
        Ok(())
    }

    /// Drops the revisions that are older than those that are kept. A copy can have gaps in its numbers.
    pub(crate) fn drop_older(&self, tx: &mut Tx) -> Result<()> {
        let (keep, mut least) = (self.keep.max(1), self.head);
        if least <= u64::from(keep) {
            return Ok(());
        }
        let mut newest_first = self.revisions.iter().backwards();
        for _ in 0..keep {
            let Some((number, _)) = newest_first.next(tx)? else { return Ok(()) };
            least = number;
        }
        self.revisions.remove_range(tx, ..least)?;
        Ok(())
    }
}

/// The life of a store that begins now. Later starts have greater ones, even if a copy was put in the store's place.
pub(crate) fn life_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_path_and_a_host_can_hold() {
        for name in ["shop", "docs.example.org", "v2_1-beta", "0"] {
            assert_eq!(SiteName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "-shop", ".hidden", "a/b", "a@1", "ä", &"a".repeat(65)] {
            assert!(SiteName::parse(name).is_err(), "{name}");
        }
    }
}
