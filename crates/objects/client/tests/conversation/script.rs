//! Reads a script's words.

pub(crate) use crate::words::upstream;
use crate::words::{self, advance, named, page, placement, vector, version};
use bytes::Bytes;
use machine::Goodbye;
use messages::{
    Advance, CommitReply, Elsewhere, GROUP, Granted, Help, Invalidation, Invalidations, Leader, LeftOut, Lineage,
    Member, Members, Outcome, Page, PeerPage, Ping, Pong, Resumed, SEVERAL, SessionLimits, Synced, ToClient, ToPeer,
    Welcome,
};
use std::num::{NonZeroU16, NonZeroU32};
use types::{
    ClientId, ClusterId, GoodbyeReason, Incarnation, Life, NodeId, ObjectId, ObjectPage, PageId, PageRange, PeerKey,
    Refusal, Shard, Sharding, SlotChange, SlotSet, TxnId, Version,
};

/// `hello`, or `x*3000` for a long one.
pub(crate) fn value(word: &str) -> Bytes {
    match word.split_once('*').and_then(|(unit, times)| Some((unit, times.parse().ok()?))) {
        Some((unit, times)) => unit.repeat(times).into(),
        None => word.to_owned().into(),
    }
}

pub(crate) fn object(word: &str) -> Option<ObjectId> {
    let (page_word, slot) = word.split_once('.')?;
    Some(ObjectId::new(page(page_word)?, slot.parse().ok()?))
}

/// `m3`
pub(crate) fn client(word: &str) -> Option<ClientId> {
    word.strip_prefix('m')?.parse().ok().map(ClientId)
}

/// `key=7`
pub(crate) fn key(word: &str) -> Option<PeerKey> {
    Some(PeerKey::new(named(&[word], "key")?.parse::<u128>().ok()?.to_le_bytes()))
}

/// A peer's page: `1/3 v5 number=1 through=6 wheel`.
pub(crate) fn peer_page(words: &[&str]) -> Option<ToPeer> {
    let [of, at, answers, through, values @ ..] = words else { return None };
    let number = named(&[answers], "number")?.parse().ok()?;
    let through = version(named(&[through], "through")?)?.into();
    let page = Page {
        page: page(of)?,
        version: version(at)?,
        number,
        fresh: false,
        behind: Vec::new(),
        image: image(values)?,
    };
    Some(ToPeer::PeerPage(PeerPage { requester: ClientId(0xc), through, page }))
}

fn number(words: &[&str], name: &str, default: u32) -> Option<u32> {
    named(words, name).map_or(Some(default), |word| word.parse().ok())
}

/// `1/3:4->6{0,2}` or, with data, `1/3:4->6{0=x,2=}`
fn invalidation(word: &str) -> Option<Invalidation> {
    let (moved, slots) = word.strip_suffix('}')?.split_once('{')?;
    let Advance { page, prev, version } = advance(moved)?;
    let change = |entry: &str| {
        let (slot, data) = entry.split_once('=')?;
        Some(SlotChange { slot: slot.parse().ok()?, value: (!data.is_empty()).then(|| value(data)) })
    };
    let data = slots.contains('=').then(|| slots.split(',').map(change).collect::<Option<_>>());
    let slots = slots.split(',').map(|entry| entry.split('=').next()?.parse().ok()).collect::<Option<SlotSet>>()?;
    let data = match data {
        Some(data) => Some(data?),
        None => None,
    };
    Some(Invalidation { page, prev, version, slots, txn: TxnId { client: ClientId(0xd), number: version.0 }, data })
}

fn image(values: &[&str]) -> Option<Bytes> {
    let change = |(slot, word): (u16, &&str)| SlotChange { slot, value: (*word != "-").then(|| value(word)) };
    let changes: Vec<_> = (0..).zip(values).map(change).collect();
    Some(ObjectPage::empty().with(&changes).ok()?.image().clone())
}

fn outcome(words: &[&str]) -> Option<Outcome> {
    Some(match words {
        ["committed", pages @ ..] => {
            Outcome::Committed { pages: pages.iter().map(|word| advance(word)).collect::<Option<_>>()? }
        }
        ["stale", pages @ ..] => {
            let stale = |word: &&str| {
                let (of, slots) = word.strip_suffix('}')?.split_once('{')?;
                Some((page(of)?, slots.split(',').map(|slot| slot.parse().ok()).collect::<Option<SlotSet>>()?))
            };
            Outcome::Refused(Refusal::Stale(pages.iter().map(stale).collect::<Option<_>>()?))
        }
        ["busy"] => Outcome::Refused(Refusal::Busy),
        ["lapsed", rest @ ..] => {
            Outcome::Refused(Refusal::Lapsed(Incarnation(u64::from(number(rest, "incarnation", 1)?))))
        }
        ["unknown"] => Outcome::Unknown,
        _ => return None,
    })
}

/// `m12@there:1`, or `m12@` for one that is not eligible.
fn member(word: &str) -> Option<Member> {
    let (name, address) = word.split_once('@')?;
    Some(Member { client: client(name)?, address: address.into() })
}

fn range(word: &str) -> Option<PageRange> {
    let (first, count) = word.split_once('+')?;
    Some(PageRange { first: page(first)?, count: count.parse().ok()? })
}

