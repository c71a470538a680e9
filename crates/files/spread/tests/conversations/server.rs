//! A file server whose disk is the script: work is written down, and its outcome is an event.

use crate::play::Player;
use crate::words::{Names, Words, consistency, key, link, ms, number, port, show, show_from, show_settings, to_server};
use bytes::Bytes;
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port};
use spread::messages::{ChangeKind, Consistency, Identity, VisitorKey};
use spread::server_work::{
    Check, Checked, Compare, Done, Merged, MergedTree, NewSize, NotDone, Place, Settings, SiteChange, SiteState, Work,
    WorkId,
};
use spread::{FileServer, ServerConfig, Swept, Way};
use std::fmt::Write as _;
use std::time::Duration;
use tree::{ChunkHash, Growth, Path, Sides};
use types::{Broken, Time};

const LEASE: Duration = Duration::from_secs(1);

/// Chunks are announced that come in messages of more bytes: three of them, as each is its name.
const ANNOUNCES_OVER: usize = 4;

/// The number of a site in every session.
const SLOT: u32 = 1;

/// A file server with a lease of one second; its links have names of one letter.
pub(crate) struct ServerScript {
    server: FileServer,
    broken: Broken<Way>,
    now: Time,
    /// The settings in the site's record.
    settings: Settings,
    names: Names,
    pub(crate) said: String,
}

impl ServerScript {
    pub(crate) fn new(broken: Broken<Way>) -> Self {
        let mut script = Self {
            server: FileServer::new(ServerConfig::new(1), Vec::new()),
            broken,
            now: Time::ZERO,
            settings: Settings::new(1, VisitorKey([7; 32]), Consistency::default()),
            names: Names::default(),
            said: String::new(),
        };
        script.starts(1, Vec::new());
        script
    }

    /// The store starts with these sites.
    fn starts(&mut self, life: u64, sites: Vec<SiteState>) {
        let collect_after = Duration::from_secs(600);
        let usual = ServerConfig::new(life);
        let config =
            ServerConfig { lease: LEASE, collect_after, announces_over: ANNOUNCES_OVER, broken: self.broken, ..usual };
        self.server = FileServer::new(config, sites);
        self.server.start(self.now);
    }

    /// A node of a store of several starts, which has no sites yet.
    fn node_starts(&mut self) {
        let usual = ServerConfig { lease: LEASE, is_alone: false, ..ServerConfig::new(1) };
        self.server = FileServer::new(ServerConfig { broken: self.broken, ..usual }, Vec::new());
        self.server.start(self.now);
    }

    /// The record of the site with these revisions, such as `1.1=t1`, and publishes, such as `made=7.1:1.1`. Its
    /// consistency is the one before if none is said.
    fn record(&mut self, words: &[&str]) -> Option<SiteState> {
        self.settings.keep = Words(words).parsed("keep").unwrap_or(1);
        let before = self.settings.consistency;
        self.settings.consistency = Words(words).value("consistency").map_or(Some(before), consistency)?;
        let settings = self.settings;
        let mut state = SiteState { key: key(), revisions: Vec::new(), settings, publishes: Vec::new() };
        let is_setting = |word: &str| ["keep=", "consistency="].iter().any(|name| word.starts_with(name));
        for word in words.iter().filter(|word| !is_setting(word)) {
            if let Some((id, made)) = word.strip_prefix("made=").and_then(|made| made.split_once(':')) {
                let id = number(id)?;
                let (made, identity) = (number(made)?, Identity { publisher: id.life, number: id.count });
                let revision = state.revisions.iter().find(|revision| revision.number == made)?;
                state.publishes.push((identity, *revision));
            } else {
                state.revisions.push(self.names.revision(word)?);
            }
        }
        Some(state)
    }

    fn pass(&mut self, to: Time) {
        self.now = to;
        while self.server.poll_timeout().is_some_and(|due| due <= to) {
            self.server.handle_timeout(to);
        }
    }

