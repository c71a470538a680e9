//! A member whose disk is the script: work is written down, and its outcome is an event. `up` is its link to the relay
//! or file server.

use crate::play::Player;
use crate::words::{Names, Words, from_server, in_ms, key, ms, number, show, show_to, sized};
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port, UpstreamId, Waiter};
use spread::member_work::{Applied, Done, State, Work};
use spread::messages::{VisitorKey, WhenStale};
use spread::{FetchedContent, Member, MemberConfig, Opened, PATIENCE, READY, Swept, Visit, Way};
use std::fmt::Write as _;
use std::time::Duration;
use tree::{Descent, Parts, Step};
use types::{Broken, Time};

/// The member's number for its site.
const SLOT: u32 = 0;

/// A member whose pages may ask for more for 300 ms, and which collects five seconds after a switch.
pub(crate) struct MemberScript {
    member: Member,
    broken: Broken<Way>,
    now: Time,
    names: Names,
    pub(crate) said: String,
}

impl MemberScript {
    pub(crate) fn new(broken: Broken<Way>) -> Self {
        let mut script = Self {
            member: member(broken, Settings::default(), None),
            broken,
            now: Time::ZERO,
            names: Names::default(),
            said: String::new(),
        };
        script.member.start(Time::ZERO);
        script
    }

    fn pass(&mut self, to: Time) {
        self.now = to;
        while self.member.poll_timeout().is_some_and(|due| due <= to) {
            self.member.handle_timeout(to);
        }
    }

    fn disk(&mut self, words: &[&str]) -> Option<()> {
        let names = &mut self.names;
        let done = match *words {
            ["descended", "fails", ref why @ ..] => Done::Descended(Err(why.join(" "))),
            ["descended", ref words @ ..] => {
                // `lacks c1 c2 relies c3 waits t1`
                let (mut found, mut what) = (Descent::default(), "");
                for word in words {
                    match *word {
                        "lacks" | "relies" | "waits" => what = word,
                        name if what == "lacks" => found.lacks.push(names.hash(name)),
                        name if what == "relies" => found.relies.push(names.hash(name)),
                        name => found.waits.push(Step::root(names.hash(name), None)),
                    }
                }
                Done::Descended(Ok(found))
            }
            // Edits: the nodes that they made, and the content that came with them.
            ["applied", ref words @ ..] => {
                let (nodes, content): (Vec<_>, Vec<_>) = words.iter().partition(|word| !word.contains(':'));
                let relies = nodes.into_iter().map(|name| names.hash(name)).collect();
                let content = content.into_iter().map(|word| sized(names, word)).collect::<Option<_>>()?;
                Done::Applied(Applied { found: Descent { relies, ..Descent::default() }, content })
            }
            ["put", name] => Done::Put(names.hash(name), Ok(true)),
            ["put", name, "differs"] => Done::Put(names.hash(name), Ok(false)),
            ["put", name, "fails", ref why @ ..] => Done::Put(names.hash(name), Err(why.join(" "))),
            ["switched", of] => Done::Switched(number(of)?, Ok(())),
            ["switched", of, "fails", ref why @ ..] => Done::Switched(number(of)?, Err(why.join(" "))),
            ["marked", "fails", ref why @ ..] => Done::Marked(Err(why.join(" "))),
            ["marked", ref chunks @ ..] => {
                Done::Marked(Ok(chunks.iter().map(|word| sized(names, word)).collect::<Option<_>>()?))
            }
            ["swept", "fails", ref why @ ..] => Done::Swept(Err(why.join(" "))),
            ["swept", chunks] => Done::Swept(Ok(Swept { chunks: chunks.parse().ok()?, bytes: 0 })),
            _ => return None,
        };
        self.member.disk(self.now, DiskDone::new(done));
        Some(())
    }

    fn work(&mut self, work: Opaque) {
        let Ok(work) = work.open::<Work>() else { panic!("a member has other work") };
        let names = &self.names;
        let said = match work {
            Work::Apply(edited) => {
                let edits = String::from_utf8_lossy(&edited.edits);
                format!("Apply {} -> {} {edits}", names.name(edited.base), names.name(edited.root))
            }
            Work::Descend(steps) => {
                let nodes: Vec<_> = steps.iter().map(Step::node).collect();
                format!("Descend{}", names.list(&nodes))
            }
            Work::Put(hash, _) => format!("Put {}", names.name(hash)),
            Work::Switch(State { revisions, parts, when_stale, .. }) => {
                let parts = if parts == Parts::Whole { "" } else { " directories" };
                let said = if when_stale == WhenStale::Refuse { " refuse" } else { "" };
                let said = format!("Switch{parts}{said}");
                revisions.iter().fold(said, |said, it| said + " " + &names.show(*it))
            }
            Work::Mark(_, roots) => format!("Mark{}", names.list(&roots)),
            Work::Sweep(hashes) => {
                let mut chunks: Vec<&str> = hashes.iter().map(|hash| names.name(*hash)).collect();
                chunks.sort_unstable();
                format!("Sweep {}", chunks.join(" "))
            }
        };
        writeln!(self.said, "disk {said}").unwrap();
    }

