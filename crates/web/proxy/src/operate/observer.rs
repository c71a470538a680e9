//! The checks that the proxy makes by itself. The operator is notified of changes.

use crate::operate::notes::{Note, Notes};
use crate::stored::coherence::Coherence;
use coherence::Matches;
use std::time::Duration;
use tokio::time::sleep;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The updates after which the operator is notified, if none of them has named a stored dependency.
const UNMATCHED_MIN: u64 = 20;

/// The state at the last notification.
#[derive(Debug, Default)]
struct Observer {
    is_unmatched: bool,
    troubles: Vec<String>,
}

/// Looks for as long as the proxy runs.
pub(crate) async fn observe(coherence: &Coherence, notes: &Notes) {
    let mut observer = Observer::default();
    loop {
        sleep(LOOK_EVERY).await;
        observer.look_at_troubles(coherence, notes);
        observer.look_at_names(coherence, notes);
    }
}

impl Observer {
    /// Whether the hub, a home or a watcher is away.
    fn look_at_troubles(&mut self, coherence: &Coherence, notes: &Notes) {
        let troubles = coherence.troubles();
        if troubles == self.troubles {
            return;
        }
        notes.say(match &troubles[..] {
            [] => Note::CoherenceBack,
            troubles => Note::CoherenceAway(troubles.join("; ")),
        });
        self.troubles = troubles;
    }

    /// Whether updates name what stored responses depend on.
    fn look_at_names(&mut self, coherence: &Coherence, notes: &Notes) {
        let Some((Matches { updates, matched, unmatched }, named)) = coherence.matches() else { return };
        let is_unmatched = matched == 0 && updates >= UNMATCHED_MIN;
        if let (true, false, Some(unmatched), Some(named)) = (is_unmatched, self.is_unmatched, unmatched, named) {
            notes.say(Note::NamesUnmatched(format!(
                "none of {updates} updates has named what a stored response depends on. The last one named {unmatched}, \
                 and stored responses depend on names such as {named}: the map of the watcher and the application have \
                 to spell them alike"
            )));
            self.is_unmatched = true;
        }
        self.is_unmatched &= is_unmatched;
    }
}
