//! `thorp doctor`: looks a closed store over.

use crate::Result;
use crate::cli::DoctorArgs;
use crate::output::{self, Output};
use disk::{Finding, LostPage, Salvaged};
use serde_json::json;
use std::path::Path;

pub(super) fn run(args: &DoctorArgs, output: &mut Output) -> Result {
    match &args.salvage {
        Some(to) => salvage(&args.dir, to, output),
        None => check(args, output),
    }
}

/// Copies out what is whole. That something is lost is no failure of the command: it was asked for what is left.
fn salvage(dir: &Path, to: &Path, output: &mut Output) -> Result {
    let spinner = output::spinner("copying out what is whole");
    let salvaged = disk::salvage(dir, to);
    spinner.finish_and_clear();
    let Salvaged { pages, records, lost, findings } = salvaged?;
    for Finding { file, offset, what, advice } in &findings {
        let json = json!({"file": file, "offset": offset, "what": what, "lost": advice});
        output.line(&json, format_args!("{}: {what}; {advice}", file.display()))?;
    }
    for LostPage { page, kept, why } in &lost {
        let json = json!({"page": page.to_string(), "kept_objects": kept, "what": why});
        output
            .line(&json, format_args!("lost: page {page}, but for {kept} objects that were committed last: {why}"))?;
    }
    let json = json!({"salvaged": to, "pages": pages, "records": records, "pages_lost": lost.len()});
    let text = format!(
        "{}: a new store with {pages} whole pages and {records} records of the log; {} pages are lost",
        to.display(),
        lost.len()
    );
    output.line(&json, text)
}

fn check(args: &DoctorArgs, output: &mut Output) -> Result {
    let spinner = output::spinner("checking every page and record");
    let report = disk::check(&args.dir);
    spinner.finish_and_clear();
    let report = report?;
    for finding in &report.findings {
        let json = json!({
            "file": finding.file, "offset": finding.offset, "what": finding.what, "advice": finding.advice,
        });
        output.line(&json, finding)?;
    }
    let mib = report.log_bytes as f64 / f64::from(1 << 20);
    let json = json!({
        "pages": report.pages,
        "records": report.records,
        "log_bytes": report.log_bytes,
        "findings": report.findings.len(),
    });
    let text = format!("{} pages and {} records in {mib:.1} MiB of log", report.pages, report.records);
    match report.findings.len() {
        0 => output.line(&json, format_args!("{}: whole; {text}", args.dir.display())),
        count => {
            output.line(&json, text)?;
            Err(format!("{}: {count} things are damaged, see above", args.dir.display()).into())
        }
    }
}
