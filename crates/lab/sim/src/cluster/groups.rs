//! One group: its redirector, with a session with every node and one with each member.

use super::scenario::Scenario;
use crate::violation::{Check, ensure};
use core::time::Duration;
use machine::{Machine, UpstreamId};
use messages::{ToClient, ToServer};
use redirector::{Config, Duty, Output, Redirector};
use types::{Broken, ClientId, GoodbyeReason, Limits, SessionId, Time};

/// The first of the redirectors' identities. Each life has one of its own.
const FIRST_ID: u64 = 1000;

/// A group. Its redirector has nothing on a disk.
#[derive(Debug)]
pub(crate) struct Group {
    number: usize,
    config: Config,
    redirector: Option<Redirector>,
    lives: u64,
}

/// A wish of a redirector.
#[derive(Debug)]
pub(crate) enum Wish {
    ToMember(SessionId, ToClient),
    /// A member's session ends.
    End(SessionId),
    ToNode(UpstreamId, ToServer),
    Open(UpstreamId, String),
    Close(UpstreamId),
    /// The connection to a node is given up.
    Hangup(UpstreamId),
}

impl Group {
    pub(crate) fn new(number: usize, scenario: &Scenario, broken: Broken) -> Self {
        let name = if scenario.grouped.is_one_group { 0 } else { number };
        let config = Config {
            group: format!("group {name}"),
            address: address(number),
            duty: Duty::Lead,
            silence: Duration::from_millis(100),
            help_within: Duration::from_millis(5),
            cache_bytes_limit: scenario.grouped.standby_bytes_limit,
            limits: Limits { leased_changes: 50, ..Limits::SHIPPED },
            broken,
            ..Config::default()
        };
        Self { number, config, redirector: None, lives: 0 }
    }

    /// The redirector, if its process is up.
    pub(crate) fn redirector(&mut self) -> Option<&mut Redirector> {
        self.redirector.as_mut()
    }

    /// Whether its process is up.
    pub(crate) fn is_up(&self) -> bool {
        self.redirector.is_some()
    }

    /// A process begins.
    pub(crate) fn start(&mut self) {
        self.lives += 1;
        let id = ClientId(FIRST_ID + self.number as u64 * FIRST_ID + self.lives);
        self.redirector = Some(Redirector::new(self.config.clone(), id));
    }

    /// The process is killed.
    pub(crate) fn kill(&mut self) {
        self.redirector = None;
    }

    /// The way to the store that its next attempt takes, if it is not as configured.
    pub(crate) fn way(&mut self, now: Time, upstream: UpstreamId) -> Option<String> {
        Machine::way(self.redirector.as_mut()?, now, upstream)
    }

    /// Everything that the redirector wants done.
    ///
    /// # Errors
    /// If it finds something wrong with a member or a node.
    pub(crate) fn wishes(&mut self, now: Time) -> Result<Vec<Wish>, crate::violation::Violation> {
        let Some(redirector) = &mut self.redirector else { return Ok(Vec::new()) };
        if redirector.poll_timeout().is_some_and(|due| due <= now) {
            redirector.handle_timeout(now);
        }
        let mut wishes = Vec::new();
        while let Some(output) = redirector.poll_output() {
            match output {
                Output::Send { to, message } => wishes.push(Wish::ToMember(to, message)),
                Output::End { session, reason, text } => {
                    is_honest(self.number, reason, &text)?;
                    wishes.push(Wish::End(session));
                }
                Output::Upstream(to, message) => wishes.push(Wish::ToNode(to, message)),
                Output::Open(upstream, addresses) => wishes.push(Wish::Open(upstream, addresses.concat())),
                Output::Close(upstream) => wishes.push(Wish::Close(upstream)),
                Output::Hangup { upstream, reason, text } => {
                    is_honest(self.number, reason, &text)?;
                    wishes.push(Wish::Hangup(upstream));
                }
                Output::LookForLeader | Output::Closed => {}
            }
        }
        Ok(wishes)
    }

    /// Returns what is left here that should be over, if anything is.
    pub(crate) fn left(&self) -> Option<String> {
        let Some(redirector) = &self.redirector else { return Some("it is down".into()) };
        let status = redirector.status();
        let is_idle = status.fetches == 0 && status.helps == 0 && status.commits.0 == 0;
        (!is_idle || !redirector.is_live()).then(|| format!("{status:?}"))
    }

    /// The standby cache, if there is one.
    pub(crate) fn cache(&self) -> Option<&cache::Cache> {
        self.redirector.as_ref()?.standby_cache()
    }
}

/// A redirector ends sessions when it is cut off or another leads, and for no fault of a member.
fn is_honest(number: usize, reason: GoodbyeReason, text: &str) -> Check {
    let is_expected = matches!(
        reason,
        GoodbyeReason::CutOff
            | GoodbyeReason::Done
            | GoodbyeReason::NoRoom
            | GoodbyeReason::Silent
            | GoodbyeReason::Superseded
    );
    ensure(is_expected, "sessions", || format!("g{number} ends a session: {}: {text}", reason.name()))
}

/// Where a group's redirector is.
pub(crate) fn address(number: usize) -> String {
    format!("g{number}")
}
