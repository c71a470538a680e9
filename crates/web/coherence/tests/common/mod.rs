//! The helpers that the tests of shared homes have in common.

use coherence::{Cache, Claim, Dependency};
use std::time::{Duration, Instant};
use tokio::time::sleep;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A lease that a busy machine does not let lapse, and that a test can wait for.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

pub(crate) fn item(number: u32) -> Vec<Dependency> {
    vec![Dependency::new(format!("item:{number}")).unwrap()]
}

/// Stores a response as soon as there is a home with a lease.
pub(crate) async fn stored(cache: &Cache, dependencies: &[Dependency]) -> Claim {
    let begun = Instant::now();
    loop {
        if let Some(ticket) = cache.fetch_ticket().await
            && let Ok(claim) = cache.store(ticket, dependencies).await
        {
            return claim;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is stored");
        sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what} takes too long");
        sleep(Duration::from_millis(1)).await;
    }
}
