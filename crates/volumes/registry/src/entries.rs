//! The registry's objects in a store, and their bytes: JSON, so that a later version can add to it.
//!
//! ```text
//!   space thorp.volumes   its first object: the volumes, by name --> an object for each volume
//!   space thorp.members   its first object: the members          --> an object for each member
//! ```
//! A volume's object changes with each heartbeat of its owner, a member's with each of its own; what says where they
//! are changes only when one comes or goes. All of it comes from outside: any client of the store can write there.
//!
//! Some fields are for people alone, and entries of earlier versions have none of them: when somebody gave a heartbeat,
//! by the clock there; the names of a volume's holders, which outlast the members' own entries; whether a member's disk
//! is full; which takeover continued without lists, when, and whose these were. The name of a member's failure domain
//! is for people, too. A member that has left stays as long as a volume counts on it: an older state of its directory
//! is known by its life.

use super::{
    ADDRESS_BYTES_MAX, Enlisted, GoneWithout, HolderName, Life, Lived, MEMBERS_MAX, NAME_BYTES_MAX, Registrant,
    VOLUMES_MAX, Volume, is_domain, is_text,
};
use bytes::Bytes;
use machines::{
    AcceptedLoss, Acknowledged, Epoch, FlushEpoch, HostId, Member, PartitionId, Registered, Sequence, Stamp, View,
    VolumeId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::limits::VOLUME_COPIES_MAX;
use types::{NodeId, ObjectId, PageId};

const FORMAT: u32 = 1;

/// The holders that one volume may have at a time: those that it wants, and those that are lost and may have what no
/// other one has yet.
const HOLDERS_MAX: usize = 256;

/// The holders of a volume whose names are kept.
const NAMES_MAX: usize = 8;

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
    /// The node of the store that keeps a volume's home. A store of one node has none but this.
    #[serde(default, skip_serializing_if = "is_first")]
    node: u16,
}

impl Listed {
    pub(super) fn new(id: u64, name: &str, object: ObjectId) -> Self {
        Self { id, name: name.to_owned(), page: object.page.to_bits(), slot: object.slot, node: 0 }
    }

    /// A volume whose home this node keeps.
    pub(super) fn at(self, home: NodeId) -> Self {
        Self { node: home.0, ..self }
    }

    pub(super) fn home(&self) -> NodeId {
        NodeId(self.node)
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
    heartbeat: u64,
    lease_ms: u64,
    copies: u8,
    size: u64,
    holders: Vec<u64>,
    /// The writes that holders have acknowledged. Entries of earlier versions and of detached volumes lack them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    acknowledged: Vec<Counted>,
    /// Whether the entry was lost and made again. Entries of before do not say it.
    #[serde(default, skip_serializing_if = "is_false")]
    is_rebuilt: bool,
    /// The epoch, the sequence and the flush epoch of the last write that may be home, if that is not the epoch's
    /// begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    written: Option<[u64; 3]>,
    /// The owner's last heartbeat, by its clock: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said_at_ms: Option<u64>,
    /// The holders, as they were known last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<Named>,
    /// The last takeover that continued without lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_loss: Option<Accepted>,
}

/// The writes `from..=through` of an epoch, which a holder has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    partition: u64,
    epoch: u64,
    from: u64,
    through: u64,
}

impl Counted {
    fn new(acknowledged: &Acknowledged) -> Self {
        let Acknowledged { partition, epoch, from, through } = *acknowledged;
        Self { partition: partition.0, epoch: epoch.0, from: from.0, through: through.0 }
    }

    fn acknowledged(&self) -> Acknowledged {
        let Self { partition, epoch, from, through } = *self;
        let (partition, epoch) = (PartitionId(partition), Epoch(epoch));
        Acknowledged { partition, epoch, from: Sequence(from), through: Sequence(through) }
    }
}

/// A takeover that continued without lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    epoch: u64,
    /// When, by the clock there: milliseconds since 1970.
    at_ms: Option<u64>,
    /// The holders whose lists they were.
    lists: Vec<u64>,
    /// Those of them that have names.
    names: Vec<Named>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
fn is_false(it: &bool) -> bool {
    !it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it so")]
fn is_first(node: &u16) -> bool {
    *node == 0
}

/// A volume's entry with its name, as its home keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct KeptEntry {
    format: u32,
    name: String,
    entry: VolumeEntry,
}

impl Entry for KeptEntry {
    const WHAT: &'static str = "the entry that home has kept";

    fn is_sound(&self) -> bool {
        is_text(&self.name, NAME_BYTES_MAX) && self.entry.is_sound()
    }
}

