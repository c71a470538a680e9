//! Lookups in the table of a home on another machine that is read without the home's processor, by libfabric.
//!
//! A thread reads, for all that have asked in the meantime: each slot's word once, and the generation. The lease and
//! the clock are no part of that: they come from the responder, as the lease that the home surely has by this machine's
//! clock (`homes::LookUps::window`). It is taken before the words are read, and the clock is read after them, rule
//! ClockAfterWord.
//!
//! A lookup that cannot be made like this has no answer here, and is asked for: the home shares no table, its lease may
//! be over by this clock, or reads fail. Then nothing is read for a while.

use fabric::{Reader, Shim, Window as Memory};
use homes::{LookUps, Proof, Table, Window};
use net::Handle;
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use types::limits::LOOK_UPS_PER_MESSAGE_MAX;

/// How long a read may take.
const READ_WITHIN: Duration = Duration::from_millis(250);

/// How long nothing is read after a read has failed.
const PAUSE: Duration = Duration::from_secs(1);

const _: () = assert!(LOOK_UPS_PER_MESSAGE_MAX < fabric::READS_MAX, "and the generation");
const _: () = assert!(fabric::NAME_BYTES_MAX == types::limits::ENDPOINT_NAME_BYTES_MAX);

/// The way to the thread that reads. It ends with the last of these.
#[derive(Clone)]
pub(crate) struct OneSided(Sender<Ask>);

/// A lookup.
struct Ask {
    proof: Proof,
    /// Whether it is current; nothing if that cannot be said here.
    answer: oneshot::Sender<Option<bool>>,
}

impl OneSided {
    pub(crate) fn start(shim: Shim, provider: &str, table: Handle<LookUps>) -> io::Result<Self> {
        let (sender, asks) = channel();
        let mut table = Remote { shim, provider: provider.to_owned(), table, opened: None, rests_until: None };
        thread::Builder::new().name("thorp-fabric".to_owned()).spawn(move || table.serve(&asks))?;
        Ok(Self(sender))
    }

    /// Whether a stored response answers a request that has come before this call; nothing if that cannot be said here.
    pub(crate) async fn look(&self, proof: Proof) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Ask { proof, answer }).ok()?;
        answered.await.ok()?
    }
}

impl fmt::Debug for OneSided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneSided").finish_non_exhaustive()
    }
}

/// A home's table, as the thread has it.
struct Remote {
    shim: Shim,
    provider: String,
    table: Handle<LookUps>,
    opened: Option<(Window, Reader)>,
    rests_until: Option<Instant>,
}

impl Remote {
    fn serve(&mut self, asks: &Receiver<Ask>) {
        while let Ok(first) = asks.recv() {
            let mut asked = vec![first];
            asked.extend(asks.try_iter().take(LOOK_UPS_PER_MESSAGE_MAX - 1));
            let proofs: Vec<Proof> = asked.iter().map(|ask| ask.proof).collect();
            let found = self.look_all(&proofs);
            for (at, ask) in asked.into_iter().enumerate() {
                // One that is no longer waited for has gone its way.
                let _ = ask.answer.send(found.as_ref().map(|found| found[at]));
            }
        }
    }

    fn look_all(&mut self, proofs: &[Proof]) -> Option<Vec<bool>> {
        let window = |table: &mut LookUps| table.window().map(|(window, until)| (window.clone(), until));
        let (window, until) = self.table.look(window)?;
        if self.table.driver().now() >= until {
            return None;
        }
        // A slot beside the table is of an earlier life of the home.
        let of_table = |proof: &&Proof| proof.slot < window.slots;
        let mut at: Vec<u64> = proofs.iter().filter(of_table).map(|proof| Table::place(proof.slot)).collect();
        at.push(Table::GENERATION);
        at.sort_unstable();
        at.dedup();
        let words = self.read(&window, &at)?;
        if self.table.driver().now() >= until {
            return None;
        }
        let word = |place| at.binary_search(&place).ok().map(|at| words[at]);
        let is_current = |proof: &Proof| {
            word(Table::place(proof.slot)) == Some(proof.word) && word(Table::GENERATION) == Some(proof.generation)
        };
        Some(proofs.iter().map(is_current).collect())
    }

    /// Reads words of the table; nothing if that has failed now or a while ago.
    fn read(&mut self, window: &Window, at: &[u64]) -> Option<Vec<u64>> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        if self.opened.as_ref().is_none_or(|(opened, _)| opened != window) {
            self.opened = None;
            let Window { name, base, key, .. } = window.clone();
            let opened = self.shim.open(&self.provider, &Memory { name, base, key });
            self.opened = opened.ok().map(|reader| (window.clone(), reader));
        }
        let words = self.opened.as_mut().and_then(|(_, reader)| reader.read(at, READ_WITHIN).ok());
        self.rests_until = None;
        if words.is_none() {
            self.opened = None;
            self.rests_until = Some(Instant::now() + PAUSE);
        }
        words
    }
}
