//! The paper's tables, on sockets: the cost of crossing a redirector, over a line as short as the paper's LAN and on
//! loopback, and the cost of a page from another member.

use super::costs::{Lab, ROUNDS, client_of, commits, durable_commits, fetches, pings, relayed_pings};
use super::group::Group;
use super::lan::Lan;
use super::members;
use super::null_request::End;
use super::row::{Row, Target};
use super::vcache;
use crate::machine::{differs_percent, steadiest};
use crate::pace::Pace;
use crate::sample::median;
use crate::{Place, Result, Sample};
use objects::{Db, Ref};
use std::fmt;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;
use types::ObjectPage;

/// The most that a fetch and a commit through a redirector may cost of one without. In the paper it is 1.85, and 0.96
/// to 1.04.
const FETCH_OVERHEAD: Target = Target::AtMost(1.6);
const COMMIT_OVERHEAD: Target = Target::AtMost(1.3);

/// Null requests of each kind, in each round.
const NULL_REQUESTS: usize = 300;

/// Does the same with several clients at the same time; gives everything that they measured.
fn together(
    clients: &[Db],
    objects: &[Ref<[u8]>],
    work: impl Fn(&Db, &[Ref<[u8]>]) -> Result<Sample> + Sync,
) -> Result<Sample> {
    let share = objects.len() / clients.len();
    let samples: Result<Vec<Sample>> = thread::scope(|scope| {
        let work = &work;
        let own = clients.iter().zip(objects.chunks(share));
        let running: Vec<_> = own.map(|(db, objects)| scope.spawn(move || work(db, objects))).collect();
        running.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?).collect()
    });
    let mut all = Sample::default();
    samples?.iter().for_each(|sample| all.extend(sample));
    Ok(all)
}

/// Table 1: fetches from the store and commits, of one client and of groups of three and five, each client its own
/// pages.
///
/// The figures with targets are taken over the [`Lan`], as the paper's were. The same on loopback follows: there a
/// message costs the system's own time alone, so two messages cannot cost 1.3 of one, and a bare relay shows the bound.
pub(crate) fn fetch_and_commit(lab: &Lab, place: &Place, pace: &Pace) -> Result<Vec<Row>> {
    let lan = Lan::start(lab, place)?;
    let mut rows = Vec::new();
    for (half, over) in [Over::Lan(&lan), Over::Loopback(lab)].into_iter().enumerate() {
        // Fetch and commit in the paper: Base, Buddy.
        for (clients, paper) in [(1, None), (3, Some([1.3, 2.4, 2.5, 2.4])), (5, Some([1.4, 2.6, 5.5, 5.7]))] {
            pace.advance(half as f64 / 2.0 + f64::from(clients - 1) / 12.0);
            pace.say(format!("table 1: {clients} clients, {over}"))?;
            let measure = || {
                let mut measured = <[(Sample, Sample); 3]>::default();
                (0..ROUNDS).try_for_each(|_| cross(over, clients as usize, &mut measured))?;
                Ok(measured)
            };
            let measured = steadiest(measure, |measured| {
                let differ = measured.iter().filter_map(|(base, _)| differs_percent(&base.thirds()));
                differ.fold(0.0, f64::max)
            })?;
            rows.extend(over.rows(clients, paper, &measured));
        }
    }
    rows.push(hops_row()?);
    Ok(rows)
}

/// The way between a store and the place of its clients.
#[derive(Clone, Copy)]
enum Over<'a> {
    Lan(&'a Lan),
    Loopback(&'a Lab),
}

impl<'a> Over<'a> {
    fn store(self) -> SocketAddr {
        match self {
            Self::Lan(lan) => lan.store(),
            Self::Loopback(lab) => lab.store(),
        }
    }

    fn objects(self) -> &'a [Ref<[u8]>] {
        match self {
            Self::Lan(lan) => lan.objects(),
            Self::Loopback(lab) => &lab.objects,
        }
    }

    /// The rows of `clients` clients. Only those over the LAN have targets.
    fn rows(self, clients: u32, paper: Option<[f64; 4]>, measured: &[(Sample, Sample); 3]) -> Vec<Row> {
        let kinds = [
            ("fetch", 0, FETCH_OVERHEAD),
            ("commit of a reader", 2, COMMIT_OVERHEAD),
            ("commit of a writer", 2, COMMIT_OVERHEAD),
        ];
        let who = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let mut rows = Vec::new();
        for ((name, at, overhead), (base, buddy)) in kinds.into_iter().zip(measured) {
            let repetitions = base.thirds();
            let [base, buddy] = [base, buddy].map(|sample| sample.millis(0.5));
            let row =
                |case: &str, unit, ours| Row::new("table 1", format!("{who}, {name}, {case}, {self}"), unit, ours);
            let ratio = row("Buddy / Base", "x", buddy / base).baseline(&repetitions);
            match self {
                Self::Lan(_) => rows.extend([
                    row("Base", "ms", base).paper(paper.map(|paper| paper[at])),
                    row("Buddy", "ms", buddy).paper(paper.map(|paper| paper[at + 1])),
                    ratio.paper(paper.map(|paper| paper[at + 1] / paper[at])).target(overhead),
                ]),
                Self::Loopback(_) => rows.extend([row("Base", "ms", base), row("Buddy", "ms", buddy), ratio]),
            }
        }
        rows
    }
}

