//! Which assembled files there are, which of them are open, and which make room for others.

use super::ContentName;
use std::collections::{BTreeMap, HashMap};

/// The files, and the bound on their bytes.
#[derive(Debug, Default)]
pub(super) struct Index {
    bytes_max: u64,
    files: HashMap<ContentName, Known>,
    /// The files that are not open, in the order of their last opens.
    closed: BTreeMap<u64, ContentName>,
    /// How often files were opened or added, which orders them.
    uses: u64,
    /// The bytes of all files, of those that are open, and of the one that is being assembled.
    bytes: u64,
    open_bytes: u64,
    reserved_bytes: u64,
}

/// A file.
#[derive(Clone, Copy, Debug)]
struct Known {
    bytes: u64,
    /// Whether it was assembled or verified since the start.
    is_verified: bool,
    handles: u64,
    used: u64,
}

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    /// From an earlier start, and possibly damaged.
    Unverified,
    Verified,
}

impl Index {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Adds a file that an earlier start has left.
    pub(super) fn add_left(&mut self, name: ContentName, bytes: u64) {
        self.add_file(name, bytes, false);
    }

    /// Adds the file that room was reserved for.
    pub(super) fn add(&mut self, name: ContentName, bytes: u64) {
        self.release_room();
        self.add_file(name, bytes, true);
    }

    fn add_file(&mut self, name: ContentName, bytes: u64, is_verified: bool) {
        self.uses += 1;
        self.bytes += bytes;
        self.closed.insert(self.uses, name);
        self.files.insert(name, Known { bytes, is_verified, handles: 0, used: self.uses });
    }

    pub(super) fn state(&self, name: &ContentName) -> State {
        match self.files.get(name) {
            None => State::Absent,
            Some(file) if file.is_verified => State::Verified,
            Some(_) => State::Unverified,
        }
    }

    /// A file was verified.
    pub(super) fn verified(&mut self, name: &ContentName) {
        if let Some(file) = self.files.get_mut(name) {
            file.is_verified = true;
        }
    }

    /// Opens a file, if it is verified. It stays until it is closed as often as it was opened.
    pub(super) fn open(&mut self, name: &ContentName) -> State {
        let state = self.state(name);
        if let (State::Verified, Some(file)) = (state, self.files.get_mut(name)) {
            if file.handles == 0 {
                self.closed.remove(&file.used);
                self.open_bytes += file.bytes;
            }
            self.uses += 1;
            (file.used, file.handles) = (self.uses, file.handles + 1);
        }
        state
    }

    /// Closes a file.
    pub(super) fn close(&mut self, name: &ContentName) {
        let Some(file) = self.files.get_mut(name) else { return };
        file.handles -= 1;
        if file.handles == 0 {
            self.open_bytes -= file.bytes;
            self.closed.insert(file.used, *name);
        }
    }

    /// Forgets a file that is not open.
    pub(super) fn remove(&mut self, name: &ContentName) {
        if let Some(file) = self.files.get(name).copied().filter(|file| file.handles == 0) {
            self.bytes -= file.bytes;
            self.closed.remove(&file.used);
            self.files.remove(name);
        }
    }

    /// Whether the open files leave room for another one.
    pub(super) fn can_have(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max.saturating_sub(self.open_bytes + self.reserved_bytes)
    }

    /// Reserves room for a file, and returns those that make room: opened longest ago, and already forgotten here. None
    /// if the open files leave no room.
    pub(super) fn reserve(&mut self, bytes: u64) -> Option<Vec<ContentName>> {
        if !self.can_have(bytes) {
            return None;
        }
        self.reserved_bytes += bytes;
        Some(self.trim())
    }

    /// Gives reserved room up.
    pub(super) fn release_room(&mut self) {
        self.reserved_bytes = 0;
    }

    /// Forgets the files that are beyond the bound, and returns them.
    pub(super) fn trim(&mut self) -> Vec<ContentName> {
        let mut removed = Vec::new();
        while self.bytes + self.reserved_bytes > self.bytes_max {
            let Some((_, name)) = self.closed.first_key_value().map(|(used, name)| (*used, *name)) else { break };
            self.remove(&name);
            removed.push(name);
        }
        removed
    }

    /// The number of files, and their bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.files.len() as u64, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: u8) -> ContentName {
        ContentName::of_bytes(&[of])
    }

    fn index(files: u8) -> Index {
        let mut index = Index::new(100);
        for file in 0..files {
            assert_eq!(index.reserve(30), Some(Vec::new()));
            index.add(name(file), 30);
        }
        index
    }

    #[test]
    fn the_file_that_was_opened_longest_ago_makes_room_unless_it_is_open() {
        let mut index = index(3);
        assert_eq!(index.open(&name(0)), State::Verified);
        index.close(&name(0));
        assert_eq!(index.open(&name(1)), State::Verified);
        assert_eq!(index.reserve(30), Some(vec![name(2)]));
        index.add(name(3), 30);
        assert_eq!(index.reserve(60), Some(vec![name(0), name(3)]));
        index.add(name(4), 60);
        assert_eq!(index.size(), (2, 90));
        assert_eq!(index.reserve(71), None, "the open file stays");
        index.close(&name(1));
        assert_eq!(index.reserve(71), Some(vec![name(1), name(4)]), "in the order of opens, not of closes");
    }

    #[test]
    fn reserved_room_counts_until_it_is_given_up() {
        let mut index = index(2);
        assert_eq!(index.reserve(40), Some(Vec::new()));
        assert!(index.can_have(60) && !index.can_have(61));
        index.release_room();
        assert!(index.can_have(100) && !index.can_have(101));
    }

    #[test]
    fn files_of_an_earlier_start_are_not_opened_before_they_are_verified() {
        let mut index = Index::new(100);
        for file in 0..5 {
            index.add_left(name(file), 30);
        }
        assert_eq!(index.trim(), [name(0), name(1)]);
        assert_eq!(index.open(&name(2)), State::Unverified);
        index.verified(&name(2));
        assert_eq!(index.open(&name(2)), State::Verified);
        assert_eq!(index.open(&name(0)), State::Absent);
        // It is open, so it stays.
        index.remove(&name(2));
        assert_eq!(index.state(&name(2)), State::Verified);
    }
}
