//! The contents of the shop before its first visitor comes.

use crate::shop::schema::{TABLES, TRIGGERS};
use tokio_postgres::{Config, Error, NoTls};

/// How much there is of everything, and the seed that it is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Items on offer.
    pub items: u32,
    /// Users.
    pub users: u32,
    /// Categories.
    pub categories: u32,
    /// Regions.
    pub regions: u32,
    /// Bids for each item, in the mean; each user has as many comments.
    pub bids: u32,
    /// The same seed makes the same shop.
    pub seed: u32,
}

impl Stock {
    /// A shop that is filled in a moment. RUBiS has about 33,000 items in 20 categories and 62 regions.
    pub const SMALL: Self = Self { items: 400, users: 200, categories: 20, regions: 5, bids: 5, seed: 1 };

    /// Statements that fill empty tables. A row's values are drawn by the hash of its number and of the seed.
    fn statements(&self) -> String {
        let Self { items, users, categories, regions, bids, seed } = self;
        let drawn = |row: &str, salt: u32, end: &u32| {
            format!("(1 + (hashint4extended({row}::int, {seed}::bigint * 16 + {salt}) & 1073741823) % {end})::int")
        };
        let (all_bids, all_comments) = (items * bids, users * bids);
        format!(
            "INSERT INTO regions SELECT i, 'Region ' || i FROM generate_series(1, {regions}) i;
             INSERT INTO categories SELECT i, 'Category ' || i FROM generate_series(1, {categories}) i;
             INSERT INTO users (id, nickname, region) SELECT i, 'user' || i, {} FROM generate_series(1, {users}) i;
             INSERT INTO items (id, name, description, seller, category, region, quantity, buy_now, max_bid)
                 SELECT i, 'Item ' || i, repeat('A fine thing, hardly used. ', {}), {}, {}, {}, 10000, {}, {}
                 FROM generate_series(1, {items}) i;
             INSERT INTO bids (item, bidder, amount) SELECT {}, {}, i FROM generate_series(1, {all_bids}) i;
             INSERT INTO comments (author, receiver, item, rating, comment)
                 SELECT {}, {}, {}, {} - 3, 'As described, and well packed.' FROM generate_series(1, {all_comments}) i;
             UPDATE items SET bids = (SELECT count(*) FROM bids WHERE item = items.id),
                 max_bid = greatest(max_bid, (SELECT max(amount) FROM bids WHERE item = items.id));
             UPDATE users SET rating = (SELECT coalesce(sum(rating), 0) FROM comments WHERE receiver = users.id);
             INSERT INTO shelves (category, region, items)
                 SELECT category, region, count(*) FROM items GROUP BY category, region;
             SELECT setval(pg_get_serial_sequence('users', 'id'), {users});
             SELECT setval(pg_get_serial_sequence('items', 'id'), {items});",
            drawn("i", 0, regions),
            drawn("i", 1, &8),
            drawn("i", 2, users),
            drawn("i", 3, categories),
            drawn("i", 4, regions),
            drawn("i", 5, &10_000),
            drawn("i", 6, &1000),
            drawn("i", 7, items),
            drawn("i", 8, users),
            drawn("i", 9, users),
            drawn("i", 10, users),
            drawn("i", 11, items),
            drawn("i", 12, &5),
        )
    }
}

/// Makes the tables in an empty database, and fills them, in one transaction.
///
/// # Errors
/// The database cannot be reached, or has tables of these names: nothing was made then.
pub async fn fill(database: &Config, stock: &Stock) -> Result<(), Error> {
    let (client, connection) = database.connect(NoTls).await?;
    let connection = tokio::spawn(connection);
    let statements = [TABLES, &stock.statements(), TRIGGERS].concat();
    client.batch_execute(&format!("BEGIN; {statements} COMMIT; ANALYZE")).await?;
    drop(client);
    // Its end is the end of what it had to say.
    let _ = connection.await;
    Ok(())
}
