//! The paper's analytical model (section 6.1), with parameters that are measured here.

use super::costs::Costs;
use std::time::Duration;

/// What the model's equations are made of, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    fetch: f64,
    fetch_through: f64,
    redirect: f64,
    commit: f64,
    commit_through: f64,
    compute: f64,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Model {
    /// The parameters as measured without a distance, and a round trip on top of what goes to the store.
    pub(crate) fn new(costs: &Costs, round_trip: Duration) -> Self {
        let far = |time: Duration| millis(time + round_trip);
        Self {
            fetch: far(costs.fetch),
            fetch_through: far(costs.fetch_through),
            redirect: millis(costs.peer_fetch),
            commit: far(costs.commit),
            commit_through: far(costs.commit_through),
            compute: millis(costs.traversal),
        }
    }

    /// Equation 1: a transaction of a client that has nothing cached at first, and `pages` to fetch for each of its
    /// transactions in the mean.
    pub(crate) fn cold_base(&self, pages: f64) -> f64 {
        pages * self.fetch + self.compute + self.commit
    }

    /// Equation 2: the same in a group of `members`.
    pub(crate) fn cold_buddy(&self, pages: f64, members: usize) -> f64 {
        pages * self.redirected(members as f64) + self.compute + self.commit_through
    }

    /// Equation 3: a transaction that misses `missing` pages that were changed.
    pub(crate) fn hot_base(&self, missing: f64) -> f64 {
        missing * self.fetch + self.compute + self.commit
    }

    /// Equation 4: the same in a group of readers, where a version of a page is fetched `fetches` times.
    pub(crate) fn hot_readers(&self, missing: f64, fetches: f64) -> f64 {
        missing * self.redirected(fetches) + self.compute + self.commit_through
    }

    /// Equation 5: the same in the writer's group.
    pub(crate) fn hot_writers(&self) -> f64 {
        self.compute + self.commit_through
    }

    /// The mean of `fetches` of one page of which the first goes to the store.
    fn redirected(&self, fetches: f64) -> f64 {
        let first = 1.0 / fetches.max(1.0);
        first * self.fetch_through + (1.0 - first) * self.redirect
    }
}

/// Equation 6: what is saved of `base`, in percent.
pub(crate) fn saved(base: f64, buddy: f64) -> f64 {
    100.0 * (base - buddy) / base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_parameters_give_the_papers_curves() {
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        // Tables 1 and 2 of the paper, for a group of three; 38 MB in pages of 8 KiB over a thousand transactions.
        let costs = Costs {
            fetch: ms(1.3),
            fetch_through: ms(2.4),
            peer_fetch: ms(1.8),
            commit: ms(2.5),
            commit_through: ms(2.4),
            ..Costs::default()
        };
        let (pages, model) = (4.75, Model::new(&costs, ms(40.0)));
        let benefit = |members| saved(model.cold_base(pages), model.cold_buddy(pages, members));
        let [three, five, ten] = [3, 5, 10].map(benefit);
        assert!(39.0 < three && three < five && five < ten && ten < 75.0, "{three} {five} {ten}");
        let missing = 2.0;
        let base = model.hot_base(missing);
        assert!(saved(base, model.hot_writers()) > saved(base, model.hot_readers(missing, 2.0)));
        assert!(
            (model.hot_readers(missing, 1.0) - base).abs() < 5.0,
            "a version that one reader fetches saves nothing"
        );
    }
}
