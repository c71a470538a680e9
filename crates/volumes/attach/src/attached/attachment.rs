//! The file of a cache that says which attachments it has had: of which its log is, and under which numbers the
//! registry may have them. A home of one host is the registry of its own attachments.
//!
//! Each attachment draws a number ([`HostId`]), which is durable here before the registry learns of it
//! (**NumberAttachments**). So the registry never has a number of this cache that the cache does not remember, unless
//! this is a copy of it, or an older state.

use crate::marker::Kind;
use crate::place::Place;
use machines::{Earlier, Epoch, HostId};
use std::fmt::Write;
use vfs::{FileError, Files};

const TITLE: &str = "thorp volume attachment";
const FIELDS: &[&str] = &["epoch", "base", "numbers", "boot", "device", "directory", "lock"];
const KIND: Kind = Kind { title: TITLE, format: 2, fields: FIELDS };
/// As earlier versions wrote it: nothing is known of its numbers, or of its place.
const KIND_OF_BEFORE: Kind = Kind { title: TITLE, format: 1, fields: &["epoch", "base"] };
pub(super) const ATTACHMENT_NAME: &str = "thorp-volume-attachment";
/// The file that whoever has a cache open has locked.
pub(super) const LOCK_NAME: &str = "lock";

/// The numbers that are remembered: that of the last attachment which the registry has learned of, and of those that
/// were begun since.
const NUMBERS_MAX: usize = 4;

/// The last attachment of a cache that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// Its epoch.
    pub(super) epoch: Epoch,
    /// The position in the log before the epoch's first write.
    pub(super) base: u64,
}

/// The attachments of a cache, as it remembers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attachments {
    pub(super) last: Option<Attachment>,
    pub(super) numbers: Vec<HostId>,
    place: Place,
}

impl Attachments {
    pub(super) fn read(files: &dyn Files) -> Result<Self, FileError> {
        let numbered = |epoch, base| (epoch > 0).then_some(Attachment { epoch: Epoch(epoch), base });
        let of_before = || {
            let values = KIND_OF_BEFORE.read(files, ATTACHMENT_NAME).ok().flatten()?;
            let last = numbered(hexadecimal(&values[0])?, hexadecimal(&values[1])?);
            Some(Self { last, ..Self::default() })
        };
        let values = match KIND.read(files, ATTACHMENT_NAME) {
            Ok(Some(values)) => values,
            Ok(None) => return Ok(Self::default()),
            Err(error) => return of_before().ok_or(error),
        };
        let read = || {
            let number = |at: usize| hexadecimal(&values[at]);
            let numbers = values[2].split_terminator(' ').map(|it| hexadecimal(it).map(HostId));
            let place = Place::from_values(&values[3..])?;
            let numbers = numbers.collect::<Option<Vec<_>>>().filter(|it| it.len() <= NUMBERS_MAX)?;
            Some(Self { last: numbered(number(0)?, number(1)?), numbers, place })
        };
        let what = "a field has a value that was never written".to_owned();
        read().ok_or(FileError::Corrupt { file: files.path(ATTACHMENT_NAME), offset: 0, what })
    }

    fn write(&self, files: &dyn Files) -> Result<(), FileError> {
        let numbers = self.numbers.iter().fold(String::new(), |mut text, HostId(number)| {
            let _ = write!(text, "{number:016x} ");
            text
        });
        let (epoch, base) = self.last.map_or((0, 0), |it| (it.epoch.0, it.base));
        let [epoch, base] = [epoch, base].map(|it| format!("{it:016x}"));
        let [boot, device, directory, lock] = self.place.values();
        KIND.write(files, ATTACHMENT_NAME, &[epoch, base, numbers, boot, device, directory, lock])
    }

    /// Those that were made before, as an attachment at this place sees them.
    pub(super) fn earlier(&self, here: &Place) -> Earlier {
        Earlier { hosts: self.numbers.clone(), are_dead: here.follows(&self.place) }
    }

    /// Whether the cache is where it was.
    pub(super) fn is_in_place(&self, here: &Place) -> bool {
        here.is_in(&self.place)
    }

