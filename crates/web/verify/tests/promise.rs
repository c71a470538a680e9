//! Servers that keep responses of their own, an application whose state changes, and a helper between them, in steps
//! that a seed draws: no response that is used lacks an update that was done when its request came. Each rule is taken
//! out once, and some seed must notice.

use coherence::{Dependency, Site, SiteConfig, Update};
use net::Runtime;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use types::Broken;
use verify::{Helper, Look, Pass, Rule};

const STEPS: u32 = 120;
const SEEDS: u64 = 120;
/// A seed that notices the lack of a rule is searched for among so many.
const MUTANT_SEEDS: u64 = 20 * SEEDS;
const KEYS: u64 = 3;
const ITEMS: u64 = 2;

/// Numbers that one seed gives.
struct Random(u64);

impl Random {
    fn draw(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A response: of which item it shows the value, and which. The item is that which the key shows at the moment.
#[derive(Clone, Copy, Debug)]
struct Shown {
    item: u64,
    value: u64,
}

/// A request on its way.
struct Request {
    key: u64,
    pass: Pass,
    /// The values of all items when it came.
    floor: Vec<u64>,
    /// The application has made its response.
    made: Option<Shown>,
}

struct Day<'a> {
    random: Random,
    broken: Broken<Rule>,
    helper: Helper,
    site: &'a Site,
    values: Vec<u64>,
    /// An update that is released and not visible yet, and its item.
    update: Option<(Update, u64)>,
    requests: Vec<Request>,
    /// A server's own cache, by key and version.
    kept: BTreeMap<(u64, String), Shown>,
    hits: u32,
    stale: Option<String>,
}

impl Day<'_> {
    async fn step(&mut self) {
        match self.random.draw(20) {
            0..=7 => self.request().await,
            8..=12 => self.make(),
            13..=17 => self.end().await,
            18 => self.change().await,
            // The server has no room.
            _ => {
                let keys: Vec<_> = self.kept.keys().cloned().collect();
                if !keys.is_empty() && self.random.draw(3) == 0 {
                    self.kept.remove(&keys[self.random.draw(keys.len() as u64) as usize]);
                }
            }
        }
    }

    async fn request(&mut self) {
        let key = self.random.draw(KEYS);
        let floor = self.values.clone();
        let pass = match self.helper.look(&key.to_le_bytes()).await {
            Look::Current(pass) | Look::Fill(pass) => pass,
            Look::Away => panic!("the home is in this process"),
        };
        self.requests.push(Request { key, pass, floor, made: None });
        // Servers use what they have under the version, whether it was said to be good or to come.
        let at = self.requests.len() - 1;
        self.use_kept(at);
    }

    /// Answers a request with what the server has under its version, if it has that.
    fn use_kept(&mut self, at: usize) -> bool {
        let Request { key, pass, floor, .. } = &self.requests[at];
        let Some(shown) = self.kept.get(&(*key, pass.version.clone())) else { return false };
        if shown.value < floor[shown.item as usize] {
            let done = floor[shown.item as usize];
            self.stale = Some(format!("{shown:?} answers a request for {key} after {done} was done"));
        }
        self.hits += 1;
        self.requests.swap_remove(at);
        true
    }

    /// The application makes a response. Which item a key shows is drawn again, as one list differs from the next.
    fn make(&mut self) {
        let waiting: Vec<_> = (0..self.requests.len()).filter(|at| self.requests[*at].made.is_none()).collect();
        if waiting.is_empty() {
            return;
        }
        let at = waiting[self.random.draw(waiting.len() as u64) as usize];
        let item = self.random.draw(ITEMS);
        self.requests[at].made = Some(Shown { item, value: self.values[item as usize] });
    }

    /// The application reports what a response depends on, and the server keeps it; or a request that waits with
    /// another is answered with what that has brought.
    async fn end(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        let at = self.random.draw(self.requests.len() as u64) as usize;
        let Some(shown) = self.requests[at].made else {
            self.use_kept(at);
            return;
        };
        let Request { key, pass, .. } = self.requests.swap_remove(at);
        let stored = self.helper.store(&pass.ticket, vec![item(shown.item)]).await;
        if stored.as_ref() == Ok(&pass.version) || self.broken.is(Rule::KeepStored) {
            self.kept.insert((key, pass.version), shown);
        }
    }

    async fn change(&mut self) {
        if let Some((update, changed)) = self.update.take() {
            self.values[changed as usize] += 1;
            update.visible();
            return;
        }
        let changed = self.random.draw(ITEMS);
        let update = self.site.updates().announce(vec![item(changed)]).await.unwrap();
        self.update = Some((update, changed));
    }
}

