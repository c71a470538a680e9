//! The pages beside a missing one that are worth asking for in the same round trip.
//!
//! Objects that are used together lie in pages beside each other, because creation puts them there. So faults come in
//! *runs*: page 40, then 43, then 41 are one run from 40 to 43. The first fault of a run asks for as many pages as
//! recent runs had, if most runs continued at all; the second knows that this one does, and asks for all the rest.
//! Pages that are asked for in vain are counted: while less than a third is read, nothing is prefetched but a probe now
//! and then.
//!
//! A fault far from every run begins a new one, so interleaved traversals do not disturb each other.

use alloc::collections::VecDeque;
use types::{Map, PageId};

/// Runs that may still continue. The oldest is over when a new one begins.
const RUNS_MAX: usize = 4;

/// Parts of one run length or one share: averages are kept in whole numbers, so that every machine computes the same.
const PARTS: u32 = 256;

/// Prefetched pages before their use is judged.
const ISSUED_MIN: u32 = 32;

/// Prefetched pages that are remembered; beyond, old ones count half.
const ISSUED_MAX: u32 = 128;

/// While prefetching is off, one run in this many probes, at its second fault, whether it would help again.
const PROBE_EVERY: u32 = 32;

#[derive(Debug)]
struct Run {
    space: u32,
    /// The lowest and the highest page that was needed.
    first: u32,
    last: u32,
    faults: u32,
    /// Pages that were needed, whether they were prefetched or not.
    needed: u32,
}

impl Run {
    /// Whether half of the pages between its ends or more were needed, and so worth fetching in one go.
    fn is_dense(&self) -> bool {
        self.last > self.first && self.needed * 2 > self.last - self.first
    }
}

#[derive(Debug)]
pub(crate) struct Prefetch {
    pages_max: u32,
    runs: VecDeque<Run>,
    /// How long runs of two pages or more are on average, in parts; zero before there was one.
    length: u32,
    /// How many of all runs have two pages or more, in parts of one.
    share: u32,
    issued: u32,
    used: u32,
    /// Runs that continued since prefetching went off.
    off_for: u32,
    /// For each space the first page known not to exist.
    ends: Map<u32, u32>,
}

impl Prefetch {
    pub(crate) fn new(pages_max: u32) -> Self {
        let runs = VecDeque::new();
        Self { pages_max, runs, length: 0, share: 0, issued: 0, used: 0, off_for: 0, ends: Map::default() }
    }

    /// A transaction misses `page`: the pages to ask for together with it, most wanted first, whether here already or
    /// not. Never more than twice as many as may be asked for.
    pub(crate) fn fault(&mut self, page: PageId) -> impl Iterator<Item = PageId> + use<> {
        let number = page.number;
        let (from, to, faults) = match self.run_at(page) {
            Some(run) => self.rest_of(run, number),
            None => (number, number.saturating_add(self.begin(page)), 1),
        };
        let to = to.min(self.ends.get(&page.space).map_or(u32::MAX, |end| end.saturating_sub(1)));
        let (from, to) = if self.is_on(faults) { (from, to) } else { (number, number) };
        let following = number.saturating_add(1)..to.saturating_add(1);
        following.chain(from..number).map(move |number| PageId::new(page.space, number))
    }

    /// How many pages one fault may prefetch.
    pub(crate) fn pages_max(&self) -> u32 {
        self.pages_max
    }

    /// So many pages were asked for ahead.
    pub(crate) fn issued(&mut self, pages: usize) {
        self.issued += pages as u32;
        if self.issued > ISSUED_MAX {
            (self.issued, self.used) = (self.issued / 2, self.used / 2);
        }
    }

    /// A page that was asked for ahead is read for the first time.
    pub(crate) fn used(&mut self, page: PageId) {
        self.used += 1;
        if let Some(run) = self.run_at(page) {
            self.extend(run, page.number);
        }
    }

    /// The page does not exist, so the ones after it are not worth asking for.
    pub(crate) fn ends_before(&mut self, page: PageId) {
        let end = self.ends.entry(page.space).or_insert(page.number);
        *end = page.number.min(*end);
    }

    /// The page exists.
    pub(crate) fn exists(&mut self, page: PageId) {
        if self.ends.get(&page.space).is_some_and(|&end| end <= page.number) {
            self.ends.remove(&page.space);
        }
    }

