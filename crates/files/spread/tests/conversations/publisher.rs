//! A publisher or a reader: `up` is its link to the file server.

use crate::play::Player;
use crate::words::{Names, Words, from_server, key, ms, number, show, show_to, show_token, token};
use bytes::Bytes;
use machine::{Machine, Output, Parcel, Port, UpstreamId};
use spread::messages::Size;
use spread::{Answer, Client, HELD, Locking, Request, Revision, Ticket};
use std::fmt::Write as _;
use tree::Path;
use types::{NodeId, Time};

/// The reader's number for its site.
const SLOT: u32 = 0;

pub(crate) struct PublisherScript {
    client: Client,
    now: Time,
    names: Names,
    said: String,
}

impl PublisherScript {
    pub(crate) fn new() -> Self {
        let mut client = Client::new(7);
        client.start(Time::ZERO);
        Self { client, now: Time::ZERO, names: Names::default(), said: String::new() }
    }

    fn pass(&mut self, to: Time) {
        self.now = to;
        while self.client.poll_timeout().is_some_and(|due| due <= to) {
            self.client.handle_timeout(to);
        }
    }

    fn request(&mut self, parts: &[&str]) -> Option<Request> {
        let (words, names) = (Words(parts), &mut self.names);
        Some(match *parts {
            ["have", ref chunks @ ..] => Request::Have(names.hashes(chunks)),
            ["put", ref chunks @ ..] => {
                let chunk = |name: &&str| (names.hash(name), Bytes::from(name.to_string()));
                Request::Put(key(), chunks.iter().map(chunk).collect())
            }
            ["publish", ..] => {
                let base = words.value("base").filter(|base| *base != "-").map(|base| names.hash(base));
                let root = names.hash(words.value("root")?);
                let (waits, merges) = (words.has("waits"), words.has("merges"));
                let (key, of, size, note) = (key(), None, Size::default(), String::new());
                let locks = words.value("lock").map_or(Some(Vec::new()), |lock| Some(vec![token(lock)?]))?;
                let ends_locks = words.has("now");
                Request::Publish { key, base, root, of, size, waits, merges, ends_locks, locks, note }
            }
            ["collect"] => Request::Collect,
            ["survey"] => Request::Survey(key()),
            ["hand-over", to] => Request::HandOver(key().space, NodeId(to.parse().ok()?)),
            ["want", name] => Request::Want(names.hash(name)),
            _ => return None,
        })
    }

    fn take(&mut self, ticket: &str) -> Option<()> {
        let names = &self.names;
        let said = match self.client.take(Ticket(ticket.parse().ok()?)) {
            None => "nothing yet".to_owned(),
            Some(Answer::Missing(hashes)) => format!("Missing{}", names.list(&hashes)),
            Some(Answer::Published { revision, is_new }) => {
                format!("Published {}{}", names.show(revision), if is_new { "" } else { " unchanged" })
            }
            Some(Answer::Surveyed(head, _)) => format!("Surveyed {}", show(head)),
            Some(Answer::Chunk(Some(bytes))) => format!("Chunk {}", String::from_utf8_lossy(&bytes)),
            Some(Answer::Chunk(None)) => "no chunk".to_owned(),
            Some(Answer::Locked(Locking { token, number, root })) => {
                let at = root.map_or("-".to_owned(), |root| names.show(Revision { number, root }));
                format!("Locked {} at {at}", show_token(token))
            }
            Some(Answer::Refused(why, head, text)) => {
                format!("{why:?}, the newest is {} {text}", show(head)).trim_end().to_owned()
            }
            Some(Answer::HandedOver { term, hashes, .. }) => format!("HandedOver {term}{}", names.list(&hashes)),
            Some(other) => format!("{other:?}"),
        };
        writeln!(self.said, "= {said}").unwrap();
        Some(())
    }
}

impl Player for PublisherScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => self.pass(ms(time)?),
            ["up", "connected"] => self.client.connected(self.now, Port::SERVER),
            ["up", "lost"] => self.client.disconnected(self.now, Port::SERVER),
            // Later requests go where the sites of this space are.
            ["of", space] => {
                self.client = Client::of_space(7, space);
                self.client.start(self.now);
            }
            ["way"] => {
                let has_way = self.client.has_way(UpstreamId::ONLY);
                let way = self.client.way(self.now, UpstreamId::ONLY);
                writeln!(self.said, "= {has_way} {}", way.as_deref().unwrap_or("-")).unwrap();
            }
            ["up", ref words @ ..] => {
                let message = from_server(&mut self.names, SLOT, words)?;
                self.client.handle(self.now, Port::SERVER, Parcel::new(message));
            }
            ["take", ticket] => self.take(ticket)?,
            ["forget", ticket] => self.client.forget(Ticket(ticket.parse().ok()?)),
            ["lock", path] => {
                let path = Path::parse(path.as_bytes()).ok()?;
                let Ticket(ticket) = self.client.lock(self.now, key(), &path);
                writeln!(self.said, "= {ticket}").unwrap();
            }
            ["state", ticket] => {
                let state = self.client.lock_state(self.now, Ticket(ticket.parse().ok()?));
                writeln!(self.said, "= {state:?}").unwrap();
            }
            ["hold", of] => self.client.hold(self.now, key(), number(of)?, 8),
            ["held"] => writeln!(self.said, "= {:?}", self.client.is_held()).unwrap(),
            ["stopped"] => self.client.stop("its driver has ended"),
            ["over"] => writeln!(self.said, "= {}", self.client.is_over()).unwrap(),
            ref parts => {
                let request = self.request(parts)?;
                let Ticket(ticket) = self.client.ask(request);
                writeln!(self.said, "= {ticket}").unwrap();
            }
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Send(Port::SERVER, message, None) => {
                    let message = message.open().expect("a publisher says such messages");
                    writeln!(self.said, "up {}", show_to(&self.names, message)).unwrap();
                }
                Output::Wake(waiter) if waiter == HELD => writeln!(self.said, "wake for the hold").unwrap(),
                Output::Wake(waiter) => writeln!(self.said, "wake {}", waiter.0).unwrap(),
                other => panic!("a publisher does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
