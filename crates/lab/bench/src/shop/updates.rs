//! The interactions that write: one statement each, so that it takes place as a whole or not at all.

use crate::shop::database::{DatabaseError, Pool};
use crate::shop::page::Page;
use std::fmt::Write;
use tokio_postgres::error::SqlState;

/// Why an update has not taken place, or perhaps not.
#[derive(Debug)]
pub(crate) enum UpdateError {
    /// A field of the form is missing or wrong.
    Field(&'static str),
    /// The shop refuses it: nothing has changed.
    Refused(&'static str),
    /// Nobody knows, unless the database says so.
    Database(DatabaseError),
}

impl From<DatabaseError> for UpdateError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Postgres(error) if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) => {
                Self::Refused("there is no such user, item, category or region")
            }
            DatabaseError::Postgres(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                Self::Refused("somebody has this name")
            }
            error => Self::Database(error),
        }
    }
}

/// A page that says what has been done, with the versions that it has made.
pub(crate) type Done = Result<Page, UpdateError>;

/// The fields of a form (`application/x-www-form-urlencoded`).
#[derive(Debug)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn parse(body: &[u8]) -> Self {
        let pairs = body.split(|&byte| byte == b'&').map(|pair| {
            let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            (decoded(&pair[..at]), decoded(pair.get(at + 1..).unwrap_or_default()))
        });
        Self(pairs.collect())
    }

    fn text(&self, name: &'static str) -> Result<&str, UpdateError> {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()).ok_or(UpdateError::Field(name))
    }

    fn number(&self, name: &'static str) -> Result<i32, UpdateError> {
        self.text(name)?.parse().map_err(|_| UpdateError::Field(name))
    }

    /// A number that may be left out.
    fn optional(&self, name: &'static str) -> Result<Option<i32>, UpdateError> {
        self.text(name).ok().map(|_| self.number(name)).transpose()
    }
}

fn decoded(text: &[u8]) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.iter());
    while let Some(&byte) = rest.next() {
        let pair = rest.as_slice().get(..2).filter(|_| byte == b'%');
        let value = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = rest.as_slice()[2..].iter();
            }
            None => bytes.push(if byte == b'+' { b' ' } else { byte }),
        }
    }
    // PostgreSQL's texts have no zero bytes.
    String::from_utf8_lossy(&bytes).replace('\0', "")
}

fn done(what: &str, versions: impl IntoIterator<Item = (String, i64)>) -> Page {
    let mut page = Page::new("Done");
    writeln!(page, "<p>{what}</p>").expect("a page takes any text");
    versions.into_iter().for_each(|(name, version)| page.shows(name, version));
    page
}

/// A bid of an amount, or of one more than there is.
pub(crate) async fn bid(pool: &Pool, form: &Form) -> Done {
    let (item, user, amount) = (form.number("item")?, form.number("user")?, form.optional("amount")?);
    let statement = "WITH item AS (\
                         UPDATE items SET bids = bids + 1, max_bid = coalesce($3, max_bid + 1) \
                         WHERE id = $1 AND NOT closed AND coalesce($3, max_bid + 1) > max_bid \
                         RETURNING id, max_bid, version\
                     ), bid AS (INSERT INTO bids (item, bidder, amount) SELECT id, $2, max_bid FROM item) \
                     SELECT version::bigint FROM item";
    let rows = pool.update(statement, &[&item, &user, &amount]).await?;
    let row = rows.first().ok_or(UpdateError::Refused("the item is sold, or somebody has bidden as much"))?;
    Ok(done("Your bid is placed.", [(format!("item:{item}"), row.get(0))]))
}

