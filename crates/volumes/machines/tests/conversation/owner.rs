//! An owner, with its log and a registry that does what it is asked.

use super::{content, extent, ms, number, partition, say_record, say_stamp, sequence, stamp, value};
use crate::play::Player;
use machines::messages::holder::{Copy, Counted, Free, Leaving, Open, Opened, Refused};
use machines::{
    Ack, Acknowledged, Change, Circle, Degraded, Effect, Epoch, Found, FromHolder, HomeSays, HostId, Member, Owner,
    OwnerConfig, PartitionId, Read, Record, Registered, RequestId, Restore, Rule, Sequence, Standing, Stream, ToHolder,
    View, VolumeId, Write, WriteBack,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use types::{Broken, Time};

pub(crate) struct OwnerScript {
    owner: Owner,
    broken: Broken<Rule>,
    now: Time,
    registry: View,
    change: Option<Change>,
    /// The revision that it makes, if it puts an entry back.
    restores: Option<u64>,
    back: Option<WriteBack>,
    log: BTreeMap<Sequence, Record>,
    reads: BTreeMap<u64, Read>,
    said: String,
}

impl OwnerScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        let config = OwnerConfig { broken, ..OwnerConfig::new(1 << 20, 1 << 20) };
        let entry = Registered::new(1 << 20, 1, Duration::from_secs(1));
        Self {
            owner: Owner::new(config, Epoch(1)),
            broken,
            now: Time::ZERO,
            registry: View { revision: 1, entry },
            change: None,
            restores: None,
            back: None,
            log: BTreeMap::new(),
            reads: BTreeMap::new(),
            said: String::new(),
        }
    }

    /// Attaches a volume: `attach copies=2 holders=p7,p8 wanted=1 ack=write`, in the words that differ from the usual.
    fn attach(&mut self, words: &[&str]) -> Option<()> {
        let copies = value(words, "copies").map_or(Some(2), number)? as u8;
        let of = |text: &str| text.split(',').map(partition).collect::<Option<Vec<_>>>();
        let holders = value(words, "holders").map_or(Some(Vec::new()), of)?;
        let wanted = value(words, "wanted").map_or(Some(u64::from(copies) - 1), number)? as u8;
        self.registry.entry =
            Registered { epoch: Epoch(1), owner: Some(HostId(1)), copies, holders, ..self.registry.entry.clone() };
        let config = OwnerConfig {
            holders: wanted,
            ack: if value(words, "ack") == Some("flush") { Ack::Flush } else { Ack::Write },
            degraded: if words.contains(&"refuse") { Degraded::Refuse } else { Degraded::WriteThrough },
            join_bytes: value(words, "join").map_or(Some(0), number)?,
            log_bytes: value(words, "log").map_or(Some(1 << 20), number)?,
            replace_after: Duration::from_millis(300),
            silence: Duration::from_secs(2),
            silence_min: value(words, "silence_min").map_or(Some(2000), number).map(Duration::from_millis)?,
            strike_after: Duration::from_millis(200),
            back_bytes_per_second: 1 << 20,
            broken: self.broken,
            ..OwnerConfig::new(0, 0)
        };
        self.owner = Owner::attach(self.now, config, VolumeId(1), HostId(1), 100, self.registry.clone());
        Some(())
    }

    fn said_by(&mut self, holder: PartitionId, words: &[&str]) -> Option<()> {
        let (live, back) = (sequence(words, "live")?, sequence(words, "back")?);
        let credit = value(words, "credit").map_or(Some(1 << 20), number)?;
        let message: FromHolder = match *words {
            ["opened", ..] => {
                let partition = value(words, "as").map_or(Some(holder), partition)?;
                Opened { partition, live, back, credit }.into()
            }
            ["counted", ..] => Counted { live, back, credit }.into(),
            ["refused", epoch] => Refused { epoch: Epoch(number(epoch)?) }.into(),
            ["leaving"] => Leaving.into(),
            _ => return None,
        };
        self.owner.heard(self.now, holder, &message);
        Some(())
    }

    fn write(&mut self, words: &[&str]) -> Option<()> {
        let [request, place, ref rest @ ..] = *words else { return None };
        let (request, extent) = (RequestId(number(request)?), extent(place)?);
        let content = content(rest, extent);
        let is_fua = rest.contains(&"fua");
        let copies = value(rest, "copies").map_or(Some(0), number)? as u8;
        let written = self.owner.write(self.now, Write { request, extent, content: &content, is_fua, copies });
        if let Ok(stamp) = written {
            self.log.insert(stamp.sequence, Record { stamp, extent, content });
        }
        let said = written.map_or_else(|declined| declined.name().to_owned(), say_stamp);
        writeln!(self.said, "= {said}").unwrap();
        Some(())
    }

    fn resize(&mut self, request: &str, size: &str) -> Option<()> {
        let trim = self.owner.resize(self.now, RequestId(number(request)?), number(size)?);
        let said = match trim {
            Ok(Some(record)) => {
                let said = say_record(&record);
                self.log.insert(record.stamp.sequence, record);
                said
            }
            Ok(None) => "nothing to trim".to_owned(),
            Err(declined) => declined.name().to_owned(),
        };
        writeln!(self.said, "= {said}").unwrap();
        Some(())
    }

    /// Prints the acknowledged writes in the registry.
    fn acknowledged(&mut self) {
        for Acknowledged { partition, from, through, .. } in &self.registry.entry.acknowledged {
            writeln!(self.said, "= p{} {}..={}", partition.0, from.0, through.0).unwrap();
        }
    }

    fn holders(&mut self) {
        for Standing { partition, state, .. } in self.owner.holders() {
            writeln!(self.said, "= p{} {}", partition.0, state.name()).unwrap();
        }
    }

    /// The registry answers.
    fn outcome(&mut self, words: &[&str]) -> Option<()> {
        let Some(change) = self.change.take() else {
            self.nothing();
            return Some(());
        };
        let outcome = match words {
            ["made"] => {
                let revision = self.restores.take().unwrap_or(self.registry.revision + 1);
                self.registry = View { revision, entry: change.entry };
                Ok(self.registry.clone())
            }
            // The store was put back from a copy that is so many revisions older.
            ["back", revisions] => {
                self.registry.revision -= number(revisions)?;
                Err(Some(self.registry.clone()))
            }
            ["refused", ..] => {
                let epoch = Epoch(value(words, "epoch").map_or(Some(1), number)?);
                self.registry.revision += 1;
                self.registry.entry.epoch = epoch;
                Err(Some(self.registry.clone()))
            }
            _ => Err(None),
        };
        self.owner.changed(self.now, outcome);
        Some(())
    }

    /// There is nothing that an event could be the answer to.
    fn nothing(&mut self) {
        writeln!(self.said, "= nothing was asked").unwrap();
    }

    /// Members, such as `p7`, `p7:full` if it is nearly that, and `p7:4096` with this much room.
    fn members(&mut self, words: &[&str]) -> Option<()> {
        let member = |word: &&str| {
            let (name, how) = word.split_once(':').unwrap_or((word, ""));
            let partition = partition(name)?;
            let (free, is_nearly_full) = (number(how).unwrap_or(1 << 20), how == "full");
            Some(Member { partition, domain: partition.0, free, copies: 1, is_nearly_full })
        };
        self.owner.members(self.now, Circle::new(words.iter().map(member).collect::<Option<Vec<_>>>()?));
        Some(())
    }

    fn say(&mut self, effect: Effect) {
        let line = match effect {
            Effect::Answer(RequestId(request), Ok(())) => format!("answer {request}: ok"),
            Effect::Answer(RequestId(request), Err(declined)) => format!("answer {request}: {}", declined.name()),
            Effect::WriteHome(back) => {
                self.back = Some(back);
                let joined = if back.is_joined { " joined" } else { "" };
                format!("write home ({}, {}]{joined}", say_stamp(back.after), say_stamp(back.through))
            }
            Effect::Room => "room".to_owned(),
            Effect::Connect(PartitionId(number)) => format!("p{number} connect"),
            Effect::Disconnect(PartitionId(number)) => format!("p{number} disconnect"),
            Effect::Reconnect(PartitionId(number), reason) => format!("p{number} reconnect: {}", reason.name()),
            Effect::Send(PartitionId(number), message) => format!("p{number} {}", say_to_holder(&message)),
            Effect::Read(read) => {
                self.reads.insert(read.number, read);
                format!("read {}: {}..={}", read.number, read.from.0, read.through.0)
            }
            Effect::Change(change) => {
                let Registered { owner, size, ref holders, .. } = change.entry;
                let holders: Vec<_> = holders.iter().map(|it| format!("p{}", it.0)).collect();
                let owner = owner.map_or("nobody".to_owned(), |owner| format!("host {}", owner.0));
                let line = format!("change: {owner}, {size} bytes, holders {}", holders.join(","));
                self.change = Some(change);
                line
            }
            Effect::AskHome => "ask home".to_owned(),
            Effect::Restore(Restore { change, revision }) => {
                let line = format!("restore over {}: revision {revision}", change.expects);
                (self.change, self.restores) = (Some(change), Some(revision));
                line
            }
            Effect::Ended(Epoch(epoch)) => format!("ended by epoch {epoch}"),
            Effect::Detached => "detached".to_owned(),
        };
        writeln!(self.said, "{line}").unwrap();
    }
}

