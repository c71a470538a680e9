//! The requests of visitors.

use crate::shop::stock::Stock;
use std::sync::Arc;
use workloads::Random;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The path, with its query.
    pub path: String,
    /// The form of an update; `None` for what is read.
    pub form: Option<String>,
}

impl Visit {
    fn read(path: String) -> Self {
        Self { path, form: None }
    }

    fn update(path: &str, form: String) -> Self {
        Self { path: path.to_owned(), form: Some(form) }
    }
}

/// The interactions that read, with their share in RUBiS' browsing mix, in percent: how often each comes when its
/// transitions (with going back) are followed for long.
const READS: [(Read, usize); 9] = [
    (Read::Category, 33),
    (Read::Item, 33),
    (Read::Shelf, 14),
    (Read::User, 9),
    (Read::Bids, 4),
    (Read::Browse, 2),
    (Read::Home, 2),
    (Read::Categories, 2),
    (Read::Regions, 1),
];

/// The interactions that write, with their share of them, in percent.
const WRITES: [(Write, usize); 5] =
    [(Write::Bid, 75), (Write::Comment, 10), (Write::Buy, 8), (Write::Sell, 5), (Write::Register, 2)];

#[derive(Clone, Copy, Debug)]
enum Read {
    Home,
    Browse,
    Categories,
    Category,
    Regions,
    Shelf,
    Item,
    Bids,
    User,
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Bid,
    Buy,
    Comment,
    Sell,
    Register,
}

/// The pages that visitors read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Items of a list.
    pub shown: u32,
    /// In place of RUBiS' interactions: pages with the best of this many items each, which depend on all of them.
    pub best_of: Option<u32>,
}

impl Default for Reads {
    /// RUBiS' browsing mix.
    fn default() -> Self {
        Self { shown: 20, best_of: None }
    }
}

impl Reads {
    /// All pages that visitors of a shop may read.
    pub fn pages(&self, stock: &Stock) -> Vec<Visit> {
        let Stock { items, users, categories, regions, .. } = *stock;
        let path = |path: String| Visit::read(path);
        if let Some(of) = self.best_of {
            return (1..=items).map(|first| path(best(first, of))).collect();
        }
        let mut pages: Vec<_> = ["/", "/browse", "/categories", "/regions"].map(|fixed| path(fixed.into())).into();
        for category in 1..=categories {
            pages.push(path(self.category(category)));
            pages.extend((1..=regions).map(|region| path(self.shelf(region, category))));
        }
        pages.extend((1..=items).flat_map(|item| [path(format!("/item/{item}")), path(format!("/item/{item}/bids"))]));
        pages.extend((1..=users).map(|user| path(format!("/user/{user}"))));
        pages
    }

    fn category(&self, category: u32) -> String {
        format!("/category/{category}?show={}", self.shown)
    }

    fn shelf(&self, region: u32, category: u32) -> String {
        format!("/region/{region}/category/{category}?show={}", self.shown)
    }
}

fn best(first: u32, of: u32) -> String {
    format!("/best/{first}?show={of}")
}

/// How often each of some things is asked for.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// All as often.
    Uniform,
    /// The thing at rank r as often as 1 / r^s (Zipf).
    Zipf(Arc<[f64]>),
}

impl Popularity {
    /// Zipf's, with this exponent, of this many things.
    pub fn zipf(exponent: f64, things: u32) -> Self {
        let mut sum = 0.0;
        let sums = (1..=things.max(1)).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        Self::Zipf(sums.collect())
    }

    /// One of `things`, from 1.
    fn draw(&self, random: &mut Random, things: u32) -> u32 {
        match self {
            Self::Uniform => 1 + random.below(things as usize) as u32,
            Self::Zipf(sums) => {
                // Of fewer things than it was made for, the first are taken.
                let sums = &sums[..sums.len().min(things as usize)];
                let all = sums.last().copied().unwrap_or(1.0);
                let drawn = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64 * all;
                1 + sums.partition_point(|sum| *sum <= drawn) as u32
            }
        }
    }
}

/// A visitor.
#[derive(Clone, Debug)]
pub struct Visitor {
    random: Random,
    stock: Stock,
    reads: Reads,
    popularity: Popularity,
    registered: u64,
    seed: u64,
}

impl Visitor {
    /// A visitor who draws by a seed of its own.
    pub fn new(seed: u64, stock: Stock, reads: Reads, popularity: Popularity) -> Self {
        Self { random: Random::new(seed), stock, reads, popularity, registered: 0, seed }
    }

