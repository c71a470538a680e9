//! In virtual time: processes by name that crash, on lines that are cut and slow, with two echoes on logs of their own,
//! whose disks fail.

use crate::caller::Caller;
use crate::messages::ECHO;
use crate::server::Echo;
use machine::{Node, RoleId, UpstreamId};
use sim::{Fault, Line, Processes, SharedLine};
use std::time::Duration;

const ONE: UpstreamId = UpstreamId(1);
const OTHER: UpstreamId = UpstreamId(2);

/// The processes of the echoes, by the numbers that their callers give them.
const ECHOES: [(UpstreamId, &str); 2] = [(ONE, "echo"), (OTHER, "other echo")];

const NAMES: [&str; 3] = ["near", "far", "apart"];

const NEAR: Line = Line { delay: Duration::from_micros(200), rate: None };
const FAR: Line = Line { delay: Duration::from_millis(40), rate: Some(100_000) };

fn alone(machine: impl machine::Machine) -> Node {
    let mut node = Node::new();
    node.add(machine);
    node
}

fn add_echo(world: &mut Processes, name: &str) {
    world.add(name, |disks| alone(Echo::recovered(disks.log::<String>(RoleId::ONLY).len() as u64)));
    world.add_log::<String>(name, RoleId::ONLY);
    world.listen((name, RoleId::ONLY), ECHO);
}

fn add_caller(world: &mut Processes, name: &str, echoes: &'static [(UpstreamId, &str)]) {
    world.add(name, move |_| {
        let mut caller = Caller::default();
        for &(echo, name) in echoes {
            caller.call(echo, [name.to_owned()]);
        }
        alone(caller)
    });
}

/// Two callers of both echoes, a near one and one far away; a third of the other echo alone. Everything that was heard
/// is in the log, whatever has crashed, and all is heard in the end. Returns what each has heard.
fn day(seed: u64) -> Vec<Vec<(u64, String)>> {
    let mut world = Processes::new(seed, NEAR);
    add_echo(&mut world, "echo");
    add_echo(&mut world, "other echo");
    add_caller(&mut world, "near", &ECHOES);
    add_caller(&mut world, "far", &ECHOES);
    add_caller(&mut world, "apart", &ECHOES[1..]);
    world.set_line("far", "echo", FAR);
    for round in 0..30 {
        for name in NAMES {
            world.call(name, |caller: &mut Caller, _| caller.shout(format!("{name} {round}")));
        }
        let pause = Duration::from_micros(world.draw(30_000));
        world.run_for(pause);
        match world.draw(5) {
            0 => {
                world.crash("echo");
                world.start("echo");
                assert_kept(&world);
            }
            1 => world.cut("far", "echo"),
            _ => {}
        }
    }
    world.run_for(Duration::from_secs(20));
    // An echo knows of a connection from the first shout on it.
    for name in NAMES {
        world.call(name, |caller: &mut Caller, _| caller.shout("enough"));
    }
    world.run_for(Duration::from_secs(3));
    assert_kept(&world);
    let heard = NAMES.map(|name| {
        let caller = world.look::<Caller>(name).unwrap();
        assert!(caller.is_heard(), "{name} is not heard on day {seed}: {caller:?}");
        assert!(caller.count(OTHER) > Some(0), "{name} was never told the count on day {seed}");
        [ONE, OTHER].map(|echo| caller.heard(echo).to_vec())
    });
    heard.into_iter().flatten().collect()
}

/// Each text that was heard is durable.
fn assert_kept(world: &Processes) {
    for (echo, process) in ECHOES {
        let Some(durable) = world.look::<Echo>(process).map(Echo::durable) else { continue };
        for name in ["near", "far"] {
            let heard = world.look::<Caller>(name).map_or(&[][..], |caller| caller.heard(echo));
            assert!(
                heard.iter().all(|(count, _)| *count <= durable),
                "{name} has heard more than {durable}: {heard:?}"
            );
        }
    }
}

#[test]
fn what_was_heard_survives_crashes_and_lines_that_break() {
    (0..200).for_each(|seed| drop(day(seed)));
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(day(7), day(7));
    assert_eq!(storm(7), storm(7));
}

/// Everything that can go wrong does, wherever it is drawn, and clocks differ. A text whose caller lives on is heard in
/// the end. Returns how many were.
fn storm(seed: u64) -> usize {
    let mut world = Processes::new(seed, NEAR);
    add_echo(&mut world, "echo");
    add_echo(&mut world, "other echo");
    for name in ["near", "far"] {
        add_caller(&mut world, name, &ECHOES);
        let fast = [-20, -10, 0, 10, 20][world.draw(5) as usize];
        world.set_clock(name, fast);
    }
    world.set_line("far", "echo", FAR);
    let faults = [
        Fault::Crash,
        Fault::Cut,
        Fault::Sever,
        Fault::Stall,
        Fault::Pause,
        Fault::SlowDisk,
        Fault::DiskRefuses,
        Fault::DiskFails,
    ];
    world.storm(&faults.map(|fault| (fault, Duration::from_millis(150))), Duration::from_millis(300));
    for round in 0..60 {
        for name in ["near", "far"] {
            world.call(name, |caller: &mut Caller, _| caller.shout(format!("{name} {round}")));
        }
        let pause = Duration::from_micros(world.draw(60_000));
        world.run_for(pause);
        assert_kept(&world);
    }
    world.calm();
    world.run_for(Duration::from_secs(30));
    assert_kept(&world);
    let heard = ["near", "far"].map(|name| {
        let caller = world.look::<Caller>(name).unwrap();
        assert!(caller.is_heard(), "{name} is not heard on day {seed}: {caller:?}");
        caller.heard(ONE).len() + caller.heard(OTHER).len()
    });
    heard.into_iter().sum()
}

