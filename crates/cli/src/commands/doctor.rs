//! `thorp doctor`: looks a closed store over.

use crate::Result;
use crate::cli::DoctorArgs;
use crate::output::{self, Output};
use serde_json::json;

pub(super) fn run(args: &DoctorArgs, output: &mut Output) -> Result {
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
