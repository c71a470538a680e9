//! `thorp bench`: chooses the cases, prints the lines, and puts lines and plots into a folder.

mod leased_writers;
mod nodes;

use crate::Result;
use crate::cli::{BenchArgs, BenchCase, BenchFigure, BenchRival, NewcomerArgs};
use crate::error::only_for;
use crate::lab::Lab;
use crate::nodes::EtcdChoice;
use crate::output::{self, Output};
use crate::scratch::{self, Scratch};
use bench::{Apart, Beside, Case, Line, Newcomer, Place, SiteFigure, SiteSizes};
use std::fs::{File, create_dir};
use std::io::{BufWriter, Write};
use std::path::Path;

pub(super) fn run(args: &BenchArgs, output: &mut Output) -> Result {
    refuse_idle_options(args)?;
    let scratch = Scratch::with_way_through(None, &args.dir, "bench")?;
    scratch.remove_on_signal()?;
    let mut lines = Vec::new();
    let mut found = |line: Line| {
        output.line(&line.to_json(), &line)?;
        lines.push(line);
        output.flush()
    };
    match (args.case, &args.lab) {
        // It needs a crew, which the other cases do not.
        (Some(BenchCase::LeasedWriters), Some(lab)) => {
            in_scratch(&scratch, |dir, progress| found(leased_writers::measure(dir, lab, progress)?))?;
        }
        (Some(BenchCase::Nodes), _) => {
            let gib = args.gib.unwrap_or(1.0);
            let etcd = EtcdChoice::of(args.etcd.as_ref())?;
            in_scratch(&scratch, |dir, progress| nodes::measure(dir, &etcd, gib, progress, &mut found))?;
        }
        _ => cases(args).into_iter().try_for_each(|case| measure(case, args, &scratch, &mut found))?,
    }
    match &args.out {
        Some(out) => write(&lines, out),
        None => Ok(()),
    }
}

/// An option that the chosen case does not look at would say something that is not so.
fn refuse_idle_options(args: &BenchArgs) -> Result {
    let Some(case) = args.case else { return Ok(()) };
    let many = matches!(case, BenchCase::Commit | BenchCase::Oo7 | BenchCase::Contend);
    only_for("--clients", args.clients.is_some() && !many, "the cases 'commit', 'oo7' and 'contend'")?;
    only_for("--delay-ms", args.delay_ms.is_some() && case != BenchCase::Oo7, "the case 'oo7'")?;
    let fills = matches!(case, BenchCase::Recover | BenchCase::Load | BenchCase::Nodes);
    only_for("--gib", args.gib.is_some() && !fills, "the cases 'recover', 'load' and 'nodes'")?;
    only_for("--etcd", args.etcd.is_some() && case != BenchCase::Nodes, "the case 'nodes'")?;
    only_for("--beside", args.beside.is_some() && case != BenchCase::Web, "the case 'web'")?;
    only_for("--tcp", args.tcp && case != BenchCase::LookUp, "the case 'look-up'")?;
    only_for("--fabric", args.fabric.is_some() && case != BenchCase::LookUp, "the case 'look-up'")?;
    let is_of_files = case == BenchCase::Files;
    only_for("--files", args.files.is_some() && !is_of_files, "the case 'files'")?;
    only_for("--members", args.members.is_some() && !is_of_files, "the case 'files'")?;
    only_for("--figure", args.figure.is_some() && !is_of_files, "the case 'files'")?;
    let is_apart = matches!(case, BenchCase::First | BenchCase::LeasedWriters);
    only_for("--lab", args.lab.is_some() && !is_apart, "the cases 'first' and 'leased-writers'")
}

