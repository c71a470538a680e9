//! Plays the conversations of `testdata/conversations/hub-*.txt`, `home-*.txt`, `attached-*.txt`, `look-ups-*.txt` and
//! `responder-*.txt`, and compares what is said, line by line.
//!
//! ```text
//! > at 500                            the time, in milliseconds: what is due by then is done
//! > a join 7 asked=0                  a message on the link `a`, to a hub, or of a cache to a home
//! > hub mark 1 item:1                 a message of the hub to a home
//! > update item:1                     a call of the application
//! a Mark 1 item:1                     a message on that link
//! = not current                       the answer to a call
//! ```

#[path = "../../../../testdata/conversations/play.rs"]
mod play;

use homes::messages::caches::{
    Attach, Attached as IsThere, Changed, Count, Counted, Describe, Described, Free, FromHome, Store, Stored, ToHome,
};
use homes::messages::hub::{
    CaughtUp, Fence, FromHub, Introduce, Join, Lease, Leave, Mark, Marked, Released, Renew, Reset, SourceName, ToHub,
    Unmark, Update, Visible,
};
use homes::messages::look_ups::{FromTable, Head, Read, ToTable, Window, Words};
use homes::{
    Answer, Attached, ChangeId, Dependency, Found, Home, HomeConfig, Hub, HubConfig, LookUps, Proof, Question,
    Responder, Rule, Ticket, UpdateId, Wanted,
};
use machine::{LOCAL, Machine, Output, Parcel, Port};
use play::Player;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use types::{Broken, SessionId, Time};

const LEASE: Duration = Duration::from_secs(1);

fn named(names: &[&str]) -> Vec<Dependency> {
    names.iter().map(|name| Dependency::new(name.to_string()).unwrap()).collect()
}

fn ms(text: &str) -> Option<Time> {
    Some(Time(text.parse::<u64>().ok()? * 1_000_000))
}

fn fence(number: &str) -> Option<Fence> {
    Some(Fence { term: 1, number: number.strip_prefix("fence=")?.parse().ok()? })
}

fn in_ms(time: Time) -> u64 {
    time.0 / 1_000_000
}

/// Lets time pass up to a moment, and does what is due.
fn pass(machine: &mut impl Machine, now: &mut Time, to: Time) {
    *now = to;
    while machine.poll_timeout().is_some_and(|due| due <= to) {
        machine.handle_timeout(to);
    }
}

fn words(dependencies: &[Dependency]) -> String {
    dependencies.iter().fold(String::new(), |words, dependency| words + " " + &dependency.to_string())
}

/// A hub; its links have names of one letter.
struct HubScript {
    hub: Hub,
    now: Time,
    said: String,
}

impl HubScript {
    fn new(succeeds: Option<Duration>, sources: &[&str]) -> Self {
        let sources = sources.iter().filter_map(|&name| SourceName::new(name)).collect();
        Self::with(HubConfig { succeeds, sources, ..HubConfig::default() })
    }

    fn with(config: HubConfig) -> Self {
        let config = HubConfig { lease: LEASE, ..config };
        let mut hub = Hub::new(config);
        hub.start(Time::ZERO);
        Self { hub, now: Time::ZERO, said: String::new() }
    }

    fn hear(&mut self, port: Port, message: impl Into<ToHub>) {
        self.hub.handle(self.now, port, Parcel::new(message.into()));
    }
}

fn port(link: &str) -> Option<Port> {
    let letter = link.bytes().next().filter(|_| link.len() == 1)?;
    Some(Port::Session(SessionId(LOCAL.0 + u64::from(letter))))
}

fn link(port: Port) -> char {
    let Port::Session(SessionId(number)) = port else { panic!("a hub has no {port:?}") };
    char::from(number as u8)
}

