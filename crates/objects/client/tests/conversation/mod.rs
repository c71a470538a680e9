//! One conversation: the script's lines given to a client, what it says written below each.
//!
//! ```text
//! > t1 read 1/3.0                    a call of the application, by transaction
//! = Wait                             what it gave
//! client Fetch 1/3 at_least=0        what the client sent
//! > store page 1/3 v5 wheel - axle   a message of the store: slots 0 and 2 hold objects
//! wake t1
//! > wait 2                           milliseconds pass
//! > upstream 1 page 1/4 v5           a message of another node, on the connection that was opened to it
//! client to 1 Fetch 1/4 at_least=0   what the client sent there
//! ```
//! Before the first event `> set cache=20000` configures.

mod say;
mod script;

use crate::play::Player;
use crate::words::page;
use client::{Client, Config, TxnHandle};
use machine::UpstreamId;
use messages::{Elsewhere, LeftOut, Page, Reachable, ToClient, ToServer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use types::{Broken, ClientId, PageId, Time};

pub(crate) struct Conversation {
    client: Client,
    config: Config,
    now: Time,
    txns: BTreeMap<String, TxnHandle>,
    /// The number of the last fetch of each page.
    fetches: BTreeMap<PageId, u64>,
    said: String,
}

impl Player for Conversation {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split_whitespace().collect();
        match words[..] {
            ["connected"] => self.client.connected(self.now, UpstreamId::ONLY),
            ["disconnected"] => self.client.disconnected(UpstreamId::ONLY),
            ["upstream", upstream, "connected"] => self.client.connected(self.now, script::upstream(upstream)?),
            ["upstream", upstream, "disconnected"] => self.client.disconnected(script::upstream(upstream)?),
            ["stopped", ref why @ ..] => self.client.stopped(why.join(" ")),
            ["wait", milliseconds] => {
                self.now = self.now + Duration::from_millis(milliseconds.parse().ok()?);
                self.client.handle_timeout(self.now);
            }
            ["set", setting] => self.set(setting)?,
            ["store", kind, ref rest @ ..] => self.hear(UpstreamId::ONLY, script::message(kind, rest)?),
            ["upstream", upstream, kind, ref rest @ ..] => {
                self.hear(script::upstream(upstream)?, script::message(kind, rest)?);
            }
            ["reachable", address, key, ref eligible @ ..] => {
                let (address, key, eligible) = (address.into(), script::key(key)?, eligible.join(""));
                self.client.reachable(self.now, Reachable { address, key, eligible });
            }
            ["look"] => self.client.look_for_leader(self.now),
            ["way"] => {
                let way = self.client.way(self.now).unwrap_or("as configured".into());
                writeln!(self.said, "= {way}").ok()?;
            }
            ["peer", peer, "connected"] => self.client.peer_connected(script::client(peer)?),
            ["peer", peer, "gone"] => self.client.peer_disconnected(self.now, script::client(peer)?),
            ["peer", "page", ref rest @ ..] => self.client.from_peer(self.now, script::peer_page(rest)?),
            ["ahead", ref pages @ ..] => {
                let pages: Vec<_> = pages.iter().map(|word| page(word)).collect::<Option<_>>()?;
                self.client.fetch_ahead(self.now, &pages);
            }
            ["stats"] => self.said += &say::stats(&self.client.stats()),
            [txn, call, ref rest @ ..] => self.call(txn, call, rest)?,
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll_output() {
            let name = |txn: TxnHandle| self.txns.iter().find(|(_, t)| **t == txn).map(|(name, _)| name.as_str());
            let said = match output {
                client::Output::Send(to, message) => {
                    if let ToServer::Fetch(fetch) = &message {
                        self.fetches.extend(fetch.pages.iter().map(|page| (*page, fetch.number)));
                    }
                    match to {
                        UpstreamId::ONLY => format!("client {}", say::to_server(&message)),
                        UpstreamId(to) => format!("client to {to} {}", say::to_server(&message)),
                    }
                }
                client::Output::Open(upstream, addresses) => format!("open {} to {}", upstream.0, addresses.join(",")),
                client::Output::Close(upstream) => format!("close {}", upstream.0),
                client::Output::Lead { epoch } => format!("lead epoch={epoch}"),
                client::Output::LedBy(Some(leader)) => format!("led by {} in epoch {}", leader.address, leader.epoch),
                client::Output::LedBy(None) => "led by nobody".into(),
                client::Output::DialPeer { peer, address } => format!("dial {peer:?} at {address}"),
                client::Output::SendPeer { peer, message } => format!("to {peer:?} {}", say::to_peer(&message)),
                client::Output::Wake(txn) => format!("wake {}", name(txn).unwrap_or("nobody")),
                client::Output::Hangup { upstream: UpstreamId::ONLY, reason, text } => {
                    format!("hangup {}: {text}", reason.name())
                }
                client::Output::Hangup { upstream, reason, text } => {
                    format!("hangup of {} {}: {text}", upstream.0, reason.name())
                }
            };
            writeln!(self.said, "{said}").unwrap();
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self::without(Broken::NONE)
    }

    /// With this rule taken out.
    pub(crate) fn without(broken: Broken) -> Self {
        let config = Config {
            prefetch_pages_max: 0,
            first_window_bytes: usize::MAX,
            follows: false,
            grant_pages: 4,
            broken,
            ..Config::default()
        };
        let client = Client::new(config.clone(), ClientId(0xc));
        Self {
            client,
            config,
            now: Time(1_000_000_000),
            txns: BTreeMap::new(),
            fetches: BTreeMap::new(),
            said: String::new(),
        }
    }

    /// The client hears a message.
    fn hear(&mut self, upstream: UpstreamId, message: ToClient) {
        let message = self.number(message);
        if let ToClient::Page(page) = &message {
            self.fetches.extend(page.behind.iter().map(|behind| (*behind, page.number)));
        }
        self.client.handle(self.now, upstream, message);
    }

    /// An answer to a fetch answers the last one of its page.
    fn number(&self, mut message: ToClient) -> ToClient {
        match &mut message {
            ToClient::Page(Page { page, number, .. })
            | ToClient::LeftOut(LeftOut { page, number, .. })
            | ToClient::Elsewhere(Elsewhere { page, number }) => {
                *number = self.fetches.get(page).copied().unwrap_or(0);
            }
            _ => {}
        }
        message
    }

    fn set(&mut self, setting: &str) -> Option<()> {
        let (name, value) = setting.split_once('=')?;
        match name {
            "cache" => self.config.cache_bytes_limit = value.parse().ok()?,
            "prefetch" => self.config.prefetch_pages_max = value.parse().ok()?,
            "first_window" => self.config.first_window_bytes = value.parse().ok()?,
            "follows" => self.config.follows = value == "yes",
            "first" => self.config.first = Some(script::object(value)?),
            "fresh" => self.config.commits_fresh = value == "yes",
            "group" => self.config.group = Some(value.into()),
            "patience" => self.config.patience = Duration::from_millis(value.parse().ok()?),
            _ => return None,
        }
        self.client = Client::new(self.config.clone(), ClientId(0xc));
        Some(())
    }

    fn call(&mut self, name: &str, call: &str, rest: &[&str]) -> Option<()> {
        let (client, now) = (&mut self.client, self.now);
        if call == "begin" {
            let txn = if rest == ["fresh"] { client.begin_fresh() } else { client.begin() };
            self.txns.insert(name.to_owned(), txn);
            return Some(());
        }
        let txn = *self.txns.get(name)?;
        let said = match (call, rest) {
            ("read", [object]) => say::read(client.read(now, txn, script::object(object)?)),
            ("write", [object, value]) => {
                say::result(client.write(now, txn, script::object(object)?, script::value(value)))
            }
            ("delete", [object]) => say::result(client.delete(now, txn, script::object(object)?)),
            ("create", [space, value]) => {
                say::result(client.create(now, txn, space.parse().ok()?, None, script::value(value)))
            }
            ("create", [space, "near", near, value]) => {
                let near = Some(script::object(near)?);
                say::result(client.create(now, txn, space.parse().ok()?, near, script::value(value)))
            }
            ("commit", []) => say::result(client.commit(now, txn)),
            ("outcome", []) => say::outcome(client.outcome(txn)),
            ("abort", []) => {
                client.abort(now, txn);
                return Some(());
            }
            _ => return None,
        };
        writeln!(self.said, "= {said}").ok()
    }
}