impl fmt::Display for Over<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lan(lan) => lan.fmt(f),
            Self::Loopback(_) => f.write_str("loopback"),
        }
    }
}

/// Has several clients fetch, read and write, and so many members of a group; adds what each took, Base and Buddy, to
/// what was measured.
fn cross(over: Over, clients: usize, measured: &mut [(Sample, Sample); 3]) -> Result<()> {
    let base: Vec<Db> = (0..clients).map(|_| client_of(over.store())).collect::<Result<_>>()?;
    let group = Group::start(over.store())?;
    let buddy: Vec<Db> = (0..clients).map(|_| group.member()).collect::<Result<_>>()?;
    let works = [
        fetches,
        |db: &Db, own: &[Ref<[u8]>]| commits(db, own[0]),
        |db: &Db, own: &[Ref<[u8]>]| durable_commits(db, own[0]),
    ];
    for (work, (of_base, of_buddy)) in works.into_iter().zip(measured) {
        of_base.extend(&together(&base, over.objects(), work)?);
        of_buddy.extend(&together(&buddy, over.objects(), work)?);
    }
    Ok(())
}

/// The least that any redirector costs on loopback: a request and a page that are handed on once, bare, over those that
/// are not.
fn hops_row() -> Result<Row> {
    let (direct, relayed) = relayed_pings()?;
    let ratio = relayed.micros(0.5) / direct.micros(0.5);
    Ok(Row::new("table 1", "a bare relay of the same bytes / none, loopback", "x", ratio))
}

/// The measurements behind table 2.
#[derive(Default)]
struct PeerFetches {
    peer: Sample,
    ping: Sample,
    computing: Sample,
    ping_computing: Sample,
    cross: Sample,
    alert: Sample,
    alert_computing: Sample,
    from_peers: Vec<f64>,
}

impl PeerFetches {
    fn measure(lab: &Lab) -> Result<Self> {
        let mut all = Self::default();
        for _ in 0..ROUNDS {
            let group = lab.group()?;
            let (helper, first) = (group.member()?, group.member()?);
            fetches(&helper, &lab.objects)?;
            all.peer.extend(&fetches(&first, &lab.objects)?);
            all.ping.extend(&pings(lab.objects.len())?);
            all.from_peers.push(share_from_peers(&first));
            drop(first);
            let fetch = || fetches(&group.member()?, &lab.objects);
            all.computing.extend(&while_computing(&helper, lab.objects[0], fetch)?);
            all.ping_computing.extend(&while_computing(&helper, lab.objects[0], || pings(lab.objects.len()))?);
            let tapped = group.tapped_member()?;
            tapped.member.transact(|tx| tx.read(lab.objects[0], <[u8]>::len))?;
            all.cross.extend(&null_requests(&tapped.to_redirector)?);
            all.alert.extend(&null_requests(&tapped.to_member)?);
            let alerts = || null_requests(&tapped.to_member);
            all.alert_computing.extend(&while_computing(&tapped.member, lab.objects[0], alerts)?);
        }
        Ok(all)
    }

    /// How much that of the baselines which differs the most does so, in percent.
    fn differs_percent(&self) -> f64 {
        let all = [&self.peer, &self.ping, &self.computing, &self.ping_computing];
        all.into_iter().filter_map(|sample| differs_percent(&sample.thirds())).fold(0.0, f64::max)
    }
}