    fn disk(&mut self, words: &[&str]) -> Option<()> {
        let id = |number: &str| number.parse().ok().map(WorkId);
        let failed = |why: &[&str]| match why {
            ["full"] => NotDone::NoRoom("the disk is full".to_owned()),
            ["malformed"] => NotDone::Malformed("a node cannot be read".to_owned()),
            _ => NotDone::Failed(why.join(" ")),
        };
        let done = match *words {
            ["missing", of, ref chunks @ ..] => Done::Missing(id(of)?, Ok(self.names.hashes(chunks))),
            ["put", of] => Done::Put(id(of)?, Ok(())),
            ["put", of, "fails", ref why @ ..] => Done::Put(id(of)?, Err(failed(why))),
            ["checked", of, "whole", ref rest @ ..] => {
                let new = rest.iter().filter(|word| !word.starts_with("edits=")).map(|name| self.names.hash(name));
                let edits = Bytes::from(Words(rest).value("edits").unwrap_or_default().to_owned());
                Done::Checked(id(of)?, Ok(Checked { lacks: Vec::new(), new: new.collect(), edits }))
            }
            ["checked", of, "lacks", ref chunks @ ..] => {
                let lacks = self.names.hashes(chunks);
                Done::Checked(id(of)?, Ok(Checked { lacks, ..Checked::default() }))
            }
            ["checked", of, "fails", ref why @ ..] => Done::Checked(id(of)?, Err(failed(why))),
            ["merged", of, "conflicts", ref paths @ ..] => {
                Done::Merged(id(of)?, Ok(Merged::Conflicts(paths.join(", "))))
            }
            ["merged", of, "fails", ref why @ ..] => Done::Merged(id(of)?, Err(failed(why))),
            ["merged", of, root, ref rest @ ..] => {
                let new = rest.iter().filter(|word| !word.contains('=')).map(|name| self.names.hash(name)).collect();
                let growth = Growth { files: Words(rest).parsed("files").unwrap_or_default(), bytes: 0 };
                let edits = Bytes::from(Words(rest).value("edits").unwrap_or_default().to_owned());
                let root = self.names.hash(root);
                Done::Merged(id(of)?, Ok(Merged::Tree(MergedTree { root, new, growth, edits })))
            }
            ["compared", of, "fails", ref why @ ..] => Done::Compared(id(of)?, Err(failed(why))),
            ["compared", of, ref paths @ ..] => {
                let path = |path: &&str| Path::parse(path.as_bytes()).ok();
                Done::Compared(id(of)?, Ok(paths.iter().map(path).collect::<Option<_>>()?))
            }
            ["edits", of, ..] => {
                let edits = Words(words).value("edits").unwrap_or_default().to_owned();
                Done::Edits(id(of)?, Bytes::from(edits))
            }
            ["published", of] => Done::Published(id(of)?, Ok(self.settings)),
            ["published", of, "fails", ref why @ ..] => Done::Published(id(of)?, Err(failed(why))),
            ["changed", of] => Done::Changed(id(of)?, Ok(None)),
            ["created", of] => Done::Changed(id(of)?, Ok(self.record(&[]))),
            ["changed", of, "fails", ref why @ ..] => Done::Changed(id(of)?, Err(failed(why))),
            ["dropped", ref numbers @ ..] => {
                Done::Dropped(key(), numbers.iter().map(|word| number(word)).collect::<Option<_>>()?)
            }
            ["marked", "fails", ref why @ ..] => Done::Marked(Err(failed(why))),
            ["marked", ref chunks @ ..] => Done::Marked(Ok(self.names.hashes(chunks))),
            ["located", space, "here"] => Done::Located(space.to_owned(), Place::Here),
            ["located", space, "at", address] => Done::Located(space.to_owned(), Place::At(address.to_owned())),
            ["located", space, "away", ref why @ ..] => Done::Located(space.to_owned(), Place::Away(why.join(" "))),
            ["may-hand-over", of, term] => Done::HandOver(id(of)?, Ok(term.parse().ok()?)),
            ["may-not-hand-over", of, ref why @ ..] => Done::HandOver(id(of)?, Err(failed(why))),
            ["published", of, "elsewhere"] => Done::Published(id(of)?, Err(NotDone::Elsewhere)),
            ["swept", chunks] => Done::Swept(Ok(Swept { chunks: chunks.parse().ok()?, bytes: 0 })),
            ["read", name] => Done::Read(self.names.hash(name), Some(Bytes::from(name.to_owned()))),
            ["unread", name] => Done::Read(self.names.hash(name), None),
            ["unread", name, ref why @ ..] => Done::Unread(self.names.hash(name), why.join(" ")),
            _ => return None,
        };
        self.server.disk(self.now, DiskDone::new(done));
        Some(())
    }

