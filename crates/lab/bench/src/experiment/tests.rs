//! Short experiments in virtual time: what a group saves has the right sign and order, and comes out again.

use super::cold;
use super::costs::{Baseline, Costs};
use super::failover;
use super::figures::Bench;
use super::hot::{self, Groups};
use super::model::{Load, Model, saved};
use super::module::Built;
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::pace::{Pace, Step};
use std::time::Duration;
use workloads::oo7::Size;

const SIZE: Size = Size { composite_parts: 40, levels: 4, document_bytes: 100, manual_bytes: 100, ..Size::MEDIUM };

const ROUND_TRIP: Duration = Duration::from_millis(40);

fn costs() -> Costs {
    let us = Duration::from_micros;
    Costs {
        hop: us(20),
        fetch: us(60),
        fetch_through: us(110),
        peer_fetch: us(120),
        commit: us(60),
        commit_through: us(110),
        read: us(20),
        flush: us(500),
        traversal: us(200),
    }
}

fn simulate(setting: &Setting, built: &Built) -> Vec<Spent> {
    setting.simulate(&costs(), built).unwrap()
}

fn total(spent: &Spent) -> f64 {
    spent.breakdown().total()
}

#[test]
fn a_group_saves_cold_fetches_and_a_larger_one_more() {
    let built = Built::new(SIZE).unwrap();
    let run = |clients, is_group| cold::all(&simulate(&cold::setting(clients, is_group, ROUND_TRIP, 60), &built));
    let benefit = |clients| {
        let (base, buddy) = (run(clients, false), run(clients, true));
        assert_eq!(base.pages_from_peers, 0);
        assert!(buddy.pages_from_peers > 0, "{buddy:?}");
        saved(total(&base), total(&buddy))
    };
    let (two, four) = (benefit(2), benefit(4));
    assert!(10.0 < two && two + 5.0 < four && four < 80.0, "{two} % and {four} %");
}

#[test]
fn each_commit_of_a_group_crosses_the_distance() {
    let built = Built::new(SIZE).unwrap();
    for spent in simulate(&cold::setting(3, true, ROUND_TRIP, 20), &built) {
        let commit = spent.breakdown().commit;
        assert!((40.0..42.0).contains(&commit), "{commit} ms");
    }
}

#[test]
fn an_update_in_the_group_saves_more_than_a_page_of_a_peer() {
    let built = Built::new(SIZE).unwrap();
    let readers = |groups: Groups| {
        let spent = simulate(&hot::setting(groups, ROUND_TRIP, 80, 60, hot::WRITES), &built);
        total(&groups.readers(&spent))
    };
    let [base, reader, writer] = [Groups::Base, Groups::Reader, Groups::Writer].map(readers);
    assert!(writer < reader && reader < base, "{base} ms alone, {reader} with readers, {writer} with the writer");
}

#[test]
fn a_client_fetches_what_is_counted_and_a_group_asks_for_what_it_reads_together() {
    let built = Built::new(SIZE).unwrap();
    let near =
        |counted: f64, run: f64| assert!((run / counted - 1.0).abs() < 0.1, "{counted} counted, {run} in the run");
    let reads = |clients, is_group| cold::all(&simulate(&cold::setting(clients, is_group, ROUND_TRIP, 60), &built));
    near(built.shape.cold(1, 60).pages, reads(4, false).reads().pages);
    let group = reads(4, true);
    let from_store = (group.pages - group.pages_from_peers) as f64 / f64::from(group.transactions);
    // Members that read the same at the same time both wait for the store.
    assert!(from_store >= 0.9 * built.shape.cold(4, 60).from_store, "{group:?}");
}

#[test]
fn readers_miss_what_the_model_says_and_the_writers_group_nothing() {
    let built = Built::new(SIZE).unwrap();
    let renewed = |groups: Groups| {
        let spent = simulate(&hot::setting(groups, ROUND_TRIP, 120, 80, hot::WRITES), &built);
        assert!(spent[0].transactions > 0, "the writer is measured as well: {:?}", spent[0]);
        groups.readers(&spent).reads().renewed
    };
    let load = Load { pages: built.shape.written_pages, writes: hot::WRITES };
    let counted = Model::new(&costs(), ROUND_TRIP).hot_base(load).pages;
    let base = renewed(Groups::Base);
    assert!((base / counted - 1.0).abs() < 0.15, "{counted} by the model, {base} in the run");
    assert!(renewed(Groups::Writer) < 0.1 * base);
}

#[test]
fn leases_save_the_commits_of_readers() {
    let built = Built::new(SIZE).unwrap();
    let readers = |leased| {
        let setting = hot::setting(Groups::Reader, ROUND_TRIP, 80, 60, hot::WRITES);
        let setting = if leased { setting.with_leases() } else { setting };
        Groups::Reader.readers(&simulate(&setting, &built)).breakdown()
    };
    let (without, with) = (readers(false), readers(true));
    assert!(without.commit > 40.0, "{without:?}");
    assert!(with.commit < 10.0 && with.total() < without.total() / 2.0, "{with:?}");
}

#[test]
fn an_experiment_comes_out_again() {
    let built = Built::new(SIZE).unwrap();
    let run = || {
        let spent = simulate(&hot::setting(Groups::Reader, ROUND_TRIP, 20, 20, hot::WRITES), &built);
        spent[1..].iter().map(|spent| (spent.total, spent.fetch, spent.pages_from_peers)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_group_does_without_its_redirector_for_no_longer_than_it_may() {
    // A redirector that is replaced has to find its store before it can do anything for its members.
    let rows = failover::rows().unwrap();
    for row in rows.iter().filter(|row| !row.case.contains("replaced")) {
        assert_eq!(row.to_json()["met"], true, "{row}");
    }
}

/// The costs differ by half between their repetitions. Near the store a transaction differs as much, and at 40 ms it
/// hardly differs.
#[test]
fn each_point_is_judged_by_what_it_rests_on() {
    let scaled = |factor: f64| {
        let Costs { hop, fetch, fetch_through, peer_fetch, commit, commit_through, read, flush, traversal } = costs();
        let [hop, fetch, fetch_through, peer_fetch] =
            [hop, fetch, fetch_through, peer_fetch].map(|cost| cost.mul_f64(factor));
        let [commit, commit_through, traversal] = [commit, commit_through, traversal].map(|cost| cost.mul_f64(factor));
        Costs { hop, fetch, fetch_through, peer_fetch, commit, commit_through, read, flush, traversal }
    };
    let baseline = Baseline { costs: costs(), thirds: [1.0, 1.0, 1.55].map(scaled).to_vec(), differs_percent: 55.0 };
    let progress = |_: &Step| Ok(());
    let pace = Pace::new(Duration::from_secs(60), vec![("a test".to_owned(), 1.0)], &progress);
    let bench = Bench::new(baseline, Built::new(SIZE).unwrap(), &pace);
    let differs = |round_trip| bench.differs_percent(&cold::setting(3, false, round_trip, 20), cold::all).unwrap();
    assert!(differs(Duration::ZERO) > 25.0, "{} %", differs(Duration::ZERO));
    assert!(differs(ROUND_TRIP) < 5.0, "{} %", differs(ROUND_TRIP));
}
