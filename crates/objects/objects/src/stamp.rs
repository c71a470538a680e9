//! Stamps: what tells an object from those that had its slot before it, and from those that will have it after it.
//!
//! A slot is used again when its object was deleted. So every object carries a stamp, and so does every reference to
//! it: a reference whose stamp is not that of the slot is to an object that is gone. The creating client draws the
//! stamp from a sequence of its own, which says each number once before it repeats one, so that no client ever takes
//! its own new object for its own old one within 2^32 creations. Where the next object in a slot is another client's,
//! the two stamps are equal once in 2^32 times.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use types::{ClientId, splitmix};

/// The number that an object is known by in its slot.
pub(crate) type Stamp = u32;

/// The stamp of objects that no reference leads to: the nodes of maps and their large values, which only their map
/// knows, and the directory of names, which was never created. It is never drawn.
pub(crate) const INTERNAL: Stamp = 0;

/// The sequence that one client's stamps come from.
#[derive(Debug)]
pub(crate) struct Stamps {
    next: AtomicU32,
    /// Parts the sequences of two clients that have met: else each would continue in the other's steps.
    key: u32,
}

impl Stamps {
    /// The sequence of this client. Ids of clients are drawn at random, but those of simulated ones are not.
    pub(crate) fn of(client: ClientId) -> Self {
        let ClientId(mut seed) = client;
        let mixed = splitmix(&mut seed);
        Self { next: AtomicU32::new(mixed as u32), key: (mixed >> 32) as u32 }
    }

    /// The stamp of the next object.
    pub(crate) fn draw(&self) -> Stamp {
        loop {
            let stamp = mix(self.next.fetch_add(1, Relaxed)) ^ self.key;
            if stamp != INTERNAL {
                return stamp;
            }
        }
    }
}

/// Gives every number another one, no two the same: each step can be taken back.
fn mix(mut number: u32) -> u32 {
    number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_client_draws_a_stamp_twice() {
        let stamps = Stamps::of(ClientId(1));
        let drawn: HashSet<Stamp> = (0..100_000).map(|_| stamps.draw()).collect();
        assert_eq!(drawn.len(), 100_000);
        assert!(!drawn.contains(&INTERNAL));
    }

    #[test]
    fn the_internal_stamp_is_passed_over() {
        // The only number that gives zero is the one that is mixed to the key.
        let stamps = Stamps { next: AtomicU32::new(7), key: mix(7) };
        assert_eq!(stamps.draw(), mix(8) ^ mix(7));
    }

    /// Were a client's sequence only another's with a different start, two that have met once would draw the same
    /// stamps for ever.
    #[test]
    fn sequences_that_meet_part_again() {
        let (ones, twos) = (Stamps::of(ClientId(1)), Stamps::of(ClientId(2)));
        twos.next.store(ones.next.load(Relaxed), Relaxed);
        let met = (0..100_000).filter(|_| ones.draw() == twos.draw()).count();
        assert_eq!(met, 0);
        let drawn: HashSet<Stamp> = (0..100_000).map(|_| ones.draw()).collect();
        let shared = (0..100_000).filter(|_| drawn.contains(&twos.draw())).count();
        // 100,000 draws among 2^32 stamps find one of 100,000 others 2.3 times.
        assert!(shared < 20, "{shared}");
    }
}
