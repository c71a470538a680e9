//! The properties of one seed's run.

use crate::rng::Rng;
use core::time::Duration;
use machines::{Ack, Degraded};

/// How often each kind of trouble comes, in parts of what else happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Troubles {
    pub(crate) kill_host: u64,
    pub(crate) lose_log: u64,
    pub(crate) fail_log: u64,
    pub(crate) lose_tail: u64,
    pub(crate) copy_cache: u64,
    pub(crate) cut_host: u64,
    pub(crate) sleep: u64,
    pub(crate) crash_peer: u64,
    pub(crate) lose_device: u64,
    pub(crate) restore_peer: u64,
    pub(crate) rewind_peer: u64,
    pub(crate) lose_copies: u64,
    pub(crate) drop_link: u64,
    pub(crate) crash_home: u64,
    pub(crate) restore_home: u64,
    pub(crate) leave: u64,
    pub(crate) resize: u64,
    pub(crate) detach: u64,
    pub(crate) roll_back: u64,
}

/// On so many days of a thousand the only copy that an answer waits for is the owner's own.
const ONE_COPY_PERMILLE: u32 = 120;

/// On so many days of a thousand the devices of owners' logs fail.
const FAILED_LOG_PERMILLE: u32 = 200;

/// On so many days of a thousand home is brought back from a copy.
const RESTORED_HOME_PERMILLE: u32 = 150;
/// On so many days of a thousand the registry's store is put back from older copies.
const ROLLED_BACK_PERMILLE: u32 = 150;

/// On so many days of a thousand holders' directories are put back from older copies.
const RESTORED_HOLDERS_PERMILLE: u32 = 200;

/// On so many days of a thousand holders' directories are put back from copies that were made in the same life.
const REWOUND_HOLDERS_PERMILLE: u32 = 250;

/// On so many days of a thousand the logs of holders lose what they had at their ends.
const LOST_COPIES_PERMILLE: u32 = 150;

/// On so many days of a thousand caches lose what they had at their ends, or older copies of them come back. With W = 1
/// they have the only copies, so these are lost then.
const CACHES_PERMILLE: u32 = 300;

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) peers: usize,
    pub(crate) steps: u64,
    /// W, and the holders that there should be.
    pub(crate) copies: u8,
    pub(crate) holders: u8,
    pub(crate) ack: Ack,
    pub(crate) degraded: Degraded,
    pub(crate) lease: Duration,
    pub(crate) age_max: Duration,
    /// Writes that the own log, and a holder, have room for.
    pub(crate) log_writes: u64,
    pub(crate) room_writes: u64,
    pub(crate) window_writes: u64,
    pub(crate) join_bytes: u64,
    pub(crate) copies_per_list: usize,
    pub(crate) back_bytes_per_second: u64,
    /// Parts of a thousand by which each host's clock is fast or slow.
    pub(crate) drift: Vec<i64>,
    /// How often the operator gives up waiting for a list.
    pub(crate) accept_loss: u64,
    /// How often holders sync, in parts of what else happens.
    pub(crate) sync: u64,
    pub(crate) write: u64,
    pub(crate) troubles: Troubles,
}

