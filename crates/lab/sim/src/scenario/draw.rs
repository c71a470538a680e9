//! The pieces that a scenario is drawn of.

use super::{Rates, Scenario, ms, us};
use crate::actor::Habits;
use crate::disk::Profile;
use crate::network::Path;
use crate::rng::{Delay, Rng};
use crate::value;
use core::num::{NonZeroU16, NonZeroU32};
use core::time::Duration;
use types::{Broken, Limits, NodeId, Sharding};

pub(super) fn habits(rng: &mut Rng) -> Habits {
    Habits {
        pages: rng.pick(&[1, 2, 3, 4, 8]),
        slots: rng.pick(&[1, 2, 3, 6]),
        first_page_permille: rng.pick(&[0, 300, 700]),
        steps_max: rng.pick(&[2, 4, 8]),
        read_only_permille: rng.pick(&[0, 200, 500]),
        write_permille: rng.pick(&[200, 400, 700]),
        delete_permille: rng.pick(&[0, 50, 150]),
        create_permille: rng.pick(&[0, 50, 200]),
        created_permille: 150,
        created_latest: usize::MAX,
        abort_permille: rng.pick(&[20, 200]),
        ahead_permille: rng.pick(&[0, 0, 300, 1000]),
        abandon_permille: rng.pick(&[0, 0, 50]),
        large_permille: rng.pick(&[0, 0, 0, 0, 20, 20, 100, 600]),
        large_bytes: rng.pick(&[600, 4000, 30_000]),
        think: rng.pick(&[us(1), us(200), ms(2), ms(20)]),
        rest: rng.pick(&[us(1), ms(1), ms(10)]),
    }
}

/// Several shards, of extents so short that a few hot pages are in different ones.
pub(super) fn sharding(rng: &mut Rng) -> Sharding {
    let shards = NonZeroU16::new(rng.pick(&[2, 2, 3, 4])).expect("not zero");
    Sharding::new(shards, NonZeroU32::new(rng.pick(&[1, 1, 2])).expect("not zero"))
}

pub(super) fn paths(rng: &mut Rng, processes: usize) -> Vec<Path> {
    let usual = path_delay(rng);
    let slow = rng.chance(400).then(|| 1 + rng.index(processes - 1));
    (0..processes)
        .map(|process| {
            let mut delay = if rng.chance(200) { path_delay(rng) } else { usual };
            if slow == Some(process) {
                delay.least *= 8;
                delay.spread *= 8;
            }
            Path::of(delay)
        })
        .collect()
}

/// Members live near each other and their redirector, which lives far from the store. Now and then one of them does
/// not.
pub(super) fn site_paths(rng: &mut Rng, scenario: &Scenario) -> Vec<Path> {
    let mut paths = paths(rng, scenario.processes());
    for client in scenario.groups.iter().flatten() {
        if !rng.chance(150) {
            let least = rng.pick(&[us(20), us(50), us(500)]);
            let delay = &mut paths[*client].delay;
            (delay.least, delay.spread) = (least, least * rng.pick(&[0, 1, 4]));
        }
    }
    paths
}

/// A path that takes hardly more than `least`, and never stalls.
pub(super) fn steady(least: Duration) -> Delay {
    Delay { least, spread: us(20), spike_permille: 0, spike: us(0) }
}

pub(super) fn path_delay(rng: &mut Rng) -> Delay {
    let least = rng.pick(&[us(20), us(500), ms(5), ms(20)]);
    Delay {
        least,
        spread: least * rng.pick(&[0, 1, 4]),
        spike_permille: rng.pick(&[0, 10, 100]),
        spike: rng.pick(&[ms(1), ms(30), ms(200)]),
    }
}

pub(super) fn disk_delay(rng: &mut Rng) -> Delay {
    let least = rng.pick(&[us(10), us(100), ms(2)]);
    Delay {
        least,
        spread: least * rng.pick(&[0, 2]),
        spike_permille: rng.pick(&[0, 20]),
        spike: rng.pick(&[ms(5), ms(50)]),
    }
}

