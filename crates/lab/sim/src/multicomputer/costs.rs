//! The instructions and the bytes of each message.

use super::Hardware;
use framing::{Batch, Direction};
use messages::{CommitRequest, Outcome, ToClient, ToNode, ToServer};
use types::PageId;

/// Messages between nodes, by what they are for. Several that leave together are counted each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Pages, and questions for them.
    pub pages: u64,
    /// Commits: from coordinators to masters, and their answers.
    pub commits: u64,
    /// To the sequencer, and its answers.
    pub sequencer: u64,
    /// Invalidations.
    pub invalidations: u64,
    /// Acknowledgements of these.
    pub acks: u64,
    /// All others.
    pub others: u64,
}

impl Messages {
    /// Counts a message.
    pub(super) fn count(&mut self, message: &Message) {
        use Message::{Client, Node, Server};
        *match message {
            Server(ToServer::Fetch(_)) | Client(ToClient::Page(_)) => &mut self.pages,
            Node(ToNode::Sequence(_) | ToNode::Placed(_)) => &mut self.sequencer,
            Node(
                ToNode::Prepare(_)
                | ToNode::Vote(_)
                | ToNode::Decide(_)
                | ToNode::Applied(_)
                | ToNode::Release(_)
                | ToNode::Withdraw(_),
            ) => &mut self.commits,
            Client(ToClient::Invalidations(_)) => &mut self.invalidations,
            Server(ToServer::Ack(_)) => &mut self.acks,
            _ => &mut self.others,
        } += 1;
    }
}

/// A message between two machines.
#[derive(Debug)]
pub(super) enum Message {
    Node(ToNode),
    Server(ToServer),
    Client(ToClient),
}

impl Message {
    /// Its bytes on the wire, where each delta has at least as many as the hardware says.
    pub(super) fn bytes(&self, hardware: &Hardware) -> u64 {
        let mut batch = Batch::default();
        let encoded = match self {
            Self::Node(message) => message.encode(&mut batch),
            Self::Server(message) => message.encode(&mut batch),
            Self::Client(message) => message.encode(&mut batch),
        };
        encoded.unwrap_or_else(|error| panic!("{self:?} cannot be sent: {error}"));
        let request = match self {
            Self::Node(ToNode::Prepare(prepare)) => Some(&*prepare.request),
            Self::Server(ToServer::Commit(request)) => Some(request),
            _ => None,
        };
        batch.bytes() as u64 + request.map_or(0, |request| padding(request, hardware))
    }

    /// The instructions of the machine that hears it. `is_own` says which pages are the hearing node's.
    pub(super) fn instructions(&self, hardware: &Hardware, is_own: impl Fn(PageId) -> bool) -> u64 {
        let Hardware { page_instructions: page, copy_instructions: copy, .. } = *hardware;
        let pages = |count: usize| count.max(1) as u64 * page;
        // A master looks at what was read, and applies what was written.
        let judge = |request: &CommitRequest| {
            let reads = request.reads.iter().filter(|reads| is_own(reads.page)).count() as u64;
            let writes = request.writes.iter().filter(|delta| is_own(delta.page)).count() as u64;
            reads * page + writes * (page + copy)
        };
        match self {
            Self::Node(ToNode::Prepare(prepare)) => judge(&prepare.request),
            // The coordinator takes note of it, and its own master judges it.
            Self::Server(ToServer::Commit(request)) => pages(request.reads.len()) + judge(request),
            Self::Server(ToServer::Fetch(fetch)) => pages(fetch.pages.len()),
            Self::Client(ToClient::Page(_)) => page + copy,
            Self::Client(ToClient::Invalidations(invalidations)) => pages(invalidations.items.len()),
            Self::Client(ToClient::CommitReply(reply)) => match &reply.outcome {
                Outcome::Committed { pages: moved } => pages(moved.len()),
                _ => page,
            },
            _ => page,
        }
    }
}

/// The bytes that the deltas of a request lack.
fn padding(request: &CommitRequest, hardware: &Hardware) -> u64 {
    let lacks = |value_bytes: usize| hardware.delta_bytes_min.saturating_sub(value_bytes as u64);
    request.writes.iter().map(|delta| lacks(delta.value_bytes())).sum()
}
