//! The command line, as clap reads it; the commands' options by what they are for. `docs/cli.md` is generated from
//! here.

mod cluster;
mod condition;
mod files;
mod operators;
mod store;
#[cfg(feature = "lab")]
mod trials;
mod volume;
mod web;

use clap::{Args, Parser, Subcommand};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

pub(crate) use cluster::{
    CLUSTER_HELP, ClusterAddArgs, ClusterCommand, ClusterCreateArgs, ClusterDrainArgs, ClusterMoveArgs,
    ClusterStatusArgs,
};
#[cfg(feature = "fuse")]
pub(crate) use files::{MOUNT_HELP, MountArgs};
pub(crate) use files::{
    PublishArgs, SiteArgs, SiteCommand, SiteCopyArgs, SiteDiffArgs, SiteGetArgs, SitePath, SitePathArgs,
    SiteRollbackArgs, SiteServeArgs, SiteSetArgs,
};
pub(crate) use operators::OperatorArgs;
pub(crate) use store::{
    DanglingArg, DoctorArgs, DumpArgs, FindArgs, GetArgs, GroupArgs, LoadArgs, LsArgs, PutArgs, RmArgs, ScanArgs,
    ServeArgs, SpacesArgs, StatusArgs, StoreArgs,
};
#[cfg(feature = "lab")]
pub(crate) use trials::{
    BenchArgs, BenchCase, BenchFigure, BenchRival, DemoArgs, DemoClusterArgs, DemoFilesArgs, DemoScene, DemoVolumeArgs,
    DemoWebArgs, ExperimentArgs, LabCommand, LabUpArgs, MemberArgs, NewcomerArgs, Paper, ShopArgs, TortureArgs,
};
pub(crate) use volume::{
    HolderArgs, VolumeAck, VolumeAttachArgs, VolumeCacheFailure, VolumeCommand, VolumeCreateArgs, VolumeDegraded,
    VolumeDetachArgs, VolumeExportArgs, VolumeHoldersArgs, VolumeImportArgs, VolumeListArgs, VolumePlace,
    VolumeRebuildArgs, VolumeRegistryCommand, VolumeRemoveArgs, VolumeResizeArgs, VolumeScrubArgs, VolumeSnapshotArgs,
    VolumeStatusArgs,
};
pub(crate) use web::{
    BrowserCache, HomeArgs, InvalidateArgs, LogArgs, LogFormat, PolicyArgs, ProxyArgs, Source, VerifyArgs, WatchArgs,
    WatchTask, WhoArgs, WhyArgs,
};

/// Where a store listens when nobody says otherwise.
pub(crate) const DEFAULT_SERVER: &str = "127.0.0.1:7411";

/// A coherent cache and transactional object store: shared data, close to those who use it and never stale.
#[derive(Debug, Parser)]
#[command(name = "thorp", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON, one value per line, instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  thorp demo                                    everything at once, in a minute
  thorp serve --dir shed                        a store that others can reach
  thorp group --name site --listen 127.0.0.1:7412   those who connect here share what they fetch
  thorp status 127.0.0.1:7412                   who is there, and what came from where
  thorp put design/wheel '{\"mass\": 3}'          a document, by path
  thorp get design/wheel
  thorp put --dir shed design/wheel '{}'        without a server: the store runs inside the command
  thorp put --space attic wheel '{}'            in a space of its own; `thorp spaces` lists them
  thorp load parts.jsonl --into parts --key id  one document per line
  thorp load house.ifc --into house             a design: every entity an object
  thorp get 'house/#123' --depth 2              an entity and what it refers to
  thorp find house --kind IfcWall --where Name~oak  the entities that match
  thorp publish www shop --dir shed             a directory as the new revision of a site
  thorp site rollback shop --dir shed           the revision before it again
  thorp mount shop /mnt/shop --cache /var/shop  a site of a server as files

