//! Peers that say anything in any order, and disks that answer anything: no machine panics or keeps its driver busy,
//! and no member goes back.

use bytes::Bytes;
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port, Waiter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use spread::messages::{
    Acquire, Ahead, Change, ChangeKind, Chunk, Collect, Consistency, Elsewhere, Enter, FromFileServer, Gone, HandOver,
    HandedOver, Have, Held, Hold, Identity, Invalidate, Join, Joined, KeepLocks, Lapsed, Leave, Lock, LockOver, Locked,
    LocksKept, Missing, NotJoined, NotNow, Offer, Published, Put, RecallLock, Release, Renew, Renewed, Revoke, Size,
    Survey, Switch, ToFileServer, Token, Unlock, VisitorKey, Want, WhenStale,
};
use spread::server_work::{Checked, Merged, MergedTree, NotDone, Place, Settings};
use spread::{
    Client, FileServer, Member, MemberConfig, Number, PATIENCE, Relay, RelayConfig, Relays, Request, ServerConfig,
    SiteKey, Swept, Visit, member_work, server_work,
};
use std::collections::VecDeque;
use std::time::Duration;
use tree::{ChunkHash, Descent, Growth, Parts, Path, Step};
use types::{Broken, NodeId, SessionId, Time};

const KEY: VisitorKey = VisitorKey([7; 32]);

fn key() -> SiteKey {
    SiteKey { space: "main".to_owned(), name: "shop".to_owned() }
}

fn number() -> impl Strategy<Value = Number> {
    let life = select(vec![0, 1, 2, u64::MAX]);
    (life, select(vec![0, 1, 2, 3, u64::MAX])).prop_map(|(life, count)| Number { life, count })
}

fn token() -> impl Strategy<Value = Token> + Clone {
    (0..3_u64, 0..5_u64).prop_map(|(life, number)| Token { life, number })
}

fn hash() -> impl Strategy<Value = ChunkHash> {
    (0..4_u8).prop_map(|of| ChunkHash::of(&[of]))
}

fn space() -> impl Strategy<Value = String> {
    select(vec!["main".to_owned(), "docs".to_owned(), String::new()])
}

fn time() -> impl Strategy<Value = Time> {
    select(vec![0, 1_000_000, 1_000_000_000, u64::MAX]).prop_map(Time)
}

fn to_server() -> impl Strategy<Value = ToFileServer> {
    let (slot, ticket) = (0..3_u32, 0..3_u64);
    let hashes = || vec(hash(), 0..4);
    let names = || (Just("main".to_owned()), select(vec!["shop".to_owned(), "other".to_owned()]));
    let join = (slot.clone(), time(), 0..3_u64, number(), number(), names(), vec(number(), 0..3));
    let identity = (0..2_u64, 0..3_u64).prop_map(|(publisher, number)| Identity { publisher, number });
    let flags = (any::<bool>(), any::<bool>(), vec(token(), 0..2));
    let switch = (ticket.clone(), identity.clone(), names(), proptest::option::of(hash()), hash(), flags);
    let kind = select(vec![ChangeKind::Create, ChangeKind::Set, ChangeKind::Remove]);
    let settings = (proptest::option::of(select(Consistency::ALL.to_vec())), proptest::option::of(0..2000_u32));
    let change = (ticket.clone(), kind, settings, names());
    prop_oneof![
        4 => join.prop_map(|(slot, asked, life, at, seen, (space, site), held)| {
            Join { slot, asked, life, at, seen, space, site, held }.into()
        }),
        3 => (slot.clone(), time(), number(), vec(number(), 0..3))
            .prop_map(|(slot, asked, at, released)| Renew { slot, asked, at, released }.into()),
        2 => (slot.clone(), number()).prop_map(|(slot, number)| Hold { slot, number }.into()),
        1 => slot.clone().prop_map(|slot| Leave { slot }.into()),
        2 => (slot.clone(), number()).prop_map(|(slot, at)| Acquire { slot, at, shares: at.count % 2 == 0 }.into()),
        2 => slot.prop_map(|slot| Release { slot }.into()),
        3 => hashes().prop_map(|hashes| Want { hashes }.into()),
        2 => (ticket.clone(), hashes()).prop_map(|(ticket, hashes)| Have { ticket, hashes }.into()),
        2 => (ticket.clone(), names(), vec((hash(), Just(Bytes::from_static(b"x"))), 0..3))
            .prop_map(|(ticket, (space, site), chunks)| Put { ticket, space, site, chunks }.into()),
        4 => switch.prop_map(|(ticket, identity, (space, site), base, root, (waits, merges, locks))| {
            let (of, size, note) = (0, Size::default(), String::new());
            let ends_locks = waits && ticket == 0;
            Switch { ticket, identity, space, site, base, root, of, size, waits, merges, ends_locks, locks, note }
                .into()
        }),
        4 => (identity.clone(), names(), select(vec!["", "a", "a/b", "../c"])).prop_map(
            |(identity, (space, site), path)| Lock { identity, space, site, path: path.as_bytes().to_vec() }.into()
        ),
        3 => (time(), 0..2_u64, vec(token(), 0..3))
            .prop_map(|(asked, publisher, tokens)| KeepLocks { asked, publisher, tokens }.into()),
        2 => identity.prop_map(|identity| Unlock { identity }.into()),
        2 => change.prop_map(|(ticket, kind, (consistency, lease_ms), (space, site))| {
            let (keep, when_stale) = (lease_ms, lease_ms.map(|_| WhenStale::Refuse));
            Change { ticket, kind, keep, lease_ms, consistency, when_stale, space, site }.into()
        }),
        1 => ticket.clone().prop_map(|ticket| Collect { ticket }.into()),
        1 => (ticket.clone(), names()).prop_map(|(ticket, (space, site))| Survey { ticket, space, site }.into()),
        3 => space().prop_map(|space| Enter { space }.into()),
        2 => (ticket, 0..3_u16, space()).prop_map(|(ticket, to, space)| {
            HandOver { ticket, to: NodeId(to), space }.into()
        }),
    ]
}