    fn open(&mut self, words: Words<'_>) -> Option<()> {
        let seen = words.value("seen").map(|seen| number(seen).ok_or(())).transpose().ok()?;
        let since = words.value("since").map(|since| ms(since).ok_or(())).transpose().ok()?;
        let visit = Visit { seen, navigates: words.has("page"), since, is_last: words.has("last") };
        let said = match self.member.open(self.now, visit) {
            Opened::View { revision, moves, stale } => {
                let moves = if moves { " moves" } else { "" };
                let stale = stale.map_or(String::new(), |stale| format!(" stale for {} ms", stale.as_millis()));
                format!("{}{moves}{stale}", self.names.show(revision))
            }
            Opened::Later(since) => format!("later, since {}", in_ms(since)),
            other => format!("{other:?}"),
        };
        writeln!(self.said, "= {said}").unwrap();
        Some(())
    }
}

/// The settings of a member that a script may choose.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    idle_after: Option<u32>,
    content_bytes: Option<u64>,
}

fn member(broken: Broken<Way>, settings: Settings, state: Option<State>) -> Member {
    let Settings { idle_after, content_bytes } = settings;
    let (visit, collect_after, patience) = (Duration::from_millis(300), Duration::from_secs(5), PATIENCE);
    let config =
        MemberConfig { key: key(), life: 6, visit, collect_after, patience, idle_after, content_bytes, broken };
    Member::new(config, state)
}

fn content(state: FetchedContent) -> &'static str {
    match state {
        FetchedContent::Later => "later",
        FetchedContent::Here => "here",
        FetchedContent::Gone => "gone",
        FetchedContent::Unkept => "not kept",
    }
}

impl Player for MemberScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => self.pass(ms(time)?),
            ["way"] => {
                let way = self.member.way(self.now, UpstreamId::ONLY);
                writeln!(self.said, "= {}", way.as_deref().unwrap_or("-")).unwrap();
            }
            ["starts", ref words @ ..] => {
                // `directories`: by its record, it has only those.
                let set = Words(words);
                let settings = Settings { idle_after: set.parsed("idle-after"), content_bytes: set.parsed("content") };
                let parts = if set.has("directories") { Parts::Directories } else { Parts::Whole };
                let is_setting = |word: &&&str| {
                    word.contains('=') && !word.contains('.') || ["directories", "refuse"].contains(word)
                };
                let revisions = words.iter().filter(|word| !is_setting(word));
                let revisions: Vec<_> = revisions.map(|word| self.names.revision(word)).collect::<Option<_>>()?;
                let when_stale = if set.has("refuse") { WhenStale::Refuse } else { WhenStale::Serve };
                let state = State { parts, revisions, visitor_key: VisitorKey([7; 32]), when_stale };
                let is_new = parts == Parts::Whole && state.revisions.is_empty();
                self.member = member(self.broken, settings, Some(state).filter(|_| !is_new));
                self.member.start(self.now);
            }
            ["up", "connected"] => self.member.connected(self.now, Port::SERVER),
            ["up", "lost"] => self.member.disconnected(self.now, Port::SERVER),
            ["up", ref words @ ..] => {
                let message = from_server(&mut self.names, SLOT, words)?;
                self.member.handle(self.now, Port::SERVER, Parcel::new(message));
            }
            ["disk", ref words @ ..] => self.disk(words)?,
            ["open", ref words @ ..] => self.open(Words(words))?,
            ["damaged", name] => {
                let hash = self.names.hash(name);
                self.member.damaged(hash);
            }
            // A reader wants content, looks for it, and lets go of it.
            ["want", name, ref missing @ ..] => {
                let hash = self.names.hash(name);
                let said = match self.member.want(hash, !missing.is_empty()) {
                    Some(reader) => format!("reader {}, {}", reader.0, content(self.member.wanted(&hash))),
                    None => "too many".to_owned(),
                };
                writeln!(self.said, "= {said}").unwrap();
            }
            ["read", name, reader] => {
                let hash = self.names.hash(name);
                writeln!(self.said, "= {}", content(self.member.wanted(&hash))).unwrap();
                self.member.let_go(hash, Waiter(reader.parse().ok()?));
            }
            ["used", name] => {
                let hash = self.names.hash(name);
                self.member.used(&hash);
            }
            ["file", "opened", of] => {
                let root = self.member.begin(number(of)?);
                let said = root.map_or("gone", |root| self.names.name(root));
                writeln!(self.said, "= {said}").unwrap();
            }
            ["file", "closed", of] => self.member.end(number(of)?),
            ["served"] => {
                let current = self.member.current().map_or("nothing".to_owned(), |it| show(it.number));
                let stale = self.member.stale(self.now);
                let stale = stale.map_or("fresh".to_owned(), |stale| format!("stale for {} ms", stale.as_millis()));
                writeln!(self.said, "= {current}, {stale}").unwrap();
            }
            ["trouble"] => writeln!(self.said, "= {}", self.member.trouble().unwrap_or("none")).unwrap(),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.member.poll_output() {
            match output {
                Output::Send(Port::SERVER, message, None) => {
                    let message = message.open().expect("a member says such messages");
                    writeln!(self.said, "up {}", show_to(&self.names, message)).unwrap();
                }
                Output::Disk(work) => self.work(work),
                Output::Wake(waiter) => {
                    let said = if waiter == READY { "wake".to_owned() } else { format!("wake reader {}", waiter.0) };
                    writeln!(self.said, "{said}").unwrap();
                }
                Output::End(Port::SERVER, reason, text) => {
                    writeln!(self.said, "end up {}: {text}", reason.name()).unwrap();
                }
                other => panic!("a member does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
