//! `mount`: a site as a file system. It follows a store's server and has the site's files in a directory of its own, or
//! it opens a store's directory.

use super::follow::{FIRST_WITHIN, log, name, report};
use super::never;
use crate::Result;
use crate::cli::MountArgs;
use crate::error::{Error, usage};
use crate::operators::{Operators, and_operators};
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use files::{
    FilesError, Followed, MemberService, MountAccess, MountConfig, MountPassthrough, MountPlace, MountWrites,
    Publishes, SiteMount,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// The folder of files that are being written, beside the site's or the store's.
const WRITES: &str = "writes";

/// The folder of files that were assembled for passthrough, beside the site's or the store's.
const ASSEMBLED: &str = "assembled";

/// `thorp mount`.
pub(in crate::commands) fn mount(args: &MountArgs, output: &mut Output) -> Result {
    let mut config = MountConfig {
        space: args.target.space_name(),
        at: MountPlace::new(&args.at, args.cache.as_deref())?,
        allows_others: args.allow_other,
        memory: args.memory,
        refuses_stale: args.refuse_stale,
        access: MountAccess::Read,
    };
    let operators = Operators::listen(&args.operators)?;
    let (mount, revision) = match args.target.addresses()? {
        Some(addresses) => {
            let Some(dir) = args.cache.clone() else {
                return Err(usage(
                    "name a directory for the site's files with --cache, or a store's directory with --dir",
                ));
            };
            let (space, site, idle_after) = (args.target.space_name(), args.site.clone(), args.idle_after);
            let content_bytes = args.cache_bytes.map(|bytes| bytes as u64);
            let followed = Followed { addresses, space, site, dir: dir.clone(), idle_after, content_bytes };
            let member = Arc::new(MemberService::start(followed)?);
            report(&member, output.is_json())?;
            config.access = passthrough(args, &dir, output)?;
            if args.write {
                let is_over = Arc::new(AtomicBool::new(false));
                let (publishes, reports) = (publishes(args, &is_over)?, reports(output.is_json())?);
                config.access = MountAccess::Write(MountWrites { publishes, dir: dir.join(WRITES), is_over, reports });
            }
            let revision = member.wait_ready(FIRST_WITHIN);
            (SiteMount::follow(member, &config)?, revision)
        }
        None if args.cache.is_some() => {
            return Err(usage("--cache is for a site of a store's server: name it with --server"));
        }
        None => {
            let sites = Arc::new(args.target.sites(never)?);
            if let Some(dir) = sites.directory() {
                config.access = passthrough(args, dir, output)?;
            }
            if let Some(dir) = sites.directory().filter(|_| args.write) {
                let (dir, is_over, reports) = (dir.join(WRITES), Arc::default(), reports(output.is_json())?);
                let publishes = Publishes::Each(sites.clone());
                config.access = MountAccess::Write(MountWrites { publishes, dir, is_over, reports });
            }
            let revision = sites.head(&args.site)?.map(|head| head.number);
            (SiteMount::start(sites, args.site.clone(), &config)?, revision)
        }
    };
    run(args, mount, operators, revision, output)
}

/// How changes are published at the store's server, until the mount is over.
fn publishes(args: &MountArgs, is_over: &Arc<AtomicBool>) -> Result<Publishes> {
    let (mut store, is_over) = (args.target.clone(), is_over.clone());
    store.store.server = args.publish_to.clone().or(store.store.server);
    let addresses = store.addresses()?.unwrap_or_default();
    let connect = move || {
        let is_over = is_over.clone();
        store.sites(move || is_over.load(SeqCst))
    };
    if !args.private {
        return Ok(Publishes::Each(Arc::new(connect()?)));
    }
    let failed = move |error: Error| FilesError::Server(addresses.clone(), error.to_string());
    Ok(Publishes::Together(Arc::new(move || connect().map_err(&failed))))
}

/// The passthrough of a mount with this directory, if it was asked for. Without it, what an earlier mount has assembled
/// is removed.
fn passthrough(args: &MountArgs, dir: &Path, output: &Output) -> Result<MountAccess> {
    let dir = dir.join(ASSEMBLED);
    let Some(bytes) = args.passthrough else {
        MountPassthrough::remove(&dir)?;
        return Ok(MountAccess::Read);
    };
    Ok(MountAccess::Passthrough(MountPassthrough { dir, bytes: bytes as u64, reports: reports(output.is_json())? }))
}

/// Reports on standard error files that were not published, and why there is no passthrough.
fn reports(is_json: bool) -> Result<Sender<String>> {
    let (sender, reports) = channel::<String>();
    let run = move || {
        for report in reports {
            log(is_json, &json!({"trouble": report}), &report);
        }
    };
    thread::Builder::new().name("reports".to_owned()).spawn(run)?;
    Ok(sender)
}

/// Shows the site until it is unmounted, or told to stop.
fn run(
    args: &MountArgs,
    mut mount: SiteMount,
    operators: Operators,
    revision: Option<u64>,
    output: &mut Output,
) -> Result {
    let unmounter = mount.unmounter();
    let stop = move || unmounter.unmount();
    when_told(stop.clone())?;
    if args.until_stdin_closes {
        when_stdin_closes(stop);
    }
    let admin = operators.address();
    let _operators = operators.serve(mount.observed())?;
    let (at, site) = (mount.at().display().to_string(), args.site.as_str());
    let json = json!({"mount": at, "site": site, "revision": revision, "admin": admin});
    let text = format_args!("ready: {} on {at}{}", name(site, revision), and_operators(admin)).to_string();
    output.line(&json, text)?;
    output.flush()?;
    let (json, text) = match mount.wait()? {
        0 => (json!({"stopped": "mount"}), "stopped".to_owned()),
        open => {
            (json!({"stopped": "mount", "open": open}), format!("stopped ({open} open files can no longer be read)"))
        }
    };
    output.line(&json, text)
}
