//! `publish` and `site`: directories as revisions of a site, at a store's server or in its directory.

mod copy;
mod follow;
#[cfg(feature = "fuse")]
pub(super) mod mount;
#[cfg(feature = "fuse")]
mod private;
mod serve;

use crate::cli::{
    PublishArgs, SiteArgs, SiteCommand, SiteDiffArgs, SiteGetArgs, SitePath, SitePathArgs, SiteRollbackArgs,
    SiteSetArgs, Target,
};
use crate::error::usage;
use crate::output::{self, Output, visible};
use crate::stopper::Interrupt;
use crate::{Error, Result};
use files::{
    Damage, Difference, Entry, FilesError, Follower, Kind, Part, Publish, Published, Revision, Rollback, SiteName,
    SiteSettings, export,
};
use responses::Time;
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

/// `thorp publish`.
pub(super) fn publish(args: &PublishArgs, output: &mut Output) -> Result {
    #[cfg(feature = "fuse")]
    if let Some(path) = &args.path {
        return private::publish(path, args, output);
    }
    let Some((from, site)) = args.from.as_ref().zip(args.site.as_ref()) else {
        return Err(usage("name the directory to publish, and the site"));
    };
    if !from.is_dir() {
        return Err(format!("{} is not a directory: name the directory to publish", from.display()).into());
    }
    let interrupt = Interrupt::watch()?;
    let waits = interrupt.clone();
    let sites = args.target.sites_or_create(args.chunks.as_ref(), move || waits.has_come())?;
    let (note, exclude) = (args.note.clone(), args.exclude.clone());
    let &PublishArgs { base, merge, repair, allow_empty, wait, now, .. } = args;
    let settings = Publish { base, merge, note, exclude, allow_empty, wait, locks: Vec::new(), now, repair };
    let bar = output::spinner("publish (files)");
    let mut on = |progress: files::Progress| {
        bar.set_position(progress.files);
        if interrupt.has_come() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if args.dry_run {
        let mut differences = Vec::new();
        let report = &mut |path: &files::Path, difference| differences.push((path.to_string(), difference));
        let compared = sites.compare(site, from, &settings, &mut on, report);
        bar.finish_and_clear();
        for (path, difference) in &differences {
            print_difference(path, *difference, output)?;
        }
        return compared.map(drop).map_err(Error::from);
    }
    let published = sites.publish(site, from, &settings, &mut on)?;
    bar.finish_and_clear();
    print_published(site, &published, output)
}

fn print_published(site: &SiteName, published: &Published, output: &mut Output) -> Result {
    let revision = &published.revision;
    let mut json = of_revision(revision);
    json["site"] = json!(site.as_str());
    json["is_new"] = json!(published.is_new);
    json["merged_with"] = json!(published.merged_with);
    json["chunks_written"] = json!(published.chunks_written);
    json["bytes_written"] = json!(published.bytes_written);
    json["files_read"] = json!(published.files_read);
    let Revision { number, files, bytes, .. } = revision;
    let text = if published.is_new {
        let merged = published.merged_with.map_or_else(String::new, |with| format!("merged with {with}: "));
        format!("{site}@{number}: {merged}{files} files, {bytes} bytes; {} bytes written", published.bytes_written)
    } else {
        format!("{site}@{number}: nothing has changed")
    };
    output.line(&json, text)
}

/// The answer of a command that waits until its answer is there.
fn never() -> bool {
    false
}

/// `thorp site`.
pub(super) fn run(command: &SiteCommand, output: &mut Output) -> Result {
    match command {
        SiteCommand::Create(args) => create(args, output),
        SiteCommand::Set(args) => set(args, output),
        SiteCommand::List(args) => list(&args.target, output),
        SiteCommand::Log(args) => log(args, output),
        SiteCommand::Diff(args) => diff(args, output),
        SiteCommand::Rollback(args) => rollback(args, output),
        SiteCommand::Ls(args) => ls(args, output),
        SiteCommand::Cat(args) => cat(args, output),
        SiteCommand::Get(args) => get(args, output),
        SiteCommand::Copy(args) => copy::run(args, output),
        SiteCommand::Serve(args) => serve::serve(args, output),
        SiteCommand::Status(args) => status(args, output),
        SiteCommand::Verify(args) => verify(args, output),
        SiteCommand::Rm(args) => {
            args.target.sites(never)?.remove(&args.site)?;
            if output.is_json() { output.raw(json!({"removed": args.site.as_str()})) } else { Ok(()) }
        }
        SiteCommand::Collect(args) => {
            let collected = args.target.sites(never)?.collect()?;
            let json = json!({"chunks": collected.chunks, "bytes": collected.bytes});
            output.line(&json, format!("{} chunks of {} bytes removed", collected.chunks, collected.bytes))
        }
    }
}

fn create(args: &SiteSetArgs, output: &mut Output) -> Result {
    args.target.sites_or_create(None, never)?.create(&args.site, settings(args))?;
    print_settings(&args.site, settings(args).or_usual(), output)
}

fn set(args: &SiteSetArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    sites.set(&args.site, settings(args))?;
    print_settings(&args.site, sites.settings(&args.site)?.into(), output)
}

fn settings(args: &SiteSetArgs) -> SiteSettings {
    let lease = args.lease_ms.map(|lease| Duration::from_millis(lease.into()));
    SiteSettings { keep: args.keep, lease, consistency: args.consistency, when_stale: args.when_stale }
}

fn print_settings(site: &SiteName, settings: SiteSettings, output: &mut Output) -> Result {
    let keep = settings.keep.unwrap_or_default();
    let consistency = settings.consistency.unwrap_or_default().name();
    let when_stale = settings.when_stale.unwrap_or_default().name();
    let lease_ms = settings.lease.map(|lease| lease.as_millis() as u64);
    let json = json!({
        "site": site.as_str(), "keep": keep, "consistency": consistency, "lease_ms": lease_ms, "when_stale": when_stale,
    });
    let lease = lease_ms.map_or("the store's".to_owned(), |lease| format!("{lease} ms"));
    let text = format!("keeps {keep} revisions, {consistency} consistency, lease: {lease}, when stale: {when_stale}");
    output.line(&json, format!("{site}: {text}"))
}

fn list(target: &Target, output: &mut Output) -> Result {
    for site in target.sites(never)?.list()? {
        let head = site.head.as_ref();
        let json = json!({
            "site": site.name, "head": head.map(of_revision), "revisions": site.revisions,
            "keep": site.settings.keep, "consistency": site.settings.consistency.name(), "created_s": site.created_s,
        });
        let text = match head {
            Some(head) => format!("{}@{}  {} files, {} bytes", site.name, head.number, head.files, head.bytes),
            None => format!("{}  no revision yet", site.name),
        };
        output.line(&json, text)?;
    }
    Ok(())
}

fn log(args: &SiteArgs, output: &mut Output) -> Result {
    for revision in args.target.sites(never)?.log(&args.site)? {
        let again = revision.of.map_or_else(String::new, |of| format!("  ({of} again)"));
        let note = visible(&revision.note);
        let (number, at) = (revision.number, Time::from_unix_s(revision.published_s).to_rfc3339());
        let text = format!("{number}  {at}  {} files, {} bytes{again}  {note}", revision.files, revision.bytes);
        output.line(&of_revision(&revision), text.trim_end())?;
    }
    Ok(())
}

fn diff(args: &SiteDiffArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    let newer = match args.newer {
        Some(newer) => newer,
        None => sites.view(&args.site, None)?.revision().number,
    };
    let mut printed = Ok(());
    sites.diff(&args.site, args.older, newer, &mut |path, change| {
        if printed.is_ok() {
            printed = print_difference(&path.to_string(), Difference::from(&change), output);
        }
    })?;
    printed
}

fn status(args: &SiteArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    let followers = sites.followers(&args.site)?;
    let head = sites.head(&args.site)?;
    let number = head.as_ref().map(|head| head.number);
    let connected = followers.iter().filter(|it| it.is_connected).count();
    let consistency = sites.settings(&args.site)?.consistency.name();
    let json = json!({
        "site": args.site.as_str(), "revision": number, "consistency": consistency, "servers": followers.len(),
        "connected": connected,
    });
    let revision = number.map_or_else(|| "no revision yet".to_owned(), |number| format!("revision {number}"));
    let servers = format!("servers that follow it: {connected}");
    output.line(&json, format!("{}: {revision}, {consistency} consistency; {servers}", args.site))?;
    for Follower { life, revision, lease, holds, is_connected } in followers {
        let lease_ms = lease.as_millis() as u64;
        let json = json!({
            "server": format!("{life:016x}"), "revision": revision, "lease_ms": lease_ms, "holds": holds,
            "is_connected": is_connected,
        });
        let away = if is_connected { "" } else { ", not connected" };
        let lease = lease.as_secs_f64();
        output.line(&json, format!("  {life:016x}  revision {revision}, lease {lease:.1} s, holds {holds}{away}"))?;
    }
    Ok(())
}

fn print_difference(path: &str, difference: Difference, output: &mut Output) -> Result {
    let (sign, name) = match difference {
        Difference::Added => ('+', "added"),
        Difference::Removed => ('-', "removed"),
        Difference::Changed => ('~', "changed"),
        Difference::Conflict => ('!', "conflict"),
    };
    output.line(&json!({"path": path, "change": name}), format_args!("{sign} {path}"))
}

fn rollback(args: &SiteRollbackArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    let sites = args.target.sites(move || interrupt.has_come())?;
    let before = || sites.before_newest(&args.site).map(|before| before.map(|it| it.number));
    let Some(to) = args.to.map_or_else(before, |to| Ok(Some(to)))? else {
        let site = &args.site;
        return Err(format!(
            "'{site}' has no revision before the newest, or before the one that it brought back: name one with --to; \
             `thorp site log {site}` lists them"
        )
        .into());
    };
    let settings = Rollback { note: args.note.clone(), wait: args.wait, now: args.now };
    let revision = sites.rollback(&args.site, to, &settings)?;
    let mut json = of_revision(&revision);
    json["site"] = json!(args.site.as_str());
    output.line(&json, format!("{}@{}: {to} again", args.site, revision.number))
}

fn ls(args: &SitePathArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    let SitePath { site, revision, path } = &args.at;
    for (name, entry) in sites.view(site, *revision)?.list(path)? {
        let (kind, text) = match &entry.kind {
            Kind::Directory(_) => ("directory", format!("{name}/")),
            Kind::File { size, .. } => ("file", format!("{name}  {size} bytes")),
            Kind::Symlink(target) => ("symlink", format!("{name} -> {}", visible(&String::from_utf8_lossy(target)))),
        };
        let json =
            json!({"name": name.to_string(), "kind": kind, "size": size_of(&entry), "mode": entry.attributes.mode});
        output.line(&json, text)?;
    }
    Ok(())
}

fn size_of(entry: &Entry) -> Option<u64> {
    match entry.kind {
        Kind::File { size, .. } => Some(size),
        Kind::Directory(_) | Kind::Symlink(_) => None,
    }
}

fn cat(args: &SitePathArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    let SitePath { site, revision, path } = &args.at;
    let view = sites.view(site, *revision)?;
    let not_a_file = || Error::from(FilesError::WrongKind(path.to_string(), "a file"));
    if path.names().is_empty() {
        return Err(not_a_file());
    }
    let entry = view.find(path)?;
    let size = size_of(&entry).ok_or_else(not_a_file)?;
    let mut written = Ok(());
    view.read(&entry, 0..size, &mut |bytes| {
        if written.is_ok() {
            written = output.writer().write_all(&bytes);
        }
        // A reader that has hung up has enough of it.
        if written.is_ok() { Ok(()) } else { Err(FilesError::Interrupted) }
    })
    .or_else(|error| if written.is_err() { Ok(()) } else { Err(error) })?;
    written.map_err(output::cannot_write)
}

fn get(args: &SiteGetArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    let waits = interrupt.clone();
    let sites = args.target.sites(move || waits.has_come())?;
    let SitePath { site, revision, path } = &args.at;
    let view = sites.view(site, *revision)?;
    let bar = output::spinner("get (files)");
    let exported = export(&view, path, &args.to, &mut |exported| {
        bar.set_position(exported.files);
        if interrupt.has_come() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    let exported = match exported {
        Err(FilesError::Interrupted) => {
            return Err(format!("interrupted: a part of it is in {}", args.to.display()).into());
        }
        exported => exported?,
    };
    let number = view.revision().number;
    let json = json!({"site": site.as_str(), "revision": number, "files": exported.files, "bytes": exported.bytes});
    output.line(&json, format!("{site}@{number}: {} files, {} bytes", exported.files, exported.bytes))
}

fn verify(args: &SiteArgs, output: &mut Output) -> Result {
    let sites = args.target.sites(never)?;
    let mut found = Vec::new();
    let whole = sites.verify(&args.site, &mut |damage| found.push(damage))?;
    for damage in &found {
        output.line(&of_damage(damage), format!("{}@{}: {damage}", args.site, damage.revision))?;
    }
    let is_complete = !found.iter().any(Damage::hides_more);
    let json = json!({"whole": whole, "damaged": found.len(), "is_complete": is_complete});
    let rest = if is_complete { "" } else { "; nothing below damaged ones was checked" };
    output.line(&json, format!("{whole} chunks are whole{rest}"))?;
    match found.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} chunks of '{}' are damaged or missing: `thorp publish --repair` of the directory writes them again",
            args.site
        )
        .into()),
    }
}

pub(super) fn of_damage(damage: &Damage) -> Value {
    let Damage { revision, path, part, error } = damage;
    let part = match part {
        Part::Directory => "directory",
        Part::List => "list",
        Part::Piece => "content",
    };
    json!({
        "revision": revision, "path": path.to_string(), "part": part, "hides_more": damage.hides_more(),
        "damage": error.to_string(),
    })
}

fn of_revision(revision: &Revision) -> Value {
    json!({
        "revision": revision.number, "root": revision.root().to_string(), "published_s": revision.published_s,
        "note": revision.note, "files": revision.files, "bytes": revision.bytes, "of": revision.of,
    })
}