fn cases(args: &BenchArgs) -> Vec<Case> {
    let Some(case) = args.case else { return Case::ALL.to_vec() };
    let clients = args.clients.unwrap_or(1);
    vec![match case {
        BenchCase::Floor => Case::Floor,
        BenchCase::Read => Case::Read,
        BenchCase::Commit => Case::Commit { clients },
        BenchCase::Fetch => Case::Fetch,
        BenchCase::Oo7 => Case::Oo7 { clients, delay_ms: args.delay_ms.unwrap_or(20) },
        BenchCase::Load => Case::Load { gib: args.gib.unwrap_or(1.0) },
        BenchCase::First => Case::First,
        BenchCase::SlowLine => Case::SlowLine,
        BenchCase::Contend => Case::Contend { clients: args.clients.unwrap_or(8) },
        BenchCase::Churn => Case::Churn,
        BenchCase::LookUp if args.tcp => Case::LookUpTcp,
        BenchCase::LookUp if args.fabric.is_some() => Case::LookUpFabric,
        BenchCase::LookUp => Case::LookUp,
        BenchCase::Entries => Case::Entries,
        BenchCase::Web => Case::Web { beside: beside(args) },
        BenchCase::Recover => Case::Recover { gib: args.gib.unwrap_or(1.0) },
        BenchCase::Files => Case::Files { sizes: site_sizes(args), only: args.figure.map(site_figure) },
        BenchCase::LeasedWriters | BenchCase::Nodes => unreachable!("they are measured by others"),
    }]
}

fn beside(args: &BenchArgs) -> Beside {
    let named = |rival| args.beside.as_ref().is_none_or(|named| named.contains(&rival));
    Beside { nginx: named(BenchRival::Nginx), varnish: named(BenchRival::Varnish) }
}

fn site_sizes(args: &BenchArgs) -> SiteSizes {
    let SiteSizes { files, members } = SiteSizes::USUAL;
    let members = args.members.map_or(members, |count| count as usize);
    SiteSizes { files: args.files.unwrap_or(files), members }
}

fn site_figure(figure: BenchFigure) -> SiteFigure {
    match figure {
        BenchFigure::Update => SiteFigure::Update,
        BenchFigure::Burst => SiteFigure::Burst,
        BenchFigure::Spread => SiteFigure::Spread,
        BenchFigure::Ahead => SiteFigure::Ahead,
        BenchFigure::Publish => SiteFigure::Publish,
        BenchFigure::First => SiteFigure::First,
        BenchFigure::Rollback => SiteFigure::Rollback,
        BenchFigure::Restart => SiteFigure::Restart,
        BenchFigure::Hits => SiteFigure::Hits,
        BenchFigure::Collection => SiteFigure::Collection,
        BenchFigure::Mount => SiteFigure::Mount,
    }
}

fn measure(case: Case, args: &BenchArgs, scratch: &Scratch, found: &mut dyn FnMut(Line) -> Result) -> Result {
    let program = std::env::current_exe()?;
    let apart = args.lab.as_ref().map(|lab| apart(lab, &program)).transpose()?;
    in_scratch(scratch, |dir, progress| {
        let fabric = args.fabric.clone();
        bench::measure(case, &Place { program, dir: dir.to_owned(), apart, fabric }, progress, found)
    })
}

/// Measures one case in a folder of its own, whose room the next one may need.
fn in_scratch(scratch: &Scratch, measure: impl FnOnce(&Path, &dyn Fn(&str)) -> Result) -> Result {
    let dir = scratch.path().join("case");
    create_dir(&dir)?;
    let spinner = output::spinner("measuring");
    let measured = measure(&dir, &|what| spinner.set_message(what.to_owned()));
    spinner.finish_and_clear();
    scratch::remove(&dir);
    measured
}

/// The places of a lab.
pub(super) fn apart(lab: &Path, program: &Path) -> Result<Apart> {
    let mut lab = Lab::read(lab, 1)?;
    let listen = lab.store.address()?;
    Ok(Apart { store: lab.store.program(program), listen, client: lab.sites[0].program(program) })
}

/// `thorp newcomer`: a new client of the case `first`, in a process of its own.
pub(super) fn newcomer(args: &NewcomerArgs) -> Result {
    let NewcomerArgs { server, seed, on_demand } = *args;
    println!("{}", Newcomer { server, on_demand, seed }.run()?);
    Ok(())
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
