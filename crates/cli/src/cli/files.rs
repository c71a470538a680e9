//! The commands of published files.

use super::{OperatorArgs, StoreTarget, Target, listen_address, size, space};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand};
use files::{BucketUrl, Consistency, SiteName, WhenStale};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The arguments of `thorp publish` that do not go with a mount's changes.
const NOT_OF_MOUNTS: [&str; 12] =
    ["from", "site", "exclude", "base", "merge", "repair", "allow_empty", "now", "chunks", "server", "dir", "space"];

/// The options of a server that follows a store, and publishes nothing.
const FOLLOWERS: [&str; 4] = ["cache", "cache_bytes", "refuse_stale", "idle_after"];

/// `thorp publish`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct PublishArgs {
    /// The directory to publish: regular files, directories and symbolic links, with modes, owners, times, hard links
    /// and extended attributes of users. Devices, sockets and FIFOs are refused.
    #[arg(value_name = "DIR", required_unless_present = "path")]
    pub(crate) from: Option<PathBuf>,
    /// The site: 1 to 64 letters, digits, '-', '_' and '.'. Created with its first revision.
    #[arg(value_parser = SiteName::parse, required_unless_present = "path")]
    pub(crate) site: Option<SiteName>,
    /// Publishes the private changes of a mount (`thorp mount --write --private`) instead of a directory: those at this
    /// path of it and below, as one revision. With `--dry-run`, lists them.
    #[arg(long, value_name = "PATH", conflicts_with_all = NOT_OF_MOUNTS)]
    pub(crate) path: Option<PathBuf>,
    /// Replaces what the site has changed, too, since these private changes were made.
    #[arg(long, requires = "path", conflicts_with_all = NOT_OF_MOUNTS)]
    pub(crate) overwrite: bool,
    /// Drops the private changes, and publishes nothing. Then the mount shows what the site has.
    #[arg(
        long,
        requires = "path",
        conflicts_with_all = NOT_OF_MOUNTS,
        conflicts_with_all = ["overwrite", "note", "wait", "dry_run"]
    )]
    pub(crate) discard: bool,
    /// Leaves out what matches: `*.tmp` at every level, `/cache` or `a/b` from the top, `**` for any folders. May be
    /// repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// A note for `thorp site log`.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
    /// Publishes only if this revision is still the newest, or with `--merge`: 0 for a site without any. The default is
    /// the revision that is the newest when the publish begins.
    #[arg(long, value_name = "REVISION")]
    pub(crate) base: Option<u64>,
    /// Makes the changes since `--base` to the newest revision, if another publish came first. Refused, with the paths,
    /// if that has changed the same files. The base must be kept: see `thorp site set --keep`.
    #[arg(long)]
    pub(crate) merge: bool,
    /// Reads every file and its stored chunks, and writes damaged and missing chunks again, even if the directory has
    /// not changed. The chunks of a server are fetched for this.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) repair: bool,
    /// Publishes a directory without files in place of one that has some, which else is refused: a disk may not be
    /// mounted.
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Waits until no server shows an older revision without saying so. Ctrl-C ends the wait, and the revision stays.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// Ends the locks of files that it changes, instead of waiting for their holders.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) now: bool,
    /// Keeps the large chunks of the store's directory in a bucket from now on, as `thorp serve --chunks` does. For a
    /// store that is not served.
    #[arg(long, value_name = "URL", conflicts_with = "dry_run")]
    pub(crate) chunks: Option<BucketUrl>,
    /// Prints what would change, and publishes nothing: `+` added, `-` removed, `~` changed, with `--merge` `!` for
    /// conflicts. A store that is not there is made.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) target: Target,
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
    #[command(after_help = CONSISTENCY_HELP)]
    Create(SiteSetArgs),
    /// Changes settings of a site.
    #[command(
        after_help = CONSISTENCY_HELP,
        group = ArgGroup::new("settings").args(SITE_SETTINGS).multiple(true).required(true)
    )]
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
    /// Copies the revisions of a site to another store: as a backup, and back. Those behind the newest one there are
    /// copied, the oldest first, and only the chunks that are missing there.
    #[command(after_help = COPY_HELP)]
    Copy(SiteCopyArgs),
    /// Serves a site over HTTP, until SIGTERM or Ctrl-C. No page mixes two revisions, and no visitor goes back. From a
    /// store's server it follows the site and has whole revisions in --cache; from a store's directory it publishes
    /// --from first, and again at each SIGHUP.
    Serve(SiteServeArgs),
    /// Prints the newest revision of a site, and how the servers that follow it stand.
    Status(SiteArgs),
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
    pub(crate) target: Target,
}

