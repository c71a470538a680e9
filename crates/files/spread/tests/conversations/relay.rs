//! A relay: `up` is its link to the file server, its members' links have names of one letter.

use crate::play::Player;
use crate::words::{Names, from_server, link, ms, port, show_from, show_to, to_server};
use machine::{Machine, Output, Parcel, Port};
use spread::{Relay, RelayConfig, Way};
use std::fmt::Write as _;
use types::{Broken, Time};

/// The number of a site in every session.
const SLOT: u32 = 1;

pub(crate) struct RelayScript {
    relay: Relay,
    now: Time,
    names: Names,
    pub(crate) said: String,
}

impl RelayScript {
    pub(crate) fn new(broken: Broken<Way>) -> Self {
        let mut relay = Relay::new(RelayConfig { life: 5, cache_bytes: 1000, broken });
        relay.start(Time::ZERO);
        Self { relay, now: Time::ZERO, names: Names::default(), said: String::new() }
    }

    fn pass(&mut self, to: Time) {
        self.now = to;
        while self.relay.poll_timeout().is_some_and(|due| due <= to) {
            self.relay.handle_timeout(to);
        }
    }
}

impl Player for RelayScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let parts: Vec<_> = event.split(' ').collect();
        match parts[..] {
            ["at", time] => self.pass(ms(time)?),
            ["up", "connected"] => self.relay.connected(self.now, Port::SERVER),
            ["up", "lost"] => self.relay.disconnected(self.now, Port::SERVER),
            ["up", ref words @ ..] => {
                let message = from_server(&mut self.names, SLOT, words)?;
                self.relay.handle(self.now, Port::SERVER, Parcel::new(message));
            }
            [link, "lost"] => self.relay.disconnected(self.now, port(link)?),
            [link, "has", "room"] => self.relay.has_room(port(link)?),
            [link, ref words @ ..] => {
                let message = to_server(&mut self.names, SLOT, words)?;
                self.relay.handle(self.now, port(link)?, Parcel::new(message));
            }
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Send(Port::SERVER, message, None) => {
                    let message = message.open().expect("a relay says such messages to its file server");
                    writeln!(self.said, "up {}", show_to(&self.names, message)).unwrap();
                }
                Output::Send(port, message, None) => {
                    let message = message.open().expect("a relay says such messages to a member");
                    writeln!(self.said, "{} {}", link(port), show_from(&self.names, message)).unwrap();
                }
                Output::End(port, reason, text) => {
                    writeln!(self.said, "{} ends: {}: {text}", link(port), reason.name()).unwrap();
                }
                Output::AwaitRoom(_) => {}
                other => panic!("a relay does not want {other:?}"),
            }
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
