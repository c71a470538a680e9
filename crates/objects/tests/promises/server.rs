//! A server in this process.

use crate::scratch::Scratch;
use net::{Host, ListenConfig, Runtime};
use node::Node;
use std::net::SocketAddr;
use std::sync::Arc;
use store::Store;

pub(crate) struct Server {
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a store with a safe so small that a small test goes round it.
    pub(crate) fn start(scratch: &Scratch) -> Self {
        Self::start_with(scratch, 1 << 20)
    }

    pub(crate) fn start_with(scratch: &Scratch, segment_bytes: usize) -> Self {
        let config = disk::Config { segment_bytes, ..disk::Config::default() };
        let mut opening = disk::open(scratch.path(), &config).unwrap();
        let mut store = Store::new(store::Config::default(), opening.opened().clone());
        while let Some((position, record)) = opening.next_record().unwrap() {
            store.recover(position, record);
        }
        let disk = Arc::new(opening.finish().unwrap());
        let host = Host::start(Node::with_store(store, None), Some(disk), &Runtime::start().unwrap());
        let address = host.listen(ListenConfig::new(([127, 0, 0, 1], 0).into())).unwrap();
        Self { host, address }
    }
}