/// A command about all sites.
#[derive(Debug, Args)]
pub(crate) struct SiteListArgs {
    #[command(flatten)]
    pub(crate) target: Target,
}

const CONSISTENCY_HELP: &str = "\
Consistency:
  publish     each revision is pushed to all servers: visitors never wait, and see one that was the newest at most a
              lease ago
  callback    servers are told that there is a newer revision, and fetch it for the next visitor, who waits: for sites
              that change more often than they are read
  sequential  a publish waits until no server shows the revision before, or for the leases of those that are gone:
              visitors see the newest revision always, and wait for it";

/// The options of `thorp site set`, of which one is needed.
const SITE_SETTINGS: [&str; 4] = ["keep", "consistency", "lease_ms", "when_stale"];

/// One of several values, by its name.
fn named<T, const N: usize>(all: [T; N], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let find = move |text: String| all.into_iter().find(|known| name(*known) == text).ok_or("unknown");
    PossibleValuesParser::new(all.map(name)).try_map(find)
}

/// `thorp site create` and `set`.
#[derive(Debug, Args)]
pub(crate) struct SiteSetArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// How many of the newest revisions are kept, from the next publish on; 10 of a site that is created without it.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) keep: Option<u32>,
    /// The consistency that visitors see at servers that follow the site: `publish` unless another one was set.
    #[arg(long, value_name = "MODEL", value_parser = named(Consistency::ALL, Consistency::name))]
    pub(crate) consistency: Option<Consistency>,
    /// How long a server that follows the site may show what it was told last, if the store does not answer, before it
    /// is stale, in milliseconds: that of the store's `thorp serve --site-lease-ms` or less. A site without this
    /// setting has the store's.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(500..=600_000))]
    pub(crate) lease_ms: Option<u32>,
    /// Whether a stale server keeps serving the site (`serve`), with a field that says for how long there may have been
    /// something newer, or answers 503 (`refuse`). The default is `serve`.
    #[arg(long, value_name = "ACTION", value_parser = named(WhenStale::ALL, WhenStale::name))]
    pub(crate) when_stale: Option<WhenStale>,
    #[command(flatten)]
    pub(crate) target: Target,
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
    pub(crate) target: Target,
}

