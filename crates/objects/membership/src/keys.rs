//! The keys.

use types::Shard;

/// The keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// A key of a store, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    Config,
    Member(&'a str),
    Node(&'a str),
    Placement(Shard),
    Opening(Shard),
    Epoch,
    Sequencer,
}

impl Keys {
    /// The keys of the store of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self { prefix: format!("/thorp/{name}/") }
    }

    /// The prefix of all of them.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The text of a key.
    pub(crate) fn of(&self, key: Key<'_>) -> String {
        let prefix = &self.prefix;
        match key {
            Key::Config => format!("{prefix}config"),
            Key::Member(node) => format!("{prefix}members/{node}"),
            Key::Node(node) => format!("{prefix}nodes/{node}"),
            Key::Placement(Shard(shard)) => format!("{prefix}placement/{shard}"),
            Key::Opening(Shard(shard)) => format!("{prefix}openings/{shard}"),
            Key::Epoch => format!("{prefix}epoch"),
            Key::Sequencer => format!("{prefix}sequencer"),
        }
    }

    /// Parses a key; `None` if the store has no such key.
    pub(crate) fn parse<'a>(&self, key: &'a str) -> Option<Key<'a>> {
        let rest = key.strip_prefix(&self.prefix)?;
        Some(match rest.split_once('/') {
            None if rest == "config" => Key::Config,
            None if rest == "epoch" => Key::Epoch,
            None if rest == "sequencer" => Key::Sequencer,
            Some(("members", node)) => Key::Member(node),
            Some(("nodes", node)) => Key::Node(node),
            Some(("placement", shard)) => Key::Placement(Shard(shard.parse().ok()?)),
            Some(("openings", shard)) => Key::Opening(Shard(shard.parse().ok()?)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let keys = Keys::new("main");
        let shard = Shard(63);
        let all = [Key::Config, Key::Member("n1"), Key::Node("n1"), Key::Placement(shard), Key::Opening(shard)];
        for key in all.into_iter().chain([Key::Epoch, Key::Sequencer]) {
            assert_eq!(keys.parse(&keys.of(key)), Some(key));
        }
        for other in ["", "/thorp/other/epoch", "/thorp/main/", "/thorp/main/placement/x", "/thorp/main/epoch/1"] {
            assert_eq!(keys.parse(other), None, "{other}");
        }
    }
}
