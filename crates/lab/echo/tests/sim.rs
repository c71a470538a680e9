//! In virtual time: processes by name that crash, on lines that are cut and slow, with two echoes on logs of their own.

use echo::{CALLER, Caller, ECHO, Echo};
use machine::{Node, RoleId};
use sim::{Family, Line, Processes};
use std::time::Duration;

const FAMILY: Family = Family { client: CALLER, server: ECHO };

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
}

fn add_caller(world: &mut Processes, name: &str, echo: &str) {
    world.add(name, |_| alone(Caller::default()));
    world.connect((name, RoleId::ONLY), (echo, RoleId::ONLY), FAMILY);
}

/// Two callers, a near one and one far away, of the one echo; a third of another. Everything that was heard is in the
/// log, whatever has crashed, and all is heard in the end. Returns what each has heard.
fn day(seed: u64) -> Vec<Vec<(u64, String)>> {
    let mut world = Processes::new(seed, NEAR);
    add_echo(&mut world, "echo");
    add_echo(&mut world, "other echo");
    add_caller(&mut world, "near", "echo");
    add_caller(&mut world, "far", "echo");
    add_caller(&mut world, "apart", "other echo");
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
    ["near", "far", "apart"]
        .map(|name| {
            let caller = world.look::<Caller>(name).unwrap();
            assert!(caller.is_heard(), "{name} is not heard on day {seed}: {caller:?}");
            assert!(caller.count() > Some(0), "{name} was never told the count on day {seed}");
            caller.heard().to_vec()
        })
        .to_vec()
}

/// Each text that was heard is durable.
fn assert_kept(world: &Processes) {
    let durable = world.look::<Echo>("echo").unwrap().durable();
    for name in ["near", "far"] {
        let heard = world.look::<Caller>(name).unwrap().heard();
        assert!(heard.iter().all(|(count, _)| *count <= durable), "{name} has heard more than {durable}: {heard:?}");
    }
}

#[test]
fn what_was_heard_survives_crashes_and_lines_that_break() {
    (0..200).for_each(|seed| drop(day(seed)));
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(day(7), day(7));
}

/// The rate of a line counts: a long text over a slow one holds those behind it up.
#[test]
fn a_slow_line_carries_so_much_in_a_second() {
    let mut world = Processes::new(1, FAR);
    add_echo(&mut world, "echo");
    add_caller(&mut world, "far", "echo");
    world.run_for(Duration::from_secs(1));
    world.call("far", |caller: &mut Caller, _| caller.shout("a".repeat(50_000)));
    world.run_for(Duration::from_millis(900));
    assert!(!world.look::<Caller>("far").unwrap().is_heard(), "50 kB there and back take a second");
    world.run_for(Duration::from_millis(300));
    assert!(world.look::<Caller>("far").unwrap().is_heard());
}
