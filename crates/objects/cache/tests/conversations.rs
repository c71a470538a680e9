//! Plays the conversations of `testdata/conversations/cache-*.txt` with a cache and compares what its pages show, line
//! by line.
//!
//! ```text
//! > page P v6 r=oak x=ash                  page P arrives, at version 6, with objects in slots r and x
//! P v6: r=oak@6 x=ash@6                    what P shows after it: each slot with its evidence, ? for a hole
//! > told P 7->8 x=elm, Q 9->10 y           the stream tells of changes, with the new value or without it
//! > keeps P 7->8 x=elm                     the same while the page is under way
//! > proof P x r                            what a commit request says of these slots, the horizon being zero
//! > help P                                 a peer asks for the page
//! ```
//! A page is a letter, and so is a slot.

#[path = "../../../../testdata/conversations/play.rs"]
mod play;

use cache::{Cache, Frame, Installed, Slot};
use messages::Invalidation;
use play::Player;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use types::{Broken, ClientId, ObjectPage, PageId, SlotChange, SlotNo, SlotSet, TxnId, Version};

struct Conversation {
    cache: Cache,
    kept: BTreeMap<PageId, Vec<Invalidation>>,
    said: String,
}

impl Player for Conversation {
    fn event(&mut self, event: &str) -> Option<()> {
        let (verb, rest) = event.split_once(' ')?;
        match verb {
            "page" => self.arrives(rest),
            "told" => rest.split(", ").try_for_each(|change| {
                let invalidation = invalidation(change)?;
                self.cache.apply(&invalidation);
                self.show(invalidation.page)
            }),
            "keeps" => {
                let invalidation = invalidation(rest)?;
                self.kept.entry(invalidation.page).or_default().push(invalidation);
                Some(())
            }
            "proof" => self.prove(rest),
            "help" => {
                let whole = self.cache.get(page(rest)?)?.whole(Broken::NONE);
                let said = whole.map_or("no help".into(), |(version, _)| format!("the page as of {version}"));
                writeln!(self.said, "= {said}").ok()
            }
            _ => None,
        }
    }

    /// A page shows at once what it has come to.
    fn drain(&mut self) {}

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

impl Conversation {
    fn new() -> Self {
        Self { cache: Cache::new(1 << 20, Broken::NONE), kept: BTreeMap::new(), said: String::new() }
    }

    fn arrives(&mut self, rest: &str) -> Option<()> {
        let words: Vec<_> = rest.split_whitespace().collect();
        let [of, at, values @ ..] = &words[..] else { return None };
        let (page, version) = (page(of)?, Version(at.strip_prefix('v')?.parse().ok()?));
        let values = values.iter().map(|word| change(word)).collect::<Option<Vec<_>>>()?;
        let image = ObjectPage::empty().with(&values).ok()?;
        let kept = self.kept.remove(&page).unwrap_or_default();
        if let (_, Installed::Refused) = self.cache.install(page, version, image, &kept) {
            writeln!(self.said, "= refused").ok()?;
        }
        self.show(page)
    }

    fn prove(&mut self, rest: &str) -> Option<()> {
        let (of, slots) = rest.split_once(' ')?;
        let slots = slots.split(' ').map(slot).collect::<Option<SlotSet>>()?;
        let frame = self.cache.get(page(of)?)?;
        let exceptions = frame.exceptions(frame.version()).filter(|(slot, _)| slots.contains(*slot));
        write!(self.said, "= current through {}", frame.version()).ok()?;
        for (slot, version) in exceptions {
            write!(self.said, ", {} through {version}", letter(slot)).ok()?;
        }
        writeln!(self.said).ok()
    }

    fn show(&mut self, page: PageId) -> Option<()> {
        let frame = self.cache.get(page)?;
        let shown: String = (0..26).filter_map(|slot| show_slot(frame, slot)).collect();
        let sequence = if frame.is_in_sequence() { "" } else { ", out of sequence" };
        let name = char::from(page.number as u8);
        writeln!(self.said, "{name} {}:{shown}{sequence}", frame.version()).ok()
    }
}

fn show_slot(frame: &Frame, slot: SlotNo) -> Option<String> {
    let value = match frame.slot(slot) {
        Slot::Free => return None,
        Slot::Hole => "?",
        Slot::Value(value) => std::str::from_utf8(value).ok()?,
    };
    Some(format!(" {}={value}@{}", letter(slot), frame.evidence(slot).0))
}

/// `P 7->8 x=elm s`
fn invalidation(words: &str) -> Option<Invalidation> {
    let words: Vec<_> = words.split_whitespace().collect();
    let [of, moved, changes @ ..] = &words[..] else { return None };
    let (prev, version) = moved.split_once("->")?;
    let (prev, version) = (Version(prev.parse().ok()?), Version(version.parse().ok()?));
    let slots = changes.iter().map(|word| slot(word.split('=').next()?)).collect::<Option<SlotSet>>()?;
    let data: Vec<_> = changes.iter().filter_map(|word| change(word)).collect();
    let txn = TxnId { client: ClientId(1), number: version.0 };
    Some(Invalidation { page: page(of)?, prev, version, slots, txn, data: (!data.is_empty()).then_some(data) })
}

/// `x=elm`
fn change(word: &str) -> Option<SlotChange> {
    let (of, value) = word.split_once('=')?;
    Some(SlotChange { slot: slot(of)?, value: Some(value.to_owned().into()) })
}

fn page(word: &str) -> Option<PageId> {
    Some(PageId::new(1, u32::from(word.chars().next()?)))
}

fn slot(word: &str) -> Option<SlotNo> {
    let letter = word.bytes().next().filter(u8::is_ascii_lowercase)?;
    Some(SlotNo::from(letter - b'a'))
}

fn letter(slot: SlotNo) -> char {
    char::from(b'a' + slot as u8)
}

#[test]
fn conversations_go_as_written() {
    play::play_all("cache-", Conversation::new);
}
