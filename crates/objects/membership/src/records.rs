//! The values of the keys: JSON, for people who look into etcd. Unknown fields are for later versions.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use types::Version;
use types::limits::LEASED_SPACES_MAX;

/// A number that is drawn at random, in 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Drawn(pub(crate) u64);

impl fmt::Debug for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Drawn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Drawn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u64::from_str_radix(&text, 16).ok().filter(|_| text.len() == 16);
        number.map(Self).ok_or_else(|| D::Error::custom("expected 16 hexadecimal digits"))
    }
}

/// `config`: what is the store's for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigRecord {
    /// The store's identity.
    pub(crate) store: Drawn,
    pub(crate) shards: u16,
    pub(crate) extent: u32,
    /// The length of a node's lease, in seconds.
    pub(crate) lease_s: u64,
    /// The leased spaces; none in stores that were created without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leased: Option<LeasedSpaces>,
    /// Whether all members and the placement of all shards were written.
    pub(crate) is_complete: bool,
}

/// The spaces on which groups and watchers have leases. All nodes give the same ones: a shard's new master waits for
/// the leases of the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedSpaces {
    /// Their numbers, in order.
    pub spaces: Vec<u32>,
    /// How long a lease lasts, in milliseconds.
    pub lease_ms: u32,
}

impl LeasedSpaces {
    /// The lengths that a lease may have, in milliseconds.
    pub const LEASE_MS: RangeInclusive<u32> = 50..=60_000;

    /// Leases of this length on some spaces; `None` without spaces.
    pub fn new(mut spaces: Vec<u32>, lease_ms: u32) -> Option<Self> {
        spaces.sort_unstable();
        spaces.dedup();
        (!spaces.is_empty()).then_some(Self { spaces, lease_ms })
    }

    /// Whether nodes may give such leases.
    pub(crate) fn is_valid(&self) -> bool {
        (1..=LEASED_SPACES_MAX).contains(&self.spaces.len()) && Self::LEASE_MS.contains(&self.lease_ms)
    }
}

/// `members/NODE`: what is the node's for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// Its number among the nodes.
    pub(crate) number: u16,
    /// The identity of its directory, from its first start on.
    pub(crate) directory: Option<Drawn>,
    /// The runs that it has had.
    pub(crate) start: u64,
}

/// `nodes/NODE`: a node that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    /// Where clients and other nodes reach it.
    pub(crate) address: String,
    pub(crate) run: Drawn,
    /// Its shards that are not served yet.
    pub(crate) opening: Vec<u16>,
    /// The nodes whose logs it waits for.
    pub(crate) waits_for: Vec<String>,
    /// The share of its log that is taken, in percent, rounded down to tens.
    #[serde(default)]
    pub(crate) log_percent: u8,
    /// The shards that move to it, as far as they are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) coming: Vec<ComingRecord>,
}

/// A shard that moves to the node that says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComingRecord {
    pub(crate) shard: u16,
    /// How many pages were copied, of how many that were listed so far.
    pub(crate) copied: u64,
    pub(crate) listed: u64,
    /// Why the copy has stopped, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

/// `placement/S`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacementRecord {
    pub(crate) node: String,
    /// The count at which the shard was closed in order: no log holds anything for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed: Option<u64>,
    /// The node that it moves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
}

/// `openings/S`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpeningRecord {
    pub(crate) opening: u32,
    /// The run that has taken it.
    pub(crate) run: Drawn,
    /// The count at which the shard had been closed in order before. So the run knows it, whatever answer was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed: Option<u64>,
}

/// `sequencer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SequencerRecord {
    pub(crate) node: String,
    pub(crate) run: Drawn,
    pub(crate) epoch: u32,
}

impl PlacementRecord {
    /// The node that has the shard, and the one that it moves to.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        [Some(self.node.as_str()), self.to.as_deref()].into_iter().flatten()
    }
}

impl OpeningRecord {
    /// The count at which the shard was closed before.
    pub(crate) fn closed(&self) -> Option<Version> {
        self.closed.map(Version)
    }
}

/// The text of a value.
pub(crate) fn text(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("a record is plain JSON")
}

/// Parses a value; the error is in words.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_readable() {
        let opening = OpeningRecord { opening: 7, run: Drawn(0xAB), closed: Some(9) };
        assert_eq!(text(&opening), r#"{"opening":7,"run":"00000000000000ab","closed":9}"#);
        assert_eq!(parse(&text(&opening)), Ok(opening));
        let placement = PlacementRecord { node: "n1".into(), closed: None, to: None };
        assert_eq!(text(&placement), r#"{"node":"n1"}"#);
        assert_eq!(parse(r#"{"node": "n1", "later": 1}"#), Ok(placement));
    }

    #[test]
    fn other_values_are_refused() {
        for text in ["", "7", "[]", r#"{"opening":-1,"run":"00000000000000ab"}"#, r#"{"opening":1,"run":"ab"}"#] {
            assert!(parse::<OpeningRecord>(text).is_err(), "{text}");
        }
    }
}
