//! A home on another machine whose table is read by libfabric: its provider of sockets stands for the network.

mod common;
#[expect(dead_code, reason = "its lines have one connection each")]
#[path = "common/relay.rs"]
mod relay;

use coherence::{AttachedHome, HomeAddress, HomeServer, ShareConfig, SiteConfig};
use common::{LEASE, PATIENCE, item, stored, until};
use net::Runtime;
use relay::Relay;
use std::net::SocketAddr;
use tokio::time::timeout;

const PROVIDER: &str = "tcp;ofi_rxm";

/// Whether the library between libfabric and Thorp was built (`cargo xtask shim`). In CI it has to be there.
fn is_there() -> bool {
    let is_there = std::env::var_os("THORP_FABRIC_SHIM").is_some();
    assert!(is_there || std::env::var_os("CI").is_none(), "cargo xtask test builds the library");
    if !is_there {
        println!("skipped: no library, see cargo xtask shim");
    }
    is_there
}

fn start(listen: SocketAddr, runtime: &Runtime) -> HomeServer {
    let site = SiteConfig { lease: LEASE, responses_max: 1000, ..SiteConfig::default() };
    let config =
        ShareConfig { site, listen: Some(listen), fabric: Some(PROVIDER.to_owned()), ..ShareConfig::default() };
    HomeServer::start(&config, runtime).unwrap()
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A cache whose line to the responder can be dead.
fn attach(home: SocketAddr, runtime: &Runtime) -> (AttachedHome, Relay) {
    let (relay, address) = Relay::to_responder(home);
    (AttachedHome::attach_by_fabric(&address, PROVIDER, runtime).unwrap(), relay)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_needs_no_answer_and_sees_every_change() {
    if !is_there() {
        return;
    }
    let runtime = Runtime::start().unwrap();
    let home = start(anywhere(), &runtime);
    let (cache, relay) = attach(home.address().unwrap(), &runtime);
    let (claim, kept) = (stored(&cache.cache(), &item(1)).await, stored(&cache.cache(), &item(2)).await);
    // Nobody answers while the line is dead, so it is the table that is read. A busy machine may need more than one
    // try.
    until("a look-up that nobody answers", async || {
        relay.set_dead(false);
        until("an answer", async || claim.look().await).await;
        relay.set_dead(true);
        claim.look().await
    })
    .await;
    relay.set_dead(false);
    until("an answer", async || claim.look().await).await;
    cache.changes().made(item(1)).await.unwrap();
    assert!(!claim.look().await);
    until("an answer", async || kept.look().await).await;
    // Everything.
    cache.cache().lapse_all();
    assert!(!kept.look().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_within_the_lease_of_its_home_alone() {
    if !is_there() {
        return;
    }
    let runtime = Runtime::start().unwrap();
    let home = start(anywhere(), &runtime);
    let (cache, relay) = attach(home.address().unwrap(), &runtime);
    let claim = stored(&cache.cache(), &item(1)).await;
    until("an answer", async || claim.look().await).await;
    // The home continues; but of its lease nothing is heard any more.
    relay.set_dead(true);
    until("the end of the lease that was heard of", async || !claim.look().await).await;
    assert!(!timeout(PATIENCE, claim.look()).await.unwrap());
    relay.set_dead(false);
    until("an answer", async || claim.look().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_home_is_read_where_it_is() {
    if !is_there() {
        return;
    }
    let runtime = Runtime::start().unwrap();
    let first = start(anywhere(), &runtime);
    let address = first.address().unwrap();
    let cache = AttachedHome::attach_by_fabric(&address.to_string().parse().unwrap(), PROVIDER, &runtime).unwrap();
    let claim = stored(&cache.cache(), &item(1)).await;
    until("an answer", async || claim.look().await).await;
    drop(first);
    until("the end of the home", async || !claim.look().await).await;
    let _second = start(address, &runtime);
    let again = stored(&cache.cache(), &item(1)).await;
    until("an answer", async || again.look().await).await;
    assert!(!claim.look().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_shares_no_table_is_asked() {
    if !is_there() {
        return;
    }
    let runtime = Runtime::start().unwrap();
    let site = SiteConfig { responses_max: 1000, ..SiteConfig::default() };
    let config = ShareConfig { site, listen: Some(anywhere()), ..ShareConfig::default() };
    let home = HomeServer::start(&config, &runtime).unwrap();
    let (cache, _relay) = attach(home.address().unwrap(), &runtime);
    let claim = stored(&cache.cache(), &item(1)).await;
    assert!(claim.look().await);
    let socket = HomeAddress::Socket("/run/thorp/home".into());
    assert!(AttachedHome::attach_by_fabric(&socket, PROVIDER, &runtime).unwrap_err().to_string().contains("in place"));
}
