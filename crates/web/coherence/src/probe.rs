//! Whether two homes have one hub. The homes of a proxy must: each hub waits for its own homes alone, so a change that
//! is told to another hub would leave their responses stale.
//!
//! No home tells which hub it has. It matters whether an update that is released at the one has reached the other, and
//! a probe shows just that:
//!
//! ```text
//!   the other:  stores a response that depends on `probe`, and one that depends on `control`
//!   the one:    tells of a change of `probe`, and waits until it is released
//!   the other:  `probe` holds still: another hub.  `control` alone holds: the same hub.  Neither: nothing is known
//! ```
//! The probe is looked at before the control: a change of both is then never mistaken for an answer.

use crate::attached_home::AttachedHome;
use crate::far::drawn;
use homes::Dependency;
use std::time::Duration;
use tokio::time::timeout;

/// How long a probe may take: longer than a hub waits for a home that is gone.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneHub {
    /// The homes have one hub.
    Same,
    /// The homes have two hubs.
    Different,
    /// The probe failed: a home was away, or everything changed at the same time.
    Unknown,
}

impl AttachedHome {
    /// Whether another home has the hub of this one.
    pub async fn has_hub_of(&self, other: &Self) -> OneHub {
        let probed = timeout(PROBE_WITHIN, self.probe(other)).await;
        probed.ok().flatten().unwrap_or(OneHub::Unknown)
    }

    async fn probe(&self, other: &Self) -> Option<OneHub> {
        let cache = other.cache();
        let number = drawn();
        let [probe, control] = ["probe", "control"].map(|name| Dependency::new(format!("thorp {name} {number:016x}")));
        let (probe, control) = (probe?, control?);
        let ticket = cache.fetch_ticket().await?;
        let probe_claim = cache.store(ticket, std::slice::from_ref(&probe)).await.ok()?;
        let control_claim = cache.store(ticket, &[control]).await.ok()?;
        self.changes().made(vec![probe]).await.ok()?;
        let probe_holds = probe_claim.look().await;
        match (probe_holds, control_claim.look().await) {
            (true, _) => Some(OneHub::Different),
            (false, true) => Some(OneHub::Same),
            (false, false) => None,
        }
    }
}