/// The lives of the store's process, as in `a@0,b@90`: the latter began after 90 changes. Most scripts say none.
fn lineage(words: &str) -> Option<Lineage> {
    let life = |word: &str| {
        let (life, began) = word.split_once('@')?;
        Some((Life(u64::from_str_radix(life, 16).ok()?), version(began)?.into()))
    };
    Some(Lineage::new(words.split(',').filter(|word| !word.is_empty()).map(life).collect::<Option<_>>()?))
}

/// `1/3,1/4`
fn pages(words: &str) -> Option<Vec<PageId>> {
    words.split(',').map(page).collect()
}

/// A message of the store.
pub(crate) fn message(kind: &str, rest: &[&str]) -> Option<ToClient> {
    Some(match (kind, rest) {
        ("placement", rest) => ToClient::Placement(placement(rest)?),
        ("elsewhere", [of]) => ToClient::Elsewhere(Elsewhere { page: page(of)?, number: 0 }),
        ("synced", [number, shards @ ..]) => {
            let shards = shards.iter().map(|shard| shard.parse().ok().map(Shard)).collect::<Option<_>>()?;
            ToClient::Synced(Synced { number: number.parse().ok()?, shards })
        }
        ("welcome", rest) => ToClient::Welcome(Welcome {
            features: [("group", GROUP), ("several", SEVERAL)]
                .into_iter()
                .filter(|(word, _)| rest.contains(word))
                .fold(0, |features, (_, feature)| features | feature),
            cluster: ClusterId(u64::from(number(rest, "cluster", 1)?)),
            node: NodeId(number(rest, "node", 0)? as u16),
            incarnation: Incarnation(u64::from(number(rest, "incarnation", 1)?)),
            lineage: lineage(named(rest, "lineage").unwrap_or_default())?,
            sharding: Sharding::new(NonZeroU16::new(number(rest, "shards", 1)? as u16)?, NonZeroU32::MIN),
            through: vector(named(rest, "through").unwrap_or("0"))?,
            limits: SessionLimits {
                fetches: number(rest, "fetches", 64)?,
                commits: number(rest, "commits", 64)?,
                silence_ms: number(rest, "silence", 1500)?,
            },
        }),
        ("resumed", rest) => ToClient::Resumed(Resumed {
            through: vector(named(rest, "through")?)?,
            dropped: named(rest, "dropped").map_or(Some(vec![]), |pages| pages.split(',').map(page).collect())?,
        }),
        ("help", [requester, number, through, address, of_it, pages @ ..]) => ToClient::Help(Help {
            requester: client(requester)?,
            number: named(&[number], "number")?.parse().ok()?,
            through: vector(named(&[through], "through")?)?,
            address: named(&[address], "at")?.into(),
            key: key(of_it)?,
            pages: pages.iter().map(|word| page(word)).collect::<Option<_>>()?,
        }),
        ("members", [epoch, address, store, members @ ..]) => ToClient::Members(Members {
            group: "site".into(),
            epoch: named(&[epoch], "epoch")?.parse().ok()?,
            address: named(&[address], "address")?.into(),
            store: vec![named(&[store], "store")?.into()],
            members: members.iter().map(|word| member(word)).collect::<Option<_>>()?,
        }),
        ("leader", [epoch, address]) => ToClient::Leader(Leader {
            group: "site".into(),
            epoch: named(&[epoch], "epoch")?.parse().ok()?,
            address: named(&[address], "address")?.into(),
        }),
        ("invalidations", [through, items @ ..]) => ToClient::Invalidations(Invalidations {
            through: vector(named(&[through], "through")?)?,
            items: items.iter().map(|word| invalidation(word)).collect::<Option<_>>()?,
        }),
        // A redirector says of a page that was on its way for others that it is not fresh.
        ("page" | "joined", [of, at, rest @ ..]) => {
            let (page, version, fresh) = (page(of)?, version(at)?, kind == "page");
            let is_behind = |word: &&&str| word.starts_with("behind=");
            let behind = rest.first().filter(is_behind).map(|word| pages(&word["behind=".len()..]));
            let image = image(&rest[usize::from(behind.is_some())..])?;
            ToClient::Page(Page { page, version, number: 0, fresh, behind: behind.unwrap_or(Some(vec![]))?, image })
        }
        ("rubbish", [of]) => ToClient::Page(Page {
            page: page(of)?,
            version: Version(1),
            number: 0,
            fresh: true,
            behind: Vec::new(),
            image: Bytes::from_static(b"no page"),
        }),
        ("cannot_read", [of]) => {
            ToClient::LeftOut(LeftOut { page: page(of)?, number: 0, damage: Some("its checksum is wrong".into()) })
        }
        ("leaves_out", [of]) => ToClient::LeftOut(LeftOut { page: page(of)?, number: 0, damage: None }),
        ("reply", [txn, rest @ ..]) => {
            ToClient::CommitReply(CommitReply { txn: words::txn(ClientId(0xc), txn)?, outcome: outcome(rest)? })
        }
        ("granted", ranges) => {
            ToClient::Granted(Granted { ranges: ranges.iter().map(|word| range(word)).collect::<Option<_>>()? })
        }
        ("goodbye", [reason]) => {
            let reason = GoodbyeReason::ALL.into_iter().find(|known| known.name() == *reason)?;
            ToClient::Goodbye(Goodbye { reason, text: "as the script says".into() })
        }
        ("ping", [nonce]) => ToClient::Ping(Ping { nonce: nonce.parse().ok()? }),
        ("pong", [nonce]) => ToClient::Pong(Pong { nonce: nonce.parse().ok()? }),
        _ => return None,
    })
}
