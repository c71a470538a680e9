//! Clients that live on the runtime of an asynchronous application.

use crate::relay::Relay;
use crate::scratch::Scratch;
use crate::server::{Redirector, Server};
use objects::{Anywhere, AsyncTx, Db, Ref};
use std::net::SocketAddr;
use tokio::runtime::Builder;

/// Much more than a socket takes at once.
const LARGE_BYTES: usize = 6 << 20;

#[test]
fn many_clients_live_on_one_thread() {
    const CLIENTS: u64 = 16;
    const EACH: u64 = 20;
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let db = Db::connect_async(server.address).await.unwrap();
        let counter = db.transact_async(async |mut tx| tx.create(Anywhere, &0_u64).await).await.unwrap();
        let tasks: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(count_up(server.address, counter, EACH))).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(db.transact_async(async |mut tx| tx.get(counter).await).await.unwrap(), CLIENTS * EACH);
    });
}

async fn count_up(address: SocketAddr, counter: Ref<u64>, times: u64) -> objects::Result<()> {
    let db = Db::connect_async(address).await?;
    for _ in 0..times {
        let add = async |mut tx: AsyncTx| {
            let count = tx.get(counter).await?;
            tx.put(counter, &(count + 1)).await
        };
        db.transact_async(add).await?;
    }
    Ok(())
}

#[test]
fn more_than_a_socket_takes_goes_both_ways() {
    let scratch = Scratch::new();
    let server = Server::start_with(&scratch, LARGE_BYTES);
    let large = vec![7; LARGE_BYTES];
    for runtime in [&mut Builder::new_current_thread(), Builder::new_multi_thread().worker_threads(2)] {
        runtime.enable_all().build().unwrap().block_on(async {
            let writer = Db::connect_async(server.address).await.unwrap();
            let object: Ref<[u8]> =
                writer.transact_async(async |mut tx| tx.create_bytes(Anywhere, &large).await).await.unwrap();
            let reader = Db::connect_async(server.address).await.unwrap();
            let read = reader.transact_async(async |mut tx| tx.get_bytes(object).await).await.unwrap();
            assert!(read.as_ref() == Some(&large));
        });
    }
}

#[test]
fn a_lost_connection_is_opened_again() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let relay = Relay::start(server.address);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let db = Db::connect_async(relay.address).await.unwrap();
        let counter = db.transact_async(async |mut tx| tx.create(Anywhere, &1_u64).await).await.unwrap();
        relay.cut();
        db.transact_async(async |mut tx| tx.put(counter, &2).await).await.unwrap();
        assert_eq!(db.transact_async(async |mut tx| tx.get(counter).await).await.unwrap(), 2);
        assert_eq!(db.stats().sessions, 2);
    });
}

/// A page that is cached by a member whose runtime only computes is sent to its peer all the same.
#[test]
fn a_member_helps_whatever_its_application_computes() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let redirector = Redirector::start(&server);
    for addresses in [redirector.address.to_string(), format!("thorp://{},{}", redirector.address, server.address)] {
        let busy = Builder::new_current_thread().enable_all().build().unwrap();
        let object = Db::connect(server.address).unwrap().transact(|tx| tx.create(Anywhere, &7_u64)).unwrap();
        let member = busy.block_on(async {
            let member = Db::connect_async(&addresses).await.unwrap();
            assert_eq!(member.transact_async(async |mut tx| tx.get(object).await).await.unwrap(), 7);
            member
        });
        // Nothing runs on that runtime any more.
        let peer = Db::builder().read_ahead(false).connect(redirector.address).unwrap();
        assert_eq!(peer.transact(|tx| tx.get(object)).unwrap(), 7);
        assert_eq!(member.stats().pages_given, 1);
        assert_eq!(peer.stats().pages_from_peers, 1);
    }
}