fn from_server() -> impl Strategy<Value = FromFileServer> {
    let slot = 0..3_u32;
    let lease_ms = select(vec![0, 1, 1000, u32::MAX]);
    let shares = (select(Consistency::ALL.to_vec()), any::<bool>());
    let joined = (slot.clone(), time(), lease_ms.clone(), number(), hash(), vec(number(), 0..3), shares);
    let why = select(vec![NotNow::NoSite, NotNow::NotYet, NotNow::Full]);
    let edits = select(vec![Bytes::new(), Bytes::from_static(b"edits")]);
    prop_oneof![
        4 => joined.prop_map(|(slot, asked, lease_ms, number, root, held, (consistency, shares))| {
            let when_stale = WhenStale::Serve;
            let keep = 2;
            Joined { slot, asked, lease_ms, number, root, keep, key: KEY, consistency, when_stale, shares, held }.into()
        }),
        1 => (slot.clone(), why).prop_map(|(slot, why)| NotJoined { slot, why }.into()),
        1 => space().prop_map(|address| Elsewhere { address }.into()),
        1 => (0..3_u64, any::<bool>(), vec(hash(), 0..3))
            .prop_map(|(ticket, is_last, hashes)| HandedOver { ticket, term: 9, lease_ms: 1, is_last, hashes }.into()),
        4 => (slot.clone(), number(), hash(), hash(), any::<bool>(), edits).prop_map(
            |(slot, number, root, base, reports, edits)| {
                Offer { slot, number, root, base, reports, answers: !reports, edits }.into()
            }
        ),
        2 => (time(), lease_ms.clone()).prop_map(|(asked, lease_ms)| LocksKept { asked, lease_ms }.into()),
        3 => (0..6_u64, token(), number(), proptest::option::of(hash()))
            .prop_map(|(ticket, token, number, root)| Locked { ticket, token, number, root }.into()),
        1 => token().prop_map(|token| RecallLock { token }.into()),
        1 => token().prop_map(|token| LockOver { token }.into()),
        2 => (slot.clone(), time(), lease_ms)
            .prop_map(|(slot, asked, lease_ms)| Renewed { slot, asked, lease_ms }.into()),
        1 => slot.clone().prop_map(|slot| Lapsed { slot }.into()),
        2 => slot.clone().prop_map(|slot| Revoke { slot }.into()),
        4 => (slot.clone(), vec((hash(), select(vec![0, 1, u32::MAX])), 0..3))
            .prop_map(|(slot, chunks)| Ahead { slot, chunks }.into()),
        2 => (slot.clone(), number(), any::<bool>())
            .prop_map(|(slot, number, reports)| Invalidate { slot, number, reports }.into()),
        2 => (slot, number(), any::<bool>()).prop_map(|(slot, number, is_held)| Held { slot, number, is_held }.into()),
        4 => (hash(), 0..4_u8).prop_map(|(hash, of)| Chunk { hash, bytes: vec![of].into() }.into()),
        2 => hash().prop_map(|hash| Gone { hash }.into()),
        1 => (0..4_u64, vec(hash(), 0..3)).prop_map(|(ticket, hashes)| Missing { ticket, hashes }.into()),
        1 => (0..4_u64, number(), hash()).prop_map(|(ticket, number, root)| {
            Published { ticket, number, root, is_new: number.count % 2 == 0 }.into()
        }),
    ]
}

