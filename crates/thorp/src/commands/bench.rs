//! `thorp bench`: chooses the cases, prints the lines, and puts lines and plots into a folder.

use crate::Result;
use crate::cli::{BenchArgs, BenchCase};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use bench::{Case, Line, Place};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(super) fn run(args: &BenchArgs, output: &mut Output) -> Result {
    let mut lines = Vec::new();
    for case in cases(args) {
        measure(case, &args.dir, &mut |line| {
            output.line(&line.to_json(), &line)?;
            lines.push(line);
            output.flush()
        })?;
    }
    match &args.out {
        Some(out) => write(&lines, out),
        None => Ok(()),
    }
}

fn cases(args: &BenchArgs) -> Vec<Case> {
    let Some(case) = args.case else { return Case::ALL.to_vec() };
    vec![match case {
        BenchCase::Floor => Case::Floor,
        BenchCase::Read => Case::Read,
        BenchCase::Commit => Case::Commit { clients: args.clients },
        BenchCase::Fetch => Case::Fetch,
        BenchCase::Oo7 => Case::Oo7 { clients: args.clients, delay_ms: args.delay_ms },
        BenchCase::Recover => Case::Recover { gib: args.gib },
    }]
}

fn measure(case: Case, dir: &Path, found: &mut dyn FnMut(Line) -> Result) -> Result {
    let scratch = Scratch::new(None, dir, "bench")?;
    let place = Place { program: std::env::current_exe()?, dir: scratch.path().to_owned() };
    let spinner = output::spinner("measuring");
    let measured = bench::measure(case, &place, &|what| spinner.set_message(what.to_owned()), found);
    spinner.finish_and_clear();
    measured
}

fn write(lines: &[Line], out: &Path) -> Result {
    std::fs::create_dir_all(out)?;
    let mut file = BufWriter::new(File::create(out.join("bench.jsonl"))?);
    for line in lines {
        writeln!(file, "{}", line.to_json())?;
    }
    file.flush()?;
    bench::plot(lines, out)
}
