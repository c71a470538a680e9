//! A holder with room for eight copies of a block and two at a time for a session; its links have names of one letter.

use super::{content, extent, number, say_extent, say_record, say_stamp, stamp, value};
use crate::play::Player;
use machine::Goodbye;
use machines::messages::holder::{
    Copy, Counted, Fetch, Forget, Free, HeldVolume, List, ListVolumes, Listed, Open, Opened, Refused, Volumes,
};
use machines::{
    Epoch, FromHolder, Holder, HolderConfig, HolderEffect, HolderEntry, Kept, PartitionId, Record, Registered, Rule,
    Stamp, Stream, ToHolder, View, VolumeId,
};
use std::fmt::Write as _;
use std::time::Duration;
use types::{Broken, GoodbyeReason, SessionId};

const VOLUME: VolumeId = VolumeId(1);

pub(crate) struct HolderScript {
    config: HolderConfig,
    holder: Holder,
    log: Vec<HolderEntry>,
    stable: usize,
    /// Entries of the lives before this one.
    before: usize,
    said: String,
}

impl HolderScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        let bytes = 4096 + 512;
        let config = HolderConfig {
            window: 2 * bytes,
            copies_per_list: 2,
            broken,
            ..HolderConfig::new(PartitionId(7), 8 * bytes)
        };
        Self { config, holder: Holder::new(config), log: Vec::new(), stable: 0, before: 0, said: String::new() }
    }

    fn heard(&mut self, link: &str, words: &[&str]) -> Option<()> {
        let session = session(link)?;
        let message: ToHolder = match *words {
            ["open", epoch, ref rest @ ..] => {
                let home = value(rest, "home").map_or(Some(Stamp::ZERO), stamp)?;
                let revision = value(rest, "revision").map_or(Some(1), number)?;
                Open { volume: VOLUME, epoch: Epoch(number(epoch)?), revision, home }.into()
            }
            ["copy", place, where_to, ref rest @ ..] => {
                let (stamp, extent) = (stamp(place)?, extent(where_to)?);
                let stream = if rest.contains(&"back") { Stream::Back } else { Stream::Live };
                Copy { stream, record: Record { stamp, extent, content: content(rest, extent) } }.into()
            }
            ["free", through] => Free { through: stamp(through)? }.into(),
            ["forget"] => Forget.into(),
            ["list", epoch, ref rest @ ..] => {
                let after = value(rest, "after").map_or(Some(Stamp::ZERO), stamp)?;
                List { volume: VOLUME, epoch: Epoch(number(epoch)?), after }.into()
            }
            ["volumes"] => ListVolumes { from: VolumeId(0) }.into(),
            ["fetch", which] => Fetch { stamp: stamp(which)? }.into(),
            ["goodbye"] => Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
            ["lost"] => {
                self.holder.down(session);
                return Some(());
            }
            _ => return None,
        };
        self.holder.heard(session, message);
        Some(())
    }

    fn say(&mut self, effect: HolderEffect) {
        let line = match effect {
            HolderEffect::Append(entry) => {
                let line = match &entry {
                    HolderEntry::Epoch(_, epoch, revision) => {
                        format!("append {}: epoch {} in revision {revision}", self.next(), epoch.0)
                    }
                    HolderEntry::Copy(_, _, record) => format!("append {}: {}", self.next(), say_record(record)),
                    HolderEntry::Forget(_) => format!("append {}: forget", self.next()),
                };
                self.log.push(entry);
                line
            }
            HolderEffect::Send(session, message) => format!("{} {}", link(session), say(&message)),
            HolderEffect::End(session, reason, text) => format!("{} ends: {}: {text}", link(session), reason.name()),
            HolderEffect::Read(session, _, stamp) => {
                let is_it = |entry: &&HolderEntry| matches!(entry, HolderEntry::Copy(_, _, it) if it.stamp == stamp);
                if let Some(HolderEntry::Copy(_, _, record)) = self.log.iter().find(is_it) {
                    self.holder.read(session, stamp, Some((record.extent, record.content.clone())));
                }
                format!("read {}", say_stamp(stamp))
            }
            HolderEffect::Free(_, through) => format!("free {}", say_stamp(through)),
            HolderEffect::Ask(_, epoch) => format!("ask the registry for epoch {}", epoch.0),
        };
        writeln!(self.said, "{line}").unwrap();
    }

    /// The number of the next entry of this life.
    fn next(&self) -> usize {
        self.log.len() - self.before + 1
    }
}