impl Volume {
    /// The text that its home keeps. It omits the acknowledged writes, which change with each heartbeat.
    pub fn to_kept(&self) -> Bytes {
        let now = self.said_at.unwrap_or(UNIX_EPOCH);
        let entry = VolumeEntry::new(&self.view, &self.place, now).with_names(&self.holders);
        let entry = VolumeEntry { acknowledged: Vec::new(), ..entry };
        KeptEntry { format: FORMAT, name: self.name.clone(), entry }.to_bytes().into()
    }

    /// The volume that its home has kept this text of.
    pub fn of_kept(id: VolumeId, text: &[u8]) -> Option<Self> {
        let KeptEntry { name, entry, .. } = KeptEntry::from_bytes(text).ok()?;
        let (view, holders, said_at, gone_without) =
            (entry.view(), entry.holders(), entry.said_at(), entry.gone_without());
        Some(Self { id, name, view, place: entry.place, holders, said_at, gone_without })
    }
}

/// A holder's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Named {
    partition: u64,
    name: String,
    address: String,
    /// Its failure domain. Entries of earlier versions lack it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    domain: String,
}

fn to_ms(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn from_ms(ms: Option<u64>) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms?))
}

impl VolumeEntry {
    pub(super) fn new(view: &View, place: &str, now: SystemTime) -> Self {
        let View { revision, entry } = view;
        let Registered { epoch, owner, is_taking, heartbeat, lease, copies, size, holders, .. } = entry;
        let Registered { acknowledged, is_rebuilt, written, accepted_loss, .. } = entry;
        let accepted = |it: &AcceptedLoss| Accepted {
            epoch: it.epoch.0,
            at_ms: to_ms(now),
            lists: it.lists.iter().map(|partition| partition.0).collect(),
            names: Vec::new(),
        };
        Self {
            format: FORMAT,
            revision: *revision,
            epoch: epoch.0,
            owner: owner.map(|host| host.0),
            place: if owner.is_some() { place.to_owned() } else { String::new() },
            is_taking: *is_taking,
            heartbeat: *heartbeat,
            lease_ms: lease.as_millis() as u64,
            copies: *copies,
            size: *size,
            holders: holders.iter().map(|partition| partition.0).collect(),
            acknowledged: acknowledged.iter().map(Counted::new).collect(),
            is_rebuilt: *is_rebuilt,
            written: (*written != Stamp::begin(*epoch)).then_some([
                written.epoch.0,
                written.sequence.0,
                written.flush.0,
            ]),
            said_at_ms: owner.and_then(|_| to_ms(now)),
            names: Vec::new(),
            accepted_loss: accepted_loss.as_ref().map(accepted),
        }
    }

    /// With what stands already, of a takeover that continued without lists; or with the names that those had.
    pub(super) fn behind(mut self, before: &Self) -> Self {
        if let Some(accepted) = &mut self.accepted_loss {
            match before.accepted_loss.as_ref().filter(|it| it.epoch == accepted.epoch) {
                Some(known) => accepted.clone_from(known),
                None => accepted.names.clone_from(&before.names),
            }
            accepted.names.retain(|it| accepted.lists.contains(&it.partition));
        }
        self
    }

    /// With the names of its holders: as these members have them, or else as they stood before.
    pub(super) fn with_holders(mut self, members: &[MemberEntry], before: &Self) -> Self {
        let name = |&partition: &u64| {
            let member = members.iter().find(|it| it.partition == partition);
            let named = |it: &MemberEntry| {
                let MemberEntry { name, address, domain_name: domain, .. } = it.clone();
                Named { partition, name, address, domain }
            };
            member.map(named).or_else(|| before.names.iter().find(|it| it.partition == partition).cloned())
        };
        self.names = self.holders.iter().filter_map(name).take(NAMES_MAX).collect();
        self
    }

    /// With these names of its holders.
    pub(super) fn with_names(mut self, names: &[HolderName]) -> Self {
        let named = |it: &HolderName| {
            let HolderName { partition, name, address, domain } = it.clone();
            Named { partition: partition.0, name, address, domain }
        };
        self.names = names.iter().take(NAMES_MAX).map(named).collect();
        self
    }

    /// The holders that have names.
    pub(super) fn holders(&self) -> Vec<HolderName> {
        let named = |it: &Named| {
            let Named { partition, name, address, domain } = it.clone();
            HolderName { partition: PartitionId(partition), name, address, domain }
        };
        self.names.iter().map(named).collect()
    }

