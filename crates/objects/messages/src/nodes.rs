//! The family of messages between the nodes of a store: the conversations of their roles ([`crate::roles`]), and the
//! questions of shards that open or move ([`crate::moves`]).
//!
//! ```text
//!   n2, which opens the link             n1
//!     | NodeHello ---------------------> |
//!     | <--------------------- NodeHello |
//!     | <--- Unapplied, Home ----------> |     then everything else, in both directions
//! ```
//! A link keeps the order of its messages. A message that is on its way when the link is lost never arrives.

use crate::bytes::values;
use crate::commit::{DELTA_BYTES_MIN, get_delta, get_refusal, put_delta, put_refusal};
use crate::moves::{
    CloseShard, CopiedPage, CopyPages, ListPages, NotCopied, PagesListed, RecentChanges, Serving, ShardClosed,
};
use crate::{Among, CommitRequest, Decide, Openings, PerShard, Placed, Prepare, Release, Sequence, Verdict, Vote};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::{check_count, check_order};
use framing::{Codec, End, Field, FieldLayout, Layout, Limits, Meta, Reader, Rest, WireError, family, messages};
use machine::{Goodbye, Upstream};
use types::limits::{SHARDS_MAX, TXN_BYTES_MAX, TXN_CHANGES_MAX};
use types::{ClusterId, Delta, NodeId, Opening, Shard, TxnId, Vector, Version};

family! {
    of "nodes";

    /// The messages of one node to another.
    pub enum ToNode, heard by "node", in order {
        /// Opens the link, and answers to that.
        1 NodeHello,
        /// Ends it, with the reason.
        2 Goodbye,
        /// To a master: judge a transaction, or a part of it.
        3 Prepare,
        /// To a master: a transaction need not be judged.
        4 Withdraw,
        /// To a master: a prepared transaction leaves nothing.
        5 Release,
        /// To a master: a prepared transaction has committed.
        6 Decide,
        /// To a coordinator: the verdict.
        7 Vote,
        /// To a coordinator: a transaction is applied.
        8 Applied,
        /// To the sequencer: a transaction wants its counts.
        9 Sequence,
        /// To a coordinator: the counts.
        10 Placed,
        /// To a coordinator: the transactions that wait for its decision.
        11 Unapplied,
        /// To a log: shards open.
        12 Recall,
        /// To a master: what a log holds for shards that open.
        13 Recalled,
        /// To a log: how far shards are written back.
        14 Home,
        /// To a master: which pages of a shard has it written back since?
        15 ListPages,
        /// To a node that a shard moves to: pages and their versions.
        16 PagesListed,
        /// To a master: some of these pages are wanted.
        17 CopyPages,
        /// To a node that a shard moves to: a page.
        18 CopiedPage,
        /// To a node that a shard moves to: a page that cannot be read.
        19 NotCopied,
        /// To a master: hardly anything is left to copy of a shard, and it may close.
        20 CloseShard,
        /// To a node that a shard moves to: the shard is closed.
        21 ShardClosed,
        /// To a coordinator: shards that moved are served.
        22 Serving,
        /// To a node that a shard moves to: what has changed lately in the shard.
        23 RecentChanges,
    }
}

/// Either end of a link between nodes.
pub const CODEC: &dyn Codec = End::<ToNode, ToNode>::CODEC;

/// The link to a node at this address.
pub fn link_to(address: String) -> Upstream {
    framing::upstream(CODEC, [address].into())
}

/// Transactions in one [`Unapplied`].
pub const UNAPPLIED_PER_MESSAGE_MAX: usize = 4096;

/// Commits in one [`Recalled`].
pub const RECALLED_PER_MESSAGE_MAX: usize = 256;

messages! {
    /// The identity of a node and its store: the first message of either end.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeHello {
        /// The store.
        pub cluster: ClusterId,
        /// The node that says it.
        pub node: NodeId,
        /// The node that it takes the other end for.
        pub to: NodeId,
    }

    /// Has a master forget a transaction that is not prepared. Its vote says that it has.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Withdraw {
        /// The transaction.
        pub txn: TxnId,
    }

    /// A master has applied a transaction.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Applied {
        /// The transaction.
        pub txn: TxnId,
    }

    /// The transactions of a coordinator that a master has prepared and not applied: the master's first message on each
    /// link. The coordinator answers with a decision or a release for each that is not under way. Any other that has
    /// committed is applied.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Unapplied {
        /// Whether these are the last.
        pub is_last: bool,
        /// The transactions.
        pub txns: Vec<TxnId> as Rest<UNAPPLIED_PER_MESSAGE_MAX>,
    }

    /// Wants to know what a log holds for shards that open.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Recall {
        /// The shards and their new openings.
        pub openings: Openings as PerOpening,
    }

    /// The shards of the node that says it are written back through these counts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Home {
        /// The counts.
        pub through: Vector as PerShard,
    }
}

