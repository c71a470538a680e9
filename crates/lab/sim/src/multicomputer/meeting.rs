//! The nodes before a run: each has its pages on the disk, its shards are open, and nodes and clients have found each
//! other. All caches are empty.

use super::Hardware;
use super::application::value_of;
use super::load::Sequencer;
use super::node::{Node, PAGE_BYTES, link, session};
use crate::disk::{Profile, StoreDisk};
use crate::layout::Stored;
use crate::rng::Delay;
use bytes::Bytes;
use client::Client;
use core::num::{NonZeroU16, NonZeroU32};
use core::time::Duration;
use machine::UpstreamId;
use std::collections::BTreeMap;
use store::{Checkpoint, Store};
use types::{
    ClientId, Epoch, NodeId, ObjectPage, Opening, PageId, Shard, Sharding, SlotChange, SlotNo, Time, Vector, Version,
};

/// Nothing is silent for longer: nothing fails, and there are no heartbeats.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// The version of all pages before the run.
const FIRST: Version = Version(1);

/// The objects of a page, one for each node, whether or not there are so many.
const OBJECTS: SlotNo = 128;

/// Each page is an extent, and each of the first pages a shard.
const SHARDS: u16 = 1024;

/// A disk that does everything when it is told to.
const INSTANT: Profile = Profile {
    flush: Delay { least: Duration::ZERO, spread: Duration::ZERO, spike_permille: 0, spike: Duration::ZERO },
    read: Delay { least: Duration::ZERO, spread: Duration::ZERO, spike_permille: 0, spike: Duration::ZERO },
    install: Delay { least: Duration::ZERO, spread: Duration::ZERO, spike_permille: 0, spike: Duration::ZERO },
    flush_records_max: usize::MAX,
    log_bytes: 1 << 50,
    segment_records: 64,
};

/// The nodes, none of which has said anything to another.
pub(super) fn nodes(count: usize, pages: u32, sequencer: Sequencer, hardware: &Hardware) -> Vec<Node> {
    let sharding = Sharding::new(NonZeroU16::new(SHARDS).expect("not zero"), NonZeroU32::MIN);
    let all = count + usize::from(sequencer == Sequencer::Alone);
    let sequencer = match sequencer {
        Sequencer::Among => 0,
        Sequencer::Alone => count,
    };
    let image = page_image();
    let node = |number: usize| {
        let memory = hardware.memory;
        let config = store::Config {
            node: NodeId(number as u16),
            members: (0..all as u16).map(NodeId).collect(),
            sharding,
            mob_bytes_limit: memory.mob,
            cache_bytes_limit: memory.store,
            silence: FOR_EVER,
            ..store::Config::default()
        };
        let is_own = |shard: Shard| usize::from(shard.0) % count == number;
        let stored = stored(pages, sharding, &image, is_own);
        let mut disk = StoreDisk::holding(INSTANT, sharding, &stored).of_several();
        let (opened, _) = disk.open();
        let mut store = Store::new(config, opened);
        store.start(Time::ZERO);
        open(&mut store, count, all, sequencer, number);
        let client = client::Config {
            cache_bytes_limit: memory.client,
            prefetch_pages_max: 0,
            follows: false,
            reads_ahead: false,
            patience: FOR_EVER,
            ..client::Config::default()
        };
        let client = Client::new(client, ClientId(number as u64 + 1));
        Node::new(number, count, sharding, disk, (store, client))
    };
    (0..all).map(node).collect()
}

/// Opens a node's shards, and tells it where everything is.
fn open(store: &mut Store, masters: usize, all: usize, sequencer: usize, number: usize) {
    let (now, opening) = (Time::ZERO, Opening(1));
    let shards = (0..SHARDS).map(|shard| (Shard(shard), NodeId((usize::from(shard) % masters) as u16), opening));
    let (own, others): (Vec<_>, Vec<_>) = shards.partition(|(_, at, _)| usize::from(at.0) == number);
    for (shard, _, opening) in own {
        store.open_closed(now, shard, opening, FIRST);
    }
    for node in 0..all {
        store.node_is_at(now, NodeId(node as u16), 0, &address(node));
    }
    store.place(now, &others);
    if sequencer == number {
        store.sequence(now, Epoch(1));
    }
    store.follow_sequencer(now, NodeId(sequencer as u16));
}

/// The links of a node come up.
pub(super) fn link_all(node: &mut Node, all: usize) {
    for other in (0..all).filter(|&other| other != node.number) {
        node.store.link_is_up(link(node.number, other));
    }
}

/// A client connects to a node that it wants a session with. Returns the node.
pub(super) fn connect(nodes: &mut [Node], client: usize, upstream: UpstreamId, addresses: &[String]) -> usize {
    let to = (0..nodes.len()).find(|&node| addresses == [address(node)]).expect("every node has an address");
    connect_to(nodes, client, upstream, to);
    to
}

/// A client's connection to a node comes up.
pub(super) fn connect_to(nodes: &mut [Node], client: usize, upstream: UpstreamId, to: usize) {
    if client == to {
        nodes[to].store.set_own_client(ClientId(client as u64 + 1));
    }
    nodes[to].store.connected(Time::ZERO, session(client));
    nodes[client].connected(upstream, to);
}

fn address(node: usize) -> String {
    format!("n{node}")
}

/// A page of 4 KiB, with an object for each node and one more that fills it.
fn page_image() -> Bytes {
    let object = |slot| SlotChange { slot, value: Some(value_of(0)) };
    let mut changes: Vec<_> = (0..OBJECTS).map(object).collect();
    let page = ObjectPage::empty().with(&changes).expect("it has room");
    let rest = PAGE_BYTES as usize - page.len() - ObjectPage::cost(0);
    changes.push(SlotChange { slot: OBJECTS, value: Some(vec![0; rest].into()) });
    ObjectPage::empty().with(&changes).expect("it has room").image().clone()
}

/// The pages of a node's shards, as a clean close has left them.
fn stored(pages: u32, sharding: Sharding, image: &Bytes, is_own: impl Fn(Shard) -> bool) -> Stored {
    let own = (0..pages).map(|number| PageId::new(0, number)).filter(|&page| is_own(sharding.of(page)));
    let home: BTreeMap<_, _> = own.map(|page| (page, (FIRST, image.clone()))).collect();
    let mut applied = Vector::new();
    for shard in (0..SHARDS).map(Shard).filter(|&shard| is_own(shard)) {
        applied.raise(shard, FIRST);
    }
    let checkpoint = Checkpoint { applied, next_pages: vec![(0, pages)], ..Checkpoint::default() };
    Stored { home, checkpoint }
}