impl Player for HubScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => pass(&mut self.hub, &mut self.now, ms(time)?),
            ["update", ref names @ ..] => {
                let UpdateId(number) = self.hub.update(self.now, named(names));
                writeln!(self.said, "= {number}").unwrap();
            }
            ["released", number] => {
                let is_released = self.hub.is_released(UpdateId(number.parse().ok()?));
                writeln!(self.said, "= {}", if is_released { "released" } else { "not yet" }).unwrap();
            }
            ["visible", number] => self.hub.visible(UpdateId(number.parse().ok()?)),
            ["caught", "up"] => self.hub.caught_up(),
            ["source", until] => self.hub.source_lease(self.now, ms(until.strip_prefix("until=")?)?),
            [link, "join", life, asked] => {
                let join = Join { life: life.parse().ok()?, asked: ms(asked.strip_prefix("asked=")?)? };
                self.hear(port(link)?, join);
            }
            [link, "renew", asked] => self.hear(port(link)?, Renew { asked: ms(asked.strip_prefix("asked=")?)? }),
            [link, "marked", number] => self.hear(port(link)?, Marked { update: UpdateId(number.parse().ok()?) }),
            [link, "introduce", life, asked, ref source @ ..] => {
                let fence = source.get(1).map_or(Some(Fence::NONE), |&number| fence(number))?;
                let source = source.first().and_then(|&name| SourceName::new(name));
                let asked = ms(asked.strip_prefix("asked=")?)?;
                self.hear(port(link)?, Introduce { life: life.parse().ok()?, asked, source, fence });
            }
            [link, "caught", "up", number] => self.hear(port(link)?, CaughtUp { fence: fence(number)? }),
            [link, "update", id, ref names @ ..] => {
                self.hear(port(link)?, Update { id: id.parse().ok()?, dependencies: named(names) });
            }
            [link, "visible", id] => self.hear(port(link)?, Visible { id: id.parse().ok()? }),
            [link, "leave"] => self.hear(port(link)?, Leave),
            [link, "lost"] => self.hub.disconnected(self.now, port(link)?),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.hub.poll_output() {
            match output {
                Output::Send(port, message, None) => {
                    let said = match message.open().expect("a hub says such messages") {
                        FromHub::Reset(Reset) => "Reset".to_owned(),
                        FromHub::Mark(Mark { update, dependencies }) => {
                            format!("Mark {}{}", update.0, words(&dependencies))
                        }
                        FromHub::Unmark(Unmark { update }) => format!("Unmark {}", update.0),
                        FromHub::Lease(Lease { asked, lease_ms }) => format!("Lease asked={} {lease_ms}", in_ms(asked)),
                        FromHub::Released(Released { id }) => format!("Released {id}"),
                        FromHub::Goodbye(goodbye) => format!("Goodbye {goodbye:?}"),
                    };
                    writeln!(self.said, "{} {said}", link(port)).unwrap();
                }
                Output::End(port, reason, text) => {
                    writeln!(self.said, "{} ends: {}: {text}", link(port), reason.name()).unwrap();
                }
                Output::Wake(waiter) => writeln!(self.said, "wake {}", waiter.0).unwrap(),
                other => panic!("a hub does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

/// A home with four slots, and the responses that its cache has stored by the names of their keys.
struct HomeScript {
    home: Home,
    now: Time,
    tickets: BTreeMap<String, Ticket>,
    stored: BTreeMap<String, Proof>,
    changes: Vec<ChangeId>,
    said: String,
}

impl HomeScript {
    fn new(broken: Broken<Rule>) -> Self {
        let home = Home::new(HomeConfig { slots: 4, remembered_max: 3, broken, ..HomeConfig::new(7) });
        let (tickets, stored, changes, said) = Default::default();
        Self { home, now: Time::ZERO, tickets, stored, changes, said }
    }

    fn hear_cache(&mut self, port: Port, message: impl Into<ToHome>) {
        self.home.handle(self.now, port, Parcel::new(message.into()));
    }

    /// A cache's messages have the keys' numbers for those of its questions.
    fn cache(&mut self, link: &str, words: &[&str]) -> Option<()> {
        let port = port(link)?;
        match *words {
            ["attach"] => self.hear_cache(port, Attach { asked: self.now }),
            ["store", id, key, ref names @ ..] => {
                let (id, ticket) = (id.parse().ok()?, *self.tickets.get(key)?);
                self.hear_cache(port, Store { id, ticket, dependencies: named(names) });
            }
            ["free", key] => self.hear_cache(port, Free { proof: *self.stored.get(key)? }),
            ["describe", id, key] => {
                self.hear_cache(port, Describe { id: id.parse().ok()?, proof: *self.stored.get(key)? });
            }
            ["count", id, name] => {
                let dependency = named(&[name]).remove(0);
                self.hear_cache(port, Count { id: id.parse().ok()?, dependency });
            }
            ["changed", id, ref names @ ..] => {
                self.hear_cache(port, Changed { id: id.parse().ok()?, dependencies: named(names) });
            }
            ["lost"] => self.home.disconnected(self.now, port),
            _ => return None,
        }
        Some(())
    }

    fn hear(&mut self, message: impl Into<FromHub>) {
        self.home.handle(self.now, Port::SERVER, Parcel::new(message.into()));
    }
}

impl Player for HomeScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => pass(&mut self.home, &mut self.now, ms(time)?),
            ["connected"] => self.home.connected(self.now, Port::SERVER),
            ["lost"] => self.home.disconnected(self.now, Port::SERVER),
            ["hub", "reset"] => self.hear(Reset),
            ["hub", "mark", number, ref names @ ..] => {
                self.hear(Mark { update: UpdateId(number.parse().ok()?), dependencies: named(names) });
            }
            ["hub", "unmark", number] => self.hear(Unmark { update: UpdateId(number.parse().ok()?) }),
            ["hub", "lease", asked, lease_ms] => {
                let asked = ms(asked.strip_prefix("asked=")?)?;
                self.hear(Lease { asked, lease_ms: lease_ms.parse().ok()? });
            }
            ["ticket", key] => {
                let ticket = self.home.ticket(self.now);
                writeln!(self.said, "= {}", if ticket.is_some() { "a ticket" } else { "none" }).unwrap();
                self.tickets.remove(key);
                self.tickets.extend(ticket.map(|ticket| (key.to_owned(), ticket)));
            }
            ["store", key, ref names @ ..] => {
                let ticket = *self.tickets.get(key)?;
                let stored = self.home.store(self.now, ticket, &named(names));
                let said = stored.map_or_else(|why| why.to_string(), |_| "stored".to_owned());
                writeln!(self.said, "= {said}").unwrap();
                self.stored.extend(stored.ok().map(|proof| (key.to_owned(), proof)));
            }
            ["look", key] => {
                let is_current = self.home.table().is_current(self.stored.get(key)?, || self.now);
                writeln!(self.said, "= {}", if is_current { "current" } else { "not current" }).unwrap();
            }
            ["free", key] => self.home.free(*self.stored.get(key)?),
            ["closed"] => self.home.close(self.now),
            ["stopped"] => self.home.stop("it has panicked"),
            ["changes"] => {
                for change in self.home.take_changes() {
                    writeln!(self.said, "= changed{}", words(&change.dependencies)).unwrap();
                    self.changes.push(change.id);
                }
            }
            ["released"] => {
                let change = self.changes.remove(0);
                self.home.released(change);
            }
            [link, ref words @ ..] => self.cache(link, words)?,
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.home.poll_output() {
            match output {
                Output::Send(port @ Port::Session(_), message, None) => {
                    let said = match message.open().expect("a home says such messages to a cache") {
                        FromHome::Attached(IsThere { life, .. }) => format!("Attached {life}"),
                        FromHome::Stored(Stored { id, outcome: Ok(proof) }) => {
                            self.stored.insert(id.to_string(), proof);
                            format!("Stored {id}")
                        }
                        FromHome::Stored(Stored { id, outcome: Err(why) }) => format!("Stored {id}: {why}"),
                        FromHome::Described(Described { id, dependencies }) => {
                            format!("Described {id}{}", words(&dependencies))
                        }
                        FromHome::Counted(Counted { id, responses }) => format!("Counted {id}: {responses}"),
                        FromHome::Released(Released { id }) => format!("Released {id}"),
                        FromHome::Goodbye(goodbye) => format!("Goodbye {goodbye:?}"),
                    };
                    writeln!(self.said, "{} {said}", link(port)).unwrap();
                }
                Output::Wake(waiter) => writeln!(self.said, "wake {}", waiter.0).unwrap(),
                Output::Send(Port::SERVER, message, None) => {
                    let said = match message.open().expect("a home says such messages") {
                        ToHub::Join(Join { life, asked }) => format!("Join {life} asked={}", in_ms(asked)),
                        ToHub::Renew(Renew { asked }) => format!("Renew asked={}", in_ms(asked)),
                        ToHub::Marked(Marked { update }) => format!("Marked {}", update.0),
                        ToHub::Leave(Leave) => "Leave".to_owned(),
                        other => panic!("a home does not say {other:?}"),
                    };
                    writeln!(self.said, "hub {said}").unwrap();
                }
                Output::End(Port::SERVER, reason, text) => {
                    writeln!(self.said, "hub ends: {}: {text}", reason.name()).unwrap();
                }
                Output::End(port, reason, text) => {
                    writeln!(self.said, "{} ends: {}: {text}", link(port), reason.name()).unwrap();
                }
                Output::Closed => writeln!(self.said, "closed").unwrap(),
                other => panic!("a home does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

/// A home of another process, as a cache has it; its proofs are of the slots that the home names.
struct AttachedScript {
    home: Attached,
    now: Time,
    said: String,
}

impl AttachedScript {
    fn new() -> Self {
        Self { home: Attached::new(), now: Time::ZERO, said: String::new() }
    }

    fn hear(&mut self, message: impl Into<FromHome>) {
        self.home.handle(self.now, Port::SERVER, Parcel::new(message.into()));
    }

    fn ask(&mut self, question: Question) {
        let id = self.home.ask(self.now, question);
        writeln!(self.said, "= {id}").unwrap();
    }
}

fn of_slot(slot: &str) -> Option<Proof> {
    Some(Proof { generation: 0, word: 0, slot: slot.parse().ok()? })
}

impl Player for AttachedScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => pass(&mut self.home, &mut self.now, ms(time)?),
            ["connected"] => self.home.connected(self.now, Port::SERVER),
            ["lost"] => self.home.disconnected(self.now, Port::SERVER),
            ["store", ref names @ ..] => self.ask(Question::Store(Ticket { life: 1, clock: 1 }, named(names))),
            ["describe", slot] => self.ask(Question::Describe(of_slot(slot)?)),
            ["count", name] => self.ask(Question::Count(named(&[name]).remove(0))),
            ["changed", ref names @ ..] => self.ask(Question::Changed(named(names))),
            ["take", id] => {
                let said = match self.home.take(id.parse().ok()?) {
                    None => "nothing yet".to_owned(),
                    Some(Answer::Stored(Ok(proof))) => format!("stored in slot {}", proof.slot),
                    Some(Answer::Stored(Err(why))) => why.to_string(),
                    Some(Answer::Described(dependencies)) => format!("depends on{}", words(&dependencies)),
                    Some(Answer::Counted(count)) => format!("{count} responses"),
                    Some(Answer::Released) => "released".to_owned(),
                    Some(Answer::Away) => "no home".to_owned(),
                };
                writeln!(self.said, "= {said}").unwrap();
            }
            ["withdraw", id] => {
                let is_gone = self.home.withdraw(id.parse().ok()?);
                writeln!(self.said, "= {}", if is_gone { "it is gone" } else { "it is there" }).unwrap();
            }
            ["forget", id] => self.home.forget(id.parse().ok()?),
            ["free", slot] => self.home.free(of_slot(slot)?),
            ["home", "attached"] => self.hear(IsThere { asked: self.now, life: 1 }),
            ["home", "stored", id, slot] => {
                self.hear(Stored { id: id.parse().ok()?, outcome: Ok(of_slot(slot)?) });
            }
            ["home", "described", id, ref names @ ..] => {
                self.hear(Described { id: id.parse().ok()?, dependencies: named(names) });
            }
            ["home", "counted", id, responses] => {
                self.hear(Counted { id: id.parse().ok()?, responses: responses.parse().ok()? });
            }
            ["home", "released", id] => self.hear(Released { id: id.parse().ok()? }),
            ["stopped"] => self.home.stop("it has panicked"),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.home.poll_output() {
            match output {
                Output::Send(Port::SERVER, message, None) => {
                    let said = match message.open().expect("a cache says such messages") {
                        ToHome::Attach(Attach { asked }) => format!("Attach asked={}", in_ms(asked)),
                        ToHome::Store(Store { id, dependencies, .. }) => format!("Store {id}{}", words(&dependencies)),
                        ToHome::Free(Free { proof }) => format!("Free slot {}", proof.slot),
                        ToHome::Describe(Describe { id, proof }) => format!("Describe {id} slot {}", proof.slot),
                        ToHome::Count(Count { id, dependency }) => format!("Count {id} {dependency}"),
                        ToHome::Changed(Changed { id, dependencies }) => {
                            format!("Changed {id}{}", words(&dependencies))
                        }
                        ToHome::Goodbye(goodbye) => format!("Goodbye {goodbye:?}"),
                    };
                    writeln!(self.said, "home {said}").unwrap();
                }
                Output::End(Port::SERVER, reason, text) => {
                    writeln!(self.said, "home ends: {}: {text}", reason.name()).unwrap();
                }
                Output::Wake(waiter) => writeln!(self.said, "wake {}", waiter.0).unwrap(),
                other => panic!("a cache does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

/// A table on another machine, as a cache has it; its proofs are of generation 1.
struct LookUpsScript {
    table: LookUps,
    now: Time,
    said: String,
}

impl LookUpsScript {
    fn new() -> Self {
        Self { table: LookUps::new(), now: Time::ZERO, said: String::new() }
    }

    fn look(&mut self, wanted: Wanted) {
        let id = self.table.look(self.now, wanted);
        writeln!(self.said, "= {id}").unwrap();
    }
}

/// The number behind a name.
fn value<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    text.strip_prefix(name)?.strip_prefix('=')?.parse().ok()
}

impl Player for LookUpsScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => pass(&mut self.table, &mut self.now, ms(time)?),
            ["connected"] => self.table.connected(self.now, Port::SERVER),
            ["lost"] => self.table.disconnected(self.now, Port::SERVER),
            ["look", slot, word] => {
                let (slot, word) = (value(slot, "slot")?, value(word, "word")?);
                self.look(Wanted::Look(Proof { generation: 1, word, slot }));
            }
            ["ticket"] => self.look(Wanted::Ticket),
            ["take", id] => {
                let said = match self.table.take(id.parse().ok()?) {
                    None => "nothing yet".to_owned(),
                    Some(Found::Current(is_current)) => if is_current { "current" } else { "not proven" }.to_owned(),
                    Some(Found::Ticket(None)) => "none".to_owned(),
                    Some(Found::Ticket(Some(ticket))) => format!("a ticket of {}", ticket.clock),
                };
                writeln!(self.said, "= {said}").unwrap();
            }
            ["forget", id] => self.table.forget(id.parse().ok()?),
            ["words", id, generation, lease, now, fills, ref words @ ..] => {
                let head = Head {
                    life: 1,
                    generation: value(generation, "generation")?,
                    lease: ms(lease.strip_prefix("lease=")?)?,
                    now: ms(now.strip_prefix("now=")?)?,
                    fills: value(fills, "fills")?,
                };
                let words = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
                let words = FromTable::from(Words { id: id.parse().ok()?, head, words });
                self.table.handle(self.now, Port::SERVER, Parcel::new(words));
            }
            ["stopped"] => self.table.stop("it has panicked"),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.table.poll_output() {
            match output {
                Output::Send(Port::SERVER, message, None) => {
                    let Ok(ToTable::Read(Read { id, slots })) = message.open() else {
                        panic!("a cache does not say that to a table");
                    };
                    writeln!(self.said, "table Read {id} slots {slots:?}").unwrap();
                }
                Output::End(Port::SERVER, reason, text) => {
                    writeln!(self.said, "table ends: {}: {text}", reason.name()).unwrap();
                }
                Output::Wake(waiter) => writeln!(self.said, "wake {}", waiter.0).unwrap(),
                other => panic!("a cache does not want {other:?} of a table"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

/// A responder beside a home with four slots.
struct ResponderScript {
    home: Home,
    responder: Responder<Box<[AtomicU64]>>,
    clock: Arc<AtomicU64>,
    said: String,
}

impl ResponderScript {
    fn new() -> Self {
        let home = Home::new(HomeConfig { slots: 4, ..HomeConfig::new(7) });
        let clock = Arc::<AtomicU64>::default();
        let reads = clock.clone();
        let responder = Responder::new(home.table(), Box::new(move || Time(reads.load(Relaxed))));
        Self { home, responder, clock, said: String::new() }
    }

    fn hear(&mut self, message: impl Into<FromHub>) {
        let now = Time(self.clock.load(Relaxed));
        self.home.handle(now, Port::SERVER, Parcel::new(message.into()));
    }
}

impl Player for ResponderScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        let now = Time(self.clock.load(Relaxed));
        match parts[..] {
            ["at", time] => self.clock.store(ms(time)?.0, Relaxed),
            ["hub", "lease", asked, lease_ms] => {
                let asked = ms(asked.strip_prefix("asked=")?)?;
                self.hear(Lease { asked, lease_ms: lease_ms.parse().ok()? });
            }
            ["hub", "mark", number, ref names @ ..] => {
                self.hear(Mark { update: UpdateId(number.parse().ok()?), dependencies: named(names) });
            }
            ["hub", "unmark", number] => self.hear(Unmark { update: UpdateId(number.parse().ok()?) }),
            ["store", ref names @ ..] => {
                let ticket = self.home.ticket(now)?;
                let Proof { generation, word, slot } = self.home.store(now, ticket, &named(names)).ok()?;
                writeln!(self.said, "= generation {generation} word {word} slot {slot}").unwrap();
            }
            [link, "read", id, ref slots @ ..] => {
                let slots = slots.iter().map(|slot| slot.parse().ok()).collect::<Option<_>>()?;
                let read = ToTable::from(Read { id: id.parse().ok()?, slots });
                self.responder.handle(now, port(link)?, Parcel::new(read));
            }
            ["window"] => {
                let fresh = Self::new();
                let window = Window { name: vec![1, 2], base: 3, key: 4, slots: 4 };
                self.responder = fresh.responder.with_window(window);
            }
            [link, "takes", "all"] => self.responder.has_room(port(link)?),
            [link, "lost"] => self.responder.disconnected(now, port(link)?),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while self.home.poll_output().is_some() {}
        while let Some(output) = self.responder.poll_output() {
            match output {
                Output::Send(port, message, None) => {
                    let (id, head, words) = match message.open() {
                        Ok(FromTable::Words(Words { id, head, words })) => (id, head, words),
                        Ok(FromTable::Window(window)) => {
                            writeln!(self.said, "{} {window:?}", link(port)).unwrap();
                            continue;
                        }
                        other => panic!("a responder does not say {other:?}"),
                    };
                    let Head { life, generation, lease, now, fills } = head;
                    let (lease, now) = (in_ms(lease), in_ms(now));
                    writeln!(
                        self.said,
                        "{} Words {id} life={life} generation={generation} lease={lease} now={now} fills={fills} {words:?}",
                        link(port)
                    )
                    .unwrap();
                }
                Output::AwaitRoom(port) => writeln!(self.said, "{} awaits room", link(port)).unwrap(),
                Output::End(port, reason, text) => {
                    writeln!(self.said, "{} ends: {}: {text}", link(port), reason.name()).unwrap();
                }
                other => panic!("a responder does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

#[test]
fn hubs_say_what_is_written() {
    play::play_all("hub-first-", || HubScript::new(None, &[]));
    play::play_all("hub-next-", || HubScript::new(Some(LEASE), &[]));
    play::play_all("hub-sourced-", || HubScript::new(None, &["shop"]));
    let within = || HubConfig { succeeds: None, within_source: true, ..HubConfig::default() };
    play::play_all("hub-within-", || HubScript::with(within()));
}

/// Whether a home answers when its lease is over that was long on its way.
fn answers_by_a_lease_that_was_on_its_way(broken: Broken<Rule>) -> bool {
    let mut script = HomeScript::new(broken);
    for event in ["connected", "hub reset", "at 500", "hub lease asked=0 1000", "at 1100"] {
        script.event(event).expect("an event");
    }
    script.home.ticket(script.now).is_some()
}

#[test]
fn a_lease_that_is_long_on_its_way_needs_its_rule() {
    assert!(!answers_by_a_lease_that_was_on_its_way(Broken::NONE));
    assert!(answers_by_a_lease_that_was_on_its_way(Broken::rule(Rule::LeaseFromAsking)));
}

/// Whether a hub that comes after another one releases something at once.
fn releases_at_once_after_another_hub(broken: Broken<Rule>) -> bool {
    let mut script = HubScript::with(HubConfig { succeeds: Some(LEASE), broken, ..HubConfig::default() });
    let update = script.hub.update(script.now, named(&["item:1"]));
    script.hub.is_released(update)
}

/// Whether a home that joins it may store something at once.
fn marks_nothing_after_another_hub(broken: Broken<Rule>) -> bool {
    let mut script = HubScript::with(HubConfig { succeeds: Some(LEASE), broken, ..HubConfig::default() });
    script.event("a join 7 asked=0").expect("an event");
    script.drain();
    !script.said.contains("Mark 1 *")
}

#[test]
fn a_hub_that_comes_after_another_one_needs_its_rules() {
    assert!(!marks_nothing_after_another_hub(Broken::NONE));
    assert!(marks_nothing_after_another_hub(Broken::rule(Rule::StarUntilVisible)));
    assert!(!releases_at_once_after_another_hub(Broken::NONE));
    assert!(releases_at_once_after_another_hub(Broken::rule(Rule::HubWaits)));
}

/// The first part of a conversation in which a watcher is stopped, another one gets its place, and the first one goes
/// on: whether that has the place again.
fn speaks_again_after_it_was_stopped(broken: Broken<Rule>) -> bool {
    let sources = SourceName::new("shop").into_iter().collect();
    let mut script = HubScript::with(HubConfig { succeeds: None, sources, broken, ..HubConfig::default() });
    for event in ["x introduce 70 asked=0 shop", "x caught up fence=1", "at 1020", "y introduce 71 asked=1020 shop"] {
        script.event(event).expect("an event");
    }
    for event in ["y caught up fence=2", "x introduce 70 asked=0 shop fence=1", "x caught up fence=1"] {
        script.event(event).expect("an event");
    }
    script.drain();
    script.said.contains("y ends")
}

#[test]
fn a_source_that_was_stopped_needs_its_number() {
    assert!(!speaks_again_after_it_was_stopped(Broken::NONE));
    assert!(speaks_again_after_it_was_stopped(Broken::rule(Rule::FenceSources)));
}

#[test]
fn homes_say_what_is_written() {
    play::play_all("home-", || HomeScript::new(Broken::NONE));
}

/// Whether a home gives tickets whose lease from another hub is longer than that from the one which it has joined.
fn has_ticket_within_the_lease_of_another_hub(broken: Broken<Rule>) -> bool {
    let mut script = HomeScript::new(broken);
    let first = ["connected", "hub reset", "hub lease asked=0 1000", "lost", "at 200"];
    for event in first.into_iter().chain(["connected", "hub reset", "hub lease asked=200 300"]) {
        script.event(event).expect("an event");
    }
    script.home.ticket(script.now).is_some()
}

#[test]
fn a_home_that_changes_hubs_needs_its_rule() {
    assert!(!has_ticket_within_the_lease_of_another_hub(Broken::NONE));
    assert!(has_ticket_within_the_lease_of_another_hub(Broken::rule(Rule::OutlastEarlierLease)));
}

#[test]
fn caches_say_what_is_written() {
    play::play_all("attached-", AttachedScript::new);
    play::play_all("look-ups-", LookUpsScript::new);
}

#[test]
fn responders_say_what_is_written() {
    play::play_all("responder-", ResponderScript::new);
}