/// The commits that a log holds for shards that open, which may come in several messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The question: the shards and their new openings.
    pub openings: Openings,
    /// The commits, in any order.
    pub commits: Vec<RecalledCommit>,
    /// Whether these are the last.
    pub is_last: bool,
}

/// A commit of a log, as far as it concerns one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledCommit {
    /// The shard.
    pub shard: Shard,
    /// The count of the commit there.
    pub count: Version,
    /// Its writes there, in page order.
    pub deltas: Vec<Delta>,
}

/// Shards with their openings, behind how many there are.
#[derive(Debug)]
pub struct PerOpening;

impl FieldLayout<Openings> for PerOpening {
    const LIMITS: Limits = Limits::bytes(u16::BYTES).and_up_to(SHARDS_MAX * <(Shard, Opening)>::BYTES);

    fn put(openings: &Openings, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, openings.len(), SHARDS_MAX)?;
        (openings.len() as u16).put(meta);
        openings.iter().for_each(|opening| opening.put(meta));
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Openings, WireError> {
        let count = u16::get(what, reader)?;
        check_count(what, count.into(), SHARDS_MAX)?;
        let mut openings = Openings::new();
        for _ in 0..count {
            openings.push(Field::get(what, reader)?);
        }
        check_order(what, openings.iter().map(|(shard, _)| *shard))?;
        Ok(openings)
    }
}

/// The other masters of a transaction, as a number.
mod among {
    pub(crate) const ALONE: u16 = 0;
    pub(crate) const AT_ONCE: u16 = 1;
    pub(crate) const IN_TURN: u16 = 2;
    /// Added to the others: it writes, and another master has prepared it.
    pub(crate) const WRITES: u16 = 4;
    pub(crate) const IS_HELD: u16 = 8;
}

fn number_of(among: Among) -> u16 {
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    match among {
        Among::Alone => among::ALONE,
        Among::AtOnce { writes } => among::AT_ONCE | flag(writes, among::WRITES),
        Among::InTurn { writes, is_held } => {
            among::IN_TURN | flag(writes, among::WRITES) | flag(is_held, among::IS_HELD)
        }
    }
}

fn among_of(number: u16) -> Result<Among, WireError> {
    let writes = number & among::WRITES != 0;
    match number & !among::WRITES {
        among::ALONE if !writes => Ok(Among::Alone),
        among::AT_ONCE => Ok(Among::AtOnce { writes }),
        among::IN_TURN => Ok(Among::InTurn { writes, is_held: false }),
        number if number == among::IN_TURN | among::IS_HELD => Ok(Among::InTurn { writes, is_held: true }),
        _ => Err(WireError::Code { what: "among", got: number.into() }),
    }
}

/// The others that judge it and the openings, then the request.
impl Layout for Prepare {
    const LIMITS: Limits = CommitRequest::LIMITS;

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        number_of(self.among).put(meta);
        PerOpening::put(&self.openings, "openings", meta)?;
        Layout::put(&*self.request, meta)
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.request.body()
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let among = among_of(u16::get("among", reader)?)?;
        let openings = PerOpening::get("openings", reader)?;
        Ok(Self { request: Arc::new(Layout::get(reader)?), among, openings })
    }
}

/// The transaction alone.
impl Layout for Release {
    const LIMITS: Limits = Limits::bytes(TxnId::BYTES);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        self.txn.put(meta);
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { txn: Field::get("txn", reader)? })
    }
}

/// The transaction and counts.
macro_rules! counted {
    ($($message:ident)+) => {
        $(impl Layout for $message {
            const LIMITS: Limits = Limits::bytes(TxnId::BYTES).and(<PerShard as FieldLayout<Vector>>::LIMITS);

            fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
                self.txn.put(meta);
                PerShard::put(&self.counts, "counts", meta)
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(Self { txn: Field::get("txn", reader)?, counts: PerShard::get("counts", reader)? })
            }
        })+
    };
}