    /// The run that the page belongs to: no further from its ends than a prefetch reaches.
    fn run_at(&self, page: PageId) -> Option<usize> {
        let near = |run: &Run| {
            let (low, high) = (run.first.saturating_sub(self.pages_max), run.last.saturating_add(self.pages_max + 1));
            run.space == page.space && (low..=high).contains(&page.number)
        };
        self.runs.iter().position(near)
    }

    /// Begins a run; gives how many pages are likely to follow.
    fn begin(&mut self, page: PageId) -> u32 {
        if self.runs.len() == RUNS_MAX {
            let run = self.runs.pop_front().expect("not empty");
            self.learn(&run);
        }
        self.runs.push_back(Run { space: page.space, first: page.number, last: page.number, faults: 1, needed: 1 });
        let goes_on = self.share >= PARTS / 2;
        if goes_on { self.usual_length().div_ceil(PARTS).saturating_sub(1).min(self.pages_max) } else { 0 }
    }

    /// A further fault in a run: the pages from its first to where it probably ends, and which fault of the run it is.
    fn rest_of(&mut self, run: usize, number: u32) -> (u32, u32, u32) {
        self.extend(run, number);
        let length = self.usual_length();
        let run = self.runs.back_mut().expect("just moved there");
        run.faults += 1;
        let longest = run.first.saturating_add(self.pages_max);
        // A quarter more than usual: asking for a page too many costs less than another round trip.
        let usual = run.first.saturating_add((length + length / 4).div_ceil(PARTS));
        let to = match run.faults {
            2 if length > 0 => usual.min(longest),
            2 => longest,
            _ => number.saturating_add(self.pages_max),
        };
        (run.first.max(number.saturating_sub(self.pages_max)), to.max(run.last), run.faults)
    }

    /// How long runs are, in parts: as long as on average, or as the one before the latest if that was shorter. Where
    /// clusters are small, four runs until it shows in the average would ask for this much in vain that prefetching
    /// went off.
    fn usual_length(&self) -> u32 {
        let before = self.runs.iter().rev().skip(1).find(|run| run.last > run.first);
        let before = before.map_or(self.length, |run| self.length_of(run));
        if self.length > 0 { self.length.min(before) } else { before }
    }

    /// How long a run was, in parts.
    fn length_of(&self, run: &Run) -> u32 {
        (run.last - run.first + 1).min(2 * self.pages_max) * PARTS
    }

    /// The run has needed this page too. It is the most recent one now.
    fn extend(&mut self, run: usize, number: u32) {
        let mut run = self.runs.remove(run).expect("found just now");
        (run.first, run.last) = (run.first.min(number), run.last.max(number));
        run.needed += 1;
        self.runs.push_back(run);
    }

    /// A run is over. How long it was counts half against all before; that it continued at all counts a quarter, so
    /// that one cluster among single pages does not make the next single page look like one.
    fn learn(&mut self, run: &Run) {
        let went_on = run.last > run.first;
        self.share = (3 * self.share + if went_on { PARTS } else { 0 }) / 4;
        if went_on {
            let length = self.length_of(run);
            self.length = if self.length == 0 { length } else { self.length.midpoint(length) };
        }
    }