/// `thorp site rollback`.
#[derive(Debug, Args)]
pub(crate) struct SiteRollbackArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// The revision to bring back. Without it the one before the newest; after a rollback, the one before the revision
    /// that it brought back.
    #[arg(long, value_name = "REVISION")]
    pub(crate) to: Option<u64>,
    /// A note for `thorp site log`.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) note: String,
    /// Waits until no server shows another revision without saying so. Ctrl-C ends the wait, and the rollback stays.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Ends the locks of files that it changes, instead of waiting for their holders.
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp site ls` and `cat`.
#[derive(Debug, Args)]
pub(crate) struct SitePathArgs {
    /// The site, and perhaps a revision and a path in it.
    #[arg(value_name = "NAME[@REVISION][/PATH]", value_parser = site_path)]
    pub(crate) at: SitePath,
    #[command(flatten)]
    pub(crate) target: Target,
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
    pub(crate) target: Target,
}

/// Parses `NAME[@REVISION]`.
fn site_revision(text: &str) -> Result<SitePath, String> {
    let at = site_path(text)?;
    if text.contains('/') { Err(format!("'{text}': a site is copied as a whole, without a path")) } else { Ok(at) }
}

const COPY_HELP: &str = "\
A copy in a directory keeps the numbers and times of its source, like a copy of the store's directory; servers that
followed a lost store follow one that is served from it. At a server, copied revisions follow the newest one there
under the server's own numbers, and each is the newest for a moment. An interrupted copy has whole revisions only:
the same command continues it.

Examples:
  thorp site copy --all --server store:7411 --to-dir /backup/shop     a backup, every night; publishes go on
  thorp site collect --dir /backup/shop                               its chunks that no kept revision needs
  thorp site copy --all --dir /backup/shop --to-dir /srv/store        a restore; then `thorp serve --dir /srv/store`
  thorp site copy shop@17 --dir /backup/shop --to-server store:7411   one revision, as the newest of a store that runs";

/// `thorp site copy`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("destination").args(["to_server", "to_dir"]).required(true))]
pub(crate) struct SiteCopyArgs {
    /// The site, and perhaps the only revision to copy. The default is every revision that is kept.
    #[arg(value_name = "NAME[@REVISION]", value_parser = site_revision, required_unless_present = "all")]
    pub(crate) at: Option<SitePath>,
    /// Copies every site of the space, under its own name. If one fails, the others are copied all the same.
    #[arg(long, conflicts_with_all = ["at", "to"])]
    pub(crate) all: bool,
    /// The address of the store to copy to.
    #[arg(long, value_name = "ADDR")]
    pub(crate) to_server: Option<String>,
    /// The directory of the store to copy to: made if there is none, but not the directories above it. No other process
    /// may have it open.
    #[arg(long, value_name = "DIR")]
    pub(crate) to_dir: Option<PathBuf>,
    /// The space to copy to, made if there is none. The default is that of the source.
    #[arg(long, value_name = "NAME", value_parser = space)]
    pub(crate) to_space: Option<String>,
    /// The name of the copy. The default is that of the site.
    #[arg(long, value_name = "SITE", value_parser = SiteName::parse)]
    pub(crate) to: Option<SiteName>,
    /// Reads the chunks of the copy, also those of revisions that are there, and writes damaged ones again. All chunks
    /// are read from the source for this.
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl SiteCopyArgs {
    /// The store to copy to.
    pub(crate) fn destination(&self) -> Target {
        let store = StoreTarget { server: self.to_server.clone(), dir: self.to_dir.clone() };
        Target { store, space: self.to_space.clone().or_else(|| self.target.space.clone()) }
    }
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
    /// The directory for the site's files, where it follows a store's server: made if there is none, but not the
    /// directories above it. A server that comes back to it serves at once what is there.
    #[arg(long, value_name = "FILES", conflicts_with_all = ["from", "dir"])]
    pub(crate) cache: Option<PathBuf>,
    /// The most bytes of content in the directory. The server fetches the directories of each revision, and a file's
    /// content for its first visitor, who waits for it; content that was used longest ago makes room. Default: all of
    /// each revision is kept, and no visitor waits.
    #[arg(long, value_name = "SIZE", requires = "cache", conflicts_with_all = ["from", "dir"], value_parser = size)]
    pub(crate) cache_bytes: Option<usize>,
    /// Refuses to serve a revision that may not be the newest, as while the store cannot be reached: 503. Without it
    /// such answers have the field `Thorp-Stale`, for how many seconds.
    #[arg(long, requires = "cache", conflicts_with_all = ["from", "dir"])]
    pub(crate) refuse_stale: bool,
    /// After so many unread revisions, the server is sent no more of them, and fetches the newest for the next visitor,
    /// who waits for it. Once visitors come as often as revisions, it is sent each again. Default: it is sent each.
    #[arg(
        long,
        value_name = "REVISIONS",
        requires = "cache",
        conflicts_with_all = ["from", "dir"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) idle_after: Option<u32>,
    /// Memory for directories and files that were read lately; others are read from the disk and verified again.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub(crate) memory: usize,
    /// Publishes this directory at the start, and again at SIGHUP or `POST /reload`. For a store's directory, which
    /// other commands cannot open while the site is served.
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Leaves out of --from what matches, as `thorp publish` does. May be repeated.
    #[arg(long, value_name = "PATTERN", requires = "from", conflicts_with_all = FOLLOWERS)]
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
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

/// `thorp mount`.
#[cfg(feature = "fuse")]
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct MountArgs {
    /// The site.
    #[arg(value_parser = SiteName::parse)]
    pub(crate) site: SiteName,
    /// The directory to mount on. If a process was killed that had it mounted, that mount is undone first.
    #[arg(value_name = "DIRECTORY")]
    pub(crate) at: PathBuf,
    /// The directory for the site's files, where it follows a store's server: made if there is none, but not the
    /// directories above it. A mount that comes back to it shows at once what is there.
    #[arg(long, value_name = "FILES", conflicts_with = "dir")]
    pub(crate) cache: Option<PathBuf>,
    /// The most bytes of content in the directory. The mount fetches the directories of each revision, and a file's
    /// content for its first reader, who waits for it; content that was used longest ago makes room. Default: all of
    /// each revision is kept, and no reader waits.
    #[arg(long, value_name = "SIZE", requires = "cache", conflicts_with = "dir", value_parser = size)]
    pub(crate) cache_bytes: Option<usize>,
    /// Lets programs change the site. A change of a name or of attributes is published at once, and a file when it is
    /// closed, each as its own revision. Concurrent changes by others are merged.
    #[arg(long)]
    pub(crate) write: bool,
    /// Keeps these changes private: programs on this host see them at once, and `thorp publish --path` publishes them
    /// together, as one revision. Until then they are in the --cache directory, even while the site is not mounted.
    #[arg(long, requires_all = ["write", "cache"], conflicts_with_all = ["dir", "cache_bytes", "passthrough"])]
    pub(crate) private: bool,
    /// Has the kernel read files by itself, from copies of this many bytes at most, beside the chunks: a file is copied
    /// after its first open, and read like a local file from the next open on. Needs root and Linux 6.9; without them,
    /// files are read as usual. The kernel rejects it for files that are written, and it needs whole files.
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["write", "cache_bytes"], value_parser = size)]
    pub(crate) passthrough: Option<usize>,
    /// The address of the store for these changes, if --server is a group's redirector, which takes none.
    #[arg(long, value_name = "ADDR", requires = "write", conflicts_with_all = ["dir", "passthrough"])]
    pub(crate) publish_to: Option<String>,
    /// Lets other users read the files, too, by their permissions. Users other than root need `user_allow_other` in
    /// /etc/fuse.conf for this.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Opens no file of a revision that may not be the newest, as while the store cannot be reached: ESTALE. Without it
    /// `.thorp/status` says for how long.
    #[arg(long, requires = "cache", conflicts_with = "dir")]
    pub(crate) refuse_stale: bool,
    /// After so many unread revisions, the mount is sent no more of them, and fetches the newest for the next open,
    /// which waits for it. Once files are opened as often as there are revisions, it is sent each again. Default: it is
    /// sent each.
    #[arg(
        long,
        value_name = "REVISIONS",
        requires = "cache",
        conflicts_with = "dir",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) idle_after: Option<u32>,
    /// Memory for directories and files that were read lately, beside the kernel's own.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    pub(crate) memory: usize,
    /// Stops when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

#[cfg(feature = "fuse")]
pub(crate) const MOUNT_HELP: &str = "\
Behind the site's own files, and not listed:
  .thorp/status   the revision, and for how many seconds there may have been a newer one, as JSON
  .thorp/newest   a link to the newest revision: `cd -P` there for files of one revision
  .thorp/at/17    revision 17, while it is kept here";

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