counted! { Decide Placed }

/// The transaction, then its shards.
impl Layout for Sequence {
    const LIMITS: Limits = Limits::bytes(TxnId::BYTES).and_up_to(SHARDS_MAX * Shard::BYTES);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("shards", self.shards.len(), SHARDS_MAX)?;
        self.txn.put(meta);
        self.shards.iter().for_each(|shard| shard.put(meta));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let txn = Field::get("txn", reader)?;
        let shards: Vec<Shard> = Rest::<SHARDS_MAX>::get("shards", reader)?;
        check_order("shards", shards.iter().copied())?;
        Ok(Self { txn, shards: shards.into() })
    }
}

/// The verdicts, by their numbers.
mod verdict {
    pub(crate) const PREPARED: u16 = 0;
    pub(crate) const REFUSED: u16 = 1;
    pub(crate) const BUSY: u16 = 2;
    pub(crate) const WITHDRAWN: u16 = 3;
    pub(crate) const MOVING: u16 = 4;
}

/// The transaction, the highest counts and the verdict, then why it is refused, to the end of the meta.
impl Layout for Vote {
    const LIMITS: Limits = Limits::bytes(TxnId::BYTES + 2 * u16::BYTES).and_more();

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        self.txn.put(meta);
        PerShard::put(&self.highest, "highest counts", meta)?;
        match &self.verdict {
            Verdict::Prepared => verdict::PREPARED.put(meta),
            Verdict::Busy => verdict::BUSY.put(meta),
            Verdict::Moving => verdict::MOVING.put(meta),
            Verdict::Withdrawn => verdict::WITHDRAWN.put(meta),
            Verdict::Refused(refusal) => {
                verdict::REFUSED.put(meta);
                return put_refusal(refusal, meta);
            }
        }
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let txn = Field::get("txn", reader)?;
        let highest = PerShard::get("highest counts", reader)?;
        let verdict = match u16::get("verdict", reader)? {
            verdict::PREPARED => Verdict::Prepared,
            verdict::REFUSED => Verdict::Refused(get_refusal(Field::get("refusal", reader)?, reader)?),
            verdict::BUSY => Verdict::Busy,
            verdict::MOVING => Verdict::Moving,
            verdict::WITHDRAWN => Verdict::Withdrawn,
            got => return Err(WireError::Code { what: "verdict", got: got.into() }),
        };
        Ok(Self { txn, verdict, highest })
    }
}

/// The openings, whether it is the last, how many commits; then each commit with how many deltas it has. The values are
/// the body.
impl Layout for Recalled {
    const LIMITS: Limits = Limits::bytes(2 * u16::BYTES + u32::BYTES).and_more().with_body(TXN_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("commits", self.commits.len(), RECALLED_PER_MESSAGE_MAX)?;
        let changes = self.commits.iter().flat_map(|commit| &commit.deltas).map(|delta| delta.changes.len()).sum();
        check_count("changes", changes, TXN_CHANGES_MAX)?;
        PerOpening::put(&self.openings, "openings", meta)?;
        self.is_last.put(meta);
        (self.commits.len() as u16).put(meta);
        for RecalledCommit { shard, count, deltas } in &self.commits {
            ((*shard, *count), deltas.len() as u32).put(meta);
            deltas.iter().try_for_each(|delta| put_delta(meta, delta))?;
        }
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        let deltas = self.commits.iter().flat_map(|commit| &commit.deltas);
        deltas.flat_map(|delta| values(&delta.changes))
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let openings = PerOpening::get("openings", reader)?;
        let is_last = Field::get("last", reader)?;
        let commits = u16::get("commits", reader)?;
        check_count("commits", commits.into(), RECALLED_PER_MESSAGE_MAX)?;
        let mut changes_left = TXN_CHANGES_MAX;
        let commit_bytes_min = <((Shard, Version), u32)>::BYTES;
        let commits = reader.list(commits.into(), commit_bytes_min, |reader| {
            let ((shard, count), deltas) = <((Shard, Version), u32)>::get("commit", reader)?;
            let deltas =
                reader.list(deltas as usize, DELTA_BYTES_MIN, |reader| get_delta(reader, &mut changes_left))?;
            check_order("pages written", deltas.iter().map(|delta| delta.page))?;
            Ok(RecalledCommit { shard, count, deltas })
        })?;
        Ok(Self { openings, commits, is_last })
    }
}
