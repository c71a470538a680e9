//! The interactions that read. Each page names the rows that it shows, and those whose coming or going would change it.

use crate::shop::database::{DatabaseError, Pool};
use crate::shop::page::{Page, Text};
use http::StatusCode;
use std::fmt::Write;

/// Items of a list, if its visitor does not say how many.
pub(crate) const SHOWN: i64 = 20;

/// The most that a list shows: each item is a dependency of its page.
pub(crate) const SHOWN_MAX: i64 = 200;

/// Bids and comments of a page.
const RECENT: i64 = 20;

/// A page, and the status that it is sent with.
pub(crate) type Answer = (StatusCode, Page);

/// An answer, if the database gives what it takes.
pub(crate) type Found = Result<Answer, DatabaseError>;

/// The part of a list that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// From 0.
    pub(crate) page: i64,
    pub(crate) shown: i64,
}

macro_rules! html {
    ($page:expr, $($arguments:tt)*) => {
        writeln!($page, $($arguments)*).expect("a page takes any text")
    };
}

fn found(page: Page) -> Answer {
    (StatusCode::OK, page)
}

/// A page that shows that a row is not there, until it is.
fn missing(what: &str, name: String) -> Answer {
    let mut page = Page::new("Not here");
    page.shows(name, 0);
    html!(page, "<p>There is no such {what}.</p>");
    (StatusCode::NOT_FOUND, page)
}

/// A page of text alone.
fn fixed(title: &str, html: &str) -> Answer {
    let mut page = Page::new(title);
    page.depends_on("fixed");
    html!(page, "{html}");
    found(page)
}

pub(crate) fn home() -> Answer {
    fixed(
        "The shop",
        "<p>Bid on things that others do not need any more, or sell yours.</p>\
         <ul><li><a href=\"/browse\">Browse</a></li><li><a href=\"/sell\">Sell</a></li></ul>",
    )
}

pub(crate) fn browse() -> Answer {
    fixed(
        "Browse",
        "<ul><li><a href=\"/categories\">By category</a></li><li><a href=\"/regions\">By region</a></li></ul>",
    )
}

pub(crate) fn register() -> Answer {
    fixed(
        "Register",
        "<form method=\"post\" action=\"/users\"><input name=\"nickname\"><input name=\"region\">\
         <button>Register</button></form>",
    )
}

/// All categories: of the shop, or of a region, in which case each leads to a shelf.
pub(crate) async fn categories(pool: &Pool, region: Option<i32>) -> Found {
    let mut page = Page::new("Categories");
    page.depends_on("categories");
    let place = match region {
        None => String::new(),
        Some(region) => {
            let Some(name) = region_name(pool, region).await? else {
                return Ok(missing("region", "regions".to_owned()));
            };
            page.depends_on("regions");
            html!(page, "<p>In {}</p>", Text(&name));
            format!("/region/{region}")
        }
    };
    for row in pool.read("SELECT id, name FROM categories ORDER BY id", &[]).await? {
        let (id, name): (i32, &str) = (row.get(0), row.get(1));
        html!(page, "<p><a href=\"{place}/category/{id}\">{}</a></p>", Text(name));
    }
    Ok(found(page))
}

pub(crate) async fn regions(pool: &Pool) -> Found {
    let mut page = Page::new("Regions");
    page.depends_on("regions");
    for row in pool.read("SELECT id, name FROM regions ORDER BY id", &[]).await? {
        let (id, name): (i32, &str) = (row.get(0), row.get(1));
        html!(page, "<p><a href=\"/region/{id}\">{}</a></p>", Text(name));
    }
    Ok(found(page))
}

