//! `thorp doctor`: looks a closed store over, its objects and its published files.

use crate::cli::DoctorArgs;
use crate::output::{self, Output};
use crate::{Error, Result};
use disk::{Finding, LostPage, Salvaged};
use files::{SalvagedSites, SiteFinding, SitesReport, check_sites, has_chunks, salvage_sites};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use thorp::Db;

pub(super) fn run(args: &DoctorArgs, output: &mut Output) -> Result {
    match &args.salvage {
        Some(to) => salvage(&args.dir, to, output),
        None => check(args, output),
    }
}

/// Copies out what is whole. That something is lost is no failure of the command: it was asked for what is left.
fn salvage(dir: &Path, to: &Path, output: &mut Output) -> Result {
    if to.symlink_metadata().is_ok() {
        return Err(format!("cannot create {}: it exists: remove it, or name another directory", to.display()).into());
    }
    // The new store gets its name when it has its sites, too.
    let mut unnamed = to.as_os_str().to_owned();
    unnamed.push(".salvage");
    let unnamed = PathBuf::from(unnamed);
    let spinner = output::spinner("copying out what is whole");
    let salvaged = disk::salvage(dir, &unnamed).map_err(Error::from).and_then(|salvaged| {
        let sites = salvage_files(dir, &unnamed)?;
        fs::rename(&unnamed, to)?;
        let above = to.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::File::open(above)?.sync_all()?;
        Ok((salvaged, sites))
    });
    spinner.finish_and_clear();
    let (salvaged, sites) = salvaged?;
    print_salvaged(to, &salvaged, &sites, output)
}

/// Copies the published files into a store that has the objects already.
fn salvage_files(dir: &Path, new: &Path) -> Result<SalvagedSites> {
    match Db::builder().create(false).open(new) {
        Ok(db) => {
            let sites = salvage_sites(&db, dir, new);
            db.close()?;
            Ok(sites?)
        }
        Err(_) if !has_chunks(dir) => Ok(SalvagedSites::default()),
        Err(error) => {
            let lost = SiteFinding::Records { space: None, site: None, error: error.into() };
            Ok(SalvagedSites { findings: vec![lost], ..SalvagedSites::default() })
        }
    }
}

fn print_salvaged(to: &Path, salvaged: &Salvaged, sites: &SalvagedSites, output: &mut Output) -> Result {
    let Salvaged { pages, records, lost, findings } = salvaged;
    for Finding { file, offset, what, advice } in findings {
        let json = json!({"file": file, "offset": offset, "what": what, "lost": advice});
        output.line(&json, format_args!("{}: {what}; {advice}", file.display()))?;
    }
    for LostPage { page, kept, why } in lost {
        let json = json!({"page": page.to_string(), "kept_objects": kept, "what": why});
        output
            .line(&json, format_args!("lost: page {page}, but for {kept} objects that were committed last: {why}"))?;
    }
    for finding in &sites.findings {
        output.line(&of_finding(finding), format_args!("lost: {finding}"))?;
    }
    for (space, site, revision) in &sites.lost {
        let json = json!({"space": space, "site": site, "revision_lost": revision});
        output.line(&json, format_args!("lost: space {space}, {site}@{revision}"))?;
    }
    let json = json!({
        "salvaged": to, "pages": pages, "records": records, "pages_lost": lost.len(), "sites": sites.sites,
        "revisions": sites.revisions, "revisions_lost": sites.lost.len(),
    });
    let files = if sites.sites == 0 {
        String::new()
    } else {
        let SalvagedSites { sites, revisions, lost, .. } = sites;
        format!("; {sites} sites with {revisions} whole revisions, {} revisions are lost", lost.len())
    };
    let text = format!(
        "{}: a new store with {pages} whole pages and {records} records of the log; {} pages are lost{files}",
        to.display(),
        lost.len()
    );
    output.line(&json, text)
}

fn check(args: &DoctorArgs, output: &mut Output) -> Result {
    let spinner = output::spinner("checking every page, record and chunk");
    let checked = disk::check(&args.dir).map_err(Error::from).and_then(|report| {
        let sites = check_files(&args.dir)?;
        Ok((report, sites))
    });
    spinner.finish_and_clear();
    let (report, SitesReport { sites, revisions, chunks, bytes, findings }) = checked?;
    for finding in &report.findings {
        let json = json!({
            "file": finding.file, "offset": finding.offset, "what": finding.what, "advice": finding.advice,
        });
        output.line(&json, finding)?;
    }
    for finding in &findings {
        let mut json = of_finding(finding);
        json["advice"] = json!(finding.advice());
        output.line(&json, format_args!("{finding}; {}", finding.advice()))?;
    }
    let mib = report.log_bytes as f64 / f64::from(1 << 20);
    let count = report.findings.len() + findings.len();
    let json = json!({
        "pages": report.pages,
        "records": report.records,
        "log_bytes": report.log_bytes,
        "sites": sites,
        "revisions": revisions,
        "chunks": chunks,
        "chunk_bytes": bytes,
        "findings": count,
    });
    let mut text = format!("{} pages and {} records in {mib:.1} MiB of log", report.pages, report.records);
    if sites > 0 || chunks > 0 {
        text = format!("{text}; {sites} sites with {revisions} revisions, {bytes} bytes in {chunks} chunks");
    }
    if count == 0 {
        return output.line(&json, format_args!("{}: whole; {text}", args.dir.display()));
    }
    output.line(&json, text)?;
    Err(format!("{}: {count} things are damaged, see above", args.dir.display()).into())
}

/// Checks the published files of a store.
fn check_files(dir: &Path) -> Result<SitesReport> {
    match Db::builder().create(false).read_only(true).open(dir) {
        Ok(db) => {
            let checked = check_sites(&db, dir);
            db.close()?;
            Ok(checked?)
        }
        // Its damage was found, or its creation was interrupted.
        Err(_) if !has_chunks(dir) => Ok(SitesReport::default()),
        Err(error) => {
            let unread = SiteFinding::Records { space: None, site: None, error: error.into() };
            Ok(SitesReport { findings: vec![unread], ..SitesReport::default() })
        }
    }
}

fn of_finding(finding: &SiteFinding) -> Value {
    match finding {
        SiteFinding::Chunk { space, site, damage } => {
            let mut json = super::site::of_damage(damage);
            json["space"] = json!(space);
            json["site"] = json!(site);
            json
        }
        SiteFinding::Records { space, site, error } => {
            json!({"space": space, "site": site, "what": error.to_string()})
        }
        SiteFinding::Chunks(error) => json!({"what": error.to_string()}),
    }
}
