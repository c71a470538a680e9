//! Changes that have been made, as the caches beside them are told.

use crate::ask::ask;
use crate::call::Called;
use crate::updates::{Ended, Updates};
use homes::{Answer, Attached, Dependency, Question};

/// The way of changes to all caches.
#[derive(Clone, Debug)]
pub struct Changes(Way);

#[derive(Clone, Debug)]
enum Way {
    Updates(Updates),
    Home(Called<Attached>),
}

impl Changes {
    pub(crate) fn by(updates: Updates) -> Self {
        Self(Way::Updates(updates))
    }

    pub(crate) fn of(home: Called<Attached>) -> Self {
        Self(Way::Home(home))
    }

    /// Tells of a change that has been made, and waits until no cache answers without it.
    ///
    /// # Errors
    /// The hub of this process has ended. A hub elsewhere, or a home, is waited for, however long it is gone.
    pub async fn made(&self, dependencies: Vec<Dependency>) -> Result<(), Ended> {
        match &self.0 {
            Way::Updates(updates) => updates.announce(dependencies).await?.visible(),
            Way::Home(home) => match ask(home, Question::Changed(dependencies)).await {
                Answer::Released => {}
                _ => return Err(Ended),
            },
        }
        Ok(())
    }
}
