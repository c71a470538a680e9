//! `thorp experiment`: runs a paper's experiments, prints the rows, and puts rows and charts into a folder.

use crate::Result;
use crate::cli::{ExperimentArgs, Paper};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::{Experiment, HEAD, Place, Row};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(super) fn run(args: &ExperimentArgs, output: &mut Output) -> Result {
    let Paper::Buddycache = args.paper;
    let scratch = Scratch::new(None, &args.dir, "experiment")?;
    let place = Place { program: std::env::current_exe()?, dir: scratch.path().to_owned(), apart: None };
    let spinner = output::spinner("measuring");
    let mut rows: Vec<Row> = Vec::new();
    if !output.is_json() {
        output.raw(HEAD)?;
    }
    bench::experiment(&chosen(args), &place, &|what| spinner.set_message(what.to_owned()), &mut |row| {
        output.line(&row.to_json(), &row)?;
        rows.push(row);
        output.flush()
    })?;
    spinner.finish_and_clear();
    match &args.out {
        Some(out) => write(&rows, out),
        None => Ok(()),
    }
}

fn chosen(args: &ExperimentArgs) -> Vec<Experiment> {
    if args.all {
        return Experiment::ALL.to_vec();
    }
    let failover = args.failover.then_some(Experiment::Failover);
    let (table, figure) = (args.table.map(Experiment::Table), args.figure.map(Experiment::Figure));
    table.into_iter().chain(figure).chain(failover).collect()
}

fn write(rows: &[Row], out: &Path) -> Result {
    std::fs::create_dir_all(out)?;
    let mut file = BufWriter::new(File::create(out.join("buddycache.jsonl"))?);
    for row in rows {
        writeln!(file, "{}", row.to_json())?;
    }
    file.flush()?;
    bench::draw(rows, out)
}
