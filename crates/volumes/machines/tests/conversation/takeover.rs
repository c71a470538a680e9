//! A takeover, with a registry that does what it is asked unless a script says otherwise.

use super::owner::say_to_holder;
use super::{content, extent, ms, number, partition, say_record, say_stamp, stamp, value};
use crate::play::Player;
use machines::messages::holder::{Listed, Refused};
use machines::{
    Acknowledged, Change, Earlier, Entry, Epoch, FromHolder, HostId, Kept, PartitionId, Registered, Rule, Sequence,
    Source, Stamp, TakeOver, TakeOverConfig, TakeOverEffect, View, VolumeId,
};
use std::fmt::Write as _;
use std::time::Duration;
use types::{Broken, Time};

pub(crate) struct TakeOverScript {
    takeover: TakeOver,
    broken: Broken<Rule>,
    now: Time,
    registry: View,
    change: Option<Change>,
    end: Stamp,
    /// Whether home takes what is written, and says what it keeps, only when the script says so.
    is_home_slow: bool,
    is_home_asked: bool,
    said: String,
}

impl TakeOverScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        let registry = View { revision: 1, entry: Registered::new(1 << 20, 2, Duration::from_secs(1)) };
        let config = TakeOverConfig { broken, ..TakeOverConfig::new(VolumeId(1), HostId(2)) };
        let takeover = TakeOver::new(Time::ZERO, config, registry.clone());
        let (end, said) = (Stamp::ZERO, String::new());
        Self {
            takeover,
            broken,
            now: Time::ZERO,
            registry,
            change: None,
            end,
            is_home_slow: false,
            is_home_asked: false,
            said,
        }
    }

    /// `take over owner=1 copies=2 holders=p7,p8 acknowledged=p7:1-3 join=0 own=1.1/f1@0+512 earlier=1 copied lets-go
    /// slow-home asked taking rebuilt written=1.0/f0`, in the words that differ from the usual. With a log the host was
    /// the owner by the attachment 1, and the process that had it is known to be dead, unless its cache was copied.
    fn begin(&mut self, words: &[&str]) -> Option<()> {
        let of = |text: &str| text.split(',').map(partition).collect::<Option<Vec<_>>>();
        let owner = value(words, "owner").map_or(Some(1), number)?;
        self.registry.entry = Registered {
            epoch: Epoch(1),
            owner: (owner > 0).then_some(HostId(owner)),
            copies: value(words, "copies").map_or(Some(2), number)? as u8,
            is_taking: words.contains(&"taking"),
            is_rebuilt: words.contains(&"rebuilt"),
            written: value(words, "written").map_or(Some(Stamp::ZERO), stamp)?,
            holders: value(words, "holders").map_or(Some(Vec::new()), of)?,
            acknowledged: value(words, "acknowledged").map_or(Some(Vec::new()), acknowledged)?,
            ..self.registry.entry.clone()
        };
        let config = TakeOverConfig {
            keeps: !words.contains(&"lets-go"),
            join_bytes: value(words, "join").map_or(Some(0), number)?,
            window: 2,
            broken: self.broken,
            ..TakeOverConfig::new(VolumeId(1), HostId(2))
        };
        self.takeover = TakeOver::new(self.now, config, self.registry.clone());
        self.is_home_slow = words.contains(&"slow-home");
        self.is_home_asked = words.contains(&"asked");
        if let Some(entries) = value(words, "own") {
            let entries = entries.split(',').map(entry).collect::<Option<Vec<_>>>()?;
            let epoch = entries.first()?.stamp.epoch;
            let hosts = vec![HostId(value(words, "earlier").map_or(Some(1), number)?)];
            let earlier = Earlier { hosts, are_dead: !words.contains(&"copied") };
            let takeover = TakeOver::new(self.now, config, self.registry.clone()).with_earlier(self.now, earlier);
            self.takeover = takeover.with_own_log(epoch, entries);
        }
        Some(())
    }

    fn said_by(&mut self, holder: PartitionId, words: &[&str]) -> Option<()> {
        let message: FromHolder = match *words {
            ["up"] => {
                self.takeover.connected(self.now, holder);
                return Some(());
            }
            ["down"] => {
                self.takeover.disconnected(self.now, holder);
                return Some(());
            }
            ["listed", ref rest @ ..] => {
                let partition = value(rest, "as").map_or(Some(holder), partition)?;
                let copies = rest.iter().filter_map(|word| entry(word)).collect();
                let home = value(rest, "home").map_or(Some(Stamp::ZERO), stamp)?;
                Listed { partition, home, copies, is_last: !rest.contains(&"more") }.into()
            }
            ["kept", which, place, ref rest @ ..] => kept(which, place, rest)?.into(),
            ["gone", which] => Kept { stamp: stamp(which)?, record: None }.into(),
            ["refused", epoch] => Refused { epoch: Epoch(number(epoch)?) }.into(),
            _ => return None,
        };
        self.takeover.heard(self.now, holder, message);
        Some(())
    }

    fn outcome(&mut self, words: &[&str]) -> Option<()> {
        let Some(change) = self.change.take() else {
            writeln!(self.said, "= nothing was asked").unwrap();
            return Some(());
        };
        let outcome = match words {
            ["made"] => {
                self.registry = View { revision: self.registry.revision + 1, entry: change.entry };
                Ok(self.registry.clone())
            }
            ["refused", ..] => {
                self.hear(words)?;
                Err(Some(self.registry.clone()))
            }
            ["back"] => {
                self.registry.revision -= 1;
                Err(Some(self.registry.clone()))
            }
            _ => Err(None),
        };
        self.takeover.changed(self.now, outcome);
        Some(())
    }

    /// The entry was changed by others.
    fn hear(&mut self, words: &[&str]) -> Option<()> {
        self.registry.revision += 1;
        self.registry.entry.heartbeat += 1;
        if let Some(epoch) = value(words, "epoch") {
            self.registry.entry.epoch = Epoch(number(epoch)?);
            self.registry.entry.owner = Some(HostId(3));
        }
        Some(())
    }

    fn say(&mut self, effect: TakeOverEffect) {
        let line = match effect {
            TakeOverEffect::AskHome if !self.is_home_asked => return self.takeover.home_keeps(self.now, 0),
            TakeOverEffect::AskHome => "ask home".to_owned(),
            TakeOverEffect::Change(change) => {
                let Registered { epoch, owner, is_taking, ref holders, ref accepted_loss, .. } = change.entry;
                let holders: Vec<_> = holders.iter().map(|it| format!("p{}", it.0)).collect();
                let without = accepted_loss.as_ref().map(|it| format!(", without {}", say_lists(&it.lists)));
                let owner = owner.map_or("nobody".to_owned(), |owner| format!("host {}", owner.0));
                let taking = if is_taking { " taking over" } else { "" };
                let (holders, without) = (holders.join(","), without.unwrap_or_default());
                let line = format!("change: epoch {}, {owner}{taking}, holders {holders}{without}", epoch.0);
                self.change = Some(change);
                line
            }
            TakeOverEffect::FenceHome(epoch) => format!("fence home: {}", epoch.0),
            TakeOverEffect::Connect(PartitionId(number)) => format!("p{number} connect"),
            TakeOverEffect::Reconnect(PartitionId(number), reason) => format!("p{number} reconnect: {}", reason.name()),
            TakeOverEffect::Disconnect(PartitionId(number)) => format!("p{number} disconnect"),
            TakeOverEffect::Send(PartitionId(number), message) => format!("p{number} {}", say_to_holder(&message)),
            TakeOverEffect::ReadOwn(stamp) => format!("own log: read {}", say_stamp(stamp)),
            TakeOverEffect::Begin(through, is_joined) => {
                format!("home: begin {}{}", say_stamp(through), if is_joined { " joined" } else { "" })
            }
            TakeOverEffect::Write(record) => {
                if !self.is_home_slow {
                    self.takeover.home_took(self.now, 1);
                }
                format!("home: write {}", say_record(&record))
            }
            TakeOverEffect::End(through) => {
                self.end = through;
                format!("home: end {}", say_stamp(through))
            }
            TakeOverEffect::Abort => "home: abort".to_owned(),
            TakeOverEffect::Missing(lists) => {
                let older: Vec<_> = lists.iter().copied().filter(|it| self.takeover.lacks_acknowledged(*it)).collect();
                let why = if older.is_empty() { String::new() } else { format!(", older {}", say_lists(&older)) };
                format!("missing {}{why}", say_lists(&lists))
            }
            TakeOverEffect::HomeWentBack(back) => format!("home went back: {back}"),
            TakeOverEffect::Done(view) => format!("done: epoch {}", view.entry.epoch.0),
            TakeOverEffect::Lost(Epoch(epoch)) => format!("lost to epoch {epoch}"),
            TakeOverEffect::RegistryBack => "the registry has gone back".to_owned(),
        };
        writeln!(self.said, "{line}").unwrap();
    }
}