    /// The last takeover that continued without lists.
    pub(super) fn gone_without(&self) -> Option<GoneWithout> {
        let Accepted { epoch, at_ms, lists, names } = self.accepted_loss.as_ref()?;
        let name = |it: &u64| names.iter().find(|named| named.partition == *it).map(|named| named.name.clone());
        let lists = lists.iter().map(|it| name(it).unwrap_or_else(|| format!("{it:016x}"))).collect();
        Some(GoneWithout { epoch: Epoch(*epoch), at: from_ms(*at_ms), lists })
    }

    /// When its owner gave its last heartbeat, by the clock there.
    pub(super) fn said_at(&self) -> Option<SystemTime> {
        from_ms(self.said_at_ms)
    }

    pub(super) fn view(&self) -> View {
        let entry = Registered {
            epoch: Epoch(self.epoch),
            owner: self.owner.map(HostId),
            is_taking: self.is_taking,
            heartbeat: self.heartbeat,
            lease: Duration::from_millis(self.lease_ms),
            copies: self.copies,
            size: self.size,
            holders: self.holders.iter().copied().map(PartitionId).collect(),
            acknowledged: self.acknowledged.iter().map(Counted::acknowledged).collect(),
            is_rebuilt: self.is_rebuilt,
            written: self.written.map_or(Stamp::begin(Epoch(self.epoch)), |[epoch, sequence, flush]| Stamp {
                epoch: Epoch(epoch),
                sequence: Sequence(sequence),
                flush: FlushEpoch(flush),
            }),
            accepted_loss: self.accepted_loss.as_ref().map(|it| AcceptedLoss {
                epoch: Epoch(it.epoch),
                lists: it.lists.iter().copied().map(PartitionId).collect(),
            }),
        };
        View { revision: self.revision, entry }
    }
}

impl Entry for VolumeEntry {
    const WHAT: &'static str = "a volume's entry";

    fn is_sound(&self) -> bool {
        let is_of_time = (1..=3_600_000).contains(&self.lease_ms);
        // Numbers that only grow, one by one, are far from their end.
        let grows = [self.revision, self.epoch, self.heartbeat].iter().all(|&number| number < u64::MAX / 2);
        let is_copied = (1..=VOLUME_COPIES_MAX).contains(&self.copies) && self.holders.len() <= HOLDERS_MAX;
        let is_name = |it: &Named| {
            is_text(&it.name, NAME_BYTES_MAX) && is_text(&it.address, ADDRESS_BYTES_MAX) && is_domain(&it.domain)
        };
        let are_names = |names: &[Named]| names.len() <= NAMES_MAX && names.iter().all(is_name);
        let is_named = are_names(&self.names) && self.accepted_loss.iter().all(|it| are_names(&it.names));
        let is_bounded =
            self.accepted_loss.iter().all(|it| it.lists.len() <= HOLDERS_MAX) && self.acknowledged.len() <= HOLDERS_MAX;
        is_of_time && grows && is_copied && is_named && is_bounded && self.place.len() <= PLACE_BYTES_MAX
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
    /// The name of its failure domain, whose number is `domain`. Entries of earlier versions lack it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    domain_name: String,
    /// Whether its disk has no room for what it was told to take. Entries of before do not say it.
    #[serde(default)]
    is_disk_full: bool,
    /// Whether owners should go to others. Entries of before do not say it.
    #[serde(default)]
    is_nearly_full: bool,
    /// The life that it is in. Entries of before do not say it: any life comes after that.
    #[serde(default)]
    incarnation: u32,
    #[serde(default)]
    life: u64,
    /// It has left, and a volume counts on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_gone: bool,
    /// Counts its words, from a number that is drawn when it joins.
    pub(super) heartbeat: u64,
    /// When it gave the last one, by its clock: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said_at_ms: Option<u64>,
}

impl MemberEntry {
    pub(super) fn new(registrant: &Registrant, heartbeat: u64, now: SystemTime) -> Self {
        let Registrant { member, life, address, name, domain: domain_name, is_disk_full } = registrant.clone();
        let Member { partition, domain, free, copies, is_nearly_full } = member;
        Self {
            format: FORMAT,
            partition: partition.0,
            domain,
            free,
            copies,
            address,
            name,
            domain_name,
            is_disk_full,
            is_nearly_full,
            incarnation: life.incarnation,
            life: life.number,
            is_gone: false,
            heartbeat,
            said_at_ms: to_ms(now),
        }
    }

    pub(super) fn enlisted(self) -> Enlisted {
        let (heartbeat, said_at) = (self.heartbeat, from_ms(self.said_at_ms));
        Enlisted { registrant: self.registrant(), heartbeat, said_at }
    }

    pub(super) fn partition(&self) -> PartitionId {
        PartitionId(self.partition)
    }

