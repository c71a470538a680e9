//! The words of the scripts: times, revisions, chunks, and the messages of the family in both directions.
//!
//! ```text
//! 1.17                                the revision 17 of the store's life 1; `-` is below every revision
//! 1.17=t17                            with the root of its tree
//! c1                                  a chunk, whose bytes are its name; `-` is no tree
//! c1:4000                             a chunk of so many bytes, as an announcement has it; two without
//! 7.2                                 the request 2 of the publisher 7, and a lock: the 2nd of the store's life 7
//! ```

use bytes::Bytes;
use machine::Port;
use spread::messages::{
    Acquire, Ahead, Change, ChangeKind, Changed, Chunk, Collect, Collected, Consistency, Elsewhere, Enter, Everywhere,
    FromFileServer, Gone, HandOver, HandedOver, Have, Held, Hold, Identity, Invalidate, Join, Joined, KeepLocks,
    Lapsed, Leave, Lock, LockOver, Locked, LocksKept, Missing, NotJoined, NotNow, Offer, Published, Put, RecallLock,
    Refusal, Refused, Release, Renew, Renewed, Revoke, Size, Stored, Survey, Surveyed, Switch, ToFileServer, Token,
    Unlock, Unread, VisitorKey, Want, WhenStale,
};
use spread::{Number, Revision, SiteKey, SiteSettings};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;
use tree::ChunkHash;
use types::{NodeId, SessionId, Time};

pub(crate) fn key() -> SiteKey {
    SiteKey { space: "main".to_owned(), name: "shop".to_owned() }
}

/// The chunks that a script has named, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<ChunkHash, String>);

impl Names {
    pub(crate) fn hash(&mut self, name: &str) -> ChunkHash {
        let hash = ChunkHash::of(name.as_bytes());
        self.0.insert(hash, name.to_owned());
        hash
    }

    pub(crate) fn hashes(&mut self, names: &[&str]) -> Vec<ChunkHash> {
        names.iter().map(|name| self.hash(name)).collect()
    }

    pub(crate) fn revision(&mut self, word: &str) -> Option<Revision> {
        let (of, root) = word.split_once('=')?;
        Some(Revision { number: number(of)?, root: self.hash(root) })
    }

    pub(crate) fn name(&self, hash: ChunkHash) -> &str {
        self.0.get(&hash).map_or("unnamed", String::as_str)
    }

    /// The names of chunks, each behind a space.
    pub(crate) fn list<'a>(&self, hashes: impl IntoIterator<Item = &'a ChunkHash>) -> String {
        hashes.into_iter().fold(String::new(), |list, hash| list + " " + self.name(*hash))
    }

    pub(crate) fn show(&self, Revision { number, root }: Revision) -> String {
        format!("{}={}", show(number), self.name(root))
    }
}

pub(crate) fn ms(text: &str) -> Option<Time> {
    Some(Time(text.parse::<u64>().ok()? * 1_000_000))
}

pub(crate) fn in_ms(time: Time) -> u64 {
    time.0 / 1_000_000
}

pub(crate) fn number(word: &str) -> Option<Number> {
    if word == "-" {
        return Some(Number::NONE);
    }
    let (life, count) = word.split_once('.')?;
    Some(Number { life: life.parse().ok()?, count: count.parse().ok()? })
}

pub(crate) fn token(word: &str) -> Option<Token> {
    number(word).map(|Number { life, count }| Token { life, number: count })
}

fn identity(word: &str) -> Option<Identity> {
    number(word).map(|Number { life, count }| Identity { publisher: life, number: count })
}

pub(crate) fn show_token(Token { life, number }: Token) -> String {
    format!("{life}.{number}")
}

fn show_tokens(tokens: &[Token]) -> String {
    let tokens: Vec<String> = tokens.iter().map(|token| show_token(*token)).collect();
    if tokens.is_empty() { String::new() } else { format!(" locks={}", tokens.join(",")) }
}