fn say_lists(lists: &[PartitionId]) -> String {
    let lists: Vec<_> = lists.iter().map(|it| format!("p{}", it.0)).collect();
    if lists.is_empty() { "the owner's own".to_owned() } else { lists.join(",") }
}

/// `p7:1-3`, of the first epoch
fn acknowledged(text: &str) -> Option<Vec<Acknowledged>> {
    let of_holder = |text: &str| {
        let (holder, range) = text.split_once(':')?;
        let (from, through) = range.split_once('-')?;
        let (from, through) = (Sequence(number(from)?), Sequence(number(through)?));
        Some(Acknowledged { partition: partition(holder)?, epoch: Epoch(1), from, through })
    };
    text.split(',').map(of_holder).collect()
}

/// `1.3/f1@0+4096`
fn entry(text: &str) -> Option<Entry> {
    let (place, where_to) = text.split_once('@')?;
    Some(Entry { stamp: stamp(place)?, extent: extent(where_to)? })
}

fn kept(which: &str, place: &str, rest: &[&str]) -> Option<Kept> {
    let extent = extent(place)?;
    Some(Kept { stamp: stamp(which)?, record: Some((extent, content(rest, extent))) })
}

impl Player for TakeOverScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        match words[..] {
            ["take", "over", ref words @ ..] => self.begin(words)?,
            ["at", time] => {
                self.now = ms(time)?;
                let mut turns = 0;
                while self.takeover.poll_timeout().is_some_and(|due| due <= self.now) && turns < 3 {
                    self.takeover.handle_timeout(self.now);
                    turns += 1;
                }
            }
            ["made" | "unknown" | "back"] | ["refused", ..] => self.outcome(&words)?,
            ["home", "keeps", revision] => self.takeover.home_keeps(self.now, number(revision)?),
            ["registry", ref words @ ..] => {
                self.hear(words)?;
                self.takeover.hear_registry(self.now, self.registry.clone());
            }
            ["home", "fenced", mark] => self.takeover.home_fenced(self.now, stamp(mark)?),
            ["home", "durable"] => self.takeover.home_durable(self.now, self.end),
            ["home", "took", writes] => self.takeover.home_took(self.now, number(writes)? as usize),
            ["home", "failed"] => self.takeover.home_failed(self.now),
            ["home", "ended", epoch] => self.takeover.home_ended(Epoch(number(epoch)?)),
            ["own", "kept", which, place, ref rest @ ..] => {
                self.takeover.kept(self.now, Source::Own, kept(which, place, rest)?);
            }
            ["own", "gone", which] => {
                self.takeover.kept(self.now, Source::Own, Kept { stamp: stamp(which)?, record: None });
            }
            ["accept", "loss"] => self.takeover.accept_loss(self.now),
            [holder, ref words @ ..] => self.said_by(partition(holder)?, words)?,
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(effect) = self.takeover.poll_effect() {
            self.say(effect);
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
