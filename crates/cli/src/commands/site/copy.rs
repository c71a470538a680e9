//! `site copy`: revisions of a site, or of all sites of a space, in another store.

use crate::cli::SiteCopyArgs;
use crate::error::usage;
use crate::output::{self, Output};
use crate::stopper::Interrupt;
use crate::{Error, Result};
use files::{Copied, FilesError, SiteCopy, SiteName, Sites};
use serde_json::json;
use std::ops::ControlFlow;

pub(super) fn run(args: &SiteCopyArgs, output: &mut Output) -> Result {
    let interrupt = Interrupt::watch()?;
    let given_up = || {
        let interrupt = interrupt.clone();
        move || interrupt.has_come()
    };
    if let (Some(from), Some(to)) = (&args.target.store.dir, &args.to_dir)
        && let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize())
        && from == to
    {
        return Err(usage(format!("--dir and --to-dir are one store, {}: name another one", to.display())));
    }
    let from = args.target.sites(given_up())?;
    let Some(at) = &args.at else {
        let sites = from.list()?;
        let to = args.destination().sites_or_create(None, given_up())?;
        let stores = Stores { from, to, interrupt };
        return stores.copy_all(sites.into_iter().map(|site| site.name), args.repair, output);
    };
    // A name that is wrong makes no store.
    from.head(&at.site)?;
    let to = args.destination().sites_or_create(None, given_up())?;
    let name = args.to.clone().unwrap_or_else(|| at.site.clone());
    let settings = SiteCopy { name, revision: at.revision, repair: args.repair };
    Stores { from, to, interrupt }.copy(&at.site, &settings, output)
}

/// The source and the destination of a copy.
struct Stores {
    from: Sites,
    to: Sites,
    interrupt: Interrupt,
}

impl Stores {
    /// Copies all sites of a space.
    fn copy_all(&self, names: impl Iterator<Item = String>, repair: bool, output: &mut Output) -> Result {
        let (mut all, mut failed) = (0, 0);
        for name in names {
            all += 1;
            let copied = SiteName::parse(&name).map_err(Error::from).and_then(|site| {
                let settings = SiteCopy { name: site.clone(), revision: None, repair };
                self.copy(&site, &settings, output)
            });
            if let Err(error) = copied {
                if self.interrupt.has_come() {
                    return Err(error);
                }
                failed += 1;
                output
                    .line(&json!({"site": name, "error": error.to_string()}), format!("{name}: not copied: {error}"))?;
            }
        }
        if failed == 0 {
            return Ok(());
        }
        Err(format!("{failed} of {all} sites were not copied as a whole, see above").into())
    }

    fn copy(&self, site: &SiteName, settings: &SiteCopy, output: &mut Output) -> Result {
        let bar = output::spinner("copy (chunks)");
        let mut revisions = 0;
        let copied = self.from.copy(site, &self.to, settings, &mut |copied| {
            revisions = copied.revisions;
            bar.set_position(copied.chunks);
            if self.interrupt.has_come() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        let Copied { revisions, head, gone, chunks, bytes } = match copied {
            Err(FilesError::Interrupted) => {
                return Err(format!(
                "interrupted: {revisions} revisions of '{site}' were copied and are whole; the same command continues"
            )
            .into());
            }
            copied => copied?,
        };
        let name = &settings.name;
        let json = json!({
            "site": site.as_str(), "to": name.as_str(), "revisions": revisions, "head": head, "gone": gone,
            "chunks": chunks, "bytes": bytes,
        });
        let at = head.map_or_else(|| name.to_string(), |head| format!("{name}@{head}"));
        let gone = if gone > 0 { format!("; {gone} had gone before they were read") } else { String::new() };
        let text = match (head, revisions) {
            (None, _) => format!("{at}: no revision yet"),
            (_, 0) if chunks == 0 => format!("{at}: nothing new to copy{gone}"),
            _ => format!("{at}: {revisions} revisions, {bytes} bytes in {chunks} chunks copied{gone}"),
        };
        output.line(&json, text)
    }
}
