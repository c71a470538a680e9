//! One conversation: the script's lines given to a redirector, what it says written below each.
//!
//! ```text
//! > ready m1 m2                    the store is reached, we lead, and these members have joined with empty caches
//! > m1 fetch 1/3 number=7          a message of a member
//! upstream session Fetch 1/3 at_least=v0      what the redirector sends to the store
//! > store page 1/3 v5 wheel - axle a message of the store
//! m1 Page 1/3 v5 number=7          what it sends to a member
//! > wait 20                        milliseconds pass
//! ```
//! Before the first event `> set help=10` configures.

mod say;
mod script;

use crate::play::Player;
use machine::UpstreamId;
use messages::{Hello, Leader, Resume, ToServer};
use redirector::{Config, Duty, Output, Redirector};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use types::{Broken, ClientId, SessionId, Time, Vector};

pub(crate) struct Conversation {
    redirector: Redirector,
    config: Config,
    now: Time,
    /// The session that each member has now, by its name.
    sessions: BTreeMap<String, SessionId>,
    epochs: BTreeMap<String, u64>,
    said: String,
}

impl Player for Conversation {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split_whitespace().collect();
        match words[..] {
            ["set", setting] => self.set(setting)?,
            ["ready", ref members @ ..] => self.ready(members)?,
            ["wait", milliseconds] => {
                self.now = self.now + Duration::from_millis(milliseconds.parse().ok()?);
                self.redirector.handle_timeout(self.now);
            }
            ["upstream", "connected"] => self.redirector.upstream_connected(self.now, UpstreamId::ONLY),
            ["upstream", "disconnected"] => self.redirector.upstream_disconnected(self.now, UpstreamId::ONLY),
            ["led", "by", "nobody"] => self.redirector.led_by(self.now, None),
            ["led", "by", address, epoch] => {
                let leader = Leader { group: "site".into(), epoch: epoch.parse().ok()?, address: address.into() };
                self.redirector.led_by(self.now, Some(leader));
            }
            ["lead", epoch] => self.redirector.lead(self.now, epoch.parse().ok()?),
            ["upstream", upstream, "connected"] => {
                self.redirector.upstream_connected(self.now, script::upstream(upstream)?);
            }
            ["upstream", upstream, "disconnected"] => {
                self.redirector.upstream_disconnected(self.now, script::upstream(upstream)?);
            }
            ["store", kind, ref rest @ ..] => {
                self.redirector.from_store(self.now, UpstreamId::ONLY, script::of_store(kind, rest)?);
            }
            ["upstream", upstream, kind, ref rest @ ..] => {
                self.redirector.from_store(self.now, script::upstream(upstream)?, script::of_store(kind, rest)?);
            }
            [member, "connected"] => self.connect(member),
            [member, "gone"] => self.redirector.disconnected(self.now, self.sessions[member]),
            [member, kind, ref rest @ ..] => {
                let message = script::of_member(client(member)?, kind, rest)?;
                self.redirector.handle(self.now, self.sessions[member], message);
            }
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.redirector.poll_output() {
            let name = |session| {
                let found = self.sessions.iter().find(|(_, known)| **known == session);
                found.map_or("nobody", |(name, _)| name.as_str())
            };
            let said = match output {
                Output::Send { to, message } => format!("{} {}", name(to), say::to_member(&message)),
                Output::End { session, reason, .. } => format!("{} is ended: {}", name(session), reason.name()),
                Output::LookForLeader => "look for the leader".into(),
                Output::Closed => "closed".into(),
                Output::Upstream(UpstreamId::ONLY, message) => format!("upstream {}", say::to_store(&message)),
                Output::Upstream(to, message) => format!("upstream {} {}", to.0, say::to_store(&message)),
                Output::Open(upstream, addresses) => format!("open {} to {}", upstream.0, addresses.join(",")),
                Output::Close(upstream) => format!("close {}", upstream.0),
                Output::Hangup { reason, text, .. } => format!("upstream is given up: {}: {text}", reason.name()),
            };
            writeln!(self.said, "{said}").unwrap();
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}

fn duty(name: &str) -> Option<Duty> {
    match name {
        "lead" => Some(Duty::Lead),
        "stand-by" => Some(Duty::StandBy),
        "assist" => Some(Duty::Assist),
        _ => None,
    }
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self::without(Broken::NONE)
    }

    /// With a redirector that does not keep to a rule.
    pub(crate) fn without(broken: Broken) -> Self {
        let config = Config { group: "site".into(), address: "here:1".into(), broken, ..Config::default() };
        Self {
            redirector: Redirector::new(config.clone(), ClientId(0xF)),
            config,
            now: Time(1_000_000_000),
            sessions: BTreeMap::new(),
            epochs: BTreeMap::new(),
            said: String::new(),
        }
    }

    fn set(&mut self, setting: &str) -> Option<()> {
        let (name, value) = setting.split_once('=')?;
        match name {
            "help" => self.config.help_within = Duration::from_millis(value.parse().ok()?),
            "retained" => self.config.retained_bytes_limit = value.parse().ok()?,
            "cache" => self.config.cache_bytes_limit = value.parse().ok()?,
            "pages" => self.config.limits.pages_per_message = value.parse().ok()?,
            "granted" => self.config.limits.granted_pages = value.parse().ok()?,
            "fetches" => self.config.limits.fetches_per_session = value.parse().ok()?,
            "duty" => self.config.duty = duty(value)?,
            _ => return None,
        }
        self.redirector = Redirector::new(self.config.clone(), ClientId(0xF));
        Some(())
    }

    /// The beginning of every conversation, without its words.
    fn ready(&mut self, members: &[&str]) -> Option<()> {
        for event in ["upstream connected", "store welcome", "store resumed through=0"] {
            self.event(event)?;
        }
        self.event("store leader epoch=0 address=")?;
        self.event("store leader epoch=1 address=here:1")?;
        for member in members {
            self.connect(member);
            self.event(&format!("{member} resume"))?;
        }
        self.event("wait 60")?;
        while self.redirector.poll_output().is_some() {}
        Some(())
    }

    /// A member connects and says hello, in its next session.
    fn connect(&mut self, member: &str) {
        let session = SessionId(self.sessions.values().map(|session| session.0).max().unwrap_or(0) + 1);
        self.sessions.insert(member.to_owned(), session);
        let epoch = self.epochs.entry(member.to_owned()).or_default();
        *epoch += 1;
        let client = client(member).expect("members are m1, m2 and so on");
        let hello = Hello { features: 0, cluster: None, client, epoch: *epoch };
        self.redirector.connected(self.now, session);
        self.redirector.handle(self.now, session, hello.into());
    }
}

/// `m3` is client 3.
pub(crate) fn client(name: &str) -> Option<ClientId> {
    name.strip_prefix('m')?.parse().ok().map(ClientId)
}

/// A member with nothing, or with what it says.
pub(crate) fn resume(horizon: Vector, pages: Vec<messages::Held>) -> ToServer {
    ToServer::Resume(Resume { horizon, pages, grants: Vec::new(), last: true, missed: 0 })
}