    /// An attachment is about to be made, by this number: before the registry learns of it.
    pub(super) fn begin(&mut self, files: &dyn Files, host: HostId, here: &Place) -> Result<(), FileError> {
        if !here.follows(&self.place) {
            // Those may live, elsewhere: nothing that is known of this place is true of them.
            self.numbers.clear();
        }
        let known = self.numbers.len().saturating_sub(NUMBERS_MAX - 1);
        self.numbers.drain(..known);
        self.numbers.push(host);
        self.place = here.clone();
        self.write(files)
    }

    /// Records the number `next` of an attachment to a home of this host, before home records it in place of `before`.
    pub(super) fn begin_here(
        &mut self,
        files: &dyn Files,
        before: HostId,
        next: HostId,
        here: &Place,
    ) -> Result<(), FileError> {
        (self.numbers, self.place) = (vec![before, next], here.clone());
        self.write(files)
    }

    /// The registry has it as the owner: this is where its writes begin.
    pub(super) fn begun(&mut self, files: &dyn Files, host: HostId, attachment: Attachment) -> Result<(), FileError> {
        (self.last, self.numbers) = (Some(attachment), vec![host]);
        self.write(files)
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Memory;

    fn place_locked_by(boot: &str, directory: u64, lock: u64) -> Place {
        let [device, directory, lock] = [7, directory, lock].map(|it| format!("{it:x}"));
        Place::from_values(&[boot.to_owned(), device, directory, lock]).unwrap()
    }

    fn place(boot: &str, directory: u64) -> Place {
        place_locked_by(boot, directory, 9)
    }

    fn earlier(hosts: &[u64], are_dead: bool) -> Earlier {
        Earlier { hosts: hosts.iter().copied().map(HostId).collect(), are_dead }
    }

    #[test]
    fn a_process_is_known_to_be_dead_only_at_the_same_place_since_the_same_boot() {
        let (files, here) = (Memory::default(), place("a", 8));
        Attachments::default().begin(&files, HostId(1), &here).unwrap();
        let read = Attachments::read(&files).unwrap();
        assert_eq!(read.earlier(&here), earlier(&[1], true));
        for elsewhere in [place("b", 8), place("a", 3), place_locked_by("a", 8, 3), Place::default()] {
            assert_eq!(read.earlier(&elsewhere), earlier(&[1], false), "{elsewhere:?}");
        }
        assert!(read.is_in_place(&place("b", 8)) && !read.is_in_place(&place("a", 3)));
        // Where the system has no name for its boot nothing is known, and a place that nobody knows is none.
        let mut nowhere = Attachments::default();
        nowhere.begin(&files, HostId(1), &place("", 8)).unwrap();
        assert!(!nowhere.earlier(&place("", 8)).are_dead && !Attachments::default().is_in_place(&Place::default()));
    }

    #[test]
    fn numbers_are_remembered_until_the_registry_is_known_to_have_a_newer_one() {
        let (files, here) = (Memory::default(), place("a", 8));
        let mut attachments = Attachments::default();
        let known = |of: &Attachments| {
            assert_eq!(Attachments::read(&files).unwrap(), *of);
            of.earlier(&here).hosts
        };
        attachments.begin(&files, HostId(1), &here).unwrap();
        // It ended before the registry's answer had come: either number may stand there.
        attachments.begin(&files, HostId(2), &here).unwrap();
        assert_eq!(known(&attachments), [1, 2].map(HostId));
        let last = Attachment { epoch: Epoch(5), base: 17 };
        attachments.begun(&files, HostId(2), last).unwrap();
        assert_eq!((known(&attachments), attachments.last), (vec![HostId(2)], Some(last)));
        for number in 3..20 {
            attachments.begin(&files, HostId(number), &here).unwrap();
        }
        assert_eq!(known(&attachments), [16, 17, 18, 19].map(HostId));
        // After a start of the machine those may be a copy's.
        attachments.begin(&files, HostId(20), &place("b", 8)).unwrap();
        assert_eq!(known(&attachments), [HostId(20)]);
    }

    #[test]
    fn that_of_an_earlier_version_is_read_and_nothing_is_known_of_its_numbers() {
        let files = Memory::default();
        let values = ["0000000000000005", "0000000000000011"].map(str::to_owned);
        KIND_OF_BEFORE.write(&files, ATTACHMENT_NAME, &values).unwrap();
        let last = Some(Attachment { epoch: Epoch(5), base: 17 });
        assert_eq!(Attachments::read(&files).unwrap(), Attachments { last, ..Attachments::default() });
    }
}