/// Table 2: a page from a peer, and the parts of its time; also while the peer's application computes.
/// Crossing the redirector and alerting the helper are null requests, as in the paper.
pub(crate) fn peer_fetch(lab: &Lab, pace: &Pace) -> Result<Vec<Row>> {
    pace.say("table 2: a page from a peer")?;
    let PeerFetches { peer, ping, computing, ping_computing, cross, alert, alert_computing, from_peers } =
        steadiest(|| PeerFetches::measure(lab), PeerFetches::differs_percent)?;
    let copy_ms = unswizzle_ms(lab)?;
    let parts_ms = cross.millis(0.5) + alert.millis(0.5) + copy_ms;
    let row = |case: &str, unit, ours| Row::new("table 2", case, unit, ours);
    // Three hops: to the redirector, to the helper, and the page back.
    let over = |sample: &Sample, ping: &Sample| sample.micros(0.5) / (1.5 * ping.micros(0.5));
    let spread = |sample: &Sample| sample.micros(0.99) / sample.micros(0.5);
    let mut rows = vec![
        row("peer fetch", "ms", peer.millis(0.5)).paper(1.8),
        row("- alert the helper, null request", "ms", alert.millis(0.5)).paper(0.3),
        row("- copy and unswizzle", "ms", copy_ms).paper(0.24),
        row("- cross the redirector, null request", "ms", cross.millis(0.5)).paper(0.16),
        row("- these over the peer fetch", "x", parts_ms / peer.millis(0.5)).paper(0.7 / 1.8),
        row("over_ping: peer fetch / three bare hops of 8 KiB", "x", over(&peer, &ping))
            .target(Target::AtMost(2.5))
            .baseline(&ping.thirds()),
        row("peer fetch, p99 / p50", "x", spread(&peer)).target(Target::AtMost(5.0)).baseline(&peer.thirds()),
        row("peer fetch while the helper computes", "ms", computing.millis(0.5)).paper(5.5),
        row("- alert the helper while it computes, null request", "ms", alert_computing.millis(0.5)).paper(4.6),
        row("over_ping while the helper computes", "x", over(&computing, &ping_computing))
            .target(Target::AtMost(2.5))
            .baseline(&ping_computing.thirds()),
        row("peer fetch while the helper computes, p99 / p50", "x", spread(&computing))
            .target(Target::AtMost(5.0))
            .baseline(&computing.thirds()),
        row("from peers, of all pages fetched", "%", 100.0 * median(from_peers)),
    ];
    pace.advance(0.8);
    pace.say("table 2: 200 reordered objects; 200 members")?;
    rows.push(
        Row::new("vcache", "200 reordered objects", "us", vcache::reordered_us()?)
            .paper(600.0)
            .target(Target::AtMost(20.0)),
    );
    rows.extend(members::rows()?);
    Ok(rows)
}

fn null_requests(end: &End) -> Result<Sample> {
    let mut sample = Sample::default();
    for _ in 0..NULL_REQUESTS {
        sample.push(end.null_request()?);
    }
    Ok(sample)
}

fn share_from_peers(db: &Db) -> f64 {
    let stats = db.stats();
    stats.pages_from_peers as f64 / stats.pages_fetched.max(1) as f64
}

/// Measures something while the application of a client never waits: it reads what it has cached.
fn while_computing(helper: &Db, object: Ref<[u8]>, measure: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // It reads cached pages and does not commit; the outcome of the transaction is of no interest.
            let _ = helper.transact(|tx| {
                while !stop.load(Relaxed) {
                    black_box(tx.read(object, |bytes| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>())?);
                }
                Ok(())
            });
        });
        let measured = measure();
        stop.store(true, Relaxed);
        measured
    })
}

/// The time to copy a page and to look through it, as its receiver does.
fn unswizzle_ms(lab: &Lab) -> Result<f64> {
    let db = lab.client()?;
    let bytes = db.transact(|tx| tx.get_bytes(lab.objects[0]))?.ok_or("an object is gone")?;
    let value = Some(bytes.into());
    let page = ObjectPage::empty().with(&[types::SlotChange { slot: 0, value }]);
    let image = page.map_err(|_| "a page is full")?.image().clone();
    let mut sample = Sample::default();
    for _ in 0..1000 {
        let start = Instant::now();
        let copied = image.to_vec();
        black_box(ObjectPage::parse(copied.into()).map_err(|error| error.to_string())?);
        sample.push(start.elapsed());
    }
    Ok(sample.millis(0.5))
}