pub(crate) fn say_to_holder(message: &ToHolder) -> String {
    match message {
        ToHolder::Open(Open { epoch, home, .. }) => format!("Open {} home={}", epoch.0, say_stamp(*home)),
        ToHolder::Copy(Copy { stream: Stream::Live, record }) => format!("Copy {}", say_record(record)),
        ToHolder::Copy(Copy { stream: Stream::Back, record }) => format!("Copy back {}", say_record(record)),
        ToHolder::Free(Free { through }) => format!("Free {}", say_stamp(*through)),
        ToHolder::Forget(_) => "Forget".to_owned(),
        ToHolder::List(list) => format!("List {} after={}", list.epoch.0, say_stamp(list.after)),
        ToHolder::Fetch(fetch) => format!("Fetch {}", say_stamp(fetch.stamp)),
        ToHolder::ListVolumes(list) => format!("ListVolumes from={}", list.from.0),
        ToHolder::Goodbye(goodbye) => format!("Goodbye {}", goodbye.reason.name()),
    }
}

impl Player for OwnerScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        match words[..] {
            ["attach", ref words @ ..] => self.attach(words)?,
            ["at", time] => {
                self.now = ms(time)?;
                let mut turns = 0;
                while self.owner.poll_timeout().is_some_and(|due| due <= self.now) && turns < 3 {
                    self.owner.handle_timeout(self.now);
                    turns += 1;
                }
            }
            ["write", ref words @ ..] => self.write(words)?,
            ["flush", request] => self.owner.flush(self.now, RequestId(number(request)?)),
            // The client of these has hung up.
            ["give", "up", ref requests @ ..] => {
                let given_up = requests.iter().map(|it| number(it)).collect::<Option<Vec<_>>>()?;
                self.owner.give_up(|RequestId(request)| given_up.contains(&request));
            }
            ["bring", "home", request] => self.owner.bring_home(self.now, RequestId(number(request)?)),
            ["holders"] => self.holders(),
            ["acknowledged"] => self.acknowledged(),
            ["resize", request, size] => self.resize(request, size)?,
            ["appended", through] => self.owner.appended(self.now, Sequence(number(through)?)),
            ["log", "lost"] => {
                let Sequence(logged) = self.owner.lose_log(self.now);
                writeln!(self.said, "= through {logged}").unwrap();
            }
            ["home", "says", "own", mark] => {
                self.owner.home_says(self.now, HomeSays::Own(stamp(mark)?));
            }
            ["home", "says", "other", epoch] => {
                self.owner.home_says(self.now, HomeSays::Other(Epoch(number(epoch)?)));
            }
            ["home", "says", "nothing"] => self.owner.home_says(self.now, HomeSays::Nothing),
            ["home", "durable"] => {
                let Some(WriteBack { through, .. }) = self.back.take() else {
                    self.nothing();
                    return Some(());
                };
                self.log.retain(|_, record| record.stamp > through);
                self.owner.home_durable(self.now, through);
            }
            ["home", "failed"] => self.owner.home_failed(self.now),
            ["home", "ended", epoch] => self.owner.home_ended(Epoch(number(epoch)?)),
            ["found", read] => {
                let Some(read) = self.reads.remove(&number(read)?) else {
                    self.nothing();
                    return Some(());
                };
                let Read { number, from, through, .. } = read;
                let records = self.log.range(from..=through).map(|(_, record)| record.clone()).collect();
                self.owner.found(self.now, number, Found { records, through });
            }
            ["made" | "unknown"] | ["refused" | "back", ..] => self.outcome(&words)?,
            ["members", ref words @ ..] => self.members(words)?,
            ["drain"] => self.owner.drain(self.now),
            ["detach"] => self.owner.detach(self.now),
            ["stop"] => self.owner.stop(),
            ["may", "read"] => {
                let may = if self.owner.may_read(self.now) { "yes" } else { "no" };
                writeln!(self.said, "= {may}").unwrap();
            }
            ["degraded"] => {
                let is = if self.owner.is_degraded() { "yes" } else { "no" };
                writeln!(self.said, "= {is}").unwrap();
            }
            [holder, "up"] => self.owner.up(self.now, partition(holder)?),
            [holder, "down"] => self.owner.down(self.now, partition(holder)?),
            [holder, ref words @ ..] => self.said_by(partition(holder)?, words)?,
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(effect) = self.owner.poll_effect() {
            self.say(effect);
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