fn item(number: u64) -> Dependency {
    Dependency::new(format!("item:{number}")).unwrap()
}

/// Runs a day; gives how many requests were answered with what a server had, and what was stale.
async fn run(site: &Site, seed: u64, broken: Broken<Rule>) -> (u32, Option<String>) {
    let mut day = Day {
        random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        broken,
        helper: Helper::with_rules(site.cache(), site.changes(), 2 + seed as usize % 2, broken),
        site,
        values: vec![0; ITEMS as usize],
        update: None,
        requests: Vec::new(),
        kept: BTreeMap::new(),
        hits: 0,
        stale: None,
    };
    for _ in 0..STEPS {
        day.step().await;
    }
    (day.hits, day.stale)
}

fn site() -> (Site, tokio::runtime::Runtime) {
    let config = SiteConfig { lease: Duration::from_secs(600), responses_max: 1000, ..SiteConfig::default() };
    let site = Site::start(&config, &Runtime::start().unwrap()).unwrap();
    let begun = Instant::now();
    while site.cache().ticket().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the home has no lease");
    }
    (site, tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap())
}

#[test]
fn nothing_that_a_server_uses_is_stale() {
    let (site, tasks) = site();
    let mut hits = 0;
    for seed in 0..SEEDS {
        let (used, stale) = tasks.block_on(run(&site, seed, Broken::NONE));
        assert_eq!(stale, None, "seed {seed}");
        hits += used;
    }
    assert!(hits > 1000, "{hits} hits");
}

#[test]
fn each_rule_is_missed() {
    let (site, tasks) = site();
    for rule in Rule::ALL {
        let notices = (0..MUTANT_SEEDS).any(|seed| tasks.block_on(run(&site, seed, Broken::rule(rule))).1.is_some());
        assert!(notices, "nobody notices that {rule:?} is gone");
    }
}

#[test]
fn a_full_helper_forgets_what_is_asked_for_least() {
    let (site, tasks) = site();
    let helper = Helper::new(site.cache(), site.changes(), 4);
    let look = |key: u8| match tasks.block_on(helper.look(&[key])) {
        Look::Current(pass) => (pass, true),
        Look::Fill(pass) => (pass, false),
        Look::Away => panic!("the home is in this process"),
    };
    let store = |pass: &Pass| tasks.block_on(helper.store(&pass.ticket, vec![item(0)]));
    let (popular, _) = look(0);
    assert_eq!(store(&popular), Ok(popular.version.clone()));
    for key in 1..100 {
        let (pass, is_current) = look(key);
        assert!(!is_current);
        assert_eq!(store(&pass), Ok(pass.version));
        assert_eq!(look(0).0.version, popular.version, "it is asked for all the time");
    }
    assert!(look(0).1 && !look(1).1);
    assert_eq!(helper.size(), (4, 4));
    assert!(helper.forget(&[0]) && !helper.forget(&[0]));
    assert_eq!(store(&popular), Err(verify::Declined::Superseded));
}

/// As many as the documents say, and not the one more that a home keeps for a proxy.
#[test]
fn a_response_has_so_many_names() {
    let (site, tasks) = site();
    let helper = Helper::new(site.cache(), site.changes(), 4);
    let Look::Fill(pass) = tasks.block_on(helper.look(b"key")) else { panic!("nothing is stored") };
    let store = |count: u64| tasks.block_on(helper.store(&pass.ticket, (0..count).map(item).collect()));
    assert_eq!(store(1025), Err(verify::Declined::Home(coherence::NotStored::TooMany)));
    assert_eq!(store(1024), Ok(pass.version.clone()));
}

#[test]
fn a_version_has_responses_of_so_many_kinds() {
    let (site, tasks) = site();
    let helper = Helper::new(site.cache(), site.changes(), 4);
    let Look::Fill(pass) = tasks.block_on(helper.look(b"key")) else { panic!("nothing is stored") };
    let store = |number| tasks.block_on(helper.store(&pass.ticket, vec![item(number)]));
    let kinds = verify::limits::KINDS_PER_VERSION_MAX as u64;
    assert!((0..kinds).all(|number| store(number).is_ok()) && (0..kinds).all(|number| store(number).is_ok()));
    assert!(matches!(tasks.block_on(helper.look(b"key")), Look::Current(now) if now.version == pass.version));
    assert_eq!(store(kinds), Err(verify::Declined::TooManyKinds));
    assert_eq!(store(0), Err(verify::Declined::Superseded));
    assert!(matches!(tasks.block_on(helper.look(b"key")), Look::Fill(now) if now.version != pass.version));
}