    pub(super) fn registrant(self) -> Registrant {
        let life = self.lived().life;
        let Self { partition, domain, free, copies, is_nearly_full, .. } = self;
        let Self { address, name, domain_name, is_disk_full, .. } = self;
        let member = Member { partition: PartitionId(partition), domain, free, copies, is_nearly_full };
        Registrant { member, life, address, name, domain: domain_name, is_disk_full }
    }

    pub(super) fn lived(&self) -> Lived {
        let life = Life { incarnation: self.incarnation, number: self.life };
        Lived { life, heartbeat: self.heartbeat, is_gone: self.is_gone }
    }

    /// It goes from one life into another, or stays in it; `None` if it is in a later one already.
    pub(super) fn live(self, from: Life, to: Life) -> Option<Self> {
        let heartbeat = self.heartbeat.wrapping_add(1);
        let Life { incarnation, number: life } = to;
        self.lived().life.is_within(from).then_some(Self { incarnation, life, is_gone: false, heartbeat, ..self })
    }

    pub(super) fn gone(self) -> Self {
        Self { is_gone: true, ..self }
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

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_900_000_000_123)
    }

    fn member(name: &str) -> MemberEntry {
        let (partition, is_nearly_full) = (PartitionId(7), true);
        let member = Member { partition, domain: u64::MAX, free: 1 << 30, copies: 2, is_nearly_full };
        let (address, name) = ("10.0.0.7:7421".to_owned(), name.to_owned());
        let life = Life { incarnation: 3, number: 11 };
        let domain = "rack 2".to_owned();
        MemberEntry::new(&Registrant { member, life, address, name, domain, is_disk_full: true }, 9, at())
    }

    fn nameless() -> VolumeEntry {
        let entry = Registered {
            epoch: Epoch(3),
            owner: Some(HostId(u64::MAX)),
            holders: vec![PartitionId(7), PartitionId(u64::MAX)],
            acknowledged: vec![Acknowledged {
                partition: PartitionId(7),
                epoch: Epoch(3),
                from: Sequence(1),
                through: Sequence(40),
            }],
            heartbeat: 9,
            written: Stamp::begin(Epoch(3)),
            accepted_loss: Some(AcceptedLoss { epoch: Epoch(2), lists: vec![PartitionId(7), PartitionId(1)] }),
            ..Registered::new(1 << 40, 3, Duration::from_secs(10))
        };
        VolumeEntry::new(&View { revision: 12, entry }, "host17:/ssd/v", at())
    }

    fn volume() -> VolumeEntry {
        nameless().with_holders(&[member("host18")], &nameless())
    }

    #[test]
    fn the_bytes_of_a_volume_are_the_documented_ones() {
        let before = r#"{"format":1,"revision":12,"epoch":3,"owner":18446744073709551615,"place":"host17:/ssd/v","is_taking":false,"heartbeat":9,"lease_ms":10000,"copies":3,"size":1099511627776,"holders":[7,18446744073709551615]"#;
        let counted = r#","acknowledged":[{"partition":7,"epoch":3,"from":1,"through":40}]"#;
        let names = r#","said_at_ms":1900000000123,"names":[{"partition":7,"name":"host18","address":"10.0.0.7:7421","domain":"rack 2"}]}"#;
        let accepted = r#","accepted_loss":{"epoch":2,"at_ms":1900000000123,"lists":[7,1],"names":[]}}"#;
        let names = names.strip_suffix('}').unwrap();
        assert_eq!(String::from_utf8(volume().to_bytes()).unwrap(), format!("{before}{counted}{names}{accepted}"));
        let read = VolumeEntry::from_bytes(&volume().to_bytes()).unwrap();
        assert_eq!((&read, read.view().revision, read.said_at()), (&volume(), 12, Some(at())));
        // As an earlier version wrote it.
        let read = VolumeEntry::from_bytes(format!("{before}}}").as_bytes()).unwrap();
        let entry = Registered { accepted_loss: None, acknowledged: vec![], ..volume().view().entry };
        let view = View { entry, ..volume().view() };
        assert_eq!((read.view(), read.said_at(), read.holders(), read.gone_without()), (view, None, vec![], None));
    }

