//! A frame against the history of its page: after any invalidations, in any order and however often, each slot of the
//! frame is a hole or as recent as it claims.
//!
//! A value is the version that wrote it, so a frame can be checked by looking.

use bytes::Bytes;
use cache::{Frame, Slot};
use messages::Invalidation;
use proptest::prelude::*;
use types::{Broken, ClientId, ObjectPage, PageId, SlotChange, SlotNo, SlotSet, TxnId, Version};

const SLOTS: SlotNo = 5;

/// The history of the page: the slots that each of its changes wrote, from its creation at version zero. Changes of
/// other pages lie between them, so versions have gaps.
#[derive(Clone, Debug)]
struct History(Vec<(u64, SlotSet)>);

#[derive(Clone, Debug)]
enum Event {
    /// The change of this index is told, with or without data.
    Told(usize, bool),
    /// The page as of this index arrives, and while it was under way these changes were told.
    Arrives(usize, Vec<(usize, bool)>),
}

impl History {
    /// The version of `slot` as of `version`: what its value must be at least.
    fn newest(&self, slot: SlotNo, version: u64) -> u64 {
        let changes = self.0.iter().filter(|(v, slots)| *v <= version && slots.contains(slot));
        changes.map(|(v, _)| *v).max().unwrap_or(0)
    }

    fn version(&self, index: usize) -> u64 {
        self.0[index % self.0.len()].0
    }

    fn page(&self, version: u64) -> ObjectPage {
        let value = |slot| Some(self.newest(slot, version)).filter(|v| *v > 0).map(|v| v.to_string().into());
        let changes: Vec<_> = (0..SLOTS).map(|slot| SlotChange { slot, value: value(slot) }).collect();
        ObjectPage::empty().with(&changes).unwrap()
    }

    fn invalidation(&self, index: usize, data: bool) -> Invalidation {
        let index = index % self.0.len();
        let (version, slots) = self.0[index].clone();
        let prev = index.checked_sub(1).map_or(0, |before| self.0[before].0);
        let value: Bytes = version.to_string().into();
        let data = data.then(|| slots.iter().map(|slot| SlotChange { slot, value: Some(value.clone()) }).collect());
        let txn = TxnId { client: ClientId(1), number: version };
        Invalidation { page: PageId::new(1, 1), prev: Version(prev), version: Version(version), slots, txn, data }
    }
}

fn shown(frame: &Frame, slot: SlotNo) -> Option<u64> {
    match frame.slot(slot) {
        Slot::Hole => None,
        Slot::Free => Some(0),
        Slot::Value(value) => Some(std::str::from_utf8(value).unwrap().parse().unwrap()),
    }
}

fn history() -> impl Strategy<Value = History> {
    let slots = proptest::collection::vec(0..SLOTS, 1..4).prop_map(SlotSet::from_iter);
    proptest::collection::vec((1..3u64, slots), 1..12).prop_map(|changes| {
        let versions = changes.iter().scan(0, |version, (step, _)| {
            *version += step;
            Some(*version)
        });
        History(versions.zip(changes.iter().map(|(_, slots)| slots.clone())).collect())
    })
}

fn event() -> impl Strategy<Value = Event> {
    let told = || (0..12usize, any::<bool>());
    prop_oneof![
        4 => told().prop_map(|(index, data)| Event::Told(index, data)),
        1 => (0..12usize, proptest::collection::vec(told(), 0..3)).prop_map(|(index, kept)| Event::Arrives(index, kept)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_frame_is_never_staler_than_it_claims(
        history in history(), start in 0..12usize, events in proptest::collection::vec(event(), 0..30),
    ) {
        let start = history.version(start);
        let mut frame = Frame::new(Version(start), history.page(start));
        let mut seen = [0; SLOTS as usize];
        let tail = (0..history.0.len()).map(|index| Event::Told(index, false));
        for event in events.into_iter().chain(tail) {
            match event {
                Event::Told(index, data) => frame.apply(&history.invalidation(index, data), Broken::NONE),
                Event::Arrives(index, kept) => {
                    let version = history.version(index);
                    let kept: Vec<_> = kept.into_iter().map(|(index, data)| history.invalidation(index, data)).collect();
                    let page = history.page(version);
                    if let Some(newer) = Frame::install(Version(version), page, Some(&frame), &kept, Broken::NONE) {
                        frame = newer;
                    }
                }
            }
            for slot in 0..SLOTS {
                let Some(value) = shown(&frame, slot) else { continue };
                prop_assert!(value >= history.newest(slot, frame.version().0), "VP: slot {} of {:?}", slot, frame);
                prop_assert!(value >= history.newest(slot, frame.evidence(slot).0), "evidence: slot {} of {:?}", slot, frame);
                prop_assert!(value >= seen[usize::from(slot)], "slot {} went back in {:?}", slot, frame);
                seen[usize::from(slot)] = value;
            }
        }
        // Everything has been told by now, so the sequence is whole.
        prop_assert_eq!(frame.version().0, history.0.last().unwrap().0);
        prop_assert!(frame.is_in_sequence(), "{:?}", frame);
        for slot in 0..SLOTS {
            let value = shown(&frame, slot);
            prop_assert!(value.is_none_or(|value| value == history.newest(slot, u64::MAX)));
        }
    }
}

#[test]
fn one_late_change_holds_up_any_number() {
    let slots = |slot: u64| SlotSet::from_iter([(slot % u64::from(SLOTS)) as SlotNo]);
    let history = History((1..=2000).map(|version| (version, slots(version))).collect());
    let mut frame = Frame::new(Version(1), history.page(1));
    for index in (2..2000).chain(2..2000) {
        frame.apply(&history.invalidation(index, index % 3 == 0), Broken::NONE);
    }
    assert_eq!((frame.version(), frame.is_in_sequence()), (Version(1), false));
    frame.apply(&history.invalidation(1, false), Broken::NONE);
    assert_eq!((frame.version(), frame.is_in_sequence()), (Version(2000), true));
}
