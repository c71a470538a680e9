//! The rows of each figure.

use super::machines::{Machine, PAGE_BYTES};
use super::runs::{Case, Outcomes, Runs};
use crate::experiment::Target;
use crate::{Result, Row};
use sim::multicomputer::{Load, Memory, Outcome, Sequencer};

/// How many nodes there are, and how much they do.
pub(super) struct Scale {
    /// From one node to the most.
    nodes: &'static [usize],
    /// The pages of a store, eight times as many where the work fills the nodes.
    pages: u32,
    /// The transactions of a node in a scale-up, of all nodes in a speed-up, and of all where the work fills them.
    each: u64,
    all: u64,
    full: u64,
}

/// The paper's.
pub(super) const WHOLE: Scale =
    Scale { nodes: &[1, 2, 4, 8, 16, 32, 64, 128], pages: 1024, each: 10, all: 1024, full: 4096 };

/// The nodes, besides the most, with which the wait for the sequencer is shown in parts.
const EXPLAINED: usize = 32;

/// Factors of the parameters that the paper omits.
const FACTORS: [(f64, &str); 3] = [(1.0, ""), (0.5, ", omitted halved"), (2.0, ", omitted doubled")];

impl Scale {
    fn most(&self) -> usize {
        self.nodes.iter().copied().max().unwrap_or(1)
    }

    /// The paper's transactions, as many as in a speed-up.
    fn paper(&self) -> Load {
        let (pages, transactions) = (self.pages, self.all);
        Load { pages, transactions, at_once: 1, operations: 20, reads_percent: 0, aborts_percent: 0, seed: 1 }
    }

