//! The commands of published files.

use super::{OperatorArgs, listen_address};
use clap::{Args, Subcommand};
use files::SiteName;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The store that has the sites.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilesTarget {
    /// The store's directory, opened inside this command; its chunks are in the folder `chunks` there. Without it
    /// THORP_DIR of the environment. Made by `publish` and `site create` where there is none, but not the directories
    /// above it.
    #[arg(long, value_name = "STORE")]
    pub(crate) dir: Option<PathBuf>,
    /// The space of the store, by name: each has sites of its own. Without it `main`.
    #[arg(long, value_name = "NAME", value_parser = super::space)]
    pub(crate) space: Option<String>,
}

/// `thorp publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The directory to publish: regular files, directories and symbolic links, with modes, owners, times, hard links
    /// and extended attributes of users. Devices, sockets and FIFOs are refused.
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// The site: 1 to 64 letters, digits, '-', '_' and '.'. Created with its first revision.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// Leaves out what matches: `*.tmp` at every level, `/cache` or `a/b` from the top, `**` for any folders. May be
    /// repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// A note for `thorp site log`.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
    /// Publishes only if this revision is still the newest: 0 for a site without any.
    #[arg(long, value_name = "REVISION")]
    pub(crate) base: Option<u64>,
    /// Reads the chunks that the store has, and writes damaged ones again, also those of a directory that has not
    /// changed.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) repair: bool,
    /// Publishes a directory without files in place of one that has some, which else is refused: a disk may not be
    /// mounted.
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Prints what would change, and publishes nothing. A store that is not there is made.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// A site, and perhaps a revision and a path in it: `NAME[@REVISION][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SitePath {
    pub(crate) site: SiteName,
    pub(crate) revision: Option<u64>,
    pub(crate) path: files::Path,
}

/// Parses `NAME[@REVISION][/PATH]`.
fn site_path(text: &str) -> Result<SitePath, String> {
    let (head, path) = text.split_once('/').unwrap_or((text, ""));
    let (name, revision) = match head.split_once('@') {
        Some((name, number)) => {
            let number = number.parse().ok().filter(|number| *number > 0);
            (name, Some(number.ok_or_else(|| format!("'{head}': a revision is a number, as in shop@17"))?))
        }
        None => (head, None),
    };
    let site = SiteName::parse(name).map_err(|error| error.to_string())?;
    let path = files::Path::parse(path.as_bytes()).map_err(|error| error.to_string())?;
    Ok(SitePath { site, revision, path })
}

/// `thorp site`.
#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// Creates a site without a revision, to set it up before the first publish.
    Create(SiteSetArgs),
    /// Changes the settings of a site.
    Set(SiteSetArgs),
    /// Lists the sites of a space.
    List(SiteListArgs),
    /// Prints the revisions of a site that are kept, the newest first.
    Log(SiteArgs),
    /// Prints the differences between two revisions of a site: `+` added, `-` removed, `~` changed.
    Diff(SiteDiffArgs),
    /// Publishes an earlier revision again, under a new number.
    Rollback(SiteRollbackArgs),
    /// Lists a directory of a site.
    Ls(SitePathArgs),
    /// Prints a file of a site as it is.
    Cat(SitePathArgs),
    /// Writes a site, or a file or directory of it, to a place that is new or empty.
    Get(SiteGetArgs),
    /// Serves a site over HTTP, until SIGTERM or Ctrl-C. No page mixes two revisions, and no visitor goes back. With
    /// --from it publishes a directory first, and again at each SIGHUP.
    Serve(SiteServeArgs),
    /// Reads every chunk of every revision that is kept, and reports those that are missing or damaged.
    Verify(SiteArgs),
    /// Removes a site with all its revisions. Their chunks stay until `thorp site collect`.
    Rm(SiteArgs),
    /// Removes the chunks that no revision of any site needs.
    Collect(SiteListArgs),
}

/// A command about a site.
#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// A command about all sites.
#[derive(Debug, Args)]
pub(crate) struct SiteListArgs {
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site create` and `set`.
#[derive(Debug, Args)]
pub(crate) struct SiteSetArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// How many of the newest revisions are kept, from the next publish on. Without `set`, a site keeps 10.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) keep: u32,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site diff`.
#[derive(Debug, Args)]
pub(crate) struct SiteDiffArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// The older revision.
    pub(crate) older: u64,
    /// The newer one. Without it the newest.
    pub(crate) newer: Option<u64>,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site rollback`.
#[derive(Debug, Args)]
pub(crate) struct SiteRollbackArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// The revision to bring back. Without it the one before the newest.
    #[arg(long, value_name = "REVISION")]
    pub(crate) to: Option<u64>,
    /// A note for `thorp site log`.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site ls` and `cat`.
#[derive(Debug, Args)]
pub(crate) struct SitePathArgs {
    /// The site, and perhaps a revision and a path in it.
    #[arg(value_name = "NAME[@REVISION][/PATH]", value_parser = site_path)]
    pub(crate) at: SitePath,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site get`.
#[derive(Debug, Args)]
pub(crate) struct SiteGetArgs {
    /// The site, and perhaps a revision and a path in it.
    #[arg(value_name = "NAME[@REVISION][/PATH]", value_parser = site_path)]
    pub(crate) at: SitePath,
    /// The directory to write to, which is new or empty, or the file, which is new.
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
}

/// `thorp site serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SiteServeArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// The address to listen on. Port 0 takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Publishes this directory at the start, and again at SIGHUP or `POST /reload`. While a site is served, the store
    /// is in use, and other commands cannot open it.
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Leaves out of --from what matches, as `thorp publish` does. May be repeated.
    #[arg(long, value_name = "PATTERN", requires = "from")]
    pub(crate) exclude: Vec<String>,
    /// PEM: the certificate, and behind it those that lead to its authority. Clients then speak HTTPS. May be repeated,
    /// each with a --tls-key: a client gets the first that is for the name it asks for.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Vec<PathBuf>,
    /// PEM: the private key of the certificate, without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Vec<PathBuf>,
    /// Stops when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) target: FilesTarget,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_has_a_revision_and_a_path_if_they_are_said() {
        let parse = |text| site_path(text).map(|it| (it.site.to_string(), it.revision, it.path.to_string()));
        assert_eq!(parse("shop"), Ok(("shop".into(), None, ".".into())));
        assert_eq!(parse("shop@17"), Ok(("shop".into(), Some(17), ".".into())));
        assert_eq!(parse("shop@17/img/a@b"), Ok(("shop".into(), Some(17), "img/a@b".into())));
        assert_eq!(parse("shop/"), Ok(("shop".into(), None, ".".into())));
        for wrong in ["", "@1", "shop@", "shop@0", "shop@x", "shop/../x", "-x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
