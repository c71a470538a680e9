//! The sequencer of a node that runs, over loopback: the counts that it gives to another node which asks in batches.
//!
//! ```text
//!   another member's link       node with the sequencer
//!     | NodeHello <----------------> NodeHello
//!     | Sequence x 64 ------------> |
//!     | <------------- Placed x 64  |
//! ```

use crate::machine::ticks_of;
use crate::{Line, Result};
use framing::{Inbox, Preface, frames_of, preface_frame};
use machine::Parcel;
use messages::nodes::CODEC;
use messages::{NodeHello, Sequence, ToNode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use types::{ClientId, ClusterId, NodeId, Shard, TxnId};

/// Transactions that ask at a time, each with writes in two shards.
const BATCH: usize = 64;

const FOR: Duration = Duration::from_secs(5);

/// The bound of the Multicomputer figure: places that one core gives in a second.
const PLACES_MIN: f64 = 200_000.0;

/// How often the system counts a process's time in a second, on Linux of all machines.
const TICKS_PER_S: f64 = 100.0;

/// The end of a link that a node takes for another member's, which is not running.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The store.
    pub cluster: ClusterId,
    /// The member, whose number is higher than the node's: it opens the link.
    pub node: NodeId,
    /// The node with the sequencer.
    pub to: NodeId,
}

/// Asks the sequencer of the node at this address, whose process has this id, for places in batches.
///
/// # Errors
/// The node cannot be reached, or does not take the link.
pub fn sequencer(address: &str, process: u32, member: Member) -> Result<Line> {
    let mut link = Link::open(address, member)?;
    let txn = |number| TxnId { client: ClientId(1), number };
    let sequence = |number| Sequence { txn: txn(number), shards: [Shard(0), Shard(1)].into_iter().collect() };
    let batch =
        (1..=BATCH as u64).map(|number| frame(ToNode::Sequence(sequence(number)))).collect::<Result<Vec<_>>>()?;
    let batch = batch.concat();
    link.place(&batch)?;
    let ticks = || ticks_of(process).ok_or("the system does not tell the node's processor time");
    let (begun, before, mut batches) = (Instant::now(), ticks()?, 0);
    while begun.elapsed() < FOR {
        link.place(&batch)?;
        batches += 1;
    }
    let (took, busy) = (begun.elapsed().as_secs_f64(), (ticks()? - before) as f64 / TICKS_PER_S);
    let places = f64::from(batches) * BATCH as f64;
    let per_core = places / busy;
    Ok(Line::new("sequencer")
        .count("batch", BATCH as u64)
        .figure("places_per_s", places / took)
        .figure("cores_busy", busy / took)
        .figure("places_per_core_s", per_core)
        .figure("target", PLACES_MIN)
        .flag("met", per_core >= PLACES_MIN))
}

struct Link {
    stream: TcpStream,
    inbox: Inbox,
    /// Received bytes, of which some were looked at.
    buffer: Vec<u8>,
    looked_at: usize,
    received: usize,
}

impl Link {
    fn open(address: &str, Member { cluster, node, to }: Member) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(&preface_frame(CODEC, &Preface::of(CODEC)))?;
        stream.write_all(&frame(NodeHello { cluster, node, to }.into())?)?;
        let mut link = Self { stream, inbox: Inbox::new(CODEC), buffer: vec![0; 64 << 10], looked_at: 0, received: 0 };
        match link.next()? {
            ToNode::NodeHello(_) => Ok(link),
            other => Err(format!("expected the hello of a node, got {other:?}").into()),
        }
    }

    /// Asks for a batch of places, and waits for all of them.
    fn place(&mut self, batch: &[u8]) -> Result<()> {
        self.stream.write_all(batch)?;
        let mut placed = 0;
        while placed < BATCH {
            match self.next()? {
                ToNode::Placed(_) => placed += 1,
                ToNode::Goodbye(goodbye) => return Err(format!("the node ends the link: {}", goodbye.text).into()),
                // A node tells these to each of the others.
                _ => {}
            }
        }
        Ok(())
    }

    /// The next message.
    fn next(&mut self) -> Result<ToNode> {
        loop {
            let mut left = &self.buffer[self.looked_at..self.received];
            let before = left.len();
            let message = self.inbox.next(&mut left).map_err(|error| error.to_string())?;
            self.looked_at += before - left.len();
            if let Some(message) = message {
                return message.open().map_err(|_| "expected a message of a node".into());
            }
            (self.looked_at, self.received) = (0, self.stream.read(&mut self.buffer)?);
            if self.received == 0 {
                return Err("the node closes the link".into());
            }
        }
    }
}

fn frame(message: ToNode) -> Result<Vec<u8>> {
    frames_of(CODEC, &Parcel::new(message)).map_err(|error| error.to_string().into())
}
