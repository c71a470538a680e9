//! The machines of volumes as players of conversations.

mod cache;
mod holder;
mod home;
mod known_home;
mod life;
mod owner;
mod takeover;

pub(crate) use cache::CacheScript;
pub(crate) use holder::HolderScript;
pub(crate) use home::HomeScript;
pub(crate) use known_home::KnownHomeScript;
pub(crate) use life::LifeScript;
pub(crate) use owner::OwnerScript;
pub(crate) use takeover::TakeOverScript;

use bytes::Bytes;
use machines::{Content, Epoch, Extent, FlushEpoch, PartitionId, Record, Sequence, Stamp};
use types::Time;

pub(crate) fn ms(text: &str) -> Option<Time> {
    Some(Time(text.parse::<u64>().ok()? * 1_000_000))
}

pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The value of a word such as `live=3`.
pub(crate) fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

pub(crate) fn sequence(words: &[&str], name: &str) -> Option<Sequence> {
    Some(Sequence(value(words, name).map_or(Some(0), number)?))
}

/// `2.5/f3`
pub(crate) fn stamp(text: &str) -> Option<Stamp> {
    let (epoch, rest) = text.split_once('.')?;
    let (sequence, flush) = rest.split_once("/f")?;
    let (epoch, sequence) = (Epoch(number(epoch)?), Sequence(number(sequence)?));
    Some(Stamp { epoch, sequence, flush: FlushEpoch(number(flush)?) })
}

pub(crate) fn say_stamp(stamp: Stamp) -> String {
    format!("{}.{}/f{}", stamp.epoch.0, stamp.sequence.0, stamp.flush.0)
}

/// `0+4096`
pub(crate) fn extent(text: &str) -> Option<Extent> {
    let (offset, len) = text.split_once('+')?;
    Some(Extent { offset: number(offset)?, len: number(len)? })
}

pub(crate) fn say_extent(extent: Extent) -> String {
    format!("{}+{}", extent.offset, extent.len)
}

pub(crate) fn content(words: &[&str], extent: Extent) -> Content {
    if words.contains(&"trim") {
        Content::Trim
    } else if words.contains(&"zero") {
        Content::Zero
    } else {
        Content::Data(Bytes::from(vec![7; extent.len as usize]))
    }
}

pub(crate) fn say_record(record: &Record) -> String {
    let content = match record.content {
        Content::Data(_) => "",
        Content::Trim => " trim",
        Content::Zero => " zero",
    };
    format!("{} {}{content}", say_stamp(record.stamp), say_extent(record.extent))
}

/// `p7`
pub(crate) fn partition(text: &str) -> Option<PartitionId> {
    Some(PartitionId(number(text.strip_prefix('p')?)?))
}
