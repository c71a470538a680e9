//! A message of every kind and form, and both ways through its bytes.

use bytes::Bytes;
use framing::{Codec, Inbox, WireError, frames_of};
use machine::{Goodbye, Parcel};
use spread::Number;
use spread::messages::{
    Acquire, Ahead, Change, ChangeKind, Changed, Chunk, Collect, Collected, Consistency, Elsewhere, Enter, Everywhere,
    FILE_SERVER, FromFileServer, Gone, HandOver, HandedOver, Have, Held, Hold, Identity, Invalidate, Join, Joined,
    KeepLocks, Lapsed, Leave, Lock, LockOver, Locked, LocksKept, Missing, NotJoined, NotNow, Offer, Published, Put,
    RecallLock, Refusal, Refused, Release, Renew, Renewed, Revoke, SUBSCRIBER, Size, Standing, Stored, Survey,
    Surveyed, Switch, ToFileServer, Token, Unlock, Unread, VisitorKey, Want, WhenStale,
};
use tree::ChunkHash;
use types::{GoodbyeReason, NodeId, Time};

pub(crate) const HEAD: Number = Number { life: 2, count: 17 };
const BEFORE: Number = Number { life: 1, count: 16 };
pub(crate) const TOKEN: Token = Token { life: 2, number: 6 };

pub(crate) fn hash(byte: u8) -> ChunkHash {
    ChunkHash::from([byte; ChunkHash::BYTES])
}

pub(crate) fn join() -> Join {
    let (space, site, held) = ("main".to_owned(), "shop".to_owned(), vec![BEFORE, HEAD]);
    Join { slot: 1, asked: Time(5), life: 9, at: BEFORE, seen: HEAD, space, site, held }
}

pub(crate) fn switch(base: Option<ChunkHash>) -> Switch {
    let (space, site, note) = ("main".to_owned(), "shop".to_owned(), "why".to_owned());
    let (identity, size) = (Identity { publisher: 7, number: 3 }, Size { files: 4, bytes: 1000 });
    Switch {
        ticket: 3,
        identity,
        space,
        site,
        base,
        root: hash(0xAA),
        of: 15,
        size,
        waits: true,
        merges: base.is_some(),
        ends_locks: base.is_none(),
        locks: base.map(|_| TOKEN).into_iter().collect(),
        note,
    }
}

pub(crate) fn lock() -> Lock {
    let (space, site, path) = ("main".to_owned(), "shop".to_owned(), b"a/b".to_vec());
    Lock { identity: Identity { publisher: 7, number: 3 }, space, site, path }
}

pub(crate) fn hand_over() -> HandOver {
    HandOver { ticket: 3, to: NodeId(2), space: "main".to_owned() }
}

pub(crate) fn put(chunks: Vec<(ChunkHash, Bytes)>) -> Put {
    Put { ticket: 3, space: "main".to_owned(), site: "shop".to_owned(), chunks }
}

pub(crate) fn change(kind: ChangeKind) -> Change {
    let (consistency, when_stale) = (Some(Consistency::Sequential), Some(WhenStale::Refuse));
    let (space, site) = ("main".to_owned(), "shop".to_owned());
    Change { ticket: 3, kind, keep: Some(5), lease_ms: None, consistency, when_stale, space, site }
}

pub(crate) fn refused(why: Refusal) -> Refused {
    Refused { ticket: 3, why, head: HEAD, text: "full".to_owned() }
}

pub(crate) fn not_joined(why: NotNow) -> NotJoined {
    NotJoined { slot: 1, why }
}

/// The messages to a file server or relay.
fn to_server() -> Vec<ToFileServer> {
    let (slot, asked, ticket) = (1, Time(5), 3);
    let chunks = vec![(hash(0xAA), Bytes::from_static(b"hello")), (hash(0xBB), Bytes::new())];
    vec![
        join().into(),
        Renew { slot, asked, at: HEAD, released: vec![BEFORE] }.into(),
        Hold { slot, number: BEFORE }.into(),
        Leave { slot }.into(),
        Want { hashes: vec![hash(0xAA), hash(0xBB)] }.into(),
        Have { ticket, hashes: vec![hash(0xAA)] }.into(),
        put(chunks).into(),
        switch(Some(hash(0xBB))).into(),
        switch(None).into(),
        change(ChangeKind::Create).into(),
        change(ChangeKind::Set).into(),
        change(ChangeKind::Remove).into(),
        Collect { ticket }.into(),
        Survey { ticket, space: "main".to_owned(), site: "shop".to_owned() }.into(),
        Acquire { slot, at: BEFORE, shares: true }.into(),
        Release { slot }.into(),
        lock().into(),
        KeepLocks { asked, publisher: 7, tokens: vec![TOKEN] }.into(),
        Unlock { identity: Identity { publisher: 7, number: 3 } }.into(),
        Enter { space: "main".to_owned() }.into(),
        hand_over().into(),
        Goodbye { reason: GoodbyeReason::Done, text: "ends".to_owned() }.into(),
    ]
}

