//! The machine that is a client: it shouts to several echoes, again after a session was lost, until each has heard it.

use crate::messages::{CALLER, Count, Heard, Shout, ToCaller, ToEcho};
use machine::{Machine, Output, Parcel, Port, UpstreamId, Waiter};
use std::collections::{BTreeMap, VecDeque};
use types::Time;

/// The number under which the application waits for a text to be heard.
pub(crate) const HEARD: Waiter = Waiter(1);

/// A caller of several echoes.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    echoes: BTreeMap<UpstreamId, Session>,
    outputs: VecDeque<Output>,
}

/// The caller's session with one echo.
#[derive(Debug, Default)]
struct Session {
    is_up: bool,
    /// Texts that the echo has not heard yet, in order.
    shouts: VecDeque<String>,
    /// Texts that it has, each with the count that it was given.
    heard: Vec<(u64, String)>,
    /// The last count that the echo has told without being asked for.
    count: Option<u64>,
}

impl Caller {
    /// A caller of one echo, to which it is linked or connected by its process.
    pub(crate) fn of_one() -> Self {
        Self { echoes: BTreeMap::from([(UpstreamId::ONLY, Session::default())]), outputs: VecDeque::new() }
    }

    /// Calls the echo at one of these addresses from now on, under a number that was not used before.
    pub(crate) fn call(&mut self, echo: UpstreamId, addresses: impl Into<Vec<String>>) {
        self.echoes.insert(echo, Session::default());
        let server = framing::upstream(CALLER, addresses.into());
        self.outputs.push_back(Output::Open(echo, server));
    }

    /// Calls an echo no more.
    pub(crate) fn leave(&mut self, echo: UpstreamId) {
        self.echoes.remove(&echo);
        self.outputs.extend([Output::Close(echo), Output::Wake(HEARD)]);
    }

    /// Has a text written down by every echo.
    pub(crate) fn shout(&mut self, text: impl Into<String>) {
        let text = text.into();
        for (&echo, session) in &mut self.echoes {
            if session.is_up {
                self.outputs.push_back(say(echo, text.clone()));
            }
            session.shouts.push_back(text.clone());
        }
    }

    /// The texts that an echo has heard, with their counts.
    pub(crate) fn heard(&self, echo: UpstreamId) -> &[(u64, String)] {
        self.echoes.get(&echo).map_or(&[], |session| &session.heard)
    }

    /// Whether every echo has heard everything.
    pub(crate) fn is_heard(&self) -> bool {
        self.echoes.values().all(|session| session.shouts.is_empty())
    }

    /// The last count that an echo has told.
    pub(crate) fn count(&self, echo: UpstreamId) -> Option<u64> {
        self.echoes.get(&echo)?.count
    }

    /// The session of a port; `None` for an echo that the caller has left.
    fn session(&mut self, port: Port) -> Option<(UpstreamId, &mut Session)> {
        let Port::Upstream(echo) = port else { return None };
        Some((echo, self.echoes.get_mut(&echo)?))
    }
}

fn say(echo: UpstreamId, text: String) -> Output {
    Output::Send(Port::Upstream(echo), Parcel::new(ToEcho::from(Shout { text })), None)
}

impl Machine for Caller {
    fn connected(&mut self, _: Time, port: Port) {
        let Some((echo, session)) = self.session(port) else { return };
        session.is_up = true;
        // A text that was said before the session was lost may have been heard or not: it is said again.
        let again: Vec<_> = session.shouts.iter().map(|text| say(echo, text.clone())).collect();
        self.outputs.extend(again);
    }

    fn disconnected(&mut self, _: Time, port: Port) {
        if let Some((_, session)) = self.session(port) {
            session.is_up = false;
        }
    }

    fn handle(&mut self, _: Time, port: Port, message: Parcel) {
        let Some((_, session)) = self.session(port) else { return };
        match message.open() {
            Ok(ToCaller::Heard(Heard { count, text })) => {
                session.shouts.retain(|shout| *shout != text);
                session.heard.push((count, text));
                self.outputs.push_back(Output::Wake(HEARD));
            }
            Ok(ToCaller::Count(Count { count })) => session.count = Some(count),
            Ok(ToCaller::Goodbye(_)) | Err(_) => {}
        }
    }

    /// Its application finds that nothing is heard any longer.
    fn stop(&mut self, _: &str) {
        *self = Self::default();
        self.outputs.push_back(Output::Wake(HEARD));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn has_callers(&self) -> bool {
        true
    }
}
