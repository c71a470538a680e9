//! A small auction shop: a web application on PostgreSQL, with the interactions of RUBiS (Amza et al., *Specification
//! and implementation of dynamic Web site benchmarks*, 2002). It is what `thorp demo web` and `thorp experiment
//! activecache` put a cache before, and an example of how an application names what its pages depend on.
//!
//! ```text
//!   visitors ---- HTTP ----> Shop ---- SQL ----> PostgreSQL
//!                             |                      |
//!       Cache-Groups: "item:42", "category:3"        +---- MAP: items -> item:{id}, shelves -> category:{category}
//! ```
//! A page can only show a row that it names (`page`), and the map names the same rows where they change, so the shop is
//! coherent behind `thorp watch`, whatever program changes the database. Lists are the hard part: a list of a
//! category's items changes with the items that it shows, which it names, and when an item comes or goes, which is not
//! known before. So the database keeps a row for each *shelf*, the items of a category and region, which a trigger
//! changes whenever an item comes to the shelf or leaves it; a list names its shelf.
//!
//! | module | duty |
//! |---|---|
//! | `schema` | the tables, the triggers, and the map from rows to dependencies |
//! | `stock` | what is in the shop before its first visitor comes: sizes and a seed |
//! | `database` | connections to PostgreSQL, opened again when they break |
//! | `page` | HTML, with what it depends on and the versions of what it shows |
//! | `pages` | the interactions that read |
//! | `updates` | the interactions that write |
//! | `server` | HTTP: from a request to a page |
//! | `visit` | what visitors ask for: mixes and popularity |
//! | `client` | a visitor's connection |
//! | `check` | whether a response is older than what was known when it was asked for |

mod check;
mod client;
mod database;
mod page;
mod pages;
mod schema;
mod server;
mod stock;
mod updates;
mod visit;

use pgwatch::{Map, Patience, WatchConfig, set_up};

pub use check::{Check, Finding, Source};
pub use client::{Connection, Response};
pub use schema::MAP;
pub use server::{Shop, ShopConfig, ShopError};
pub use stock::{Stock, fill};
pub use tokio_postgres::Config as Database;
pub use visit::{Popularity, Reads, Visit, Visitor};

/// Fills the database that is reached by these words, and makes it ready to be watched.
///
/// # Errors
/// The database does not answer, or refuses.
pub fn install(words: &str, stock: &Stock, is_watched: bool) -> crate::Result<()> {
    let config: tokio_postgres::Config = words.parse()?;
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tasks.block_on(fill(&config, stock))?;
    if is_watched {
        let config = WatchConfig::new(config, "thorp", Map::parse(MAP)?);
        let set_up = tasks.block_on(set_up(&config, &mut Patience::endless()));
        set_up.map_err(|error| error.to_string())?;
    }
    Ok(())
}