Where the store is: at --server or in --dir; else where THORP_SERVER or THORP_DIR in the environment says, of which only
one may be set; else at 127.0.0.1:7411. Reading never makes a store: `put` and `load` make a directory that is not there,
and so does `serve`, but never the directories above it. The same goes for the --space of a store.

Servers stop at SIGTERM or Ctrl-C. SIGHUP stops none of them: `proxy` reads its files again, `site serve` publishes its
directory again, and the others ignore it.

A command that fails says what and what to do, and exits with 1; with 2 if it was called wrongly. With --json it says so
as {\"error\": TEXT}, on standard error like the text.";

/// The commands of thorp.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a store that clients reach over TCP, until SIGTERM or Ctrl-C close it.
    Serve(ServeArgs),
    /// Creates a store of several nodes, shows their state, and moves its shards between them.
    #[command(subcommand, after_help = CLUSTER_HELP)]
    Cluster(ClusterCommand),
    /// Runs the redirector of a group: clients near each other that share what they have fetched. Until SIGTERM or
    /// Ctrl-C.
    Group(GroupArgs),
    /// Runs a caching reverse proxy before a web application: HTTP/1.1 and HTTP/2 to clients, a good cache by RFC 9111,
    /// and of every response `Cache-Status` says what happened and why. Until SIGTERM or Ctrl-C.
    Proxy(Box<ProxyArgs>),
    /// Runs a home that proxies share: it keeps the version of each stored response. Proxies on this machine read it in
    /// shared memory, others by messages. Without --hub it has the hub, too. Until SIGTERM or Ctrl-C.
    Home(HomeArgs),
    /// Tells servers that keep a cache of their own, such as nginx, or PHP with files, whether they may use what they
    /// have: they ask at a socket, by HTTP, at every request. Until SIGTERM or Ctrl-C.
    Verify(VerifyArgs),
    /// Watches a PostgreSQL database, or a store: every committed change of a row or an object, by whatever program,
    /// invalidates what depends on it before it is visible. With --setup, --check, --remove or --renew-slot it prepares
    /// the database. Until SIGTERM or Ctrl-C.
    Watch(Box<WatchArgs>),
    /// Runs an auction shop on a PostgreSQL database: a web application to try a proxy and a watcher with. With --setup
    /// it fills an empty database. Until SIGTERM or Ctrl-C.
    #[cfg(feature = "lab")]
    Shop(Box<ShopArgs>),
    /// Makes and attaches volumes: disks that NBD clients use, whose writes go to a local cache and from there, in the
    /// order of their flushes, to the file or device where they live.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Gives room on a disk of this host to volumes that are attached elsewhere: it keeps copies of what is not written
    /// back of them yet, until SIGTERM or Ctrl-C.
    Holder(HolderArgs),
    /// Publishes a directory as a site's new revision, all at once: only content that the store does not have is written.
    Publish(PublishArgs),
    /// Mounts a site as files, which `--write` lets programs change: open files keep what they had, and the next open
    /// sees the newest revision. Until it is unmounted, or SIGTERM or Ctrl-C.
    #[cfg(feature = "fuse")]
    #[command(after_help = MOUNT_HELP)]
    Mount(MountArgs),
    /// Published sites: their revisions, what is in them, and rolling back.
    #[command(subcommand)]
    Site(SiteCommand),
    /// Tells a proxy what has changed: when this command ends, no later request is answered without it.
    Invalidate(InvalidateArgs),
    /// Explains how a proxy answers a URL: what it has stored, what that depends on, and what was decided when the
    /// application was last asked.
    Why(WhyArgs),
    /// Lists the stored responses of a proxy that depend on something.
    Who(WhoArgs),
    /// Prints the status of a store or a redirector: its sessions, how far each is, how much was fetched from where.
    Status(StatusArgs),
    /// Lists the spaces of a store: names, and the numbers that `serve --leased` takes.
    Spaces(SpacesArgs),
    /// Stores a JSON document under a path.
    Put(PutArgs),
    /// Prints the document or entity at a path.
    Get(GetArgs),
    /// Removes the document at a path; with -r all documents and designs at it and under it.
    Rm(RmArgs),
    /// Lists what is stored directly under a path: documents, designs and folders. Without a path it also lists what
    /// applications have stored under names of their own, and the spaces of the store.
    Ls(LsArgs),
    /// Prints the entities of a design that are of a kind, and whose attributes meet conditions.
    Find(FindArgs),
    /// Prints the documents under a path, in order of their paths.
    Scan(ScanArgs),
    /// Loads JSON lines, or a design (IFC, STEP; plain or zipped), from a file or a pipe. A file's load can be
    /// interrupted and called again.
    Load(LoadArgs),
    /// Prints all of a collection or design as it is at one moment, so that `load` of it gives the same data again.
    Dump(DumpArgs),
    /// Measures, each figure beside one of the machine itself. One JSON line per case.
    #[cfg(feature = "lab")]
    Bench(BenchArgs),
    /// Repeats the experiments of a paper: the paper's figures, its model's, ours.
    #[cfg(feature = "lab")]
    Experiment(ExperimentArgs),
    /// Kills a store again and again while clients commit, redirectors and members of groups too if there are any, and
    /// checks that nothing acknowledged is lost and that no client read stale data.
    #[cfg(feature = "lab")]
    Torture(TortureArgs),
    /// Runs a store of several nodes on this machine, to try things with.
    #[command(subcommand)]
    #[cfg(feature = "lab")]
    Lab(LabCommand),
    /// Checks every checksum and structure of a closed store, and says what can be done.
    Doctor(DoctorArgs),
    /// Shows all of it: a store, clients on a slow link, the same in groups; a member stopped, a redirector and the
    /// store killed on the way; everything checked.
    #[cfg(feature = "lab")]
    Demo(DemoArgs),
    /// A client of `demo` or `torture` in a process of its own, which does what it is told on standard input.
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    Member(MemberArgs),
    /// A new client of `bench first` in a process of its own.
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    Newcomer(NewcomerArgs),
    /// A pair of busy threads of `experiment activecache` in a process of its own.
    #[command(hide = true)]
    #[cfg(feature = "lab")]
    Strain,
    /// Prints a script that completes this program's commands and options in a shell.
    Completions(CompletionsArgs),
    /// Prints this help as Markdown.
    #[command(hide = true)]
    Markdown,
}