/// Something that happens to a machine.
#[derive(Clone, Debug)]
enum Event {
    /// A message of the peer on one of three ports.
    To(u64, ToFileServer),
    /// A message of the server above.
    From(FromFileServer),
    Connected,
    Cut,
    Lost(u64),
    HasRoom(u64),
    /// The disk does the work that was asked for first; well, or not.
    Disk(bool, ChunkHash),
    Passes(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..3_u64, to_server()).prop_map(|(port, message)| Event::To(port, message)),
        8 => from_server().prop_map(Event::From),
        2 => Just(Event::Connected),
        1 => Just(Event::Cut),
        1 => (0..3_u64).prop_map(Event::Lost),
        1 => (0..3_u64).prop_map(Event::HasRoom),
        8 => (prop::bool::weighted(0.8), hash()).prop_map(|(is_done, hash)| Event::Disk(is_done, hash)),
        3 => select(vec![0, 1, 300, 2000, 700_000]).prop_map(Event::Passes),
    ];
    vec(event, 1..120)
}

/// The sides on which a machine has peers.
#[derive(Clone, Copy, Debug)]
struct Ends {
    serves: bool,
    has_server: bool,
}

/// A machine and the work that its disk has yet to do.
struct Run<M> {
    machine: M,
    ends: Ends,
    now: Time,
    is_up: bool,
    work: VecDeque<Opaque>,
}

impl<M: Machine> Run<M> {
    fn new(mut machine: M, ends: Ends) -> Self {
        machine.start(Time::ZERO);
        Self { machine, ends, now: Time::ZERO, is_up: false, work: VecDeque::new() }
    }

    /// Lets an event happen: `done` does work of the disk.
    fn happens(&mut self, event: Event, done: impl Fn(Opaque, bool, ChunkHash) -> Option<DiskDone>) {
        let port = |number| Port::Session(SessionId(number));
        match event {
            Event::To(from, message) if self.ends.serves => {
                self.machine.handle(self.now, port(from), Parcel::new(message));
            }
            Event::From(message) if self.is_up => {
                self.machine.handle(self.now, Port::SERVER, Parcel::new(message));
            }
            Event::Connected if self.ends.has_server && !self.is_up => {
                self.is_up = true;
                self.machine.connected(self.now, Port::SERVER);
            }
            Event::Cut if self.is_up => {
                self.is_up = false;
                self.machine.disconnected(self.now, Port::SERVER);
            }
            Event::Lost(of) if self.ends.serves => self.machine.disconnected(self.now, port(of)),
            Event::HasRoom(of) if self.ends.serves => self.machine.has_room(port(of)),
            Event::Disk(is_done, hash) => {
                if let Some(done) = self.work.pop_front().and_then(|work| done(work, is_done, hash)) {
                    self.machine.disk(self.now, done);
                }
            }
            Event::Passes(ms) => self.now = Time(self.now.0 + ms * 1_000_000),
            _ => {}
        }
        self.drain();
        for round in 0.. {
            if self.machine.poll_timeout().is_none_or(|due| due > self.now) {
                break;
            }
            assert!(round < 10, "it is always busy: {:?}", self.machine);
            self.machine.handle_timeout(self.now);
            self.drain();
        }
    }

    fn drain(&mut self) {
        for round in 0.. {
            let Some(output) = self.machine.poll_output() else { break };
            assert!(round < 1000, "it does not stop: {output:?}");
            if let Output::Disk(work) = output {
                self.work.push_back(work);
            }
        }
    }
}