/// The messages of a file server or relay.
fn from_server() -> Vec<FromFileServer> {
    let (slot, asked, ticket, lease_ms) = (1, Time(5), 3, 1000);
    let edits = Bytes::from_static(b"edits");
    let standing = Standing { life: 9, at: HEAD, lease_ms, holds: 2, is_connected: true };
    let joined = Joined {
        slot,
        asked,
        lease_ms,
        number: HEAD,
        root: hash(0xAA),
        keep: 5,
        key: VisitorKey([7; 32]),
        consistency: Consistency::Publish,
        when_stale: WhenStale::Refuse,
        shares: true,
        held: vec![HEAD],
    };
    let mut all: Vec<FromFileServer> = vec![
        Joined { consistency: Consistency::Callback, shares: false, ..joined.clone() }.into(),
        joined.into(),
        not_joined(NotNow::NoSite).into(),
        not_joined(NotNow::NotYet).into(),
        not_joined(NotNow::Full).into(),
        Offer { slot, number: HEAD, root: hash(0xAA), base: hash(0xBB), reports: true, answers: false, edits }.into(),
        Renewed { slot, asked, lease_ms }.into(),
        Lapsed { slot }.into(),
        Held { slot, number: BEFORE, is_held: true }.into(),
        Chunk { hash: hash(0xAA), bytes: Bytes::from_static(b"hello") }.into(),
        Gone { hash: hash(0xAA) }.into(),
        Unread { hash: hash(0xAA), text: "no answer".to_owned() }.into(),
        Missing { ticket, hashes: vec![hash(0xBB)] }.into(),
        Stored { ticket }.into(),
        Published { ticket, number: HEAD, root: hash(0xAA), is_new: true }.into(),
        Everywhere { ticket }.into(),
        Changed { ticket }.into(),
        Collected { ticket, chunks: 2, bytes: 10 }.into(),
        Surveyed { ticket, head: HEAD, subscribers: vec![standing] }.into(),
        Invalidate { slot, number: HEAD, reports: true }.into(),
        Revoke { slot }.into(),
        Ahead { slot, chunks: vec![(hash(0xAA), 5), (hash(0xBB), 1000)] }.into(),
        Locked { ticket, token: TOKEN, number: HEAD, root: Some(hash(0xAA)) }.into(),
        Locked { ticket, token: TOKEN, number: Number::NONE, root: None }.into(),
        LocksKept { asked, lease_ms }.into(),
        RecallLock { token: TOKEN }.into(),
        LockOver { token: TOKEN }.into(),
        Elsewhere { address: "n2:7411".to_owned() }.into(),
        HandedOver { ticket, term: 8, lease_ms, is_last: true, hashes: vec![hash(0xAA)] }.into(),
    ];
    let refusals = [
        Refusal::Overtaken,
        Refusal::Incomplete,
        Refusal::Malformed,
        Refusal::NoSite,
        Refusal::IsThere,
        Refusal::NoRoom,
        Refusal::Failed,
        Refusal::Relay,
        Refusal::Conflict,
        Refusal::NotKept,
        Refusal::LockOver,
    ];
    all.extend(refusals.map(|why| refused(why).into()));
    all.push(Goodbye { reason: GoodbyeReason::Full, text: String::new() }.into());
    all
}

/// A message in one of the two directions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sample {
    To(ToFileServer),
    From(FromFileServer),
}

impl Sample {
    pub(crate) fn to(message: impl Into<ToFileServer>) -> Self {
        Self::To(message.into())
    }

    pub(crate) fn from(message: impl Into<FromFileServer>) -> Self {
        Self::From(message.into())
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, WireError> {
        match self.clone() {
            Self::To(message) => frames_of(SUBSCRIBER, &Parcel::new(message)),
            Self::From(message) => frames_of(FILE_SERVER, &Parcel::new(message)),
        }
    }

    /// Returns the first message of some bytes, in the direction of this one; none if they end before it does.
    pub(crate) fn hear(&self, bytes: &[u8]) -> Result<Option<Self>, WireError> {
        Ok(match self {
            Self::To(_) => hear(FILE_SERVER, bytes)?.map(|message| Self::To(message.expect())),
            Self::From(_) => hear(SUBSCRIBER, bytes)?.map(|message| Self::From(message.expect())),
        })
    }
}

/// Returns the first message of some bytes; none if they end before it does.
pub(crate) fn hear(hears: &'static dyn Codec, bytes: &[u8]) -> Result<Option<Parcel>, WireError> {
    let (mut inbox, mut bytes) = (Inbox::within_session(hears), bytes);
    loop {
        let before = bytes.len();
        let message = inbox.next(&mut bytes)?;
        if message.is_some() || bytes.is_empty() || bytes.len() == before {
            return Ok(message);
        }
    }
}

pub(crate) fn samples() -> Vec<Sample> {
    let to = to_server().into_iter().map(Sample::to);
    to.chain(from_server().into_iter().map(Sample::from)).collect()
}