/// Some of an item for its price: the last one closes the offer.
pub(crate) async fn buy(pool: &Pool, form: &Form) -> Done {
    let (item, user, quantity) = (form.number("item")?, form.number("user")?, form.number("quantity")?);
    let statement = "WITH item AS (\
                         UPDATE items SET quantity = quantity - $3, closed = (quantity = $3) \
                         WHERE id = $1 AND NOT closed AND quantity >= $3 AND $3 > 0 RETURNING id, version\
                     ), purchase AS (INSERT INTO purchases (item, buyer, quantity) SELECT id, $2, $3 FROM item) \
                     SELECT version::bigint FROM item";
    let rows = pool.update(statement, &[&item, &user, &quantity]).await?;
    let row = rows.first().ok_or(UpdateError::Refused("there are not so many any more"))?;
    Ok(done("It is yours.", [(format!("item:{item}"), row.get(0))]))
}

/// A comment on another user, with a rating from -5 to 5.
pub(crate) async fn comment(pool: &Pool, form: &Form) -> Done {
    let (author, receiver) = (form.number("user")?, form.number("receiver")?);
    let (item, rating, comment) = (form.number("item")?, form.number("rating")?, form.text("comment")?);
    if !(-5..=5).contains(&rating) {
        return Err(UpdateError::Field("rating"));
    }
    let statement = "WITH receiver AS (\
                         UPDATE users SET rating = rating + $4 WHERE id = $2 RETURNING id, version\
                     ), comment AS (\
                         INSERT INTO comments (author, receiver, item, rating, comment) \
                         SELECT $1, id, $3, $4, $5 FROM receiver\
                     ) SELECT version::bigint FROM receiver";
    let rows = pool.update(statement, &[&author, &receiver, &item, &rating, &comment]).await?;
    let row = rows.first().ok_or(UpdateError::Refused("there is no such user"))?;
    Ok(done("Your comment is there.", [(format!("user:{receiver}"), row.get(0))]))
}

/// An item for sale. The versions of its lists are the trigger's to make, so they are asked for when they have changed.
pub(crate) async fn sell(pool: &Pool, form: &Form) -> Done {
    let (seller, name) = (form.number("user")?, form.text("name")?);
    let (category, region) = (form.number("category")?, form.number("region")?);
    let price = form.optional("price")?.unwrap_or(1);
    let statement = "INSERT INTO items (name, description, seller, category, region, buy_now, max_bid) \
                     VALUES ($1, $1, $2, $3, $4, $5 * 2, $5) RETURNING id, version::bigint";
    let rows = pool.update(statement, &[&name, &seller, &category, &region, &price]).await?;
    let row = rows.first().ok_or(UpdateError::Refused("it was not taken"))?;
    let mut page = done("It is on offer.", [(format!("item:{}", row.get::<_, i32>(0)), row.get(1))]);
    let lists = "SELECT coalesce(sum(version), 0), coalesce(sum(version) FILTER (WHERE region = $2), 0) FROM shelves \
                 WHERE category = $1";
    if let Some(row) = pool.read(lists, &[&category, &region]).await?.first() {
        page.shows(format!("category:{category}"), row.get(0));
        page.shows(format!("shelf:{category}:{region}"), row.get(1));
    }
    Ok(page)
}

pub(crate) async fn register(pool: &Pool, form: &Form) -> Done {
    let (nickname, region) = (form.text("nickname")?, form.number("region")?);
    let statement = "INSERT INTO users (nickname, region) VALUES ($1, $2) RETURNING id, version::bigint";
    let rows = pool.update(statement, &[&nickname, &region]).await?;
    let row = rows.first().ok_or(UpdateError::Refused("it was not taken"))?;
    Ok(done("Welcome.", [(format!("user:{}", row.get::<_, i32>(0)), row.get(1))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_decoded() {
        let form = Form::parse(b"item=42&comment=as+described%2C+100%25&empty=&%zz=%f");
        assert_eq!(form.number("item").ok(), Some(42));
        assert_eq!(form.text("comment").ok(), Some("as described, 100%"));
        assert_eq!(form.text("%zz").ok(), Some("%f"));
        assert!(matches!(form.text("empty"), Err(UpdateError::Field("empty"))));
        assert!(matches!(form.optional("amount"), Ok(None)));
    }
}
