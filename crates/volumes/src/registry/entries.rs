//! The registry's objects in a store, and their bytes: JSON, so that a later version can add to it.
//!
//! ```text
//!   space thorp.volumes   its first object: the volumes, by name --> an object for each volume
//!   space thorp.members   its first object: the members          --> an object for each member
//! ```
//! A volume's object changes with each pulse of its owner, a member's with each of its own; what says where they are changes
//! only when one comes or goes. All of it comes from outside: any client of the store can write there.

use super::{MEMBERS_MAX, Registrant, VOLUMES_MAX};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use types::limits::VOLUME_COPIES_MAX;
use types::{ObjectId, PageId};
use volume::{Epoch, HostId, Member, PartitionId, Registered, View};

/// The space of volumes, by its name.
pub(super) const VOLUMES: &str = "thorp.volumes";

/// The space of members.
pub(super) const MEMBERS: &str = "thorp.members";

const FORMAT: u32 = 1;

/// The holders that one volume may have at a time: those that it wants, and those that are lost and may have what no other
/// one has yet.
const HOLDERS_MAX: usize = 256;

/// A place's text, in bytes.
pub(super) const PLACE_BYTES_MAX: usize = 1024;

/// An object of the registry.
pub(super) trait Entry: Serialize + DeserializeOwned {
    /// The name that an error has for it.
    const WHAT: &'static str;

    /// Whether it is one that this library would have written.
    fn is_sound(&self) -> bool;

    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// The entry in these bytes, or why it is none.
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = || format!("{} has what was never written there", Self::WHAT);
        let Format { format } = serde_json::from_slice(bytes).map_err(|_| damaged())?;
        if format > FORMAT {
            return Err(format!("{} is in format {format}, and this version reads format {FORMAT}", Self::WHAT));
        }
        serde_json::from_slice(bytes).ok().filter(Self::is_sound).ok_or_else(damaged)
    }
}

/// Where the objects of a space are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory {
    format: u32,
    pub(super) entries: Vec<Listed>,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// The number of the volume, or of the member's partition.
    pub(super) id: u64,
    pub(super) name: String,
    page: u64,
    slot: u16,
}

impl Listed {
    pub(super) fn new(id: u64, name: &str, object: ObjectId) -> Self {
        Self { id, name: name.to_owned(), page: object.page.to_bits(), slot: object.slot }
    }

    pub(super) fn object(&self) -> ObjectId {
        ObjectId::new(PageId::from_bits(self.page), self.slot)
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self { format: FORMAT, entries: Vec::new() }
    }
}

impl Entry for Directory {
    const WHAT: &'static str = "the directory of the registry";

