//! Tickets and versions as texts, as servers and applications pass them on.
//!
//! A ticket says which key and version a request is for, and when it came by the home's clock. It carries a keyed hash:
//! an application may be sent one by anybody, and an invented one would say that a response is newer than it is.

use crate::keys::{Place, Version};
use coherence::Ticket;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The digits of the numbers in a ticket, in order: slot, version, life, clock, hash.
const DIGITS: [usize; 5] = [8, 16, 16, 16, 16];

/// Writes and reads tickets of one life of the helper.
#[derive(Debug)]
pub(crate) struct Tickets {
    hash: RandomState,
    life: u64,
}

/// A ticket, as the application sends it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) place: Place,
    life: u64,
    clock: u64,
}

impl Request {
    pub(crate) fn new(place: Place, ticket: Ticket) -> Self {
        Self { place, life: ticket.life, clock: ticket.clock }
    }

    /// When the request came, by the home's clock.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { life: self.life, clock: self.clock }
    }
}

/// A version as a text: no other process of the helper makes the same.
pub(crate) struct VersionText {
    life: u64,
    version: Version,
}

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.life, self.version.0)
    }
}

impl Tickets {
    pub(crate) fn new() -> Self {
        // The standard library's hasher is keyed again in each process: so is its hash of nothing.
        let hash = RandomState::new();
        Self { life: hash.hash_one(()), hash }
    }

    pub(crate) fn version(&self, version: Version) -> VersionText {
        VersionText { life: self.life, version }
    }

    pub(crate) fn write(&self, request: &Request) -> String {
        let Request { place, life, clock } = request;
        let hash = self.hash.hash_one(request);
        format!("{:08x}{:016x}{life:016x}{clock:016x}{hash:016x}", place.slot, place.version.0)
    }

    /// The ticket that a text is; `None` if this process has not written it.
    pub(crate) fn read(&self, text: &str) -> Option<Request> {
        if text.len() != DIGITS.iter().sum::<usize>() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut rest = text;
        let numbers = DIGITS.map(|digits| {
            let (number, behind) = rest.split_at(digits);
            rest = behind;
            u64::from_str_radix(number, 16).unwrap_or_default()
        });
        let [slot, version, life, clock, hash] = numbers;
        let place = Place { slot: slot as u32, version: Version(version) };
        let request = Request { place, life, clock };
        (self.hash.hash_one(request) == hash).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tickets_that_were_written_here_are_read() {
        let tickets = Tickets::new();
        let place = Place { slot: 7, version: Version(8) };
        let request = Request::new(place, Ticket { life: 9, clock: u64::MAX });
        let text = tickets.write(&request);
        assert_eq!(tickets.read(&text), Some(request));
        assert_eq!(Tickets::new().read(&text), None, "it is of another process");
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            let mut changed = text.clone();
            changed.replace_range(at..=at, other);
            assert_eq!(tickets.read(&changed), None, "digit {at}");
        }
        for wrong in ["", "0", &text[1..], &format!("{text}0"), &"é".repeat(36)] {
            assert_eq!(tickets.read(wrong), None, "{wrong}");
        }
        assert_ne!(tickets.version(Version(1)).to_string(), Tickets::new().version(Version(1)).to_string());
    }
}