fn say(message: &FromHolder) -> String {
    match message {
        FromHolder::Opened(Opened { live, back, credit, .. }) => {
            format!("Opened live={} back={} credit={credit}", live.0, back.0)
        }
        FromHolder::Counted(Counted { live, back, credit }) => {
            format!("Counted live={} back={} credit={credit}", live.0, back.0)
        }
        FromHolder::Refused(Refused { epoch }) => format!("Refused {}", epoch.0),
        FromHolder::Listed(Listed { home, copies, is_last, .. }) => {
            let copies: Vec<_> = copies.iter().map(|it| say_stamp(it.stamp)).collect();
            let home = if *home == Stamp::ZERO { String::new() } else { format!("home={} ", say_stamp(*home)) };
            format!("Listed {home}{}{}", copies.join(" "), if *is_last { " and no more" } else { "" })
        }
        FromHolder::Kept(Kept { stamp, record: Some((extent, _)) }) => {
            format!("Kept {} {}", say_stamp(*stamp), say_extent(*extent))
        }
        FromHolder::Kept(Kept { stamp, record: None }) => format!("Kept {} no more", say_stamp(*stamp)),
        FromHolder::Volumes(Volumes { volumes, is_last, .. }) => {
            let held = |it: &HeldVolume| {
                format!("epoch {} in revision {}, through {}", it.epoch.0, it.revision, say_stamp(it.last))
            };
            let held: Vec<_> = volumes.iter().map(held).collect();
            format!("Volumes {}{}", held.join(" "), if *is_last { " and no more" } else { "" })
        }
        FromHolder::Leaving(_) => "Leaving".to_owned(),
        FromHolder::Goodbye(goodbye) => format!("Goodbye {}", goodbye.reason.name()),
    }
}

fn session(link: &str) -> Option<SessionId> {
    let letter = link.bytes().next().filter(|_| link.len() == 1)?;
    Some(SessionId(letter.into()))
}

fn link(session: SessionId) -> char {
    char::from(session.0 as u8)
}

impl Player for HolderScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        match words[..] {
            ["stable", number] => {
                let number: usize = number.parse().ok()?;
                self.stable = self.before + number;
                self.holder.stable(number as u64);
            }
            ["crash"] => {
                self.log.truncate(self.stable.max(self.before));
                self.before = self.log.len();
                self.holder = Holder::new(self.config);
                self.log.iter().for_each(|entry| self.holder.recover(entry));
            }
            ["room", copies] => self.holder.limit(number(copies)? * (4096 + 512)),
            ["disk", copies] => self.holder.disk_has(number(copies)? * (4096 + 512)),
            ["full"] => {
                let is = if self.holder.is_nearly_full() { "yes" } else { "no" };
                writeln!(self.said, "= {is}").unwrap();
            }
            ["leave"] => self.holder.leave(),
            ["empty"] => {
                let is = if self.holder.is_empty() { "yes" } else { "no" };
                writeln!(self.said, "= {is}").unwrap();
            }
            ["asks"] => {
                self.config.asks_registry = true;
                self.holder = Holder::new(self.config);
            }
            ["asked"] => self.holder.asked(VOLUME, None),
            ["asked", epoch] => self.holder.asked(VOLUME, Some(Epoch(number(epoch)?))),
            ["registered", epoch, revision, ref rest @ ..] => {
                let listed = rest.contains(&"listed").then_some(self.config.partition);
                let entry = Registered {
                    epoch: Epoch(number(epoch)?),
                    is_taking: rest.contains(&"taking"),
                    is_rebuilt: rest.contains(&"rebuilt"),
                    holders: listed.into_iter().collect(),
                    ..Registered::new(1 << 20, 2, Duration::from_secs(1))
                };
                self.holder.registered(VOLUME, &View { revision: number(revision)?, entry });
            }
            [link, ref words @ ..] => self.heard(link, words)?,
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(effect) = self.holder.poll_effect() {
            self.say(effect);
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