    /// Other transactions.
    fn besides(&self) -> [(&'static str, Load); 5] {
        let paper = self.paper();
        [
            ("50 % reads", Load { reads_percent: 50, ..paper }),
            ("80 % reads", Load { reads_percent: 80, ..paper }),
            ("5 writes", Load { operations: 5, ..paper }),
            ("80 writes", Load { operations: 80, ..paper }),
            ("20 % aborts", Load { aborts_percent: 20, ..paper }),
        ]
    }

    /// Work that fills every node of today's machine.
    fn full(&self) -> Load {
        Load { pages: 8 * self.pages, transactions: self.full, at_once: 8, ..self.paper() }
    }

    /// As many transactions as this many nodes do in a scale-up.
    fn scaled(&self, load: Load, nodes: usize) -> Load {
        Load { transactions: self.each * nodes as u64, ..load }
    }
}

/// The memory of a node for that work, in pages of a client and of a store, and whether pages never fit. A client has
/// room for what its transactions use.
const MEMORIES: [(&str, usize, usize); 3] =
    [("pages never fit", 200, 1), ("pages fit in 128 nodes", 256, 256), ("pages fit in one node", 16_384, 16_384)];

type Found<'a> = &'a mut dyn FnMut(Row) -> Result<()>;

/// Whether the figures want the times of runs, and not the waits for the sequencer alone.
fn wants_times(asked: &[u32]) -> bool {
    asked.contains(&4) || asked.contains(&5)
}

/// The seconds that a load takes a processor, each of its cases run once.
pub(super) fn seconds(scale: &Scale, load: &str, asked: &[u32]) -> f64 {
    let (is_scale_up, most) = (load == "scale-up", scale.most());
    let of = |machine, nodes: usize, load: Load| {
        let load = if is_scale_up { scale.scaled(load, nodes) } else { load };
        case(machine, 1.0, nodes, load).seconds()
    };
    let of_machine = |machine| {
        let sweep: f64 = scale.nodes.iter().map(|&nodes| of(machine, nodes, scale.paper())).sum();
        let besides = || scale.besides().into_iter().map(|(_, load)| of(machine, 1, load) + of(machine, most, load));
        let times = if wants_times(asked) { besides().sum() } else { 0.0 };
        let waits = asked.contains(&6) || asked.contains(&7);
        FACTORS.len() as f64 * sweep + times + if waits { of(machine, most, scale.paper()) } else { 0.0 }
    };
    let full = || [1, most].map(|nodes| of(Machine::Today, nodes, scale.full())).into_iter().sum::<f64>();
    let full = if wants_times(asked) && !is_scale_up { MEMORIES.len() as f64 * full() } else { 0.0 };
    Machine::ALL.into_iter().map(of_machine).sum::<f64>() + full
}

fn case(machine: Machine, factor: f64, nodes: usize, load: Load) -> Case {
    Case { nodes, sequencer: Sequencer::Among, hardware: machine.hardware(factor), load }
}

/// Figures 4 and 6: the work grows with the nodes.
pub(super) fn scale_up(scale: &Scale, runs: &Runs<'_>, asked: &[u32], found: Found<'_>) -> Result<()> {
    let most = scale.most();
    for machine in Machine::ALL {
        let target = Target::AtMost(if machine == Machine::Paper { 2.0 } else { 1.2 });
        for (factor, note) in FACTORS {
            let is_bound = note.is_empty();
            let target = is_bound.then_some(target);
            let name = format!("{}{note}", machine.name());
            let case = |nodes| case(machine, factor, nodes, scale.scaled(scale.paper(), nodes));
            sweep(scale.nodes, runs, &name, case, &mut |nodes, all, one| {
                let row = all.row("4", format!("{name}, {nodes} nodes"), "s", |outcome| outcome.mean_s);
                let paper = match nodes {
                    1 => Some(5.44),
                    128 => Some(11.0),
                    _ => None,
                };
                found(row.paper(paper.filter(|_| machine == Machine::Paper)))?;
                let target = target.filter(|_| nodes == most);
                let row =
                    all.over("4", format!("{name}, {nodes} nodes: over one"), one, |outcome| outcome.mean_s, target);
                let paper = (machine == Machine::Paper && nodes == 128).then_some(11.0 / 5.44);
                found(row.paper(paper).curve_at(&name, nodes as u64))?;
                if nodes == 1 || nodes == most {
                    explain("4", &name, nodes, all, found)?;
                }
                waits("6", (machine, &name), nodes, all, is_bound, found)?;
                let is_explained = is_bound && (nodes == EXPLAINED || nodes == most);
                if is_explained { explain_wait("6", &name, nodes, all, found) } else { Ok(()) }
            })?;
        }
        alone(runs, "6", asked, machine, (most, scale.scaled(scale.paper(), most)), found)?;
        for (what, load) in scale.besides().into_iter().filter(|_| wants_times(asked)) {
            let name = format!("{}, {what}", machine.name());
            let case = |nodes| case(machine, 1.0, nodes, scale.scaled(load, nodes));
            let [one, all] = ends(most, runs, &name, case)?;
            found(all.row("4", format!("{name}, {most} nodes"), "s", |outcome| outcome.mean_s))?;
            found(all.over("4", format!("{name}, {most} nodes: over one"), &one, |outcome| outcome.mean_s, None))?;
        }
    }
    Ok(())
}

/// Figures 5 and 7: the work is the same, whatever the nodes.
pub(super) fn speed_up(scale: &Scale, runs: &Runs<'_>, asked: &[u32], found: Found<'_>) -> Result<()> {
    let (most, paper) = (scale.most(), scale.paper());
    for machine in Machine::ALL {
        for (factor, note) in FACTORS {
            let name = format!("{}{note}", machine.name());
            let case = |nodes| case(machine, factor, nodes, paper);
            sweep(scale.nodes, runs, &name, case, &mut |nodes, all, one| {
                found(all.row("5", format!("{name}, {nodes} nodes"), "s", |outcome| outcome.last_s))?;
                let row = all.over("5", format!("{name}, {nodes} nodes: speed-up"), one, speed, None);
                found(row.curve_at(&name, nodes as u64))?;
                if nodes == 1 || nodes == most {
                    explain("5", &name, nodes, all, found)?;
                }
                waits("7", (machine, &name), nodes, all, note.is_empty(), found)?;
                let is_explained = note.is_empty() && (nodes == EXPLAINED || nodes == most);
                if is_explained { explain_wait("7", &name, nodes, all, found) } else { Ok(()) }
            })?;
        }
        alone(runs, "7", asked, machine, (most, paper), found)?;
        for (what, load) in scale.besides().into_iter().filter(|_| wants_times(asked)) {
            let name = format!("{}, {what}", machine.name());
            let [one, all] = ends(most, runs, &name, |nodes| case(machine, 1.0, nodes, load))?;
            found(all.over("5", format!("{name}, {most} nodes: speed-up"), &one, speed, None))?;
        }
    }
    for (what, client, store) in MEMORIES.into_iter().filter(|_| wants_times(asked)) {
        let name = format!("{}, full, {what}", Machine::Today.name());
        let [one, all] = ends(most, runs, &name, |nodes| {
            let mut case = case(Machine::Today, 1.0, nodes, scale.full());
            let memory = case.hardware.memory;
            case.hardware.memory = Memory { client: client * PAGE_BYTES, store: store * PAGE_BYTES, ..memory };
            case
        })?;
        let target = (what == MEMORIES[0].0).then_some(Target::AtLeast(100.0));
        found(all.over("5", format!("{name}, {most} nodes: speed-up"), &one, speed, target))?;
        for (nodes, all) in [(1, &one), (most, &all)] {
            explain("5", &name, nodes, all, found)?;
        }
    }
    Ok(())
}

/// Transactions in a second.
fn speed(outcome: &Outcome) -> f64 {
    (outcome.commits + outcome.aborts) as f64 / outcome.last_s
}

/// Runs a case with one node and with the most.
fn ends(most: usize, runs: &Runs<'_>, name: &str, case: impl Fn(usize) -> Case) -> Result<[Outcomes; 2]> {
    let run = |nodes| runs.run(&case(nodes), &format!("{name}, {nodes} nodes"));
    Ok([run(1)?, run(most)?])
}

/// Runs a case with more and more nodes. `found` gets the outcomes, and with them those of one node.
fn sweep(
    counts: &[usize],
    runs: &Runs<'_>,
    name: &str,
    case: impl Fn(usize) -> Case,
    found: &mut dyn FnMut(usize, &Outcomes, &Outcomes) -> Result<()>,
) -> Result<()> {
    let mut first = None;
    for &nodes in counts {
        let all = runs.run(&case(nodes), &format!("{name}, {nodes} nodes"))?;
        let one = first.get_or_insert_with(|| all.clone());
        found(nodes, &all, one)?;
    }
    Ok(())
}

/// A part of a figure, and how much of it there was.
type Kind<T> = (&'static str, fn(&Outcome) -> T);

/// The wait for the sequencer in a transaction's time. A transaction that is aborted has none.
fn sequencer_s(outcome: &Outcome) -> f64 {
    outcome.sequencer_s * outcome.messages.sequencer as f64 / 2.0 / (outcome.commits + outcome.aborts) as f64
}

/// The rows that say where the time goes.
fn explain(figure: &str, name: &str, nodes: usize, all: &Outcomes, found: Found<'_>) -> Result<()> {
    let mut say = |what: &str, unit, of: &dyn Fn(&Outcome) -> f64| {
        found(all.row(figure, format!("{name}, {nodes} nodes: {what}"), unit, of))
    };
    let transactions = |outcome: &Outcome| (outcome.commits + outcome.aborts) as f64;
    let parts: [Kind<f64>; 5] = [
        ("until pages came", |outcome| outcome.parts.pages_s),
        ("until prepared", |outcome| outcome.parts.counts_s - sequencer_s(outcome)),
        ("until the sequencer had answered", sequencer_s),
        ("until the log was written", |outcome| outcome.parts.log_s),
        ("until answered", |outcome| outcome.parts.decide_s),
    ];
    for (what, of) in parts {
        say(&format!("a transaction, {what}"), "ms", &|outcome| 1e3 * of(outcome))?;
    }
    say("pages read from disks", "a txn", &|outcome| outcome.pages_read as f64 / transactions(outcome))?;
    say("processors busy", "%", &|outcome| 100.0 * outcome.processors_busy)?;
    if nodes == 1 {
        return Ok(());
    }
    say("the sequencer's node busy", "%", &|outcome| 100.0 * outcome.sequencer_busy)?;
    let kinds: [Kind<u64>; 5] = [
        ("pages", |outcome| outcome.messages.pages),
        ("commits", |outcome| outcome.messages.commits),
        ("sequencer", |outcome| outcome.messages.sequencer),
        ("invalidations", |outcome| outcome.messages.invalidations),
        ("acknowledgements", |outcome| outcome.messages.acks),
    ];
    for (what, of) in kinds {
        say(&format!("messages, {what}"), "a txn", &|outcome| of(outcome) as f64 / transactions(outcome))?;
    }
    Ok(())
}

/// The rows of the wait for the sequencer.
fn waits(
    figure: &str,
    (machine, name): (Machine, &str),
    nodes: usize,
    all: &Outcomes,
    is_bound: bool,
    found: Found<'_>,
) -> Result<()> {
    if nodes == 1 {
        return Ok(());
    }
    let case = format!("{name}, {nodes} nodes: wait for the sequencer");
    let row = all.row(figure, case, "us", |outcome| 1e6 * outcome.sequencer_s);
    // The model is a round trip on a machine that does nothing else.
    found(row.model(1e6 * machine.round_trip_s()))?;
    let case = format!("{name}, {nodes} nodes: over a transaction's time");
    let row = all.row(figure, case, "0/00", |outcome| 1e3 * outcome.sequencer_s / outcome.transaction_s);
    let is_paper = machine == Machine::Paper;
    let target = (is_paper && is_bound).then_some(Target::AtMost(1.0));
    found(row.paper(is_paper.then_some(1.0)).target(target).curve_at(name, nodes as u64))
}

/// The rows that say what a coordinator waits for while the sequencer is asked.
fn explain_wait(figure: &str, name: &str, nodes: usize, all: &Outcomes, found: Found<'_>) -> Result<()> {
    let parts: [Kind<f64>; 4] = [
        ("its own messages", |outcome| outcome.sequencer_parts.messages_s),
        ("other messages on the links", |outcome| outcome.sequencer_parts.links_s),
        ("other work of the processors", |outcome| outcome.sequencer_parts.processors_s),
        ("the sequencer's work", |outcome| outcome.sequencer_parts.work_s),
    ];
    for (what, of) in parts {
        let case = format!("{name}, {nodes} nodes: wait for the sequencer, {what}");
        found(all.row(figure, case, "us", |outcome| 1e6 * of(outcome)))?;
    }
    Ok(())
}

/// The rows of a sequencer that has a node of its own.
fn alone(
    runs: &Runs<'_>,
    figure: &str,
    asked: &[u32],
    machine: Machine,
    (most, load): (usize, Load),
    found: Found<'_>,
) -> Result<()> {
    if !asked.contains(&6) && !asked.contains(&7) {
        return Ok(());
    }
    let name = format!("{}, sequencer on a node of its own", machine.name());
    let case = Case { sequencer: Sequencer::Alone, ..case(machine, 1.0, most, load) };
    let all = runs.run(&case, &name)?;
    let case = format!("{name}, {most} nodes: time");
    found(all.row(figure, case, "s", |outcome| if figure == "6" { outcome.mean_s } else { outcome.last_s }))?;
    let case = format!("{name}, {most} nodes: wait for the sequencer");
    let row = all.row(figure, case, "us", |outcome| 1e6 * outcome.sequencer_s);
    found(row.model(1e6 * machine.round_trip_s()))?;
    let case = format!("{name}, {most} nodes: over a transaction's time");
    found(all.row(figure, case, "0/00", |outcome| 1e3 * outcome.sequencer_s / outcome.transaction_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;
    use serde_json::Value;
    use std::time::Duration;

    fn run(case: &Case) -> Outcomes {
        // No time: each processor runs it once.
        let pace = Pace::new(Duration::ZERO, Vec::new(), &|_| Ok(()));
        Runs::new(&pace, case.seconds()).run(case, "a test").expect("it runs")
    }

    #[test]
    fn one_node_of_the_paper_s_machine_takes_what_its_disks_take() {
        let case = case(Machine::Paper, 1.0, 1, WHOLE.scaled(WHOLE.paper(), 1));
        let all = run(&case);
        // Pages are read one by one, at random; a commit writes twenty deltas of 4 KiB behind the last ones.
        let position = 12e-3 + 6.9e-3;
        let pages = all.mean(|outcome| outcome.pages_read as f64) * (position + 4096.0 / 2e6);
        let commits = WHOLE.each as f64 * (6.9e-3 + 20.0 * 4096.0 / 2e6);
        let over = all.mean(|outcome| outcome.mean_s) / (pages + commits);
        assert!((1.0..1.15).contains(&over), "{over} times as long as disks take");
    }

    #[test]
    fn rows_say_what_a_sequencer_costs_and_which_messages_there_are() {
        let load = Load { transactions: 4, ..WHOLE.paper() };
        let all = run(&case(Machine::Today, 1.0, 2, load));
        let mut rows = Vec::new();
        let mut found = |row: Row| {
            rows.push(row.to_json());
            Ok(())
        };
        waits("6", (Machine::Today, "a machine"), 2, &all, true, &mut found).expect("no row fails");
        explain("4", "a machine", 2, &all, &mut found).expect("no row fails");
        let of = |case: &str| rows.iter().find(|row| row["case"].as_str().is_some_and(|of| of.ends_with(case)));
        let wait = of("wait for the sequencer").expect("a row");
        assert_eq!(wait["model"], 25.0);
        assert!(wait["ours"].as_f64().is_some_and(|us| (25.0..500.0).contains(&us)), "{wait}");
        // One of the two nodes asks it, and each has the other as a master.
        assert_eq!(of("messages, sequencer").expect("a row")["ours"], 1.0);
        assert_eq!(of("messages, commits").expect("a row")["ours"], 4.0);
    }

    #[test]
    fn each_figure_alone_is_expected_to_take_less_than_both_of_its_load() {
        let of = |asked: &[u32]| seconds(&WHOLE, "speed-up", asked);
        assert!(of(&[5]) < of(&[5, 7]) && of(&[7]) < of(&[5, 7]));
    }

    /// The kinds of rows, each of a run with two nodes and few transactions.
    const SMALL: Scale = Scale { nodes: &[1, 2], pages: 128, each: 1, all: 6, full: 32 };

    fn small(of: impl Fn(&Runs<'_>, Found<'_>) -> Result<()>) -> Vec<Value> {
        let pace = Pace::new(Duration::ZERO, Vec::new(), &|_| Ok(()));
        let mut rows = Vec::new();
        let mut found = |row: Row| {
            rows.push(row.to_json());
            Ok(())
        };
        of(&Runs::new(&pace, 1.0), &mut found).expect("it runs");
        rows
    }

    /// The only row of a case, and what was measured.
    fn ours(rows: &[Value], figure: &str, case: &str) -> f64 {
        let is_it = |row: &&Value| row["figure"] == figure && row["case"] == case;
        let found: Vec<_> = rows.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{figure}, {case}: {found:?}");
        found[0]["ours"].as_f64().expect("it was measured")
    }

    fn all_are_measured(rows: &[Value]) {
        for row in rows {
            assert!(row["ours"].as_f64().is_some_and(|ours| ours >= 0.0 && ours.is_finite()), "{row}");
        }
    }

    #[test]
    fn a_scale_up_has_a_row_of_each_kind() {
        let rows = small(|runs, found| scale_up(&SMALL, runs, &[4, 6], found));
        all_are_measured(&rows);
        for machine in Machine::ALL.map(Machine::name) {
            let time = |note: &str| ours(&rows, "4", &format!("{machine}{note}, 2 nodes"));
            assert!(time(", omitted halved") < time("") && time("") < time(", omitted doubled"), "{machine}");
            assert!(time(", 5 writes") < time("") && time("") < time(", 80 writes"), "{machine}");
            for note in [", 80 % reads", ", 50 % reads", ", 20 % aborts"] {
                assert!((0.5..1.1).contains(&(time(note) / time(""))), "{machine}{note}");
            }
            let wait = |note: &str| ours(&rows, "6", &format!("{machine}{note}, 2 nodes: wait for the sequencer"));
            let least_us = if machine == Machine::Paper.name() { 250.0 } else { 25.0 };
            assert!(wait("").min(wait(", sequencer on a node of its own")) >= least_us, "{machine}");
            let links = "2 nodes: wait for the sequencer, other messages on the links";
            assert!(ours(&rows, "6", &format!("{machine}, {links}")) < wait(""), "{machine}");
        }
        let over = rows.iter().find(|row| row["case"] == "today's machine, 2 nodes: over one").expect("a row");
        assert!(over["target"].is_string() && over["met"].is_boolean(), "{over}");
    }

    #[test]
    fn a_speed_up_has_a_row_of_each_kind() {
        let rows = small(|runs, found| speed_up(&SMALL, runs, &[5, 7], found));
        all_are_measured(&rows);
        for machine in Machine::ALL.map(Machine::name) {
            let speed_up = |note: &str| ours(&rows, "5", &format!("{machine}{note}, 2 nodes: speed-up"));
            for note in ["", ", omitted halved", ", omitted doubled", ", 80 % reads", ", 80 writes", ", 20 % aborts"] {
                assert!((0.3..2.5).contains(&speed_up(note)), "{machine}{note}: {}", speed_up(note));
            }
            ours(&rows, "7", &format!("{machine}, sequencer on a node of its own, 2 nodes: over a transaction's time"));
        }
        let full = |what: &str| format!("today's machine, full, {what}");
        let read = |what| ours(&rows, "5", &format!("{}, 1 nodes: pages read from disks", full(what)));
        assert!(read("pages never fit") >= read("pages fit in one node"));
        let never = format!("{}, 2 nodes: speed-up", full("pages never fit"));
        let row = rows.iter().find(|row| row["case"] == never).expect("a row");
        assert!(row["target"].is_string(), "{row}");
    }
}
