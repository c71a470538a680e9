//! `thorp shop`: a web application to try a proxy and a watcher with, from its start to its stop.

use crate::cli::ShopArgs;
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result};
use bench::shop::{Database, MAP, Shop, ShopConfig, Stock, fill};
use serde_json::json;
use std::sync::mpsc;

pub(super) fn run(args: &ShopArgs, output: &mut Output) -> Result {
    if args.map {
        return output.raw(MAP.trim_end());
    }
    let mut database = args.database.clone().ok_or_else(|| Error::from("say where the database is"))?;
    if let (None, Some(password)) = (database.get_password(), std::env::var_os("PGPASSWORD")) {
        database.password(password.as_encoded_bytes());
    }
    if args.setup { set_up(args, &database, output) } else { serve(args, database, output) }
}

fn set_up(args: &ShopArgs, database: &Database, output: &mut Output) -> Result {
    let ShopArgs { items, users, categories, regions, seed, .. } = *args;
    let stock = Stock { items, users, categories, regions, seed, ..Stock::SMALL };
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tasks.block_on(fill(database, &stock)).map_err(|error| format!("the shop was not set up: {error}"))?;
    let json = json!({"items": items, "users": users, "categories": categories, "regions": regions});
    output.line(&json, format_args!("made a shop of {items} items, {users} users"))
}

fn serve(args: &ShopArgs, database: Database, output: &mut Output) -> Result {
    let config =
        ShopConfig { names: !args.nameless, max_age_s: args.max_age, ..ShopConfig::new(args.listen, database) };
    let (stop, stopped) = mpsc::channel();
    // A shop that has ended is no longer to be stopped.
    let stop = move || stop.send(()).unwrap_or_default();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    let shop = Shop::start(config)?;
    let listening = shop.address();
    output.line(&json!({"listen": listening}), format_args!("ready: shop on {listening}"))?;
    output.flush()?;
    // An error means that nobody can stop it any more.
    let _ = stopped.recv();
    drop(shop);
    output.line(&json!({"stopped": "shop"}), "stopped")
}