fn or<T>(is_done: bool, done: T, failed: NotDone) -> Result<T, NotDone> {
    if is_done { Ok(done) } else { Err(failed) }
}

fn server_does(work: Opaque, is_done: bool, hash: ChunkHash) -> Option<DiskDone> {
    use server_work::{Done, Work};
    let failed = || NotDone::Failed("the disk is broken".to_owned());
    Some(DiskDone::new(match work.open::<Work>().ok()? {
        Work::Missing(id, hashes) => Done::Missing(id, or(is_done, hashes, failed())),
        Work::Put(id, _) => Done::Put(id, or(is_done, (), failed())),
        Work::Check(id, _) if hash == ChunkHash::of(&[0]) => {
            Done::Checked(id, Ok(Checked { lacks: vec![hash], ..Checked::default() }))
        }
        Work::Check(id, _) => {
            Done::Checked(id, or(is_done, Checked { new: vec![hash], ..Checked::default() }, failed()))
        }
        Work::Merge(id, _) if hash == ChunkHash::of(&[0]) => {
            Done::Merged(id, Ok(Merged::Conflicts("a/b, c".to_owned())))
        }
        Work::Merge(id, _) => {
            let (new, growth, edits) = (vec![hash], Growth { files: i64::MIN, bytes: i64::MAX }, Bytes::new());
            Done::Merged(id, or(is_done, Merged::Tree(MergedTree { root: hash, new, growth, edits }), failed()))
        }
        Work::Compare(id, _) if hash == ChunkHash::of(&[0]) => Done::Compared(id, Ok(Vec::new())),
        Work::Compare(id, compare) => Done::Compared(id, or(is_done, compare.paths, failed())),
        Work::Edits(id, ..) => Done::Edits(id, Bytes::from_static(b"edits")),
        Work::Publish(id, _) => {
            let consistency = if hash == ChunkHash::of(&[1]) { Consistency::Sequential } else { Consistency::Callback };
            Done::Published(id, or(is_done, Settings::new(1, KEY, consistency), failed()))
        }
        Work::Change(id, ..) => Done::Changed(id, or(is_done, None, failed())),
        Work::Drop(key, numbers) => Done::Dropped(key, if is_done { numbers } else { Vec::new() }),
        Work::Mark(_) => Done::Marked(or(is_done, vec![hash], failed())),
        Work::Sweep(_) => Done::Swept(or(is_done, Swept::default(), failed())),
        Work::Read(of) => Done::Read(of, is_done.then(|| Bytes::from_static(b"x"))),
        Work::Locate(space) if hash == ChunkHash::of(&[0]) => Done::Located(space, Place::At("n2:1".to_owned())),
        Work::Locate(space) if is_done => Done::Located(space, Place::Here),
        Work::Locate(space) => Done::Located(space, Place::Away("it is away".to_owned())),
        Work::HandOver(id, ..) => Done::HandOver(id, or(is_done, 9, failed())),
    }))
}

