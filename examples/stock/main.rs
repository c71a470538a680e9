//! A stock of parts that several people keep together: a complete application of Thorp.
//!
//! ```sh
//! thorp serve --dir /tmp/shed &                  # or THORP_DIR=/tmp/shed, and no server
//! cargo run --example stock -- receive window 4
//! cargo run --example stock -- ship window 1
//! thorp load HOUSE.ifc --into house
//! cargo run --example stock -- demand house      # what the design needs, and how much of it is here
//! cargo run --example stock -- list
//! ```
//! Any number of these run at the same time, on any number of hosts: each change is a transaction, and of two that
//! take the last window one is told that there is none.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Bound;
use std::process::ExitCode;
use thorp::design::Design;
use thorp::{Anywhere, Db, Error, Map, Ref, Result, Tx};

/// The name that the stock is found by.
const STOCK: &str = "stock";

/// Entities of a design that one transaction reads.
const BATCH: usize = 1_000;

/// A part, by its name in the stock. Its movements are an object of their own: who lists the stock does not fetch them.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    count: u64,
    movements: Ref<Vec<Movement>>,
}

/// A change of a part's count. A field that is added later gets a default, so that what is stored can still be read.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Movement {
    Received(u64),
    Shipped(u64),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match open().and_then(|db| run(&db, &words, &mut io::stdout()).and_then(|()| db.close())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stock: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Opens the store where the `thorp` command would.
fn open() -> Result<Db> {
    match (std::env::var("THORP_DIR"), std::env::var("THORP_SERVER")) {
        (Ok(dir), _) => Db::open(dir),
        (_, Ok(server)) => Db::connect(server),
        _ => Db::connect("127.0.0.1:7411"),
    }
}

fn run(db: &Db, words: &[&str], out: &mut impl Write) -> Result<()> {
    let count = |text: &str| text.parse().map_err(|_| Error::application(format!("'{text}' is no count of parts")));
    match *words {
        ["receive", name, text] => {
            let count = count(text)?;
            db.transact(|tx| receive(tx, name, count))
        }
        ["ship", name, text] => {
            let count = count(text)?;
            db.transact(|tx| ship(tx, name, count))
        }
        ["list"] => list(db, out),
        ["demand", design] => demand(db, design, out),
        _ => Err(Error::application("expected receive PART COUNT, ship PART COUNT, list, or demand DESIGN".to_owned())),
    }
}

/// Adds to a part. The closure around it runs again if another transaction changes the part first, so it has no other
/// effects.
fn receive(tx: &mut Tx, name: &str, count: u64) -> Result<()> {
    let stock: Map<String, Part> = tx.map(STOCK)?;
    let mut part = match stock.get(tx, name)? {
        Some(part) => part,
        None => Part { count: 0, movements: tx.create(Anywhere, &Vec::new())? },
    };
    part.count += count;
    record(tx, &part, Movement::Received(count))?;
    stock.insert(tx, name, &part).map(drop)
}

/// Takes from a part. An error ends the transaction, and nothing of it is stored.
fn ship(tx: &mut Tx, name: &str, count: u64) -> Result<()> {
    let stock: Map<String, Part> = tx.map(STOCK)?;
    let part = stock.get(tx, name)?;
    let here = part.as_ref().map_or(0, |part| part.count);
    let Some(mut part) = part.filter(|part| part.count >= count) else {
        return Err(Error::application(format!("there are {here} of '{name}', and {count} were to be shipped")));
    };
    part.count -= count;
    record(tx, &part, Movement::Shipped(count))?;
    stock.insert(tx, name, &part).map(drop)
}

fn record(tx: &mut Tx, part: &Part, movement: Movement) -> Result<()> {
    let mut movements = tx.get(part.movements)?;
    movements.push(movement);
    tx.put(part.movements, &movements)
}

/// Prints the stock as it is at one moment.
fn list(db: &Db, out: &mut impl Write) -> Result<()> {
    let parts = db.transact(|tx| match tx.find_map::<String, Part>(STOCK)? {
        Some(stock) => stock.iter().collect(tx),
        None => Ok(Vec::new()),
    })?;
    for (name, part) in parts {
        writeln!(out, "{:>6}  {name}", part.count).map_err(Error::application)?;
    }
    Ok(())
}

/// Prints how many parts of each kind a design needs, and how many of them are in the stock. `thorp load` has stored
/// the design, which may be larger than one transaction: it is read batch by batch.
fn demand(db: &Db, name: &str, out: &mut impl Write) -> Result<()> {
    let found = db.transact(|tx| Design::find(tx, name))?;
    let design = found.ok_or_else(|| Error::application(format!("there is no design '{name}': load it first")))?;
    let (mut needed, mut from) = (BTreeMap::<String, u64>::new(), Bound::Unbounded);
    loop {
        let entities = db.transact(|tx| design.entities_from(tx, from, BATCH))?;
        let Some(last) = entities.last() else { break };
        from = Bound::Excluded(last.entity.number);
        for kind in ["IfcWindow", "IfcDoor"] {
            let count = entities.iter().filter(|object| object.entity.is_a(kind)).count() as u64;
            *needed.entry(kind.trim_start_matches("Ifc").to_lowercase()).or_default() += count;
        }
    }
    let here = db.transact(|tx| {
        let Some(stock) = tx.find_map::<String, Part>(STOCK)? else { return Ok(BTreeMap::new()) };
        let counts = needed.keys().map(|name| Ok((name.clone(), stock.get(tx, name)?.map_or(0, |part| part.count))));
        counts.collect::<Result<BTreeMap<_, _>>>()
    })?;
    for (name, count) in needed {
        let here = here.get(&name).copied().unwrap_or(0);
        writeln!(out, "{count:>6}  {name}, of which {} are here", here.min(count)).map_err(Error::application)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(db: &Db, words: &[&str]) -> String {
        let mut out = Vec::new();
        run(db, words, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parts_come_and_go() {
        let db = Db::in_memory().unwrap();
        output(&db, &["receive", "window", "4"]);
        output(&db, &["ship", "window", "1"]);
        assert_eq!(output(&db, &["list"]), "     3  window\n");
        let error = run(&db, &["ship", "window", "4"], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("there are 3 of 'window'"), "{error}");
        let movements = db.transact(|tx| {
            let stock = tx.find_map::<String, Part>(STOCK)?.expect("there is a stock");
            let part = stock.get(tx, "window")?.expect("there are windows");
            tx.get(part.movements)
        });
        assert_eq!(movements.unwrap(), [Movement::Received(4), Movement::Shipped(1)]);
    }

    #[test]
    fn a_design_that_is_not_there_is_named() {
        let db = Db::in_memory().unwrap();
        let error = run(&db, &["demand", "house"], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("there is no design 'house'"), "{error}");
    }
}
