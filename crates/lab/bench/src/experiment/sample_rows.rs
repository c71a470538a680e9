//! Some points of the figures on sockets as well, beside the same points in virtual time.

use super::cold;
use super::costs::emulated;
use super::figures::{Bench, LEASED, ms};
use super::hot::{self, Groups};
use super::model::saved;
use super::real::Store;
use super::row::{Row, Target};
use super::virtual_time::Setting;
use super::worker::Spent;
use crate::Result;
use crate::pace::Pace;
use std::time::Duration;

/// Their round trips, in milliseconds. The nearer the store, the more of the time is the processors', of which each
/// process has one of its own in virtual time. In virtual time the distance is the one that the emulator really makes.
const ROUND_TRIPS: [u64; 4] = [0, 1, 5, 40];

/// Transactions of each client; for hot ones, with caches that so many have warmed, of a part of the module that they
/// have nearly all visited by then.
const TRANSACTIONS: u32 = 100;
const LEVELS_FIXED: u32 = 4;

/// The same with leases: a transaction takes less than a hundredth of the time, so that this many are measured for
/// about as long as Base's. Of fewer, what the caches have yet to fetch would be most of the time.
///
/// Such readers never wait. In virtual time each computes on a processor of its own: where they are more than the
/// machine has, they take longer on sockets by what they take from each other.
const LEASED_TRANSACTIONS: u32 = 40_000;

/// How long a run with leases may take at least, and at most.
const LEASED_MIN: Duration = Duration::from_secs(10);
const LEASED_MAX: Duration = Duration::from_secs(30);

/// How far a point on sockets may be from the same point in virtual time.
const AGREEMENT: Target = Target::Within { of: 1.0, by: 0.15 };

/// The seconds that the points of figure 7 and those of figure 10 take, most of them waiting for the distance; and a
/// pair of those with leases.
const SECONDS: [f64; 2] = [80.0, 210.0];
const LEASED_SECONDS: f64 = 80.0;

/// The seconds of those that a point so many milliseconds away takes, about: the longer, the farther.
fn seconds_of(seconds: f64, trip: u64, points: usize) -> f64 {
    let far: u64 = ROUND_TRIPS.iter().map(|trip| trip + 1).sum();
    seconds * (trip + 1) as f64 / far as f64 / points as f64
}

/// The part of a number of transactions for which there is time, but a tenth at least.
fn so_many(transactions: u32, pace: &Pace, seconds: f64) -> u32 {
    let share = (pace.part_left().as_secs_f64() / seconds).clamp(0.1, 1.0);
    (f64::from(transactions) * share) as u32
}