    /// Whether prefetching helps, or would have helped with one of the last runs, or it is time to see whether it
    /// would.
    fn is_on(&mut self, faults: u32) -> bool {
        if self.issued < ISSUED_MIN || self.used * 3 >= self.issued {
            self.off_for = 0;
            return true;
        }
        // A waste among scattered pages says nothing of clusters that come after them.
        if faults == 2 && self.runs.iter().rev().skip(1).any(Run::is_dense) {
            return true;
        }
        self.off_for += u32::from(faults == 2);
        faults == 2 && self.off_for.is_multiple_of(PROBE_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A cache without bounds, and its costs.
    struct Reader {
        prefetch: Prefetch,
        here: Vec<u32>,
        ahead: Vec<u32>,
        round_trips: usize,
        prefetched: usize,
    }

    impl Reader {
        fn new() -> Self {
            Self { prefetch: Prefetch::new(16), here: Vec::new(), ahead: Vec::new(), round_trips: 0, prefetched: 0 }
        }

        fn read(&mut self, number: u32) {
            let page = PageId::new(1, number);
            if let Some(found) = self.ahead.iter().position(|&n| n == number) {
                self.ahead.swap_remove(found);
                self.prefetch.used(page);
            } else if !self.here.contains(&number) {
                let fetched: Vec<_> = self.prefetch.fault(page).map(|page| page.number).collect();
                let fetched: Vec<_> = fetched.into_iter().filter(|n| !self.here.contains(n)).take(16).collect();
                self.prefetch.issued(fetched.len());
                self.prefetched += fetched.len();
                self.ahead.extend(&fetched);
                self.here.extend(fetched);
                self.here.push(number);
                self.round_trips += 1;
            }
        }

        /// Reads the 12 pages of a cluster from its first on, the others in a mixed order; gives the round trips.
        fn cluster(&mut self, first: u32) -> usize {
            let before = self.round_trips;
            for page in [0, 5, 2, 9, 1, 11, 3, 4, 10, 7, 6, 8] {
                self.read(first + page);
            }
            self.round_trips - before
        }
    }

    #[test]
    fn a_cold_cluster_costs_two_round_trips_and_soon_one() {
        let mut reader = Reader::new();
        let costs: Vec<_> = (0..20).map(|i| reader.cluster(1000 * (i * 7 % 20))).collect();
        assert!(costs.iter().all(|&cost| cost <= 2), "{costs:?}");
        assert!(costs[8..].iter().all(|&cost| cost == 1), "{costs:?}");
    }

    #[test]
    fn small_clusters_do_not_turn_prefetching_off() {
        let (scattered, scan) = ([0, 14, 7, 21, 30, 38].map(|i| 1_000_000 + i), (1_000_000..1_000_040).collect());
        for before in [Vec::new(), scattered.to_vec(), scan] {
            let mut reader = Reader::new();
            for &page in &before {
                reader.read(page);
            }
            let mut cluster = |first: u32| {
                let before = reader.round_trips;
                for page in [0, 1, 3, 2] {
                    reader.read(first + page);
                }
                reader.round_trips - before
            };
            let costs: Vec<_> = (0..40).map(|i| cluster(1000 * i)).collect();
            assert!(costs[1..].iter().all(|&cost| cost <= 2), "after {} pages: {costs:?}", before.len());
        }
    }

    #[test]
    fn clusters_among_single_pages_cost_two_round_trips_still() {
        let mut reader = Reader::new();
        for i in 0..20 {
            (0..5).for_each(|j| reader.read(1_000_000 + 1000 * (5 * i + j)));
            assert!(reader.cluster(1000 * i) <= 2);
        }
        assert!(reader.prefetched <= 20 * 20, "{} pages were prefetched", reader.prefetched);
    }

    #[test]
    fn a_scan_takes_a_round_trip_for_each_window() {
        let mut reader = Reader::new();
        (0..1700).for_each(|page| reader.read(page));
        assert!(reader.round_trips <= 105, "{} round trips", reader.round_trips);
    }

    #[test]
    fn prefetching_goes_off_where_it_does_not_help_and_comes_back_where_it_does() {
        let mut reader = Reader::new();
        // Pairs of pages: near enough to look like runs, too few to make a prefetch of the rest worth it.
        (0..400).for_each(|i| [0, 14].iter().for_each(|page| reader.read(10_000 + 1000 * i + page)));
        assert!(reader.prefetched < 400, "{} pages were prefetched in vain", reader.prefetched);
        let costs: Vec<_> = (0..300).map(|i| reader.cluster(2_000_000 + 1000 * i)).collect();
        assert!(costs[200..].iter().all(|&cost| cost <= 2), "{costs:?}");
    }

    #[test]
    fn nothing_is_asked_for_beyond_the_end() {
        let mut prefetch = Prefetch::new(16);
        prefetch.ends_before(PageId::new(1, 6));
        assert_eq!(prefetch.fault(PageId::new(1, 3)).count(), 0);
        let wanted: Vec<_> = prefetch.fault(PageId::new(1, 4)).map(|page| page.number).collect();
        assert_eq!(wanted, [5, 3]);
        prefetch.exists(PageId::new(1, 6));
        assert!(prefetch.fault(PageId::new(1, 7)).any(|page| page.number == 10));
        assert_eq!(prefetch.fault(PageId::new(1, u32::MAX)).count(), 0);
    }
}
