//! Changes that have been made, as the caches beside them are told.

use crate::ask::{Asked, begin};
use crate::updates::{Ended, Updates};
use homes::{Answer, Attached, Dependency, Question};
use net::Handle;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// The way of changes to all caches.
#[derive(Clone, Debug)]
pub struct Changes(Way);

#[derive(Clone, Debug)]
enum Way {
    Updates(Updates),
    /// Their homes, which have one hub.
    Homes(Vec<Handle<Attached>>),
}

impl Changes {
    pub(crate) fn by(updates: Updates) -> Self {
        Self(Way::Updates(updates))
    }

    pub(crate) fn of(home: Handle<Attached>) -> Self {
        Self(Way::Homes(vec![home]))
    }

    /// The way to all caches of several homes with one hub.
    pub fn by_all(ways: impl IntoIterator<Item = Self>) -> Self {
        let homes = ways.into_iter().flat_map(|way| match way.0 {
            Way::Homes(homes) => homes,
            Way::Updates(_) => Vec::new(),
        });
        Self(Way::Homes(homes.collect()))
    }

    /// Reports a change that has been made, and waits until no cache answers without it. Each home that is there has
    /// said so then, and one of them at least: a home that is gone answers within a lease from the hub, which the
    /// others' word has waited for.
    ///
    /// # Errors
    /// The hub of this process has ended. A hub elsewhere, or a home, is waited for, however long it is gone.
    pub async fn made(&self, dependencies: Vec<Dependency>) -> Result<(), Ended> {
        match &self.0 {
            Way::Updates(updates) => updates.announce(dependencies).await?.visible(),
            Way::Homes(homes) => {
                let mut waiting = Vec::with_capacity(homes.len());
                waiting.extend(homes.iter().map(|home| begin(home, Question::Changed(dependencies.clone()))));
                let mut is_released = false;
                poll_fn(|cx| poll_all(&mut waiting, &mut is_released, cx)).await?;
            }
        }
        Ok(())
    }
}

/// Whether those homes have said that a change is released that are there.
fn poll_all(
    waiting: &mut Vec<Asked<'_, Attached>>,
    is_released: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Ended>> {
    for at in (0..waiting.len()).rev() {
        match waiting[at].poll(cx) {
            Poll::Ready(Answer::Released) => {
                *is_released = true;
                waiting.swap_remove(at);
            }
            Poll::Ready(_) => return Poll::Ready(Err(Ended)),
            Poll::Pending => {}
        }
    }
    if *is_released {
        // They are woken when their session ends.
        waiting.retain(|change| !change.withdraw());
    }
    if *is_released && waiting.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
}
