//! The shop beside a real PostgreSQL.

#[expect(dead_code, reason = "it does more for the tests of the crate that it belongs to")]
#[path = "../../../../web/pgwatch/tests/postgres/server.rs"]
mod server;

use bench::shop::{Connection, Popularity, Reads, Shop, ShopConfig, Stock, Visit, Visitor, fill};
use server::{Postgres, block_on, is_installed};
use std::collections::BTreeMap;

/// A response, kept.
struct Answer {
    status: u16,
    groups: Vec<String>,
    versions: BTreeMap<String, u64>,
    body: String,
}

/// A visitor of a shop.
struct Guest(Connection);

impl Guest {
    fn new(shop: &Shop) -> Self {
        Self(block_on(Connection::open(shop.address())).unwrap())
    }

    fn ask(&mut self, visit: &Visit) -> Answer {
        let response = block_on(self.0.send(visit)).unwrap();
        let groups = response
            .field("cache-groups")
            .unwrap_or_default()
            .split(", ")
            .map(|name| name.trim_matches('"').to_owned());
        Answer {
            status: response.status(),
            groups: groups.collect(),
            versions: response.versions().map(|(name, version)| (name.to_owned(), version)).collect(),
            body: String::from_utf8(response.body().to_vec()).unwrap(),
        }
    }

    fn get(&mut self, path: &str) -> Answer {
        self.ask(&Visit { path: path.to_owned(), form: None })
    }

    fn post(&mut self, path: &str, form: &str) -> Answer {
        self.ask(&Visit { path: path.to_owned(), form: Some(form.to_owned()) })
    }
}

fn shop(server: &Postgres) -> Shop {
    block_on(fill(&server.config(), &Stock::SMALL)).unwrap();
    Shop::start(ShopConfig::new("127.0.0.1:0".parse().unwrap(), server.config())).unwrap()
}

#[test]
fn every_visit_is_answered() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let shop = shop(&server);
    let mut guest = Guest::new(&shop);
    let mut visitor = Visitor::new(3, Stock::SMALL, Reads::default(), Popularity::Uniform);
    for _ in 0..500 {
        let visit = visitor.next_visit(0.3);
        let answer = guest.ask(&visit);
        assert_eq!(answer.status, 200, "{visit:?}: {}", answer.body);
        assert!(visit.form.is_some() || answer.groups.iter().all(|name| !name.is_empty()), "{visit:?} names nothing");
        assert!(answer.versions.keys().all(|thing| visit.form.is_some() || answer.groups.contains(thing)), "{visit:?}");
    }
    for path in
        ["/sell", "/register", "/item/1/bid", "/item/1/buy", "/user/1/comment", "/about/1", "/region/1", "/best/7"]
    {
        assert_eq!(guest.get(path).status, 200, "{path}");
    }
    for path in ["/item/99999", "/item/99999/bids", "/user/99999", "/category/99", "/region/9/category/1", "/nothing"] {
        assert_eq!(guest.get(path).status, 404, "{path}");
    }
    assert_eq!(guest.post("/bids", "item=1").status, 422);
    assert_eq!(guest.post("/bids", "item=1&user=1&amount=0").status, 409);
    assert_eq!(guest.post("/bids", "item=1&user=99999").status, 409);
    assert_eq!(guest.post("/users", "nickname=user1&region=1").status, 409);
}

/// Each change is made twice over: by the shop, or by somebody at `psql`.
#[test]
fn a_page_names_what_changes_it() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let shop = shop(&server);
    let (mut guest, psql) = (Guest::new(&shop), server.session());
    psql.run("UPDATE items SET category = 1, region = 1 WHERE id = 400; UPDATE items SET seller = 7 WHERE id = 1");
    let paths = [
        "/category/1",
        "/region/1/category/1",
        "/item/1",
        "/item/400",
        "/item/1/bids",
        "/user/1",
        "/user/7",
        "/item/401",
        "/best/390",
    ];
    // The names that a change has by the map, and the change.
    let changes = [
        (vec!["item:400"], "UPDATE items SET name = 'other' WHERE id = 400"),
        (vec!["item:1", "bids:1"], "post /bids item=1&user=2"),
        (vec!["bids:1"], "UPDATE bids SET amount = 1000000 WHERE id = (SELECT max(id) FROM bids WHERE item = 1)"),
        (vec!["user:1", "comments:1"], "post /comments user=2&receiver=1&item=1&rating=5&comment=Good"),
        (vec!["user:7"], "UPDATE users SET nickname = 'somebody' WHERE id = 7"),
        (vec!["item:401", "category:1", "shelf:1:1"], "post /items user=2&name=New&category=1&region=1"),
        (vec!["item:401", "category:1", "shelf:1:1"], "DELETE FROM items WHERE id = 401"),
        (
            vec!["category:1", "shelf:1:1", "category:2", "shelf:2:1", "item:400"],
            "UPDATE items SET category = 2 WHERE id = 400",
        ),
        (vec!["categories"], "UPDATE categories SET name = 'Bikes' WHERE id = 1"),
        (vec!["regions"], "UPDATE regions SET name = 'North'"),
    ];
    for (names, change) in changes {
        let before = paths.map(|path| guest.get(path));
        match change.strip_prefix("post ").and_then(|rest| rest.split_once(' ')) {
            Some((path, form)) => assert_eq!(guest.post(path, form).status, 200, "{change}"),
            None => psql.run(change),
        }
        let mut changed = 0;
        for (path, before) in paths.iter().zip(before) {
            let after = guest.get(path);
            let is_named = before.groups.iter().any(|group| names.contains(&group.as_str()));
            assert!(after.body == before.body || is_named, "{change} changes {path}, which names {:?}", before.groups);
            changed += u32::from(after.body != before.body);
            let is_older =
                before.versions.iter().any(|(thing, was)| after.versions.get(thing).is_some_and(|is| is < was));
            assert!(!is_older || names.contains(&"item:401"), "{change} makes {path} older");
        }
        assert!(changed > 0, "{change} changes no page");
    }
}

#[test]
fn a_broken_connection_is_opened_again() {
    if !is_installed() {
        return;
    }
    let mut server = Postgres::start(&[]);
    let shop = shop(&server);
    let mut guest = Guest::new(&shop);
    assert_eq!(guest.get("/item/1").status, 200);
    server.crash().unwrap();
    assert_eq!(guest.get("/item/1").status, 503);
    assert_eq!(guest.post("/bids", "item=1&user=1").status, 503);
    server.start_again().unwrap();
    assert_eq!(guest.get("/item/1").status, 200);
    assert_eq!(guest.post("/bids", "item=1&user=1").status, 200);
}

#[test]
fn the_map_names_tables_that_there_are() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let _shop = shop(&server);
    let config = server.watched(bench::shop::MAP);
    block_on(pgwatch::set_up(&config, &mut pgwatch::Patience::endless())).unwrap();
    let broken = block_on(pgwatch::check(&config)).unwrap();
    let broken: Vec<_> = broken.iter().filter(|finding| finding.text.contains("public.")).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
