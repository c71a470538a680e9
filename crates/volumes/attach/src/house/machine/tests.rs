//! Sessions that say what they may not, and a disk that fails.

use super::*;
use bytes::Bytes;
use machine::Opaque;
use machines::messages::holder::{Content, Epoch, FlushEpoch, Sequence, Stamp};
use machines::messages::home::{Begin, Keep};
use types::limits::{VOLUME_EPOCHS_AHEAD_MAX, VOLUME_PART_BYTES_MAX};
use vfs::memory::Dice;

const SIZE: u64 = 64 * BLOCK as u64;
const VOLUME: VolumeId = VolumeId(7);

/// Homes over a disk that does what it is told when it is asked to, and sometimes fails.
#[derive(Default)]
struct World {
    homes: Homes,
    work: VecDeque<Work>,
    said: Vec<(SessionId, FromHome)>,
    ended: Vec<(SessionId, GoodbyeReason)>,
    now: Time,
}

impl World {
    fn say(&mut self, from: u64, message: impl Into<ToHome>) {
        self.homes.handle(self.now, Port::Session(SessionId(from)), Parcel::new(message.into()));
        self.settle();
    }

    fn leave(&mut self, session: u64) {
        self.homes.disconnected(self.now, Port::Session(SessionId(session)));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.homes.poll_output() {
            match output {
                Output::Send(Port::Session(to), message, None) => self.said.push((to, message.open().unwrap())),
                Output::End(Port::Session(of), reason, _) => self.ended.push((of, reason)),
                Output::Disk(work) => self.work.push_back(Opaque::open(work).unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Does the next work, or fails at it.
    fn work(&mut self, fails: bool) {
        let outcome = || if fails { Err("the disk is full".to_owned()) } else { Ok(()) };
        let done = match self.work.pop_front() {
            None | Some(Work::Ordered(_, Ordered::Close | Ordered::Begin(..))) => return,
            Some(Work::Ordered(id, Ordered::Open(_))) => {
                let (epoch, owner, mark) = (Epoch(0), 0, Stamp::ZERO);
                Done::Opened(id, Ok(Found { size: SIZE, epoch, owner, mark, generation: 1, journal: None }))
            }
            Some(Work::Ordered(id, Ordered::Put(number, session, put))) => {
                if fails {
                    self.homes.disk(self.now, DiskDone::new(Done::Failed(id, number, "full".to_owned())));
                }
                Done::Took(session, put.cost())
            }
            Some(Work::Ordered(id, Ordered::Step(step, _))) => Done::Stepped(id, step, outcome()),
            Some(Work::Ordered(_, Ordered::Keep(to, _))) => Done::Kept(to, outcome().map_err(NotDone::Failed)),
            Some(Work::Recall(to, _, id)) => Done::Recalled(to, id, Bytes::from_static(b"{}")),
            Some(Work::Ordered(_, Ordered::Discard(to, _))) => Done::Discarded(to, Ok(())),
            Some(Work::List(to, _)) => Done::Listed(to, Ok(home::Homes { homes: Vec::new(), is_last: true })),
            Some(Work::Ordered(id, _)) => Done::Changed(id, outcome()),
            Some(Work::Read(to, _, id, _)) => Done::Read(to, id, Ok(Bytes::new())),
            Some(Work::Scrub(to, _, id, _)) => Done::Scrubbed(to, id, Ok(Vec::new())),
            Some(Work::Map(to, _, id, _)) => Done::Mapped(to, id, Vec::new()),
        };
        self.homes.disk(self.now, DiskDone::new(done));
        self.settle();
    }

    fn work_all(&mut self) {
        while !self.work.is_empty() {
            self.work(false);
        }
    }
}

fn begin(epoch: u64, sequence: u64, is_joined: bool) -> Begin {
    let through = Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(sequence) };
    Begin { epoch: Epoch(epoch), through, is_joined }
}

fn put(first: u64, bytes: usize) -> Put {
    let extent = Extent { offset: first * BLOCK as u64, len: bytes as u64 };
    Put { extent, content: Content::Data(vec![1; bytes].into()) }
}

/// The owner has a session of its own for that: a write-back may take long in another.
#[test]
fn an_entry_is_kept_beside_a_write_back_unless_its_epoch_has_ended() {
    let mut world = World::default();
    world.say(1, Open { volume: VOLUME });
    world.say(2, Open { volume: VOLUME });
    world.work_all();
    world.say(1, Fence { epoch: Epoch(2), owner: 7 });
    world.work_all();
    world.say(1, begin(2, 1, false));
    world.said.clear();
    let keep = |epoch| Keep { epoch: Epoch(epoch), revision: 9, entry: Bytes::from_static(b"{}") };
    world.say(2, keep(1));
    world.say(2, keep(2));
    world.say(2, Recall { id: 3 });
    world.work_all();
    let said: Vec<_> = world.said.iter().map(|(to, said)| (to.0, said.clone())).collect();
    let recalled = Recalled { id: 3, entry: Bytes::from_static(b"{}") };
    assert_eq!(said, [(2, NotDone::Ended(Epoch(2)).into()), (2, home::Done.into()), (2, recalled.into())]);
}

/// A peer that reaches a home may end an epoch, and not everything that could come: an owner after that one continues.
#[test]
fn an_epoch_that_leaves_no_numbers_is_refused() {
    let mut world = World::default();
    world.say(1, Open { volume: VOLUME });
    world.work_all();
    for epoch in [u64::MAX, u64::MAX / 2, VOLUME_EPOCHS_AHEAD_MAX + 1] {
        world.said.clear();
        world.say(1, Fence { epoch: Epoch(epoch), owner: 8 });
        let [(_, FromHome::NotDone(NotDone::Failed(why)))] = &world.said[..] else { panic!("{:?}", world.said) };
        assert!(why.contains("too far beyond 0"), "{why}");
        world.said.clear();
        world.say(1, begin(epoch, 1, false));
        assert!(matches!(world.said[..], [(_, FromHome::NotDone(NotDone::Failed(_)))]), "{:?}", world.said);
    }
    world.say(1, Fence { epoch: Epoch(1), owner: 7 });
    world.work_all();
    assert!(matches!(world.said.last(), Some((_, FromHome::Fenced(_)))), "{:?}", world.said);
    world.say(1, Begin { epoch: Epoch(1), ..begin(2, 1, false) });
    assert_eq!(world.ended, [(SessionId(1), GoodbyeReason::Malformed)]);
}

#[test]
fn a_session_that_has_more_on_its_way_than_its_window_is_ended() {
    let mut world = World::default();
    world.say(1, Open { volume: VOLUME });
    world.work_all();
    world.say(1, begin(1, 1, false));
    let parts = VOLUME_WINDOW_BYTES / put(0, VOLUME_PART_BYTES_MAX).cost();
    for _ in 0..parts {
        world.say(1, put(0, VOLUME_PART_BYTES_MAX));
    }
    assert_eq!(world.ended, []);
    // With room again it continues, and the writer is notified of it before all of it is free.
    for _ in 0..parts / 8 {
        world.work(false);
    }
    assert!(world.said.iter().any(|(_, said)| matches!(said, FromHome::Took(_))));
    world.say(1, put(0, VOLUME_PART_BYTES_MAX));
    assert_eq!(world.ended, []);
    while world.ended.is_empty() {
        world.say(1, put(0, VOLUME_PART_BYTES_MAX));
    }
    assert_eq!(world.ended, [(SessionId(1), GoodbyeReason::TooMuch)]);
    world.work_all();
    assert!(world.homes.volumes.is_empty() && world.homes.sessions.is_empty());

    world.say(2, Open { volume: VOLUME });
    world.work_all();
    for id in 0..=VOLUME_READS_PER_SESSION_MAX as u64 {
        world.say(2, Read { id, extent: Extent { offset: 0, len: 1 } });
    }
    assert_eq!(world.ended[1..], [(SessionId(2), GoodbyeReason::TooMuch)]);
}

#[test]
fn a_write_back_of_which_a_part_could_not_be_written_is_never_durable() {
    for is_joined in [false, true] {
        let mut world = World::default();
        world.say(1, Open { volume: VOLUME });
        world.work_all();
        world.say(1, begin(1, 1, is_joined));
        world.say(1, put(0, BLOCK));
        world.work(false);
        world.work(true);
        world.say(1, End { is_whole: true });
        world.work_all();
        let answers: Vec<_> = world.said[1..].iter().map(|(_, said)| said).collect();
        assert!(matches!(answers[..], [FromHome::NotDone(NotDone::Failed(_))]), "{answers:?}");
        // It is sent again.
        world.said.clear();
        world.say(1, begin(1, 1, is_joined));
        world.say(1, put(0, BLOCK));
        world.say(1, End { is_whole: true });
        world.work_all();
        assert!(matches!(world.said[..], [(_, FromHome::Durable(_))]), "{:?}", world.said);
    }
}

#[test]
fn a_home_that_a_session_has_open_is_not_removed_by_an_operator() {
    let (mut world, from, unwritten_s) = (World::default(), VolumeId(0), 0);
    world.say(1, Open { volume: VOLUME });
    world.work_all();
    world.say(2, ListHomes { from });
    world.work_all();
    world.said.clear();
    world.say(2, RemoveHome { volume: VOLUME, unwritten_s });
    assert_eq!(world.said, [(SessionId(2), NotDone::Busy.into())]);
    world.leave(1);
    world.work_all();
    world.said.clear();
    world.say(2, RemoveHome { volume: VOLUME, unwritten_s });
    // A session that opens it now comes behind that.
    world.say(3, Open { volume: VOLUME });
    assert!(matches!(world.work[0], Work::Ordered(VOLUME, Ordered::Discard(..))), "{:?}", world.work);
    assert!(matches!(world.work[1], Work::Ordered(VOLUME, Ordered::Open(None))), "{:?}", world.work);
    world.work_all();
    assert_eq!(world.said[0], (SessionId(2), home::Done.into()));
    assert_eq!(world.ended, []);
}

#[test]
fn a_session_about_all_homes_has_one_question_at_a_time_and_is_of_no_volume() {
    let (from, unwritten_s) = (VolumeId(0), 0);
    let wrong: [&dyn Fn(&mut World); 4] = [
        &|world| world.say(1, RemoveHome { volume: VOLUME, unwritten_s }),
        &|world| (0..2).for_each(|_| world.say(1, ListHomes { from })),
        &|world| {
            world.say(1, ListHomes { from });
            world.say(1, Open { volume: VOLUME });
        },
        &|world| {
            world.say(1, Open { volume: VOLUME });
            world.say(1, ListHomes { from });
        },
    ];
    for wrong in wrong {
        let mut world = World::default();
        wrong(&mut world);
        assert_eq!(world.ended, [(SessionId(1), GoodbyeReason::Malformed)]);
        // The answers to what it had asked reach nobody.
        world.said.clear();
        world.work_all();
        assert!(world.said.is_empty() && world.homes.surveys.is_empty() && world.homes.sessions.is_empty());
    }
}

/// Its writer would wait for ever, for home keeps nothing of it.
#[test]
fn a_write_back_that_a_newer_epoch_drops_is_answered_although_it_came_as_a_whole() {
    let mut world = World::default();
    for session in [1, 2] {
        world.say(session, Open { volume: VOLUME });
    }
    world.work_all();
    world.say(1, begin(1, 1, true));
    world.say(1, put(0, BLOCK));
    world.say(1, End { is_whole: true });
    world.said.clear();
    // Its journal is at the disk, or waits for it.
    world.say(2, Fence { epoch: Epoch(2), owner: 2 });
    assert_eq!(world.said, [(SessionId(1), FromHome::NotDone(NotDone::Ended(Epoch(2))))]);
    world.work_all();
    assert!(matches!(world.said[1..], [(SessionId(2), FromHome::Fenced(_))]), "{:?}", world.said);
    // The one who asks again hears the same.
    world.say(1, begin(1, 1, true));
    assert_eq!(world.said[2..], [(SessionId(1), FromHome::NotDone(NotDone::Ended(Epoch(2))))]);
}

/// Sessions that say anything at any time, over a disk that fails: each command has one answer at most, and in the end
/// nothing is kept.
#[test]
fn whatever_is_said_nothing_panics_and_nothing_stays() {
    for seed in 0..400 {
        let (mut dice, mut world) = (Dice(seed), World::default());
        let mut commands = 0;
        for _ in 0..300 {
            let (from, epoch) = (1 + dice.roll(3), dice.roll(4));
            let extent = Extent { offset: dice.roll(70) * BLOCK as u64, len: 1 + dice.roll(3) * BLOCK as u64 };
            let message: ToHome = match dice.roll(20) {
                0 => Open { volume: VolumeId(7 + dice.roll(2)) }.into(),
                1 => Create { volume: VOLUME, size: SIZE + dice.roll(2) }.into(),
                2 | 3 => Fence { epoch: Epoch(epoch), owner: dice.roll(2) }.into(),
                4 | 5 => begin(epoch, dice.roll(40), dice.roll(2) == 0).into(),
                6 | 7 => put(dice.roll(65), BLOCK).into(),
                8 | 9 => End { is_whole: dice.roll(3) > 0 }.into(),
                10 => Read { id: dice.roll(5), extent }.into(),
                11 => Map { id: dice.roll(5), extent }.into(),
                12 => Resize { epoch: Epoch(epoch), size: SIZE }.into(),
                13 => Snapshot { to: VolumeId(9) }.into(),
                14 => Remove { epoch: Epoch(epoch) }.into(),
                15 => ListHomes { from: VolumeId(epoch) }.into(),
                16 => RemoveHome { volume: VOLUME, unwritten_s: epoch }.into(),
                17 => Keep { epoch: Epoch(epoch), revision: epoch, entry: Bytes::new() }.into(),
                18 => Recall { id: dice.roll(5) }.into(),
                _ => {
                    world.leave(from);
                    continue;
                }
            };
            let is_command = !matches!(
                message,
                ToHome::Open(_)
                    | ToHome::Create(_)
                    | ToHome::Put(_)
                    | ToHome::End(_)
                    | ToHome::Read(_)
                    | ToHome::Map(_)
                    | ToHome::Recall(_)
            );
            commands += usize::from(is_command || matches!(message, ToHome::Open(_) | ToHome::Create(_)));
            world.say(from, message);
            for _ in 0..dice.roll(4) {
                world.work(dice.roll(10) == 0);
            }
        }
        let is_answer = |(_, said): &&(SessionId, FromHome)| {
            matches!(said, FromHome::Fenced(_) | FromHome::Durable(_) | FromHome::Done(_) | FromHome::NotDone(_))
        };
        assert!(world.said.iter().filter(is_answer).count() <= commands, "seed {seed}");
        (1..=3).for_each(|session| world.leave(session));
        for _ in 0..10 {
            world.work_all();
            world.now = world.now + Duration::from_secs(2);
            world.homes.handle_timeout(world.now);
            world.settle();
        }
        assert!(world.homes.volumes.is_empty() && world.homes.sessions.is_empty(), "seed {seed}: {:?}", world.homes);
    }
}
