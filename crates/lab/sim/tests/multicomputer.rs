//! Runs of a multicomputer whose times are known.

use sim::multicomputer::{Disks, Hardware, Load, Memory, Messages, Outcome, Sequencer, SequencerParts, run};
use std::time::Duration;

const MESSAGE: Duration = Duration::from_micros(50);

/// Only messages and disks take time, and that is a round figure.
fn hardware() -> Hardware {
    let (read, write) = (Duration::from_millis(10), Duration::from_millis(20));
    Hardware {
        instructions_per_second: 1e6,
        page_instructions: 0,
        copy_instructions: 0,
        disk_instructions: 0,
        message: MESSAGE,
        wire: Duration::ZERO,
        link_bytes_per_second: 1e15,
        delta_bytes_min: 0,
        disks: Disks::Own { bytes_per_second: 1e15, read, write, flush_writes: 1 },
        memory: Memory { client: 64 << 20, store: 64 << 20, mob: 64 << 20 },
    }
}

const LOAD: Load =
    Load { pages: 1024, transactions: 4, at_once: 1, operations: 20, reads_percent: 0, aborts_percent: 0, seed: 1 };

fn us(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

#[test]
fn one_node_reads_each_page_once_and_writes_each_commit_once() {
    let outcome = run(1, Sequencer::Among, &hardware(), &LOAD);
    let Outcome { last_s, commits, retries, batches, pages_read, parts, .. } = outcome;
    assert_eq!((commits, retries, batches), (4, 0, 0));
    assert_eq!((us(4.0 * parts.pages_s), us(parts.log_s)), (10_000 * pages_read, 20_000));
    assert_eq!((us(parts.counts_s), us(parts.decide_s)), (0, 0));
    assert!((70..=80).contains(&pages_read), "{pages_read} of 80 pages are different ones");
    assert_eq!(us(last_s), 10_000 * pages_read + 4 * 20_000);
}

#[test]
fn a_coordinator_waits_for_the_sequencer_for_a_round_trip_where_nothing_else_is_under_way() {
    // One transaction, at the node that has no sequencer: its own messages are the only ones.
    let lone = Load { transactions: 1, ..LOAD };
    let Outcome { sequencer_s, sequencer_parts, parts, messages, .. } = run(1, Sequencer::Alone, &hardware(), &lone);
    // The parts of a transaction end as a message is taken up, before its time at the processor.
    assert_eq!((messages.sequencer, us(sequencer_s), us(parts.counts_s)), (2, 4 * 50, 3 * 50));
    let SequencerParts { messages_s, links_s, processors_s, work_s } = sequencer_parts;
    assert_eq!([messages_s, links_s, processors_s, work_s].map(us), [4 * 50, 0, 0, 0]);
}

#[test]
fn the_wait_for_the_sequencer_is_in_parts() {
    // A link takes 41 ms for a delta.
    let slow = Hardware { link_bytes_per_second: 1e5, delta_bytes_min: 4096, ..hardware() };
    let outcome = run(8, Sequencer::Among, &slow, &Load { transactions: 40, ..LOAD });
    let SequencerParts { messages_s, links_s, processors_s, work_s } = outcome.sequencer_parts;
    let sum = messages_s + links_s + processors_s + work_s;
    assert!((outcome.sequencer_s - sum).abs() < 1e-9, "{outcome:?}");
    assert!(links_s > messages_s && messages_s > 200e-6, "large messages are in the way: {outcome:?}");
    let parts = outcome.parts;
    let all = parts.pages_s + parts.counts_s + parts.log_s + parts.decide_s;
    assert!(parts.counts_s > outcome.sequencer_s && all <= outcome.transaction_s, "{outcome:?}");
}

#[test]
fn a_commit_costs_four_messages_for_each_other_master_and_two_for_the_sequencer() {
    // The first of two nodes has the sequencer; half of the pages are the second's.
    let load = Load { transactions: 2, ..LOAD };
    let outcome = run(2, Sequencer::Among, &hardware(), &load);
    let Messages { pages, commits, sequencer, .. } = outcome.messages;
    // A prepare, a vote, a decision and the word that it is applied, for each of the two transactions.
    assert_eq!((commits, sequencer), (8, 2));
    assert!(pages % 2 == 0 && (10..=70).contains(&pages), "{pages} messages for pages");
    assert_eq!((outcome.commits, outcome.retries), (2, 0));
}

#[test]
fn isolated_transactions_of_many_nodes_are_all_there_and_a_run_is_the_same_each_time() {
    let load = Load { transactions: 41, at_once: 2, reads_percent: 50, aborts_percent: 20, ..LOAD };
    let [one, two] = [1, 2].map(|_| run(8, Sequencer::Among, &hardware(), &load));
    assert_eq!(one, two);
    assert_eq!((one.commits + one.aborts, one.retries), (41, 0));
    assert!(one.aborts > 0);
}

#[test]
fn shared_disks_make_nodes_wait_and_a_full_memory_is_written_back() {
    let alike = hardware();
    let memory = Memory { client: 64 * 4096, store: 4096, mob: 64 * 248 };
    let own = Hardware { memory, delta_bytes_min: 4096, ..alike };
    let shared = Disks::Shared {
        count: 1,
        stripe_bytes: 128 << 10,
        bytes_per_second: 2e6,
        total_bytes_per_second: 20e6,
        seek: Duration::from_millis(12),
        rotation: Duration::from_millis(7),
    };
    let load = Load { transactions: 12, ..LOAD };
    let [own, shared] = [own, Hardware { disks: shared, ..own }].map(|it| run(4, Sequencer::Among, &it, &load));
    assert!(own.pages_written > 0, "{own:?}");
    assert!(shared.last_s > 2.0 * own.last_s, "{shared:?} takes as long as {own:?}");
}