impl Bench<'_> {
    /// Points of figures 7 and 9.
    pub(crate) fn cold_sample(&self, store: &Store) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let transactions = so_many(TRANSACTIONS, self.pace, SECONDS[0]);
        for trip in ROUND_TRIPS {
            let emulated = emulated(ms(trip))?;
            for (case, clients, is_group) in
                [("1 client, Base", 1, false), ("3 clients, Base", 3, false), ("3 clients, Buddy", 3, true)]
            {
                let setting = cold::setting(clients, is_group, ms(trip), transactions);
                let case = format!("{case}, {trip} ms");
                self.pace.say(format!("{case}, on sockets"))?;
                let real = cold::all(&store.run(&setting, None)?);
                let setting = Setting { round_trip: emulated, ..setting };
                let simulated = cold::all(&self.simulate(std::slice::from_ref(&setting))?[0]);
                let differs = self.differs_percent(&setting, cold::all)?;
                self.pace.worked(seconds_of(SECONDS[0], trip, 3));
                rows.extend(agreement("7", &case, transactions, &real, &simulated, differs));
            }
        }
        Ok(rows)
    }

    /// Points of figures 10 and 12.
    pub(crate) fn hot_sample(&self, store: &Store, leased: &Store) -> Result<Vec<Row>> {
        let seconds = SECONDS[1] + 2.0 * LEASED_SECONDS;
        let [transactions, leased_transactions] =
            [TRANSACTIONS, LEASED_TRANSACTIONS].map(|transactions| so_many(transactions, self.pace, seconds));
        let setting = |groups, trip, measured| {
            let setting = hot::setting(groups, ms(trip), transactions, measured, hot::WRITES);
            Setting { levels_fixed: LEVELS_FIXED, ..setting }
        };
        let (mut rows, mut base_ms) = (Vec::new(), 0.0);
        let systems = [("Base", Groups::Base), ("readers' group", Groups::Reader), ("writer's group", Groups::Writer)];
        for trip in ROUND_TRIPS {
            let emulated = emulated(ms(trip))?;
            for (system, groups) in systems {
                let case = format!("{system}, {trip} ms");
                self.pace.say(format!("{case}, on sockets"))?;
                let setting = setting(groups, trip, transactions);
                let real = groups.readers(&store.run(&setting, None)?);
                let setting = Setting { round_trip: emulated, ..setting };
                let simulated = groups.readers(&self.simulate(std::slice::from_ref(&setting))?[0]);
                let differs = self.differs_percent(&setting, |spent| groups.readers(spent))?;
                if groups == Groups::Base {
                    base_ms = real.breakdown().total();
                }
                self.pace.worked(seconds_of(SECONDS[1], trip, systems.len()));
                rows.extend(agreement("10", &case, transactions, &real, &simulated, differs));
            }
        }
        // The last Base was 40 ms from the store, as these are.
        let groups = [("readers' group, leased", Groups::Reader), ("writer's group, leased", Groups::Writer)];
        for ((case, groups), left) in groups.into_iter().zip([4, 2]) {
            self.pace.say(format!("{case}, on sockets"))?;
            // A reader far from the writer waits for what that has written: then there are fewer transactions.
            let within = |left| Some((self.pace.part_left() / left).clamp(LEASED_MIN, LEASED_MAX));
            let measured = |measured| setting(groups, 40, measured).with_leases();
            let spent = leased.run(&measured(leased_transactions), within(left))?;
            let readers = groups.readers(&spent);
            let ours = saved(base_ms, readers.breakdown().total());
            let alone = leased.run(&hot::with_one_reader(measured(leased_transactions)), within(left - 1))?[1];
            let one = hot::with_one_reader(measured(alone.transactions));
            let simulated = self.simulate(std::slice::from_ref(&one))?[0][1];
            let differs = self.differs_percent(&one, |spent| spent[1])?;
            self.pace.worked(LEASED_SECONDS);
            let case_of_one = format!("{case}, one");
            rows.extend(agreement("10", &case_of_one, alone.transactions, &alone, &simulated, differs));
            let case = format!("{case}, {} transactions, sockets", readers.transactions);
            rows.push(Row::new("10", format!("{case}, saved"), "%", ours).target(LEASED));
            let writer = spent[0].breakdown();
            rows.push(Row::new("10", format!("{case}, the writer"), "ms", writer.total()).breakdown(writer).aside());
        }
        Ok(rows)
    }
}

/// A point on sockets, the same in virtual time, and how far they are from each other. `differs` is how much the one in
/// virtual time differs by the costs that it rests on, in percent.
fn agreement(figure: &str, case: &str, transactions: u32, real: &Spent, simulated: &Spent, differs: f64) -> [Row; 3] {
    let (real, simulated) = (real.breakdown(), simulated.breakdown());
    let case = format!("{case}, {transactions} transactions");
    let ratio = real.total() / simulated.total();
    [
        Row::new(figure, format!("{case}, sockets"), "ms", real.total()).breakdown(real).aside(),
        Row::new(figure, format!("{case}, virtual"), "ms", simulated.total()).breakdown(simulated).aside(),
        Row::new(figure, format!("{case}, sockets / virtual"), "x", ratio)
            .target(AGREEMENT)
            .baseline_differs(Some(differs)),
    ]
}