fn member_does(work: Opaque, is_done: bool, hash: ChunkHash) -> Option<DiskDone> {
    use member_work::{Applied, Done, Work};
    let failed = || "the disk is broken".to_owned();
    Some(DiskDone::new(match work.open::<Work>().ok()? {
        Work::Apply(_) | Work::Descend(_) if !is_done => Done::Descended(Err(failed())),
        Work::Apply(edited) => {
            let found = Descent { lacks: vec![hash], relies: Vec::new(), waits: Vec::new() };
            let content = if edited.parts == Parts::Whole { Vec::new() } else { vec![(hash, 1)] };
            Done::Applied(Applied { found, content })
        }
        Work::Descend(steps) => {
            let lacks = if hash == ChunkHash::of(&[0]) { vec![hash] } else { Vec::new() };
            let waits: Vec<Step> = if lacks.is_empty() { Vec::new() } else { steps };
            Done::Descended(Ok(Descent { lacks, relies: vec![ChunkHash::of(&[1])], waits }))
        }
        Work::Put(of, _) if is_done => Done::Put(of, Ok(of != ChunkHash::of(&[2]))),
        Work::Put(of, _) => Done::Put(of, Err(failed())),
        Work::Switch(state) => {
            let number = state.revisions.last()?.number;
            Done::Switched(number, if is_done { Ok(()) } else { Err(failed()) })
        }
        Work::Mark(..) => Done::Marked(if is_done { Ok(vec![(hash, 1)]) } else { Err(failed()) }),
        Work::Sweep(_) => Done::Swept(if is_done { Ok(Swept::default()) } else { Err(failed()) }),
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_file_server_lives_on(events in events()) {
        let config = ServerConfig { lease: Duration::from_secs(1), announces_over: 0, ..ServerConfig::new(1) };
        let mut run = Run::new(FileServer::new(config, Vec::new()), Ends { serves: true, has_server: false });
        for event in events {
            run.happens(event, server_does);
        }
        prop_assert!(run.machine.head(&key()).is_none_or(|head| head.number.count > 0));
    }

    #[test]
    fn the_file_server_of_a_node_lives_on(events in events(), moves in any::<bool>()) {
        let config = ServerConfig { lease: Duration::from_secs(1), is_alone: false, ..ServerConfig::new(1) };
        let mut run = Run::new(FileServer::new(config, Vec::new()), Ends { serves: true, has_server: false });
        for (number, event) in events.into_iter().enumerate() {
            run.happens(event, server_does);
            let now = run.now;
            match number % 7 {
                2 if moves => run.machine.forget(now, "main"),
                4 => run.machine.adopt(now, "main", Vec::new(), (Duration::ZERO, vec![ChunkHash::of(&[1])])),
                5 => run.machine.forget_unused(|_| moves),
                _ => {}
            }
            let (own, leaving) = (run.machine.own_spaces(), run.machine.leaving_spaces());
            prop_assert!(leaving.iter().all(|(space, _)| !own.contains(space)), "{own:?} {leaving:?}");
            run.drain();
        }
    }

    #[test]
    fn relays_live_on(events in events()) {
        let config = RelayConfig { life: 1, cache_bytes: 2, broken: Broken::NONE };
        let relays = Relays::new(config, vec!["n1:1".to_owned()]);
        let mut run = Run::new(relays, Ends { serves: true, has_server: true });
        for event in events {
            run.happens(event, |_, _, _| None);
        }
    }

    #[test]
    fn a_relay_lives_on(events in events()) {
        let relay = Relay::new(RelayConfig { life: 1, cache_bytes: 2, broken: Broken::NONE });
        let mut run = Run::new(relay, Ends { serves: true, has_server: true });
        for event in events {
            run.happens(event, |_, _, _| None);
        }
    }

    #[test]
    fn a_member_lives_on(events in events(), seen in number(), keeps_part in any::<bool>()) {
        let (visit, collect_after, patience) = (Duration::from_millis(300), Duration::from_secs(5), PATIENCE);
        let (idle_after, content_bytes, broken) = (Some(1), keeps_part.then_some(1), Broken::NONE);
        let (key, life) = (key(), 1);
        let config = MemberConfig { key, life, visit, collect_after, patience, idle_after, content_bytes, broken };
        let mut run = Run::new(Member::new(config, None), Ends { serves: false, has_server: true });
        let mut last = Number::NONE;
        for event in events {
            run.happens(event, member_does);
            let now = run.now;
            run.machine.open(now, Visit { seen: Some(seen), ..Visit::default() });
            run.machine.damaged(ChunkHash::of(&[3]));
            let wanted = ChunkHash::of(&[1]);
            if let Some(reader) = run.machine.want(wanted, now.0.is_multiple_of(2)) {
                run.machine.let_go(wanted, Waiter(reader.0 - now.0 % 3));
            }
            run.drain();
            let current = run.machine.current().map_or(Number::NONE, |current| current.number);
            prop_assert!(current >= last, "it went back from {last:?} to {current:?}");
            last = current;
        }
    }

    #[test]
    fn a_client_lives_on(events in events()) {
        let mut run = Run::new(Client::new(7), Ends { serves: false, has_server: true });
        run.machine.ask(Request::Have(vec![ChunkHash::of(&[1])]));
        run.machine.ask(Request::Want(ChunkHash::of(&[1])));
        run.machine.ask(Request::HandOver("main".to_owned(), NodeId(1)));
        run.machine.lock(Time::ZERO, key(), &Path::parse(b"a/b").unwrap());
        run.machine.hold(Time::ZERO, key(), Number { life: 1, count: 1 }, 8);
        for event in events {
            run.happens(event, |_, _, _| None);
        }
    }
}