pub(crate) fn disk(rng: &mut Rng) -> Profile {
    Profile {
        flush: disk_delay(rng),
        read: disk_delay(rng),
        install: disk_delay(rng),
        flush_records_max: rng.pick(&[1, 4, usize::MAX]),
        log_bytes: rng.pick(&[256 << 10, 1 << 20, 64 << 20]),
        segment_records: rng.pick(&[1, 4, 16]),
    }
}

pub(super) fn store_config(rng: &mut Rng, broken: Broken) -> store::Config {
    store::Config {
        node: NodeId(0),
        members: Vec::new(),
        sharding: Sharding::ONE,
        mob_bytes_limit: rng.pick(&[200, 2000, 1 << 20]),
        cache_bytes_limit: rng.pick(&[0, 1000, 1 << 20]),
        recent_limit: rng.pick(&[1, 2, 4, 16, 4096]),
        invalidation_delay: rng.pick(&[us(0), ms(1), ms(5), ms(100)]),
        silence: ms(1500),
        leased_spaces: if rng.chance(400) { vec![0] } else { Vec::new() },
        lease: rng.pick(&[ms(50), ms(300), ms(2000)]),
        grace: rng.pick(&[ms(100), ms(5000)]),
        references: value::references,
        limits: Limits::SHIPPED,
        broken,
    }
}

pub(super) fn client_config(rng: &mut Rng, broken: Broken) -> client::Config {
    client::Config {
        cache_bytes_limit: rng.pick(&[0, 400, 800, 1600, 4000, 1 << 20]),
        prefetch_pages_max: rng.pick(&[0, 0, 2, 8]),
        first_window_bytes: usize::MAX,
        first: None,
        follows: false,
        reads_ahead: true,
        commits_fresh: true,
        grant_pages: rng.pick(&[1, 4]),
        patience: rng.pick(&[ms(1000), ms(5000), ms(60_000)]),
        read_only: false,
        group: None,
        eligible: String::new(),
        limits: Limits::SHIPPED,
        broken,
    }
}

pub(super) fn redirector_config(rng: &mut Rng, broken: Broken) -> redirector::Config {
    redirector::Config {
        silence: rng.pick(&[ms(300), ms(1500)]),
        help_within: rng.pick(&[us(200), ms(2), ms(10), ms(200)]),
        retained_bytes_limit: rng.pick(&[0, 200, 1 << 20, 1 << 20]),
        cache_bytes_limit: rng.pick(&[0, 0, 0, 800, 1 << 20]),
        broken,
        ..redirector::Config::default()
    }
}

pub(super) fn rates(rng: &mut Rng) -> Rates {
    // A third of all seeds run without any fault: races need none, and are easier to read without.
    if rng.chance(333) {
        return Rates::default();
    }
    let mut rate = |permille, choices: &[Duration]| rng.chance(permille).then(|| rng.pick(choices));
    Rates {
        store_crash: rate(400, &[ms(60), ms(200), ms(1000)]),
        store_close: rate(100, &[ms(200), ms(1000)]),
        client_crash: rate(250, &[ms(100), ms(500)]),
        cut: rate(500, &[ms(10), ms(60), ms(400)]),
        stall: rate(300, &[ms(20), ms(200)]),
        pause: rate(300, &[ms(20), ms(200)]),
        slow_disk: rate(200, &[ms(100), ms(500)]),
        home_full: rate(200, &[ms(50), ms(300)]),
        redirector_crash: None,
        sever: None,
        restore: None,
        refuse: None,
    }
}

/// Half of the time both ends of a connection that breaks may be ignorant of that for as long, half of the time not.
pub(super) fn ignorance(rng: &mut Rng) -> [Duration; 2] {
    let choices = [ms(1), ms(50), ms(3000)];
    let both = rng.pick(&choices);
    if rng.chance(500) { [both; 2] } else { [both, rng.pick(&choices)] }
}
