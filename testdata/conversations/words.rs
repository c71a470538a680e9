//! Words that the scripts of several roles have in common.

use messages::Advance;
use types::{PageId, Version};

/// `1/3`
pub(crate) fn page(word: &str) -> Option<PageId> {
    let (space, number) = word.split_once('/')?;
    Some(PageId::new(space.parse().ok()?, number.parse().ok()?))
}

/// `v7` or `7`
pub(crate) fn version(word: &str) -> Option<Version> {
    word.trim_start_matches('v').parse().ok().map(Version)
}

/// The value behind `name=` among some words.
pub(crate) fn named<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// `1/3:4->6`
pub(crate) fn advance(word: &str) -> Option<Advance> {
    let (of, versions) = word.split_once(':')?;
    let (prev, next) = versions.split_once("->")?;
    Some(Advance { page: page(of)?, prev: version(prev)?, version: version(next)? })
}