/// `thorp completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell. For bash: `thorp completions bash > ~/.local/share/bash-completion/completions/thorp`.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

impl Command {
    /// Returns whether it serves others until it is stopped.
    pub(crate) fn is_server(&self) -> bool {
        match self {
            Self::Serve(_)
            | Self::Group(_)
            | Self::Proxy(_)
            | Self::Home(_)
            | Self::Verify(_)
            | Self::Holder(_)
            | Self::Volume(VolumeCommand::Attach(_))
            | Self::Site(SiteCommand::Serve(_)) => true,
            #[cfg(feature = "fuse")]
            Self::Mount(_) => true,
            #[cfg(feature = "lab")]
            Self::Shop(_) => true,
            Self::Watch(watch) => watch.task().is_none(),
            _ => false,
        }
    }
}

/// Which store a command speaks to.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreTarget {
    /// The address of the store, or of a group's redirector; or several, separated by commas, that are tried in turn.
    /// Without it THORP_SERVER of the environment; without that 127.0.0.1:7411.
    #[arg(long, value_name = "ADDR", conflicts_with = "dir")]
    pub(crate) server: Option<String>,
    /// A store's directory, opened inside this command instead. Without it THORP_DIR of the environment. Made by `put`,
    /// `load` and `publish` where there is none, but not the directories above it; other commands expect a store there. A
    /// directory that cannot be written is only read: its log is recovered in memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Which store a command speaks to, and of which of its spaces.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) store: StoreTarget,
    /// The space of the store, by name: each has documents, designs and sites of its own. Without it the one that every store
    /// has, `main`. Made by `put`, `load` and `publish` where there is none; other commands expect it.
    #[arg(long, value_name = "NAME", value_parser = space)]
    pub(crate) space: Option<String>,
}