impl Scenario {
    pub(crate) fn draw(seed: u64, rng: &mut Rng) -> Self {
        let mut scenario = Self::draw_copied(rng);
        // By numbers of its own: the days of other seeds stay as they are.
        let mut own = Rng::new(!seed);
        if own.chance(ONE_COPY_PERMILLE) {
            scenario.copies = 1;
            scenario.holders = own.pick(&[0, 1]);
        }
        if own.chance(FAILED_LOG_PERMILLE) {
            scenario.troubles.fail_log = 1;
        }
        if own.chance(RESTORED_HOME_PERMILLE) {
            scenario.troubles.restore_home = 1;
        }
        // Of a home and a registry that both go back nobody knows enough.
        if own.chance(ROLLED_BACK_PERMILLE) && scenario.troubles.restore_home == 0 {
            scenario.troubles.roll_back = 1;
        }
        if scenario.copies > 1 && own.chance(CACHES_PERMILLE) {
            (scenario.troubles.lose_tail, scenario.troubles.copy_cache) = (own.pick(&[0, 2]), own.pick(&[0, 4]));
        }
        if own.chance(RESTORED_HOLDERS_PERMILLE) && scenario.troubles.crash_peer > 0 {
            (scenario.troubles.restore_peer, scenario.troubles.lose_log) = (8, 2);
        }
        if own.chance(LOST_COPIES_PERMILLE) {
            scenario.troubles.lose_copies = 2;
        }
        // These restore or cut something else. The writes that both lack are beyond what the registry can show.
        let Troubles { restore_home, roll_back, restore_peer, resize, .. } = scenario.troubles;
        let has_others = restore_home + roll_back + restore_peer + resize > 0;
        if own.chance(REWOUND_HOLDERS_PERMILLE) && scenario.copies > 1 && !has_others {
            scenario.troubles.rewind_peer = 60;
        }
        scenario
    }

    fn draw_copied(rng: &mut Rng) -> Self {
        let copies = rng.pick(&[2, 2, 3]);
        let peers = rng.between(u64::from(copies), 4) as usize;
        let hosts = rng.between(2, 3) as usize;
        let t = |rng: &mut Rng, choices: &[u64]| rng.pick(choices);
        Self {
            peers,
            steps: rng.between(1000, 4000),
            copies,
            holders: (copies - 1 + u8::from(rng.chance(300))).min(peers as u8),
            ack: rng.pick(&[Ack::Write, Ack::Flush]),
            degraded: rng.pick(&[Degraded::WriteThrough, Degraded::WriteThrough, Degraded::Refuse]),
            lease: Duration::from_millis(rng.pick(&[30, 80])),
            age_max: Duration::from_millis(rng.pick(&[10, 60, 2000])),
            log_writes: rng.pick(&[4, 12, 100]),
            room_writes: rng.pick(&[6, 20, 200]),
            window_writes: rng.pick(&[2, 5, 100]),
            join_bytes: rng.pick(&[0, 3000, 1 << 20]),
            copies_per_list: rng.pick(&[1, 3, 1000]),
            back_bytes_per_second: rng.pick(&[2000, 1 << 30]),
            drift: (0..hosts).map(|_| rng.pick(&[-10, -9, -7, -4, -2, -1, 0, 2, 5, 7, 9])).collect(),
            accept_loss: t(rng, &[0, 0, 40]),
            sync: t(rng, &[10, 40]),
            write: t(rng, &[10, 40]),
            troubles: Troubles {
                kill_host: t(rng, &[0, 1, 2]),
                lose_log: t(rng, &[0, 1]),
                fail_log: 0,
                lose_tail: 0,
                copy_cache: 0,
                cut_host: t(rng, &[0, 1, 3]),
                sleep: t(rng, &[0, 1, 3]),
                crash_peer: t(rng, &[0, 1, 3]),
                lose_device: t(rng, &[0, 0, 2]),
                restore_peer: 0,
                rewind_peer: 0,
                lose_copies: 0,
                drop_link: t(rng, &[0, 2]),
                crash_home: t(rng, &[0, 2]),
                restore_home: 0,
                leave: t(rng, &[0, 0, 1]),
                resize: t(rng, &[0, 0, 5]),
                detach: t(rng, &[0, 0, 2]),
                roll_back: 0,
            },
        }
    }

    /// A day without trouble.
    pub(crate) fn calm(&mut self) {
        self.troubles = Troubles {
            kill_host: 0,
            lose_log: 0,
            fail_log: 0,
            lose_tail: 0,
            copy_cache: 0,
            cut_host: 0,
            sleep: 0,
            crash_peer: 0,
            lose_device: 0,
            restore_peer: 0,
            rewind_peer: 0,
            lose_copies: 0,
            drop_link: 0,
            crash_home: 0,
            restore_home: 0,
            leave: 0,
            resize: 0,
            detach: 0,
            roll_back: 0,
        };
    }
}