    fn work(&mut self, work: Opaque) {
        let Ok(work) = work.open::<Work>() else { panic!("a file server has other work") };
        let names = &self.names;
        let tree = |root: Option<ChunkHash>| root.map_or("-".to_owned(), |root| names.name(root).to_owned());
        let said = match work {
            Work::Missing(WorkId(id), hashes) => format!("Missing {id}{}", names.list(&hashes)),
            Work::Put(WorkId(id), chunks) => format!("Put {id}{}", names.list(chunks.iter().map(|(hash, _)| hash))),
            Work::Check(WorkId(id), Check { base, root }) => {
                format!("Check {id} {} -> {}", tree(base), names.name(root))
            }
            Work::Publish(WorkId(id), new) => {
                let Identity { publisher, number } = new.identity;
                let drops = new.drops.iter().fold(String::new(), |drops, it| drops + " drops " + &show(*it));
                let grown = match new.size {
                    NewSize::Grown(growth) => format!(" grown by {}", growth.files),
                    NewSize::Whole(_) => String::new(),
                };
                format!("Publish {id} {} id={publisher}.{number}{grown}{drops}", names.show(new.revision))
            }
            Work::Merge(WorkId(id), Sides { base, head, new }) => {
                format!("Merge {id} {} -> {} with {}", tree(base), names.name(new), names.name(head))
            }
            Work::Compare(WorkId(id), Compare { base, root, paths }) => {
                let paths: Vec<String> = paths.iter().map(Path::to_string).collect();
                format!("Compare {id} {} -> {} {}", tree(base), names.name(root), paths.join(" "))
            }
            Work::Change(WorkId(id), _, SiteChange { kind, settings }) => {
                if kind == ChangeKind::Set {
                    self.settings.set(settings);
                }
                format!("Change {id} {kind:?}{}", show_settings(settings))
            }
            Work::Edits(WorkId(id), base, root) => format!("Edits {id} {} -> {}", names.name(base), names.name(root)),
            Work::Drop(_, numbers) => numbers.iter().fold("Drop".to_owned(), |said, it| said + " " + &show(*it)),
            Work::Mark(roots) => format!("Mark{}", names.list(&roots)),
            Work::Sweep(hashes) => {
                let mut chunks: Vec<&str> = hashes.iter().map(|hash| names.name(*hash)).collect();
                chunks.sort_unstable();
                format!("Sweep {}", chunks.join(" "))
            }
            Work::Read(hash) => format!("Read {}", names.name(hash)),
            Work::Locate(space) => format!("Locate {space}"),
            Work::HandOver(WorkId(id), space, to) => format!("HandOver {id} {space} to={}", to.0),
        };
        writeln!(self.said, "disk {said}").unwrap();
    }
}

impl Player for ServerScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => self.pass(ms(time)?),
            ["starts", life, ref rest @ ..] => {
                let record = self.record(rest)?;
                self.starts(Words(&[life]).parsed("life")?, vec![record]);
            }
            ["node", "starts"] => self.node_starts(),
            ["adopts", ref rest @ ..] => {
                let record = self.record(rest)?;
                self.server.adopt(self.now, "main", vec![record], (LEASE, Vec::new()));
            }
            ["forgets"] => self.server.forget(self.now, "main"),
            ["copies"] => writeln!(self.said, "= {}", self.server.begin_copy()).unwrap(),
            ["has", "copied"] => self.server.end_copy(),
            ["spaces"] => {
                let own = self.server.own_spaces();
                let leaving: Vec<_> = self.server.leaving_spaces().into_iter().map(|(space, _)| space).collect();
                writeln!(self.said, "= {}; leaving {}", own.join(","), leaving.join(",")).unwrap();
            }
            ["disk", ref words @ ..] => self.disk(words)?,
            [link, "lost"] => self.server.disconnected(self.now, port(link)?),
            [link, "has", "room"] => self.server.has_room(port(link)?),
            [link, ref words @ ..] => {
                let message = to_server(&mut self.names, SLOT, words)?;
                self.server.handle(self.now, port(link)?, Parcel::new(message));
            }
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::Send(port @ Port::Session(_), message, None) => {
                    let message = message.open().expect("a file server says such messages");
                    writeln!(self.said, "{} {}", link(port), show_from(&self.names, message)).unwrap();
                }
                Output::Disk(work) => self.work(work),
                Output::End(port, reason, text) => {
                    writeln!(self.said, "{} ends: {}: {text}", link(port), reason.name()).unwrap();
                }
                Output::AwaitRoom(_) => {}
                other => panic!("a file server does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