/// The name of a space.
fn space(name: &str) -> Result<String, database::Error> {
    database::check_application_space(name).map(|()| name.to_owned())
}

/// A size in bytes, such as `64M`.
fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let size = digits.parse::<usize>().ok().and_then(|size| size.checked_mul(1 << shift));
    size.ok_or_else(|| "expected bytes, such as 65536, 64M or 1G".into())
}

/// An address to listen on. A name has several as a rule; the usual clients try the one of IPv4.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let addresses = text.to_socket_addrs().map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => "expected HOST:PORT, such as 127.0.0.1:7411 or localhost:7411".to_owned(),
        _ => format!("the name is not known here: {error}"),
    })?;
    let addresses: Vec<_> = addresses.collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| "the name stands for no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgGroup, Command, CommandFactory, Id};

    #[test]
    fn sizes() {
        let sizes = ["0", "65536", "64K", "64M", "1g"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [0, 65536, 65536, 64 << 20, 1 << 30]);
        for text in ["", "M", "-1", "1.5G", "64MB", "99999999999G", "ß"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_to_listen_on() {
        assert_eq!(listen_address("localhost:7411"), Ok(SocketAddr::from(([127, 0, 0, 1], 7411))));
        assert_eq!(listen_address("[::1]:0").unwrap().to_string(), "[::1]:0");
        for text in ["", "localhost", "7411", "localhost:70000"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// clap does not ask for an argument that conflicts with a given one: of an option that requires it, nothing would
    /// be said and nothing done.
    #[test]
    fn an_option_conflicts_with_all_that_excludes_its_requirement() {
        let mut program = Cli::command();
        program.build();
        let (mut found, mut ignored, mut commands) = (0, Vec::new(), vec![program]);
        while let Some(command) = commands.pop() {
            for option in command.get_arguments() {
                let refused = excluded(&command, option.get_id().as_str());
                for required in required(option) {
                    found += 1;
                    let others = excluded(&command, &required).into_iter();
                    let accepted = others.filter(|other| other != option.get_id() && !refused.contains(other));
                    ignored
                        .extend(accepted.map(|it| format!("{} --{} beside {it}", command.get_name(), option.get_id())));
                }
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(found > 30 && ignored.is_empty(), "{ignored:#?} of {found} options that require another one");
    }

    /// The arguments that one requires, which clap only has in its text for debuggers.
    fn required(option: &Arg) -> Vec<String> {
        let text = format!("{option:?}");
        let (_, list) = text.split_once(", requires: [").unwrap();
        let (list, _) = list.split_once("], r_ifs: ").unwrap();
        list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The arguments that exclude one. They exclude a group if they exclude each of its members.
    fn excluded(command: &Command, name: &str) -> Vec<Id> {
        if let Some(group) = command.get_groups().find(|group| group.get_id() == name) {
            let mut of_members = group.get_args().map(|member| excluded(command, member.as_str()));
            let first = of_members.next().unwrap_or_default();
            return of_members.fold(first, |all, member| all.into_iter().filter(|id| member.contains(id)).collect());
        }
        let argument = command.get_arguments().find(|argument| argument.get_id() == name).unwrap();
        let said = command.get_arg_conflicts_with(argument).into_iter().map(Arg::get_id).cloned();
        let says_so = |other: &&Arg| command.get_arg_conflicts_with(other).iter().any(|with| with.get_id() == name);
        let groups = command.get_groups().filter(|group| !ArgGroup::clone(group).is_multiple());
        let siblings = groups.filter(|group| group.get_args().any(|id| id == name)).flat_map(ArgGroup::get_args);
        let siblings = siblings.filter(|id| *id != name).cloned();
        said.chain(command.get_arguments().filter(says_so).map(Arg::get_id).cloned()).chain(siblings).collect()
    }
}