pub(crate) fn show(number: Number) -> String {
    if number == Number::NONE { "-".to_owned() } else { format!("{}.{}", number.life, number.count) }
}

fn show_all(numbers: &[Number]) -> String {
    numbers.iter().map(|number| show(*number)).collect::<Vec<_>>().join(",")
}

/// The settings that are changed.
pub(crate) fn show_settings(SiteSettings { keep, lease, consistency, when_stale }: SiteSettings) -> String {
    let keep = keep.map_or(String::new(), |keep| format!(" keep={keep}"));
    let lease = lease.map_or(String::new(), |lease| format!(" lease={}", lease.as_millis()));
    let consistency = consistency.map_or(String::new(), |consistency| format!(" consistency={}", consistency.name()));
    let refuses = if when_stale == Some(WhenStale::Refuse) { " refuse" } else { "" };
    keep + &lease + &consistency + refuses
}

pub(crate) fn port(link: &str) -> Option<Port> {
    let letter = link.bytes().next().filter(|_| link.len() == 1)?;
    Some(Port::Session(SessionId(u64::from(letter))))
}

pub(crate) fn link(port: Port) -> String {
    match port {
        Port::Session(SessionId(number)) => char::from(number as u8).to_string(),
        _ => "up".to_owned(),
    }
}

pub(crate) fn consistency(word: &str) -> Option<Consistency> {
    Consistency::ALL.into_iter().find(|known| known.name() == word)
}

/// The words of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [&'a str]);