    #[test]
    fn home_keeps_an_entry_with_its_name() {
        let (id, names) = (VolumeId(7), volume().holders());
        let entry = volume();
        let kept = Volume {
            id,
            name: "v".into(),
            view: entry.view(),
            place: entry.place.clone(),
            holders: names,
            said_at: entry.said_at(),
            gone_without: entry.gone_without(),
        };
        let text = kept.to_kept();
        assert!(text.starts_with(br#"{"format":1,"name":"v","entry":{"format":1,"revision":12,"#), "{text:?}");
        let view = View { entry: Registered { acknowledged: vec![], ..kept.view.entry.clone() }, ..kept.view };
        assert_eq!(Volume::of_kept(id, &text), Some(Volume { view, ..kept }));
        assert_eq!(Volume::of_kept(id, &text[1..]), None);
        assert_eq!(Volume::of_kept(id, b""), None);
    }

    #[test]
    fn the_bytes_of_a_member_are_the_documented_ones() {
        let entry = member("host17");
        let before = r#"{"format":1,"partition":7,"domain":18446744073709551615,"free":1073741824,"copies":2,"address":"10.0.0.7:7421","name":"host17""#;
        let golden = before.to_owned()
            + r#","domain_name":"rack 2","is_disk_full":true,"is_nearly_full":true,"incarnation":3,"life":11,"heartbeat":9,"said_at_ms":1900000000123}"#;
        assert_eq!(String::from_utf8(entry.to_bytes()).unwrap(), golden);
        assert_eq!(MemberEntry::from_bytes(golden.as_bytes()), Ok(entry.clone()));
        // As an earlier version wrote it.
        let read = MemberEntry::from_bytes((before.to_owned() + r#","heartbeat":9}"#).as_bytes());
        let (is_disk_full, is_nearly_full) = (false, false);
        let entry = MemberEntry { is_disk_full, is_nearly_full, incarnation: 0, life: 0, said_at_ms: None, ..entry };
        let entry = MemberEntry { domain_name: String::new(), ..entry };
        assert_eq!(read, Ok(entry));
    }

    #[test]
    fn the_name_of_a_holder_outlasts_its_membership() {
        let of = |entry: &VolumeEntry| entry.holders().into_iter().map(|it| it.name).collect::<Vec<_>>();
        let named = volume();
        let later = nameless().with_holders(&[], &named);
        assert_eq!((of(&named), of(&later)), (vec!["host18".to_owned()], vec!["host18".to_owned()]));
        assert_eq!(of(&nameless().with_holders(&[member("host19")], &later)), ["host19"], "it has another one now");
        // It is no holder any more.
        let others = VolumeEntry { holders: vec![8], ..nameless() };
        assert_eq!(of(&others.with_holders(&[member("host19")], &later)), Vec::<String>::new());
    }

    #[test]
    fn lists_that_were_gone_without_keep_their_names_and_their_time() {
        let before = VolumeEntry { accepted_loss: None, ..volume() };
        let later = at() + Duration::from_secs(60);
        let changed = |before: &VolumeEntry, now| {
            let view = View { entry: Registered { holders: vec![], ..nameless().view().entry }, ..nameless().view() };
            VolumeEntry::new(&view, "", now).behind(before).with_holders(&[], before)
        };
        let (made, again) = (changed(&before, at()), changed(&changed(&before, at()), later));
        let lists = vec!["host18".to_owned(), "0000000000000001".to_owned()];
        let expected = GoneWithout { epoch: Epoch(2), at: Some(at()), lists };
        assert_eq!((made.gone_without(), again.gone_without()), (Some(expected.clone()), Some(expected)));
    }

    #[test]
    fn an_entry_that_nobody_would_write_is_refused_by_name() {
        let text = String::from_utf8(volume().to_bytes()).unwrap();
        let too_many = "\"holders\":[7".to_owned() + &",1".repeat(HOLDERS_MAX);
        let names = "\"names\":[".to_owned() + &r#"{"partition":7,"name":"a","address":"b"},"#.repeat(NAMES_MAX);
        let counted = r#"{"partition":7,"epoch":3,"from":1,"through":40},"#.repeat(HOLDERS_MAX);
        let counted = format!("\"acknowledged\":[{counted}");
        for (good, bad, why) in [
            ("\"format\":1", "\"format\":2", "in format 2"),
            ("\"copies\":3", "\"copies\":0", "never written"),
            ("\"lease_ms\":10000", "\"lease_ms\":0", "never written"),
            ("\"revision\":12", "\"revision\":18446744073709551615", "never written"),
            ("\"holders\":[7", &too_many, "never written"),
            ("\"epoch\":3", "\"epoch\":-3", "never written"),
            ("\"names\":[{", &(names + "{"), "never written"),
            ("\"acknowledged\":[", &counted, "never written"),
            ("\"lists\":[7", &too_many.replace("holders", "lists"), "never written"),
            ("host18", "a\\nb", "never written"),
            ("rack 2", "a\\nb", "never written"),
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
