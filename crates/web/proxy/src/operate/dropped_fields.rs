//! Request fields that were dropped because an application must not believe them: counted by name, and noted once for
//! each.
//!
//! Clients choose the names, so only the first ones are kept apart.

use crate::limits::DROPPED_NAMES_MAX;
use crate::operate::notes::{Note, Notes};
use http::HeaderName;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name under which further ones are counted. No field has it: names are in lower case.
const OTHERS: &str = "OTHERS";

/// Counts of the dropped fields.
#[derive(Debug, Default)]
pub(crate) struct DroppedFields(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_name: BTreeMap<String, u64>,
    others: u64,
}

impl DroppedFields {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a field, and notes its name the first time.
    pub(crate) fn count(&self, name: &HeaderName, notes: &Notes) {
        let mut counts = self.lock();
        if let Some(count) = counts.by_name.get_mut(name.as_str()) {
            *count += 1;
        } else if counts.by_name.len() < DROPPED_NAMES_MAX {
            counts.by_name.insert(name.to_string(), 1);
            notes.say(Note::FieldDropped(name.to_string()));
        } else {
            counts.others += 1;
        }
    }

    /// The counts by name.
    pub(crate) fn read(&self) -> Vec<(String, u64)> {
        let counts = self.lock();
        let others = (counts.others > 0).then(|| (OTHERS.to_owned(), counts.others));
        counts.by_name.iter().map(|(name, count)| (name.clone(), *count)).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noted_once_and_bounded() {
        let (sender, noted) = std::sync::mpsc::channel();
        let (dropped, notes) = (DroppedFields::default(), Notes::to(Some(sender)));
        for number in 0..2 * DROPPED_NAMES_MAX {
            let name = HeaderName::try_from(format!("x_{number}")).unwrap();
            dropped.count(&name, &notes);
            dropped.count(&name, &notes);
        }
        let counts = dropped.read();
        assert_eq!((counts.len(), noted.try_iter().count()), (DROPPED_NAMES_MAX + 1, DROPPED_NAMES_MAX));
        assert_eq!(counts.last(), Some(&("OTHERS".to_owned(), 2 * DROPPED_NAMES_MAX as u64)));
    }
}