impl<'a> Words<'a> {
    /// The value behind `name=`.
    pub(crate) fn value(self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn has(self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub(crate) fn parsed<T: FromStr>(self, name: &str) -> Option<T> {
        self.value(name)?.parse().ok()
    }

    fn time(self, name: &str) -> Option<Time> {
        self.value(name).map_or(Some(Time::ZERO), ms)
    }

    pub(crate) fn number(self, name: &str) -> Option<Number> {
        self.value(name).map_or(Some(Number::NONE), number)
    }

    /// The locks in a list.
    fn tokens(self, name: &str) -> Option<Vec<Token>> {
        let token = |Number { life, count }| Token { life, number: count };
        Some(self.numbers(name)?.into_iter().map(token).collect())
    }

    fn numbers(self, name: &str) -> Option<Vec<Number>> {
        self.value(name).map_or(Some(Vec::new()), |list| list.split(',').map(number).collect())
    }
}

/// Reads a message to a file server or relay. Its site has the number `slot` in the session.
pub(crate) fn to_server(names: &mut Names, slot: u32, parts: &[&str]) -> Option<ToFileServer> {
    let words = Words(parts);
    let ticket = || parts.get(1)?.parse().ok();
    let SiteKey { space, name: site } = key();
    let change = |kind| {
        let consistency = words.value("consistency").and_then(consistency);
        let (keep, lease_ms, when_stale) = (words.parsed("keep"), words.parsed("lease"), words.has("refuse"));
        let when_stale = when_stale.then_some(WhenStale::Refuse);
        let (ticket, space, site) = (ticket()?, "main".into(), "shop".into());
        Some(Change { ticket, kind, keep, lease_ms, consistency, when_stale, space, site })
    };
    Some(match *parts {
        ["join", ..] => {
            let (asked, life) = (words.time("asked")?, words.parsed("life")?);
            let (at, seen, held) = (words.number("at")?, words.number("seen")?, words.numbers("held")?);
            Join { slot, asked, life, at, seen, space, site, held }.into()
        }
        ["renew", ..] => {
            let (asked, at, released) = (words.time("asked")?, words.number("at")?, words.numbers("released")?);
            Renew { slot, asked, at, released }.into()
        }
        ["hold", of] => Hold { slot, number: number(of)? }.into(),
        ["leave"] => Leave { slot }.into(),
        ["want", count, "times", chunk] => Want { hashes: vec![names.hash(chunk); count.parse().ok()?] }.into(),
        ["want", ref chunks @ ..] => Want { hashes: names.hashes(chunks) }.into(),
        ["have", _, ref chunks @ ..] => Have { ticket: ticket()?, hashes: names.hashes(chunks) }.into(),
        ["put", _, ref chunks @ ..] => {
            let chunk = |name: &&str| (names.hash(name), Bytes::from(name.to_string()));
            Put { ticket: ticket()?, space, site, chunks: chunks.iter().map(chunk).collect() }.into()
        }
        ["switch", ..] => {
            let Number { life: publisher, count } = words.number("id")?;
            let base = words.value("base").filter(|base| *base != "-").map(|base| names.hash(base));
            let root = names.hash(words.value("root")?);
            let (ticket, of) = (ticket()?, words.parsed("of").unwrap_or_default());
            let (waits, merges) = (words.has("waits"), words.has("merges"));
            let (ends_locks, locks) = (words.has("now"), words.tokens("locks")?);
            let (identity, size, note) = (Identity { publisher, number: count }, Size::default(), String::new());
            Switch { ticket, identity, space, site, base, root, of, size, waits, merges, ends_locks, locks, note }
                .into()
        }
        ["lock", id, path] => Lock { identity: identity(id)?, space, site, path: path.as_bytes().to_vec() }.into(),
        ["keep-locks", publisher, ..] => {
            let (asked, tokens) = (words.time("asked")?, words.tokens("locks")?);
            KeepLocks { asked, publisher: publisher.parse().ok()?, tokens }.into()
        }
        ["unlock", id] => Unlock { identity: identity(id)? }.into(),
        ["create", ..] => change(ChangeKind::Create)?.into(),
        ["set", ..] => change(ChangeKind::Set)?.into(),
        ["remove", _] => change(ChangeKind::Remove)?.into(),
        ["acquire", of, ..] => Acquire { slot, at: number(of)?, shares: !words.has("once") }.into(),
        ["release"] => Release { slot }.into(),
        ["collect", _] => Collect { ticket: ticket()? }.into(),
        ["survey", _] => Survey { ticket: ticket()?, space, site }.into(),
        ["enter", space] => Enter { space: space.to_owned() }.into(),
        ["hand-over", _, to] => HandOver { ticket: ticket()?, to: NodeId(to.parse().ok()?), space }.into(),
        _ => return None,
    })
}

/// A chunk with its bytes.
pub(crate) fn sized(names: &mut Names, word: &str) -> Option<(ChunkHash, u32)> {
    let (name, bytes) = word.split_once(':').unwrap_or((word, "2"));
    Some((names.hash(name), bytes.parse().ok()?))
}

/// Reads a message of a file server or relay, for a site with the number `slot` in the session.
pub(crate) fn from_server(names: &mut Names, slot: u32, parts: &[&str]) -> Option<FromFileServer> {
    let words = Words(parts);
    let ticket = || parts.get(1)?.parse().ok();
    Some(match *parts {
        ["joined", revision, ..] => {
            let Revision { number, root } = names.revision(revision)?;
            let (asked, lease_ms) = (words.time("asked")?, words.parsed("lease")?);
            let (keep, key, held) = (2, VisitorKey([7; 32]), words.numbers("held")?);
            let consistency = parts.iter().find_map(|word| consistency(word)).unwrap_or_default();
            let shares = !words.has("unshared");
            let when_stale = if words.has("refuse") { WhenStale::Refuse } else { WhenStale::Serve };
            Joined { slot, asked, lease_ms, number, root, keep, key, consistency, when_stale, shares, held }.into()
        }
        ["not-joined", why] => {
            let why = match why {
                "no-site" => NotNow::NoSite,
                "not-yet" => NotNow::NotYet,
                _ => NotNow::Full,
            };
            NotJoined { slot, why }.into()
        }
        ["offer", revision, ..] => {
            let Revision { number, root } = names.revision(revision)?;
            let base = names.hash(words.value("base").unwrap_or("-"));
            let edits = Bytes::from(words.value("edits").unwrap_or_default().to_owned());
            let (reports, answers) = (words.has("reports"), words.has("answers"));
            Offer { slot, number, root, base, reports, answers, edits }.into()
        }
        ["invalidate", of, ..] => Invalidate { slot, number: number(of)?, reports: words.has("reports") }.into(),
        ["revoke"] => Revoke { slot }.into(),
        ["ahead", ref chunks @ ..] => {
            Ahead { slot, chunks: chunks.iter().map(|word| sized(names, word)).collect::<Option<_>>()? }.into()
        }
        ["renewed", ..] => Renewed { slot, asked: words.time("asked")?, lease_ms: words.parsed("lease")? }.into(),
        ["lapsed"] => Lapsed { slot }.into(),
        ["held", of] => Held { slot, number: number(of)?, is_held: true }.into(),
        ["not-held", of] => Held { slot, number: number(of)?, is_held: false }.into(),
        ["chunk", name, ..] => {
            let bytes = words.value("bytes").unwrap_or(name).to_owned();
            Chunk { hash: names.hash(name), bytes: bytes.into() }.into()
        }
        ["gone", name] => Gone { hash: names.hash(name) }.into(),
        ["unread", name, ref why @ ..] => Unread { hash: names.hash(name), text: why.join(" ") }.into(),
        ["elsewhere", address] => Elsewhere { address: address.to_owned() }.into(),
        ["handed-over", _, term, ref chunks @ ..] => {
            let (term, is_last) = (term.parse().ok()?, !words.has("more"));
            let chunks: Vec<&str> = chunks.iter().copied().filter(|word| *word != "more").collect();
            HandedOver { ticket: ticket()?, term, lease_ms: 1000, is_last, hashes: names.hashes(&chunks) }.into()
        }
        ["missing", _, ref chunks @ ..] => Missing { ticket: ticket()?, hashes: names.hashes(chunks) }.into(),
        ["stored", _] => Stored { ticket: ticket()? }.into(),
        ["published", _, of, ..] => {
            let Revision { number, root } = names.revision(of)?;
            Published { ticket: ticket()?, number, root, is_new: !words.has("unchanged") }.into()
        }
        ["locked", _, lock, of] => {
            let Revision { number, root } = names.revision(of)?;
            Locked { ticket: ticket()?, token: token(lock)?, number, root: Some(root) }.into()
        }
        ["locks-kept", ..] => LocksKept { asked: words.time("asked")?, lease_ms: words.parsed("lease")? }.into(),
        ["recall-lock", lock] => RecallLock { token: token(lock)? }.into(),
        ["lock-over", lock] => LockOver { token: token(lock)? }.into(),
        ["everywhere", _] => Everywhere { ticket: ticket()? }.into(),
        ["changed", _] => Changed { ticket: ticket()? }.into(),
        ["collected", _, chunks] => Collected { ticket: ticket()?, chunks: chunks.parse().ok()?, bytes: 0 }.into(),
        ["surveyed", _, of] => Surveyed { ticket: ticket()?, head: number(of)?, subscribers: Vec::new() }.into(),
        [why @ ("overtaken" | "conflict" | "not-kept"), _, of, ref text @ ..] => {
            let why = match why {
                "overtaken" => Refusal::Overtaken,
                "conflict" => Refusal::Conflict,
                _ => Refusal::NotKept,
            };
            Refused { ticket: ticket()?, why, head: number(of)?, text: text.join(" ") }.into()
        }
        _ => return None,
    })
}

/// A message to a file server or relay, as a script has it.
pub(crate) fn show_to(names: &Names, message: ToFileServer) -> String {
    match message {
        ToFileServer::Join(Join { asked, life, at, seen, held, .. }) => {
            let (at, seen, held) = (show(at), show(seen), show_all(&held));
            format!("Join life={life} asked={} at={at} seen={seen} held={held}", in_ms(asked))
        }
        ToFileServer::Renew(Renew { asked, at, released, .. }) => {
            format!("Renew asked={} at={} released={}", in_ms(asked), show(at), show_all(&released))
        }
        ToFileServer::Hold(Hold { number, .. }) => format!("Hold {}", show(number)),
        ToFileServer::Leave(_) => "Leave".to_owned(),
        ToFileServer::Want(Want { hashes }) => format!("Want{}", names.list(&hashes)),
        ToFileServer::Have(Have { ticket, hashes }) => format!("Have {ticket}{}", names.list(&hashes)),
        ToFileServer::Put(Put { ticket, chunks, .. }) => {
            format!("Put {ticket}{}", names.list(chunks.iter().map(|(hash, _)| hash)))
        }
        ToFileServer::Switch(Switch { ticket, identity, base, root, waits, merges, ends_locks, locks, .. }) => {
            let Identity { publisher, number } = identity;
            let (base, waits) = (base.map_or("-", |base| names.name(base)), if waits { " waits" } else { "" });
            let merges = if merges { " merges" } else { "" };
            let (now, locks, root) = (if ends_locks { " now" } else { "" }, show_tokens(&locks), names.name(root));
            format!("Switch {ticket} id={publisher}.{number} base={base} root={root}{waits}{merges}{now}{locks}")
        }
        ToFileServer::Acquire(Acquire { at, shares, .. }) => {
            format!("Acquire at={}{}", show(at), if shares { "" } else { " once" })
        }
        ToFileServer::Release(_) => "Release".to_owned(),
        ToFileServer::Lock(Lock { identity: Identity { publisher, number }, path, .. }) => {
            format!("Lock {publisher}.{number} {}", String::from_utf8_lossy(&path))
        }
        ToFileServer::KeepLocks(KeepLocks { asked, publisher, tokens }) => {
            format!("KeepLocks {publisher} asked={}{}", in_ms(asked), show_tokens(&tokens))
        }
        ToFileServer::Unlock(Unlock { identity: Identity { publisher, number } }) => {
            format!("Unlock {publisher}.{number}")
        }
        ToFileServer::Change(Change { ticket, kind, keep, lease_ms, consistency, when_stale, .. }) => {
            let lease = lease_ms.map(|lease| Duration::from_millis(lease.into()));
            let settings = show_settings(SiteSettings { keep, lease, consistency, when_stale });
            format!("Change {ticket} {kind:?}{settings}")
        }
        ToFileServer::Collect(Collect { ticket }) => format!("Collect {ticket}"),
        ToFileServer::Survey(Survey { ticket, .. }) => format!("Survey {ticket}"),
        ToFileServer::Enter(Enter { space }) => format!("Enter {space}"),
        ToFileServer::HandOver(HandOver { ticket, to, .. }) => format!("HandOver {ticket} to={}", to.0),
        ToFileServer::Goodbye(goodbye) => format!("Goodbye {goodbye:?}"),
    }
}

/// A message of a file server or relay, as a script has it.
pub(crate) fn show_from(names: &Names, message: FromFileServer) -> String {
    match message {
        FromFileServer::Joined(joined) => {
            let Joined { asked, lease_ms, number, root, held, consistency, when_stale, shares, .. } = joined;
            let (revision, held) = (names.show(Revision { number, root }), show_all(&held));
            let shares = if shares { "" } else { " unshared" };
            let said = format!("Joined {revision} asked={} lease={lease_ms} held={held}", in_ms(asked));
            // The usual one is not said.
            let consistency = Some(consistency.name()).filter(|name| *name != Consistency::default().name());
            let refuses = if when_stale == WhenStale::Refuse { " refuse" } else { "" };
            said + &consistency.map_or(String::new(), |name| format!(" {name}")) + refuses + shares
        }
        FromFileServer::NotJoined(NotJoined { why, .. }) => format!("NotJoined {why:?}"),
        FromFileServer::Offer(Offer { number, root, base, reports, answers, edits, .. }) => {
            let mut said = format!("Offer {} base={}", names.show(Revision { number, root }), names.name(base));
            said += if reports { " reports" } else { "" };
            said += if answers { " answers" } else { "" };
            if !edits.is_empty() {
                write!(said, " edits={}", String::from_utf8_lossy(&edits)).unwrap();
            }
            said
        }
        FromFileServer::Invalidate(Invalidate { number, reports, .. }) => {
            format!("Invalidate {}{}", show(number), if reports { " reports" } else { "" })
        }
        FromFileServer::Revoke(_) => "Revoke".to_owned(),
        FromFileServer::Ahead(Ahead { chunks, .. }) => {
            format!("Ahead{}", names.list(chunks.iter().map(|(hash, _)| hash)))
        }
        FromFileServer::Renewed(Renewed { asked, lease_ms, .. }) => {
            format!("Renewed asked={} lease={lease_ms}", in_ms(asked))
        }
        FromFileServer::Lapsed(_) => "Lapsed".to_owned(),
        FromFileServer::Held(Held { number, is_held, .. }) => {
            format!("{} {}", if is_held { "Held" } else { "NotHeld" }, show(number))
        }
        FromFileServer::Chunk(Chunk { hash, bytes }) => {
            let is_it = ChunkHash::of(&bytes) == hash;
            let other = if is_it { String::new() } else { format!(" bytes={}", String::from_utf8_lossy(&bytes)) };
            format!("Chunk {}{other}", names.name(hash))
        }
        FromFileServer::Gone(Gone { hash }) => format!("Gone {}", names.name(hash)),
        FromFileServer::Unread(Unread { hash, text }) => format!("Unread {} {text}", names.name(hash)),
        FromFileServer::Elsewhere(Elsewhere { address }) => format!("Elsewhere {address}"),
        FromFileServer::HandedOver(HandedOver { ticket, term, is_last, hashes, .. }) => {
            let more = if is_last { "" } else { " more" };
            format!("HandedOver {ticket} term={term}{}{more}", names.list(&hashes))
        }
        FromFileServer::Missing(Missing { ticket, hashes }) => format!("Missing {ticket}{}", names.list(&hashes)),
        FromFileServer::Stored(Stored { ticket }) => format!("Stored {ticket}"),
        FromFileServer::Published(Published { ticket, number, root, is_new }) => {
            let unchanged = if is_new { "" } else { " unchanged" };
            format!("Published {ticket} {}{unchanged}", names.show(Revision { number, root }))
        }
        FromFileServer::Everywhere(Everywhere { ticket }) => format!("Everywhere {ticket}"),
        FromFileServer::Changed(Changed { ticket }) => format!("Changed {ticket}"),
        FromFileServer::Collected(Collected { ticket, chunks, .. }) => format!("Collected {ticket} chunks={chunks}"),
        FromFileServer::Surveyed(Surveyed { ticket, head, subscribers }) => {
            let said = format!("Surveyed {ticket} head={}", show(head));
            subscribers.iter().fold(said, |said, it| {
                let connected = if it.is_connected { " connected" } else { "" };
                let (at, holds, lease) = (show(it.at), it.holds, it.lease_ms);
                said + &format!("; life={} at={at} lease={lease} holds={holds}{connected}", it.life)
            })
        }
        FromFileServer::Refused(Refused { ticket, why, head, text }) => {
            format!("Refused {ticket} {why:?} head={} {text}", show(head)).trim_end().to_owned()
        }
        FromFileServer::Locked(Locked { ticket, token, number, root }) => {
            let at = root.map_or("-".to_owned(), |root| names.show(Revision { number, root }));
            format!("Locked {ticket} {} {at}", show_token(token))
        }
        FromFileServer::LocksKept(LocksKept { asked, lease_ms }) => {
            format!("LocksKept asked={} lease={lease_ms}", in_ms(asked))
        }
        FromFileServer::RecallLock(RecallLock { token }) => format!("RecallLock {}", show_token(token)),
        FromFileServer::LockOver(LockOver { token }) => format!("LockOver {}", show_token(token)),
        FromFileServer::Goodbye(goodbye) => format!("Goodbye {goodbye:?}"),
    }
}