    /// The next visit, where this share of them updates something: none in RUBiS' browsing mix, 0.15 in its bidding
    /// mix.
    pub fn next_visit(&mut self, updates: f64) -> Visit {
        if self.random.chance(updates) { self.next_update() } else { self.next_read() }
    }

    /// The next visit that reads.
    pub fn next_read(&mut self) -> Visit {
        let Stock { items, users, categories, regions, .. } = self.stock;
        let reads = self.reads;
        if let Some(of) = reads.best_of {
            return Visit::read(best(self.draw(items), of));
        }
        Visit::read(match pick(&mut self.random, &READS) {
            Read::Home => "/".to_owned(),
            Read::Browse => "/browse".to_owned(),
            Read::Categories => "/categories".to_owned(),
            Read::Regions => "/regions".to_owned(),
            Read::Category => reads.category(self.draw(categories)),
            Read::Shelf => {
                let region = self.draw(regions);
                reads.shelf(region, self.draw(categories))
            }
            Read::Item => format!("/item/{}", self.draw(items)),
            Read::Bids => format!("/item/{}/bids", self.draw(items)),
            Read::User => format!("/user/{}", self.draw(users)),
        })
    }

    /// The next visit that updates something.
    pub fn next_update(&mut self) -> Visit {
        let Stock { items, users, categories, regions, .. } = self.stock;
        let user = 1 + self.random.below(users as usize);
        match pick(&mut self.random, &WRITES) {
            Write::Bid => Visit::update("/bids", format!("item={}&user={user}", self.draw(items))),
            Write::Buy => Visit::update("/purchases", format!("item={}&user={user}&quantity=1", self.draw(items))),
            Write::Comment => {
                let (receiver, item) = (self.draw(users), self.draw(items));
                let rating = self.random.below(6);
                let form = format!("user={user}&receiver={receiver}&item={item}&rating={rating}&comment=As+described.");
                Visit::update("/comments", form)
            }
            Write::Sell => {
                let (category, region) = (self.draw(categories), self.draw(regions));
                let form = format!("user={user}&name=One+more&category={category}&region={region}");
                Visit::update("/items", form)
            }
            Write::Register => {
                self.registered += 1;
                let (seed, number, region) = (self.seed, self.registered, self.draw(regions));
                Visit::update("/users", format!("nickname=new{seed}x{number}&region={region}"))
            }
        }
    }

    fn draw(&mut self, things: u32) -> u32 {
        self.popularity.draw(&mut self.random, things)
    }
}

/// One of some kinds, by their shares.
fn pick<T: Copy>(random: &mut Random, shares: &[(T, usize)]) -> T {
    let mut at = random.below(shares.iter().map(|(_, share)| share).sum());
    for (kind, share) in shares {
        if at < *share {
            return *kind;
        }
        at -= share;
    }
    unreachable!("a number below the sum of the shares falls into one of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_percent() {
        assert_eq!(READS.iter().map(|(_, share)| share).sum::<usize>(), 100);
        assert_eq!(WRITES.iter().map(|(_, share)| share).sum::<usize>(), 100);
    }

    #[test]
    fn the_first_of_zipfs_things_is_asked_for_most() {
        let (mut random, zipf) = (Random::new(1), Popularity::zipf(1.0, 100));
        let mut drawn = [0; 101];
        (0..100_000).for_each(|_| drawn[zipf.draw(&mut random, 100) as usize] += 1);
        let ratio = f64::from(drawn[1]) / f64::from(drawn[10]);
        assert!((8.0..12.0).contains(&ratio), "{ratio}");
        assert!(drawn[0] == 0 && drawn[100] > 0);
        assert!((0..1000).all(|_| zipf.draw(&mut random, 5) <= 5));
    }

    #[test]
    fn a_seed_makes_the_same_visits() {
        let visitor = || Visitor::new(7, Stock::SMALL, Reads::default(), Popularity::Uniform);
        let visits = |mut visitor: Visitor| (0..100).map(|_| visitor.next_visit(0.15)).collect::<Vec<_>>();
        assert_eq!(visits(visitor()), visits(visitor()));
        let updates = visits(visitor()).iter().filter(|visit| visit.form.is_some()).count();
        assert!((5..30).contains(&updates), "{updates}");
    }

    #[test]
    fn all_pages_are_those_that_visitors_read() {
        for reads in [Reads::default(), Reads { best_of: Some(5), ..Reads::default() }] {
            let pages = reads.pages(&Stock::SMALL);
            let mut visitor = Visitor::new(1, Stock::SMALL, reads, Popularity::Uniform);
            assert!((0..1000).all(|_| pages.contains(&visitor.next_read())));
        }
    }
}