    fn is_sound(&self) -> bool {
        self.entries.len() <= VOLUMES_MAX.max(MEMBERS_MAX)
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeEntry {
    format: u32,
    revision: u64,
    epoch: u64,
    owner: Option<u64>,
    /// Where the owner is, for people; empty if nobody is.
    pub(super) place: String,
    is_taking: bool,
    pulse: u64,
    lease_ms: u64,
    copies: u8,
    size: u64,
    holders: Vec<u64>,
}

impl VolumeEntry {
    pub(super) fn new(view: &View, place: &str) -> Self {
        let View { revision, entry: Registered { epoch, owner, is_taking, pulse, lease, copies, size, holders } } =
            view;
        Self {
            format: FORMAT,
            revision: *revision,
            epoch: epoch.0,
            owner: owner.map(|host| host.0),
            place: if owner.is_some() { place.to_owned() } else { String::new() },
            is_taking: *is_taking,
            pulse: *pulse,
            lease_ms: lease.as_millis() as u64,
            copies: *copies,
            size: *size,
            holders: holders.iter().map(|partition| partition.0).collect(),
        }
    }

    pub(super) fn view(&self) -> View {
        let entry = Registered {
            epoch: Epoch(self.epoch),
            owner: self.owner.map(HostId),
            is_taking: self.is_taking,
            pulse: self.pulse,
            lease: Duration::from_millis(self.lease_ms),
            copies: self.copies,
            size: self.size,
            holders: self.holders.iter().copied().map(PartitionId).collect(),
        };
        View { revision: self.revision, entry }
    }
}

impl Entry for VolumeEntry {
    const WHAT: &'static str = "a volume's entry";

    fn is_sound(&self) -> bool {
        let is_of_time = (1..=3_600_000).contains(&self.lease_ms);
        // Numbers that only grow, one by one, are far from their end.
        let grows = [self.revision, self.epoch, self.pulse].iter().all(|&number| number < u64::MAX / 2);
        let is_copied = (1..=VOLUME_COPIES_MAX).contains(&self.copies) && self.holders.len() <= HOLDERS_MAX;
        is_of_time && grows && is_copied && self.place.len() <= PLACE_BYTES_MAX
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MemberEntry {
    format: u32,
    partition: u64,
    domain: u64,
    free: u64,
    copies: u64,
    address: String,
    name: String,
    /// Whether its disk has no room for what it was told to take. Entries of before do not say it.
    #[serde(default)]
    is_disk_full: bool,
    /// Counts its words, from a number that is drawn when it joins.
    pub(super) pulse: u64,
}

impl MemberEntry {
    pub(super) fn new(registrant: &Registrant, pulse: u64) -> Self {
        let Registrant { member, address, name, is_disk_full } = registrant.clone();
        let Member { partition, domain, free, copies } = member;
        Self { format: FORMAT, partition: partition.0, domain, free, copies, address, name, is_disk_full, pulse }
    }

    pub(super) fn partition(&self) -> PartitionId {
        PartitionId(self.partition)
    }

    pub(super) fn registrant(self) -> Registrant {
        let Self { partition, domain, free, copies, address, name, is_disk_full, .. } = self;
        let member = Member { partition: PartitionId(partition), domain, free, copies };
        Registrant { member, address, name, is_disk_full }
    }
}

impl Entry for MemberEntry {
    const WHAT: &'static str = "a member's entry";

    fn is_sound(&self) -> bool {
        self.clone().registrant().check().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn volume() -> VolumeEntry {
        let entry = Registered {
            epoch: Epoch(3),
            owner: Some(HostId(u64::MAX)),
            holders: vec![PartitionId(7), PartitionId(u64::MAX)],
            pulse: 9,
            ..Registered::new(1 << 40, 3, Duration::from_secs(10))
        };
        VolumeEntry::new(&View { revision: 12, entry }, "host17:/ssd/v")
    }

    #[test]
    fn the_bytes_of_a_volume_are_the_documented_ones() {
        let golden = r#"{"format":1,"revision":12,"epoch":3,"owner":18446744073709551615,"place":"host17:/ssd/v","is_taking":false,"pulse":9,"lease_ms":10000,"copies":3,"size":1099511627776,"holders":[7,18446744073709551615]}"#;
        assert_eq!(String::from_utf8(volume().to_bytes()).unwrap(), golden);
        let read = VolumeEntry::from_bytes(golden.as_bytes()).unwrap();
        assert_eq!((&read, read.view().revision), (&volume(), 12));
    }

    #[test]
    fn the_bytes_of_a_member_are_the_documented_ones() {
        let member = Member { partition: PartitionId(7), domain: u64::MAX, free: 1 << 30, copies: 2 };
        let (address, name) = ("10.0.0.7:7421".to_owned(), "host17".to_owned());
        let entry = MemberEntry::new(&Registrant { member, address, name, is_disk_full: true }, 9);
        let golden = r#"{"format":1,"partition":7,"domain":18446744073709551615,"free":1073741824,"copies":2,"address":"10.0.0.7:7421","name":"host17","is_disk_full":true,"pulse":9}"#;
        assert_eq!(String::from_utf8(entry.to_bytes()).unwrap(), golden);
        assert_eq!(MemberEntry::from_bytes(golden.as_bytes()), Ok(entry.clone()));
        // As an earlier version wrote it.
        let read = MemberEntry::from_bytes(golden.replace(r#""is_disk_full":true,"#, "").as_bytes());
        assert_eq!(read, Ok(MemberEntry { is_disk_full: false, ..entry }));
    }

    #[test]
    fn an_entry_that_nobody_would_write_is_refused_by_name() {
        let text = String::from_utf8(volume().to_bytes()).unwrap();
        let too_many = "\"holders\":[7".to_owned() + &",1".repeat(HOLDERS_MAX);
        for (good, bad, why) in [
            ("\"format\":1", "\"format\":2", "in format 2"),
            ("\"copies\":3", "\"copies\":0", "never written"),
            ("\"lease_ms\":10000", "\"lease_ms\":0", "never written"),
            ("\"revision\":12", "\"revision\":18446744073709551615", "never written"),
            ("\"holders\":[7", &too_many, "never written"),
            ("\"epoch\":3", "\"epoch\":-3", "never written"),
        ] {
            let bad = text.replace(good, bad);
            let refused = VolumeEntry::from_bytes(bad.as_bytes()).unwrap_err();
            assert!(refused.contains(why) && refused.contains("volume"), "{refused}");
        }
    }

    proptest! {
        /// Any bytes are refused, or are an entry that is read from its own bytes.
        #[test]
        fn any_bytes(bytes: Vec<u8>, at in 0usize..200, with: u8) {
            let mut damaged = volume().to_bytes();
            let at = at % damaged.len();
            damaged[at] = with;
            for bytes in [bytes, damaged] {
                if let Ok(entry) = VolumeEntry::from_bytes(&bytes) {
                    prop_assert_eq!(VolumeEntry::from_bytes(&entry.to_bytes()), Ok(entry));
                }
                let _ = Directory::from_bytes(&bytes);
                let _ = MemberEntry::from_bytes(&bytes);
            }
        }
    }
}