#[test]
fn what_was_heard_survives_a_storm() {
    let heard: usize = (0..200).map(storm).sum();
    assert!(heard > 2000, "hardly anything was heard: {heard}");
}

/// Callers that share a medium with the echo, and how many texts each shouts.
const SHARERS: [&str; 25] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w",
    "x", "y",
];
const TEXTS: usize = 20;
const FAST_ETHERNET: u64 = 100_000_000 / 8;

/// 500 texts of 64 KiB that are shouted at once, on lines that are arranged like this.
fn shouting(arrange: impl FnOnce(&mut Processes)) -> Processes {
    let mut world = Processes::new(1, NEAR);
    add_echo(&mut world, "echo");
    for name in SHARERS {
        add_caller(&mut world, name, &ECHOES[..1]);
    }
    arrange(&mut world);
    world.run_for(Duration::from_millis(100));
    for name in SHARERS {
        world.call(name, |caller: &mut Caller, _| (0..TEXTS).for_each(|_| caller.shout("a".repeat(64 * 1024))));
    }
    world
}

fn durable(world: &Processes) -> u64 {
    world.look::<Echo>("echo").unwrap().durable()
}

/// A medium carries the messages of all callers one after the other, at its full rate.
#[test]
fn a_shared_line_carries_one_message_at_a_time() {
    let mut world = shouting(|world| {
        let all: Vec<_> = SHARERS.into_iter().chain(["echo"]).collect();
        world.share_line(&all, SharedLine { delay: NEAR.delay, bytes_per_second: FAST_ETHERNET, least_bytes: 0 });
    });
    world.run_for(Duration::from_millis(1310));
    assert!((248..=250).contains(&durable(&world)), "half of them take half as long: {}", durable(&world));
    world.run_for(Duration::from_millis(1310));
    assert!((498..500).contains(&durable(&world)), "the last one is under way: {}", durable(&world));
    // 500 x 64 KiB take 2,621.4 ms, their frames' headers less than 1 ms, and the last one has to become durable.
    world.run_for(Duration::from_millis(4));
    assert_eq!(durable(&world), 500);
}

/// On lines of their own the callers do not wait for each other.
#[test]
fn lines_of_their_own_carry_messages_at_the_same_time() {
    let mut world = shouting(|world| {
        let line = Line { rate: Some(FAST_ETHERNET), ..NEAR };
        for name in SHARERS {
            world.set_line(name, "echo", line);
        }
    });
    world.run_for(Duration::from_millis(104));
    assert!(durable(&world) < 500);
    world.run_for(Duration::from_millis(4));
    assert_eq!(durable(&world), 500);
}

/// The rate of a line counts: a long text over a slow one holds those behind it up.
#[test]
fn a_slow_line_carries_so_much_in_a_second() {
    let mut world = Processes::new(1, FAR);
    add_echo(&mut world, "echo");
    add_caller(&mut world, "far", &ECHOES[..1]);
    world.run_for(Duration::from_secs(1));
    world.call("far", |caller: &mut Caller, _| caller.shout("a".repeat(50_000)));
    world.run_for(Duration::from_millis(900));
    assert!(!world.look::<Caller>("far").unwrap().is_heard(), "50 kB there and back take a second");
    world.run_for(Duration::from_millis(300));
    assert!(world.look::<Caller>("far").unwrap().is_heard());
}

/// A machine that leaves a server has no session with it, and all the others.
#[test]
fn a_server_that_was_left_hears_nothing() {
    let mut world = Processes::new(1, NEAR);
    add_echo(&mut world, "echo");
    add_echo(&mut world, "other echo");
    add_caller(&mut world, "near", &ECHOES);
    world.call("near", |caller: &mut Caller, _| caller.shout("to both"));
    world.run_for(Duration::from_secs(1));
    world.call("near", |caller: &mut Caller, _| caller.leave(OTHER));
    world.cut("near", "echo");
    world.call("near", |caller: &mut Caller, _| caller.shout("to one"));
    world.run_for(Duration::from_secs(1));
    let durable = ECHOES.map(|(_, name)| world.look::<Echo>(name).unwrap().durable());
    assert_eq!(durable, [2, 1]);
}