async fn region_name(pool: &Pool, region: i32) -> Result<Option<String>, DatabaseError> {
    let rows = pool.read("SELECT name FROM regions WHERE id = $1", &[&region]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// The items of a category that are on offer, the newest first.
pub(crate) async fn category(pool: &Pool, category: i32, part: Part) -> Found {
    let shelf = "SELECT c.name, coalesce(sum(s.items), 0), coalesce(sum(s.version), 0) FROM categories c \
                 LEFT JOIN shelves s ON s.category = c.id WHERE c.id = $1 GROUP BY c.name";
    let rows = pool.read(shelf, &[&category]).await?;
    let Some(row) = rows.first() else { return Ok(missing("category", "categories".to_owned())) };
    let (name, items): (&str, i64) = (row.get(0), row.get(1));
    let mut page = Page::new(name);
    page.depends_on("categories");
    page.shows(format!("category:{category}"), row.get(2));
    html!(page, "<p>{items} items</p>");
    let items = "SELECT id, name, bids, max_bid, buy_now, version::bigint FROM items \
                 WHERE category = $1 AND NOT closed ORDER BY id DESC LIMIT $2 OFFSET $3";
    let rows = pool.read(items, &[&category, &part.shown, &(part.page * part.shown)]).await?;
    list(&mut page, &rows, &format!("/category/{category}"), part);
    Ok(found(page))
}

/// The items of a category and region.
pub(crate) async fn shelf(pool: &Pool, region: i32, category: i32, part: Part) -> Found {
    let shelf = "SELECT c.name, r.name, coalesce(s.items, 0), coalesce(s.version, 0)::bigint FROM categories c \
                 JOIN regions r ON r.id = $2 LEFT JOIN shelves s ON s.category = c.id AND s.region = r.id \
                 WHERE c.id = $1";
    let rows = pool.read(shelf, &[&category, &region]).await?;
    let Some(row) = rows.first() else {
        let (_, mut page) = missing("category", "categories".to_owned());
        page.depends_on("regions");
        return Ok((StatusCode::NOT_FOUND, page));
    };
    let (name, place, items): (&str, &str, i32) = (row.get(0), row.get(1), row.get(2));
    let mut page = Page::new(name);
    page.depends_on("categories");
    page.depends_on("regions");
    page.shows(format!("shelf:{category}:{region}"), row.get(3));
    html!(page, "<p>{items} items in {}</p>", Text(place));
    let items = "SELECT id, name, bids, max_bid, buy_now, version::bigint FROM items \
                 WHERE category = $1 AND region = $2 AND NOT closed ORDER BY id DESC LIMIT $3 OFFSET $4";
    let rows = pool.read(items, &[&category, &region, &part.shown, &(part.page * part.shown)]).await?;
    list(&mut page, &rows, &format!("/region/{region}/category/{category}"), part);
    Ok(found(page))
}

fn list(page: &mut Page, rows: &[tokio_postgres::Row], path: &str, part: Part) {
    html!(page, "<table><tr><th>Item</th><th>Bids</th><th>Price</th><th>Buy now</th></tr>");
    for row in rows {
        entry(page, row);
    }
    html!(page, "</table>\n<a href=\"{path}?page={}&amp;show={}\">Next</a>", part.page + 1, part.shown);
}

/// A row of a list.
fn entry(page: &mut Page, row: &tokio_postgres::Row) {
    let (id, name): (i32, &str) = (row.get(0), row.get(1));
    let (bids, max_bid, buy_now): (i32, i32, i32) = (row.get(2), row.get(3), row.get(4));
    page.shows(format!("item:{id}"), row.get(5));
    html!(
        page,
        "<tr><td><a href=\"/item/{id}\">{}</a></td><td>{bids}</td><td>{max_bid}</td><td>{buy_now}</td></tr>",
        Text(name)
    );
}

/// The items with the most bids of some that follow on each other: a small page that depends on many rows. It names
/// those that are not there, too: they may come.
pub(crate) async fn best(pool: &Pool, first: i32, part: Part) -> Found {
    let mut page = Page::new("Best of many");
    let last = i64::from(first) + part.shown - 1;
    for item in i64::from(first)..=last {
        page.depends_on(format!("item:{item}"));
    }
    let items = "SELECT id, name, bids, max_bid, buy_now, version::bigint FROM items \
                 WHERE id BETWEEN $1 AND $2 ORDER BY bids DESC, id LIMIT 5";
    let last = i32::try_from(last).unwrap_or(i32::MAX);
    let rows = pool.read(items, &[&first, &last]).await?;
    for row in &rows {
        entry(&mut page, row);
    }
    Ok(found(page))
}

/// An item, and what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemForm {
    None,
    Bid,
    Buy,
}

pub(crate) async fn item(pool: &Pool, id: i32, form: ItemForm) -> Found {
    let query = "SELECT i.name, i.description, i.quantity, i.buy_now, i.bids, i.max_bid, i.closed, i.version::bigint, \
                 u.id, u.nickname, u.version::bigint FROM items i JOIN users u ON u.id = i.seller WHERE i.id = $1";
    let rows = pool.read(query, &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(missing("item", format!("item:{id}"))) };
    let mut page = Page::new(row.get(0));
    page.shows(format!("item:{id}"), row.get(7));
    let seller: i32 = row.get(8);
    page.shows(format!("user:{seller}"), row.get(10));
    let (quantity, buy_now, bids, max_bid): (i32, i32, i32, i32) = (row.get(2), row.get(3), row.get(4), row.get(5));
    html!(page, "<p>{}</p>", Text(row.get(1)));
    html!(page, "<p>{quantity} on offer by <a href=\"/user/{seller}\">{}</a></p>", Text(row.get(9)));
    html!(page, "<p>Price {max_bid}, <a href=\"/item/{id}/bids\">{bids} bids</a>; buy now for {buy_now}</p>");
    if row.get(6) {
        html!(page, "<p>Sold.</p>");
    }
    let field = format!("<input type=\"hidden\" name=\"item\" value=\"{id}\"><input name=\"user\">");
    match form {
        ItemForm::None => html!(page, "<a href=\"/item/{id}/bid\">Bid</a> <a href=\"/item/{id}/buy\">Buy now</a>"),
        ItemForm::Bid => html!(
            page,
            "<form method=\"post\" action=\"/bids\">{field}<input name=\"amount\"><button>Bid</button></form>"
        ),
        ItemForm::Buy => html!(
            page,
            "<form method=\"post\" action=\"/purchases\">{field}<input name=\"quantity\"><button>Buy</button></form>"
        ),
    }
    Ok(found(page))
}

pub(crate) async fn bids(pool: &Pool, item: i32) -> Found {
    let rows = pool.read("SELECT name, version::bigint FROM items WHERE id = $1", &[&item]).await?;
    let Some(row) = rows.first() else { return Ok(missing("item", format!("item:{item}"))) };
    let mut page = Page::new(row.get(0));
    page.shows(format!("item:{item}"), row.get(1));
    page.depends_on(format!("bids:{item}"));
    let query = "SELECT b.amount, u.id, u.nickname, u.version::bigint FROM bids b JOIN users u ON u.id = b.bidder \
                 WHERE b.item = $1 ORDER BY b.id DESC LIMIT $2";
    for row in pool.read(query, &[&item, &RECENT]).await? {
        let (amount, bidder): (i32, i32) = (row.get(0), row.get(1));
        page.shows(format!("user:{bidder}"), row.get(3));
        html!(page, "<p>{amount} by <a href=\"/user/{bidder}\">{}</a></p>", Text(row.get(2)));
    }
    Ok(found(page))
}

pub(crate) async fn user(pool: &Pool, id: i32) -> Found {
    let query = "SELECT u.nickname, u.rating, r.name, u.version::bigint FROM users u JOIN regions r ON r.id = u.region \
                 WHERE u.id = $1";
    let rows = pool.read(query, &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(missing("user", format!("user:{id}"))) };
    let mut page = Page::new(row.get(0));
    page.shows(format!("user:{id}"), row.get(3));
    page.depends_on("regions");
    page.depends_on(format!("comments:{id}"));
    let rating: i32 = row.get(1);
    html!(page, "<p>Rating {rating}; lives in {}</p>", Text(row.get(2)));
    let query = "SELECT c.rating, c.comment, u.id, u.nickname, u.version::bigint FROM comments c \
                 JOIN users u ON u.id = c.author WHERE c.receiver = $1 ORDER BY c.id DESC LIMIT $2";
    for row in pool.read(query, &[&id, &RECENT]).await? {
        let (rating, author): (i32, i32) = (row.get(0), row.get(2));
        page.shows(format!("user:{author}"), row.get(4));
        let (comment, name) = (Text(row.get(1)), Text(row.get(3)));
        html!(page, "<p>{rating}: {comment} (<a href=\"/user/{author}\">{name}</a>)</p>");
    }
    html!(page, "<a href=\"/user/{id}/comment\">Comment</a>");
    Ok(found(page))
}

pub(crate) async fn comment_form(pool: &Pool, id: i32) -> Found {
    let rows = pool.read("SELECT nickname, version::bigint FROM users WHERE id = $1", &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(missing("user", format!("user:{id}"))) };
    let mut page = Page::new(row.get(0));
    page.shows(format!("user:{id}"), row.get(1));
    html!(
        page,
        "<form method=\"post\" action=\"/comments\"><input type=\"hidden\" name=\"receiver\" value=\"{id}\">\
         <input name=\"user\"><input name=\"item\"><input name=\"rating\"><input name=\"comment\">\
         <button>Send</button></form>"
    );
    Ok(found(page))
}

pub(crate) async fn sell(pool: &Pool) -> Found {
    let mut page = Page::new("Sell");
    html!(page, "<form method=\"post\" action=\"/items\"><input name=\"user\"><input name=\"name\">");
    for (list, query) in [
        ("categories", "SELECT id, name FROM categories ORDER BY id"),
        ("regions", "SELECT id, name FROM regions ORDER BY id"),
    ] {
        page.depends_on(list);
        html!(page, "<select name=\"{list}\">");
        for row in pool.read(query, &[]).await? {
            html!(page, "<option value=\"{}\">{}</option>", row.get::<_, i32>(0), Text(row.get(1)));
        }
        html!(page, "</select>");
    }
    html!(page, "<button>Sell</button></form>");
    Ok(found(page))
}

/// A user's own items, bids and purchases: for nobody else, so that no cache stores it and nothing is named.
pub(crate) async fn about(pool: &Pool, user: i32) -> Found {
    let mut page = Page::new("About me");
    let lists = [
        ("My items", "SELECT id, name, max_bid FROM items WHERE seller = $1 ORDER BY id DESC LIMIT $2"),
        (
            "My bids",
            "SELECT i.id, i.name, b.amount FROM bids b JOIN items i ON i.id = b.item WHERE b.bidder = $1 \
             ORDER BY b.id DESC LIMIT $2",
        ),
        (
            "My purchases",
            "SELECT i.id, i.name, p.quantity FROM purchases p JOIN items i ON i.id = p.item WHERE p.buyer = $1 \
             ORDER BY p.id DESC LIMIT $2",
        ),
    ];
    for (title, query) in lists {
        html!(page, "<h2>{title}</h2>");
        for row in pool.read(query, &[&user, &RECENT]).await? {
            let (id, number): (i32, i32) = (row.get(0), row.get(2));
            html!(page, "<p><a href=\"/item/{id}\">{}</a>: {number}</p>", Text(row.get(1)));
        }
    }
    Ok(found(page))
}
