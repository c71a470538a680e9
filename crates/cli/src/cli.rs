//! The command line, as clap reads it. `docs/cli.md` is generated from here.

use crate::job::JobName;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use types::limits::{SOURCE_NAME_BYTES_MAX, TABLE_SLOTS_MAX};

/// Where a store listens when nobody says otherwise.
pub(crate) const DEFAULT_SERVER: &str = "127.0.0.1:7411";

/// Where a proxy listens for its operators when nobody says otherwise.
const DEFAULT_ADMIN: &str = "127.0.0.1:8081";

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

Where the store is: at --server or in --dir; else where THORP_SERVER or THORP_DIR in the environment says, of which only
one may be set; else at 127.0.0.1:7411. Reading never makes a store: `put` and `load` make a directory that is not there,
and so does `serve`, but never the directories above it. The same goes for the --space of a store.

A command that fails says what and what to do, and exits with 1; with 2 if it was called wrongly. With --json it says so
as {\"error\": TEXT}, on standard error like the text.";

/// The commands of thorp.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a store that clients reach over TCP, until SIGTERM or Ctrl-C close it.
    Serve(ServeArgs),
    /// Runs the redirector of a group: clients near each other that share what they have fetched. Until SIGTERM or
    /// Ctrl-C.
    Group(GroupArgs),
    /// Runs a caching reverse proxy before a web application: HTTP/1.1 and HTTP/2 to clients, a good cache by RFC 9111, and
    /// of every response `Cache-Status` says what happened and why. Until SIGTERM or Ctrl-C.
    Proxy(Box<ProxyArgs>),
    /// Runs a home that proxies share: it keeps the version of each stored response, which those of this machine read in
    /// memory that they have together, and which those of others ask for. Without --hub it has the hub, too. Until SIGTERM
    /// or Ctrl-C.
    Home(HomeArgs),
    /// Tells servers that keep a cache of their own, such as nginx, or PHP with files, whether they may use what they have:
    /// they ask at a socket, by HTTP, at every request. Until SIGTERM or Ctrl-C.
    Verify(VerifyArgs),
    /// Watches a PostgreSQL database, or a store: every committed change of a row or an object, by whatever program,
    /// invalidates what depends on it before it is visible. With --setup, --check, --remove or --renew-slot it prepares the
    /// database. Until SIGTERM or Ctrl-C.
    Watch(Box<WatchArgs>),
    /// Runs an auction shop on a PostgreSQL database: a web application to try a proxy and a watcher with. With --setup it
    /// fills an empty database. Until SIGTERM or Ctrl-C.
    Shop(Box<ShopArgs>),
    /// Makes and attaches volumes: disks that NBD clients use, whose writes go to a local cache and from there, in the order
    /// of their flushes, to the file or device where they live.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Gives room on a disk of this host to volumes that are attached elsewhere: it keeps copies of what is not home of them
    /// yet, until SIGTERM or Ctrl-C.
    Holder(HolderArgs),
    /// Tells a proxy what has changed: when this command ends, no later request is answered without it.
    Invalidate(InvalidateArgs),
    /// Explains how a proxy answers a URL: what it has stored, what that depends on, and what was decided when the application
    /// was last asked.
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
    /// Lists what lies directly under a path.
    Ls(LsArgs),
    /// Prints the documents under a path, in order of their paths.
    Scan(ScanArgs),
    /// Loads JSON lines, or a design (IFC, STEP; plain or zipped), from a file or a pipe. A file's load can be interrupted
    /// and called again.
    Load(LoadArgs),
    /// Prints all of a collection or design as it is at one moment, so that `load` of it gives the same data again.
    Dump(DumpArgs),
    /// Measures, each figure beside one of the machine itself. One JSON line per case.
    Bench(BenchArgs),
    /// Repeats the experiments of a paper: the paper's figures, its model's, ours.
    Experiment(ExperimentArgs),
    /// Kills a store again and again while clients commit, redirectors and members of groups too if there are any, and
    /// checks that nothing acknowledged is lost and that nobody has seen anything stale.
    Torture(TortureArgs),
    /// Checks every checksum and structure of a closed store, and says what can be done.
    Doctor(DoctorArgs),
    /// Shows all of it: a store, clients on a slow link, the same in groups; a member stopped, a redirector and the store
    /// killed on the way; everything checked.
    Demo(DemoArgs),
    /// A client of `demo` or `torture` in a process of its own, which does what it is told on standard input.
    #[command(hide = true)]
    Member(MemberArgs),
    /// A new client of `bench first` in a process of its own.
    #[command(hide = true)]
    Newcomer(NewcomerArgs),
    /// Prints this help as Markdown.
    #[command(hide = true)]
    Markdown,
}

/// Which store a command speaks to.
#[derive(Debug, Args)]
pub(crate) struct StoreTarget {
    /// The address of the store, or of a group's redirector; or several, separated by commas, that are tried in turn.
    /// Without it THORP_SERVER of the environment; without that 127.0.0.1:7411.
    #[arg(long, value_name = "ADDR", conflicts_with = "dir")]
    pub(crate) server: Option<String>,
    /// A store's directory, opened inside this command instead. Without it THORP_DIR of the environment. Made by `put`
    /// and `load` where there is none, but not the directories above it; other commands expect a store there.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Which store a command speaks to, and of which of its spaces.
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) store: StoreTarget,
    /// The space of the store, by name: each has documents and designs of its own. Without it the one that every store
    /// has, `main`. Made by `put` and `load` where there is none; other commands expect it.
    #[arg(long, value_name = "NAME", value_parser = space)]
    pub(crate) space: Option<String>,
}

/// The name of a space.
fn space(name: &str) -> Result<String, database::Error> {
    database::check_name(name).map(|()| name.to_owned())
}

/// How a store's memory is bounded.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Committed changes that may wait in memory for write-back, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) mob_mib: u32,
    /// Pages kept in memory for those who fetch them, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_mib: u32,
    /// Spaces whose coherence is leased, by their numbers, such as 0,3: groups validate read-only transactions on them without asking the
    /// store, and a commit that changes what other groups hold waits for their word, or for one lease if they are dead.
    /// The others are optimistic.
    #[arg(long, value_name = "SPACES", value_delimiter = ',')]
    pub(crate) leased: Vec<u32>,
    /// How long a lease lasts, in milliseconds. Only with --leased.
    #[arg(long, value_name = "MS", default_value_t = 2000, requires = "leased", value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub(crate) lease_ms: u32,
}

/// `thorp serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The store's directory. Made if there is none, but not the directories above it.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Where to listen: an address, or a name such as localhost, of whose addresses the first of IPv4 is taken. Port 0
    /// takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_SERVER, value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// The directory of the homes of volumes, for owners that come to the same address. Made if there is none, but not the
    /// directories above it.
    #[arg(long, value_name = "HOMES")]
    pub(crate) volumes: Option<PathBuf>,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Closes the store when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// `thorp group`.
#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    /// The group's name, at most 64 bytes. Its members need not know it.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// The store's address; or several, separated by commas, that are tried in turn.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_SERVER)]
    pub(crate) store: String,
    /// Where to listen for members, as for `thorp serve`. Port 0 takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// The address that members are told, if it is not the one that is listened on.
    #[arg(long, value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// Stands by: leads the group only while no other redirector does. Members name it behind the one that leads, before
    /// the store, and are with it at once when that one ends; without that they find it when the store has noticed.
    #[arg(long)]
    pub(crate) eligible: bool,
    /// Memory for pages that the redirector keeps itself, for members that come when others have left: bytes, or with
    /// K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub(crate) stand_by_cache: usize,
    /// How long a member may take to send a page that another wants, in milliseconds, before the next one, or the store,
    /// is asked for it. More where the members' network is slow and the store still further; `late_help` in `thorp
    /// status` counts the pages that took longer.
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) help_within: u32,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Closes the redirector when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
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

fn source_name(text: &str) -> Result<coherence::SourceName, String> {
    let expected = || format!("expected up to {SOURCE_NAME_BYTES_MAX} bytes without control characters, such as shop");
    coherence::SourceName::new(text).ok_or_else(expected)
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

/// `thorp proxy`.
#[derive(Debug, Args)]
#[command(after_help = PROXY_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ProxyArgs {
    /// Where to listen for clients: an address, or a name such as localhost. Port 0 takes any free port; the line that
    /// says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Where the application is: http://HOST:PORT or https://HOST:PORT, without a path. Over TLS its certificate has to be
    /// for HOST, and from an authority that this system trusts.
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    pub(crate) origin: Option<proxy::OriginUrl>,
    /// A TOML file, in which each of these options may stand as a key of the same name, such as `listen = "0.0.0.0:80"`;
    /// what is also on the command line goes before it. Read again at SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Says whether a proxy could start with these options and files, and ends.
    #[arg(long)]
    pub(crate) check_config: bool,
    /// PEM: the proxy's certificate, and behind it those that lead to its authority. Clients then speak HTTPS. Read again
    /// when a file changes, and at SIGHUP. May be given several times, each with a --tls-key: a client gets the first that
    /// is for the name it asks for.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Vec<PathBuf>,
    /// PEM: the private key of the certificate, without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Vec<PathBuf>,
    /// Something in front of the proxy ends TLS: clients speak HTTPS.
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_tls: bool,
    /// PEM: the authorities that alone are trusted for the application's certificate, in place of the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// Speaks HTTP/2 to the origin: over TLS, or without it by prior knowledge.
    #[arg(long)]
    pub(crate) origin_http2: bool,
    /// How long the origin may take to begin its response, and how long it may pause in the middle, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) origin_timeout: u32,
    /// Memory for stored responses: bytes, or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub(crate) cache: usize,
    /// A directory of the proxy's own, where responses are kept that do not fit into memory. It has to be there; what an
    /// earlier proxy has left in it for the same --origin is validated with the application before it is used.
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    /// The most that --disk takes there: bytes, or with K, M or G. At least four times --largest and a little more.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = size, requires = "disk")]
    pub(crate) disk_size: usize,
    /// The largest response that is stored. Larger ones are passed on.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    pub(crate) largest: usize,
    /// Threads that serve clients. Without it as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Listens here for other proxies of the same application, which say --hub: a change that comes through one of them, or
    /// that one is told of, is one for all.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The address at which another proxy of the same application listens with --hub-listen. Nothing is stored while it is
    /// not reached.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from the cache.
    /// May be given several times. A watcher whose name is not among them is refused.
    #[arg(long = "source", value_name = "NAME", value_parser = source_name, requires = "hub_listen")]
    pub(crate) sources: Vec<coherence::SourceName>,
    /// A home that is a process of its own (`thorp home`), which proxies share: its socket on this machine, as a path with a
    /// slash, or HOST:PORT on another one. Nothing is stored while it is not there.
    #[arg(long, value_name = "PATH_OR_ADDR", conflicts_with_all = ["hub", "hub_listen"])]
    pub(crate) home: Option<proxy::HomeAddress>,
    /// Reads the table of a home on another machine by libfabric, without the home's processor, with the provider of this name
    /// as the home says it (`thorp home --fabric`), such as `verbs;ofi_rxm`.
    #[arg(long, value_name = "PROVIDER", requires = "home")]
    pub(crate) fabric: Option<String>,
    /// Listens for other proxies on other addresses than loopback, although their connections are neither encrypted nor
    /// authenticated yet.
    #[arg(long, requires = "hub_listen")]
    pub(crate) insecure: bool,
    /// Where to listen for operators: status, metrics and invalidation. Port 0 takes any free port.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_ADMIN, value_parser = listen_address)]
    pub(crate) admin: SocketAddr,
    /// A file whose first line is the token that operators have to bring. Needed where others than this machine's can
    /// reach --admin.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Stops the proxy when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

const PROXY_HELP: &str = "\
A configuration file:
  listen = \"0.0.0.0:443\"
  origin = \"http://127.0.0.1:8000\"
  tls-cert = [\"/etc/thorp/shop.pem\"]
  tls-key = [\"/etc/thorp/shop.key\"]
  cache = \"2G\"
  weak = true

At SIGHUP the file is read again, with all files that the options name. New settings hold for new requests, all at once;
those that need a new start are named and left. Settings that cannot be used change nothing. When another origin is named,
or something else is to be stored, all that is stored is validated at its next use.";

/// The options of `thorp proxy` about storing: which responses, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storing")]
pub(crate) struct PolicyArgs {
    /// Serves stale responses where `stale-while-revalidate`, `stale-if-error` or a client's `max-stale` allow it. Never one
    /// that an update has changed.
    #[arg(long)]
    pub(crate) weak: bool,
    /// A response field that names dependencies, and how it separates them: NAME:list, NAME:spaces or NAME:commas. May be
    /// given several times. Without it Cache-Groups, Surrogate-Key, Cache-Tag, Edge-Cache-Tag and xkey are.
    #[arg(long, value_name = "FIELD")]
    pub(crate) dependency_field: Vec<responses::DependencyField>,
    /// The most dependencies that a response may name. One with more is not stored.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) dependencies_max: u16,
    /// A field that speaks to this cache before Cache-Control does (RFC 9213): NAME, or NAME:surrogate for one that is
    /// written like Surrogate-Control. May be given several times, the first before the others. Without it
    /// Thorp-Cache-Control, CDN-Cache-Control and Surrogate-Control are.
    #[arg(long, value_name = "FIELD")]
    pub(crate) targeted_field: Vec<responses::TargetedField>,
    /// The lifetime of a response that names dependencies and states no lifetime, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86400)]
    pub(crate) dependent_lifetime: u32,
    /// The lifetime of another response that states none, in percent of its age since Last-Modified. With 0 none is guessed.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) guess_percent: u8,
    /// The longest such lifetime, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86400)]
    pub(crate) guess_max: u32,
    /// Clients cannot have a stored response validated: of their Cache-Control only `only-if-cached` is followed.
    #[arg(long)]
    pub(crate) ignore_reloads: bool,
    /// A coding that the application's responses may have: Accept-Encoding is reduced to these. May be given several times.
    /// Without it br, gzip and zstd are.
    #[arg(long, value_name = "NAME", value_parser = coding)]
    pub(crate) coding: Vec<responses::Token>,
}

/// The name of a content coding.
fn coding(text: &str) -> Result<responses::Token, String> {
    responses::Token::new(text).ok_or_else(|| format!("'{text}' is no coding: expected a name such as gzip"))
}

/// `thorp home`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("caches").args(["socket", "listen"]).multiple(true).required(true))]
#[command(group = ArgGroup::new("listens").args(["listen", "hub_listen"]).multiple(true))]
pub(crate) struct HomeArgs {
    /// The socket of proxies of this machine, which say --home. Its file can be reached by this user and its group.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listens here for proxies of other machines, which say --home, and at the next port for their look-ups.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Lets proxies of other machines read the table by libfabric, at the address where this listens, with the provider of
    /// this name, such as `verbs;ofi_rxm`.
    #[arg(long, value_name = "PROVIDER", requires = "listen")]
    pub(crate) fabric: Option<String>,
    /// The address of the hub of the application, if it is not here: nothing is stored while it is not reached.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// Listens here for other homes and proxies of the same application, which say --hub, and for `thorp watch --hub`.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from caches. May
    /// be given several times. A watcher whose name is not among them is refused.
    #[arg(long = "source", value_name = "NAME", value_parser = source_name, requires = "hub_listen")]
    pub(crate) sources: Vec<coherence::SourceName>,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long, requires = "listens")]
    pub(crate) insecure: bool,
    /// How many responses can be stored at a time, by all proxies together: eight bytes of memory each.
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TABLE_SLOTS_MAX)))]
    pub(crate) responses: u32,
    /// Stops the home when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

/// `thorp verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// The socket at which servers and applications ask. Its file can be reached by this user and its group: start this with
    /// the group of the server's user.
    pub(crate) socket: PathBuf,
    /// An address of this machine at which they can ask, too, such as 127.0.0.1:7414. Every user of the machine can.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// A home that is a process of its own (`thorp home`): its socket on this machine, as a path with a slash, or HOST:PORT on
    /// another one, such as the application's. Without it the home is in this process.
    #[arg(long, value_name = "PATH_OR_ADDR", conflicts_with_all = ["hub", "hub_listen"])]
    pub(crate) home: Option<proxy::HomeAddress>,
    /// The address of the hub of the application, such as that of `thorp watch`: nothing is kept while it is not reached.
    /// Without it the hub is in this process.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// Listens here for other homes and proxies of the same application, which say --hub, and for `thorp watch --hub`.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from caches. May
    /// be given several times. A watcher whose name is not among them is refused.
    #[arg(long = "source", value_name = "NAME", value_parser = source_name, requires = "hub_listen")]
    pub(crate) sources: Vec<coherence::SourceName>,
    /// Listens on other addresses than loopback for those, although connections are neither encrypted nor authenticated yet.
    #[arg(long, requires = "hub_listen")]
    pub(crate) insecure: bool,
    /// How many keys can be known at a time: some 500 bytes of memory each if something is stored under them, and the key.
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) responses: u32,
    /// Stops the helper when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

const VERIFY_HELP: &str = "\
The questions of a server and its application (docs/verify.md has all of them; examples/ has nginx, Apache and PHP):
  curl --unix-socket SOCKET -i -H 'Thorp-Key: http://shop/item/42' http://localhost/look
    Thorp-State: fill          nothing may be used: ask the application, with this ticket
    Thorp-Version: 5d0c...01   keep its response under the key and this, if it comes to be stored
    Thorp-Ticket: 0000...
  curl --unix-socket SOCKET -d '{\"ticket\": \"0000...\", \"dependencies\": [\"item:42\"]}' http://localhost/store
    {\"stored\":true,\"version\":\"5d0c...01\"}
  curl --unix-socket SOCKET -d '{\"dependencies\": [\"item:42\"]}' http://localhost/invalidate
    when this is answered, /look names another version";

/// `thorp invalidate`.
#[derive(Debug, Args)]
pub(crate) struct InvalidateArgs {
    /// Names of what has changed: responses that depend on one of them are not served any more.
    #[arg(value_name = "DEPENDENCY")]
    pub(crate) dependencies: Vec<String>,
    /// A URL whose responses are removed, as clients ask for it. May be given several times.
    #[arg(long = "url", value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Everything has changed.
    #[arg(long)]
    pub(crate) all: bool,
    /// Keeps the responses under the URLs: they are used again when the application has said that they are still good.
    /// Responses that depend on a name are kept like that in any case.
    #[arg(long)]
    pub(crate) soft: bool,
    #[command(flatten)]
    pub(crate) proxy: ProxyTarget,
}

/// Which proxy a command speaks to.
#[derive(Debug, Args)]
pub(crate) struct ProxyTarget {
    /// Where the proxy listens for operators.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_ADMIN, value_parser = listen_address)]
    pub(crate) admin: SocketAddr,
    /// A file whose first line is the proxy's token, if it has one.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `thorp why`.
#[derive(Debug, Args)]
#[command(after_help = WHY_HELP)]
pub(crate) struct WhyArgs {
    /// The URL as clients ask for it: with the scheme that they speak, the host that they name, and the query.
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) proxy: ProxyTarget,
}

const WHY_HELP: &str = "\
Example:
  thorp why http://shop.example/item/42
  http://shop.example/item/42
    stored: status 200, 5120 bytes, 42 s old, fresh for 18 s; the next request is answered with it
      depends on: item:42, list:bikes
    last from the application, 42 s ago: uri-miss, status 200, stored

A response that depends on `*` names no dependencies. docs/cache-status.md explains the reasons; besides, `overtaken` is that
of a response that was purged while it was on its way, and `incomplete` that of one that broke off. Scheme, host, path and
query have to be those of the request, to the byte: `http://shop.example/a` and `http://shop.example/a?` are two.";

/// `thorp who`.
#[derive(Debug, Args)]
#[command(after_help = WHO_HELP)]
pub(crate) struct WhoArgs {
    /// The name that responses depend on, as the application gives it; `*` for the responses that name nothing.
    pub(crate) dependency: String,
    #[command(flatten)]
    pub(crate) proxy: ProxyTarget,
}

const WHO_HELP: &str = "\
Example:
  thorp who item:42
  2 stored responses depend on item:42
    http://shop.example/item/42 (42 s old, fresh for 18 s)
    http://shop.example/list/bikes (7 s old, fresh for 53 s)

Only responses that are good now are listed, at most 1000 of them; `thorp invalidate item:42` has all of them validated at
their next use.";

/// `thorp watch`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(group = clap::ArgGroup::new("task").args(["setup", "check", "remove", "renew_slot"]))]
pub(crate) struct WatchArgs {
    /// Where the database is: postgres://USER@HOST:PORT/NAME, or `host=... user=... dbname=...`. A password may stand in
    /// PGPASSWORD of the environment. For TLS say sslmode=verify-full, and sslrootcert=FILE where its certificate is from an
    /// authority of your own: postgres://USER@HOST/NAME?sslmode=verify-full&sslrootcert=FILE.
    /// Or where the store is: thorp://HOST:PORT, which leases the spaces to watch (`thorp serve --leased 0`). Only --listen,
    /// --insecure and --check go with it.
    #[arg(value_name = "SOURCE", value_parser = source)]
    pub(crate) source_at: Source,
    /// The publication whose changes are watched. Without it `thorp`.
    #[arg(long, value_name = "NAME")]
    pub(crate) publication: Option<String>,
    /// The rules from rows to dependencies: a TOML file. Without it every change invalidates everything.
    #[arg(long, value_name = "FILE")]
    pub(crate) map: Option<PathBuf>,
    /// The replication slot, which is also the watcher's name in synchronous_standby_names. Without it `thorp_watch`.
    #[arg(long, value_name = "NAME")]
    pub(crate) slot: Option<String>,
    /// Where the hub of this process takes homes. Port 0 takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7413", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Takes connections from a network that may not be trusted.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The address of a hub in another process, in place of one in this. It has to expect the watcher under the name of its
    /// --source, and answers nothing from its caches while that is away.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["listen", "insecure"])]
    pub(crate) hub: Option<String>,
    /// The name by which the hub elsewhere knows the database: that of the slot, if it is not given.
    #[arg(long, value_name = "NAME", value_parser = source_name, requires = "hub")]
    pub(crate) source: Option<coherence::SourceName>,
    /// Prepares the database, as a superuser, says what it has made, and ends. From then on commits wait for a watcher.
    #[arg(long)]
    pub(crate) setup: bool,
    /// Gives a role that writes such settings, in this database, that its commits wait, and no time limit ends that. With
    /// --setup, or alone at any time. May be given several times. --remove undoes it.
    #[arg(long = "guard", value_name = "ROLE", conflicts_with_all = ["check", "remove", "renew_slot"])]
    pub(crate) guards: Vec<String>,
    /// Says what is wrong with the database or the store, and which holes it leaves, and ends.
    #[arg(long)]
    pub(crate) check: bool,
    /// Undoes what --setup has made, and ends. The watcher has to be stopped before.
    #[arg(long)]
    pub(crate) remove: bool,
    /// Makes a slot anew that was lost, and ends.
    #[arg(long)]
    pub(crate) renew_slot: bool,
    /// Stops the watcher when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

/// A source that is watched.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Postgres(Box<pgwatch::Database>),
    /// A store, at these addresses.
    Store(String),
}

fn source(text: &str) -> Result<Source, String> {
    if !text.trim_start().starts_with("thorp://") {
        return text
            .parse()
            .map(|database| Source::Postgres(Box::new(database)))
            .map_err(|error: pgwatch::NotADatabase| error.to_string());
    }
    net::UplinkConfig::parse(text).map_err(|error| error.to_string())?;
    Ok(Source::Store(text.to_owned()))
}

/// The things that are done before or after watching.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WatchTask {
    Setup,
    Guard,
    Check,
    Remove,
    RenewSlot,
}

impl WatchArgs {
    /// The task that is to be done in place of watching.
    pub(crate) fn task(&self) -> Option<WatchTask> {
        let tasks = [
            (self.setup, WatchTask::Setup),
            (!self.guards.is_empty(), WatchTask::Guard),
            (self.check, WatchTask::Check),
            (self.remove, WatchTask::Remove),
            (self.renew_slot, WatchTask::RenewSlot),
        ];
        tasks.into_iter().find_map(|(is_given, task)| is_given.then_some(task))
    }
}

/// `thorp shop`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = SHOP_HELP)]
pub(crate) struct ShopArgs {
    /// Where its database is, as for `thorp watch`.
    #[arg(value_name = "DATABASE", required_unless_present = "map")]
    pub(crate) database: Option<shop::Database>,
    /// Where to listen for visitors. Port 0 takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Prints the map from rows to dependencies, for `thorp watch --map`, and ends.
    #[arg(long, conflicts_with_all = ["database", "setup"])]
    pub(crate) map: bool,
    /// Makes the shop's tables in an empty database, fills them, and ends.
    #[arg(long)]
    pub(crate) setup: bool,
    /// Items on offer. This and the following options go with --setup.
    #[arg(long, value_name = "COUNT", default_value_t = shop::Stock::SMALL.items, requires = "setup", value_parser = stock)]
    pub(crate) items: u32,
    /// Users.
    #[arg(long, value_name = "COUNT", default_value_t = shop::Stock::SMALL.users, requires = "setup", value_parser = stock)]
    pub(crate) users: u32,
    /// Categories.
    #[arg(long, value_name = "COUNT", default_value_t = shop::Stock::SMALL.categories, requires = "setup", value_parser = stock)]
    pub(crate) categories: u32,
    /// Regions.
    #[arg(long, value_name = "COUNT", default_value_t = shop::Stock::SMALL.regions, requires = "setup", value_parser = stock)]
    pub(crate) regions: u32,
    /// The seed that everything is drawn from.
    #[arg(long, value_name = "SEED", default_value_t = shop::Stock::SMALL.seed, requires = "setup")]
    pub(crate) seed: u32,
    /// Names no dependencies: every page depends on everything.
    #[arg(long)]
    pub(crate) nameless: bool,
    /// For how long a cache may keep a page that does not change, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86_400)]
    pub(crate) max_age: u32,
    /// Stops the shop when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

const SHOP_HELP: &str = "\
Users, items, bids, comments and purchases, with the interactions of RUBiS. Each page names in Cache-Groups the rows that it
shows, and those whose coming or going would change it. Before it, in this order:
  thorp shop postgres://postgres@127.0.0.1/shop --setup
  thorp shop --map > map.toml
  thorp watch postgres://postgres@127.0.0.1/shop --map map.toml --setup
  thorp watch postgres://postgres@127.0.0.1/shop --map map.toml
  thorp shop postgres://postgres@127.0.0.1/shop
  thorp proxy --origin http://127.0.0.1:8000 --hub 127.0.0.1:7413";

/// How many rows of a kind a shop is filled with.
fn stock(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|count| (1..=10_000_000).contains(count)).ok_or_else(|| "expected 1 to 10000000".into())
}

/// `thorp status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The address of a store or redirector; of several, separated by commas, the first that answers. Without it
    /// THORP_SERVER of the environment; without that 127.0.0.1:7411.
    #[arg(value_name = "ADDR")]
    pub(crate) address: Option<String>,
}

/// `thorp spaces`.
#[derive(Debug, Args)]
pub(crate) struct SpacesArgs {
    #[command(flatten)]
    pub(crate) store: StoreTarget,
}

/// `thorp put`.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// The document's path, such as `design/wheel`.
    pub(crate) path: String,
    /// The document, or `-` to read it from standard input.
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) document: String,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The path: of a document, or of an entity of a design, such as `house/#123`.
    pub(crate) path: String,
    /// How many steps to follow an entity's references. Only for entities of designs; 0 without it.
    #[arg(long, value_name = "STEPS")]
    pub(crate) depth: Option<usize>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp rm`.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The path.
    pub(crate) path: String,
    /// All documents at the path and under it, and designs too, in transactions of bounded size: others see it go piece by
    /// piece, but a design at once. Ctrl-C ends it behind one of these; called again, it goes on.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The path; everything, if there is none.
    #[arg(default_value = "")]
    pub(crate) path: String,
    /// Print a zero byte behind each name instead of a line's end, and the name as it is. Without it characters that
    /// control a terminal are spelt out.
    #[arg(short = '0', long, conflicts_with = "json")]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// The path; everything, if there is none.
    #[arg(default_value = "")]
    pub(crate) path: String,
    /// Begin at this name below the path.
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
    /// End before this name below the path.
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
    /// Print at most so many documents.
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `thorp load`.
#[derive(Debug, Args)]
#[command(after_help = LOAD_HELP)]
pub(crate) struct LoadArgs {
    /// The file, or `-` for standard input. A name that ends in `.ifc`, `.ifczip`, `.stp` or `.step` is a design's, and
    /// input from a pipe is one if it begins like one; all else is JSON lines.
    pub(crate) file: PathBuf,
    /// The collection or design to load into.
    #[arg(long, value_name = "NAME")]
    pub(crate) into: String,
    /// The field whose value names each document. Only for JSON lines; without it they are as `thorp dump` prints them:
    /// {"name": NAME, "document": DOCUMENT}.
    #[arg(long, value_name = "FIELD")]
    pub(crate) key: Option<String>,
    /// Documents in one transaction. Only for JSON lines; 500 without it, fewer where they are large or a pipe pauses.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Replace the design of that name. Only for designs. It is loaded beside the one before; a reader sees all of the
    /// one or all of the other, and references into the one before are of no use any more.
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

const LOAD_HELP: &str = "\
JSON lines go in batches, each a transaction with the mark of how far the file is in: a load that was interrupted, by
Ctrl-C or by a crash, goes on where it was when it is called again with the same file. Of a pipe nobody knows whether it is
the same: its lines are loaded from its beginning again, which changes nothing where they are in. The load of a design goes
on from a pipe as well, because it is read as a whole before it is compared.";

/// `thorp dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_HELP)]
pub(crate) struct DumpArgs {
    /// The collection or design.
    pub(crate) name: String,
    /// Not one moment: page by page, each as it is when it is read. For what others change all the time, and for what is
    /// larger than the folder for temporary files has room.
    #[arg(long)]
    pub(crate) in_parts: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

const DUMP_HELP: &str = "\
A collection is one line of JSON per document, {\"name\": NAME, \"document\": DOCUMENT}, in the order of names; a design is a
file of ISO 10303-21, with or without --json. All of it is read in one transaction, and kept in a temporary file until
that has committed: nothing is printed of what others have changed meanwhile. If they go on doing so, it is tried again for
30 seconds, and fails.";

/// `thorp bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP)]
pub(crate) struct BenchArgs {
    /// The measurement to make.
    #[arg(required_unless_present = "all")]
    pub(crate) case: Option<BenchCase>,
    /// Measures everything.
    #[arg(long, conflicts_with = "case", requires = "out")]
    pub(crate) all: bool,
    /// Writes all lines to `bench.jsonl` in this folder, and plots of them beside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Clients that run at the same time. Only for `commit`, `oo7` and `contend`; without it 1, and 8 for `contend`.
    #[arg(long, value_name = "COUNT", conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Option<u32>,
    /// One-way delay of the emulated link, in milliseconds. Only for `oo7`; 20 without it.
    #[arg(long, value_name = "MS", conflicts_with = "all")]
    pub(crate) delay_ms: Option<u64>,
    /// How much to fill the log with, or to insert. Only for `recover` and `load`; 1 without it.
    #[arg(long, value_name = "GIB", conflicts_with = "all")]
    pub(crate) gib: Option<f64>,
    /// Where the programs run: the file that describes a lab, of two sites for `leased-writers`. Only for `first` and
    /// `leased-writers`, which need it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "all",
        required_if_eq_any = [("case", "first"), ("case", "leased-writers")]
    )]
    pub(crate) lab: Option<PathBuf>,
    /// The caches to measure beside, if they are installed. Only for `web`; both without it.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "all")]
    pub(crate) beside: Option<Vec<BenchRival>>,
    /// Looks up in the table of a home that is another process, over TCP. Only for `look-up`.
    #[arg(long, conflicts_with_all = ["all", "fabric"])]
    pub(crate) tcp: bool,
    /// Does so by libfabric, with the provider of this name, such as `tcp;ofi_rxm`. Only for `look-up`.
    #[arg(long, value_name = "PROVIDER", conflicts_with = "all")]
    pub(crate) fabric: Option<String>,
    /// Where stores are made, so that their disk is the one that is measured; a temporary folder inside it is removed
    /// at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

const BENCH_HELP: &str = "\
Cases and what their ratios compare with, measured in the same run:
  floor     the machine: fdatasync of 4 KiB, a loopback round trip, a HashMap lookup
  read      a cached read; over_hashmap: a lookup in a std HashMap of as many keys
  commit    one client: over_floor: an fdatasync and a round trip
            many clients: over_fdatasync: commits per fdatasync of one thread alone
  fetch     a page that is not cached; over_ping: a bare ping-pong of 8 KiB
  oo7       OO7 medium behind a slow link: seconds, aborts, fetches, bytes, round trips
  first     a new client's first transaction (OO7, one part) in a lab, from its first packet on; over_on_demand: the
            same with single pages, when they are needed; emulated_over_lab: the same over an emulated line
  slow-line 24 MiB committed, and read, over a line of 1 MB/s, to a store and by a redirector; over_line: the time that
            the line needs for it; small transactions of the same client and of another meanwhile, and whether
            all is within bounds
  recover   reading the log after a crash; over_read: the same files read from one end to the other
  load      documents of 1 KiB from several threads; over_sequential: a writer of as many bytes and syncs
  churn     objects created and deleted again and again; over_early: pages of the store over those after 20 rounds
  contend   one counter that 8 threads, and then 8 clients, increment; over_median: the longest wait
  look-up   the version of a stored web response, idle and while every processor marks updates; loaded_over_idle: of p99
            with --tcp: in the table of another process, by 64 clients at a time, and alone; over_ping: a bare ping-pong
            with --fabric: the same without the other process's answer; over_tcp: the same look-ups over TCP
  web       hits of `thorp proxy`, with 64 connections, beside nginx and Varnish where they are installed, each with half of
            the processors, in turns; hits_over_theirs, p99_over_theirs: of the time that a hit takes
  entries   memory that `thorp proxy` takes for a million small responses, in memory and on disk; above_bytes: for each, above
            what it has there of body, fields and key
  leased-writers
            commits of two sites on a leased space, in a lab: cargo xtask lab --sites 2 --loss 1 -- thorp bench
            leased-writers --lab {lab}; p50 and p99 over the line's round trip";

/// The measurements of `thorp bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchCase {
    /// The machine itself.
    Floor,
    /// Cached reads.
    Read,
    /// Commits.
    Commit,
    /// Pages that are not cached.
    Fetch,
    /// The OO7 benchmark's medium module.
    Oo7,
    /// A new client's first transaction.
    First,
    /// A large object over a slow line.
    SlowLine,
    /// Recovery after a crash.
    Recover,
    /// Inserts without end.
    Load,
    /// Objects that are created and deleted without end.
    Churn,
    /// One counter that everybody increments.
    Contend,
    /// Look-ups of stored web responses in their home's version table.
    LookUp,
    /// Hits of the caching proxy.
    Web,
    /// Memory that the caching proxy takes for small stored responses.
    Entries,
    /// Commits of two sites on a leased space, in a lab.
    LeasedWriters,
}

/// A cache that `thorp bench web` measures beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchRival {
    /// nginx with `proxy_cache`.
    Nginx,
    /// Varnish.
    Varnish,
}

/// `thorp experiment`.
#[derive(Debug, Args)]
#[command(after_help = EXPERIMENT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ExperimentArgs {
    /// The paper.
    pub(crate) paper: Paper,
    /// A figure of the paper: 7 to 12 of BuddyCache, 6 to 12 of ActiveCache, 2 of CoopReplica.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=12))]
    pub(crate) figure: Option<u32>,
    /// A table of the paper, 1 or 2. Of BuddyCache.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) table: Option<u32>,
    /// How long a group does without its redirector. Of BuddyCache.
    #[arg(long)]
    pub(crate) failover: bool,
    /// How long dirty data of a volume lasts, by the number of its copies. Of CoopReplica.
    #[arg(long)]
    pub(crate) reliability: bool,
    /// How long it takes to bring home what a dead host has left of a volume. Of CoopReplica.
    #[arg(long)]
    pub(crate) take_over: bool,
    /// The simulated cycles of failure and mending for each kind of failure. Of CoopReplica.
    #[arg(long, value_name = "COUNT", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub(crate) cycles: u32,
    /// All of these.
    #[arg(
        long,
        conflicts_with_all = ["figure", "table", "failover", "reliability", "take_over"],
        required_unless_present_any = ["figure", "table", "failover", "reliability", "take_over"]
    )]
    pub(crate) all: bool,
    /// How long each case is measured, in seconds. Of ActiveCache.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) case_s: u32,
    /// Writes the rows to `PAPER.jsonl` in this folder, and each figure as SVG and PNG beside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where the holder's copies are, on a disk of its own, as on another host; else they share the disk of `--dir`. Of
    /// CoopReplica's figure 2.
    #[arg(long, value_name = "DIR")]
    pub(crate) holder_dir: Option<PathBuf>,
    /// Where stores and databases are made; a temporary folder inside it is removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

const EXPERIMENT_HELP: &str = "\
Experiments of the ActiveCache paper, on an auction shop with RUBiS' interactions (PostgreSQL has to be installed): five
proxies, two applications, a database and a watcher of it, on one half of the processors and on the other:
  figure 6, 7    a look-up of a version that needs the home's processor, and one that does not; while all compute
  figure 8, 9    pages a second, and misses, without a cache, when every update invalidates everything, and with
                 dependency lists; traces 1 (reads alone) to 5 (the most updates)
  figure 10      the same of less and less room for pages, by Zipf's popularity (trace 6)
  figure 11      more and more dependencies of a page
  figure 12      while the back end has more and more other work to do

Experiments of the BuddyCache paper, on the OO7 benchmark's medium module with somewhat larger objects:
  table 1        what fetches and commits take without a distance, with and without a redirector
  table 2        what a page from a neighbour takes
  figure 7, 8    time of a transaction with cold caches, 40 and 80 ms from the store
  figure 9       what a group saves of it, over the distance
  figure 10, 11  time of a reader's transaction with hot caches while others write, 40 and 80 ms from the store
  figure 12      what a group saves of it, over the distance
  failover       how long members are without a session, and without a commit, when their redirector is killed or hangs,
                 40 ms from the store; in virtual time

Experiments of the CoopReplica paper, which planned the first and could not do it:
  reliability    the mean time until dirty data of a volume is lost, f(t) and R(t), bytes lost a year, by the number of its
                 copies: a Monte Carlo run with the machines that place copies and take volumes over, beside a Markov chain
                 where that is exact, by published failure rates, and beside RAIDs
  figure 2       throughput of writes without copies, with asynchronous and with synchronous ones: 128 MiB sequential, and
                 4 KiB random; and what a synchronous one takes over an fdatasync and a round trip; on a store with homes, a
                 holder and an owner, processes of their own on one disk
  take-over      the time from the death of a host that has 1 GiB that is not home until all of it is home and the volume
                 attached elsewhere, without that which it takes to find out, beside a sequential writer on home's disk

The columns: what the paper says, what its model says with the costs of this machine, what we measure. Costs are
measured on sockets when the command begins; curves run in virtual time with these costs, and some points of them on
sockets as well, over an emulated distance. Behind them stand the objects that a transaction reads, r, the pages that it
fetches, and how many of those were missing because others had changed them. docs/experiments.md says why the experiments
are what they are, and what came out.";

/// A paper whose experiments can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// BuddyCache: transactional caching for groups far from their store.
    Buddycache,
    /// ActiveCache: coherent caching of web responses with many dependencies.
    Activecache,
    /// CoopReplica: write-back caches whose dirty data has copies in the caches of others.
    Coopreplica,
}

/// `thorp torture`.
#[derive(Debug, Args)]
#[command(after_help = TORTURE_HELP)]
pub(crate) struct TortureArgs {
    /// How often to break something.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,
    /// Clients that commit meanwhile; with groups, of each.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) clients: u32,
    /// Groups that the clients are in; with 0 they speak to the store.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub(crate) groups: u32,
    /// The store grants groups leases on what they hold: reads are validated in the group. In a lab it is drawn otherwise.
    #[arg(long, requires = "groups")]
    pub(crate) leased: bool,
    /// Where the processes run, if not on loopback: the file that describes a lab.
    #[arg(long, value_name = "FILE", requires = "groups")]
    pub(crate) lab: Option<PathBuf>,
    /// The seed from which everything in a lab is drawn; another one each time if there is none. The same seed draws
    /// the same.
    #[arg(long, value_name = "SEED", requires = "lab")]
    pub(crate) seed: Option<u64>,
    /// The store's directory, which must not exist yet or be empty; a temporary one if there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const TORTURE_HELP: &str = "\
Faults, one a round:
  without groups   the store is killed, and started again over what is left
  with groups      that; a member is stopped for longer than it may be silent; a redirector is killed and replaced at
                   once; is killed, and a member takes over; hangs, and a member takes over; a member is killed
  with a lab       that, in an order and for times that are drawn; all traffic of a group's line vanishes, in one
                   direction or both. Also drawn: how much each line loses (up to 3 %) and carries (1 to 100 Mbit/s),
                   leases, which clients pause, and which read and write large values (up to 48 MiB, as the lines allow)

Checks:
  history          every acknowledged commit is there, once; all reads are such as a strictly serializable store can
                   show; large values are whole
  progress         members are in their group again 10 s after their redirector, its store and the line are there; a
                   client that is not cut off has a commit acknowledged every so often, as the lines and its own values
                   allow; no call outlasts the client's patience (8 s in a lab) by more than 1 s

  cargo xtask lab --sites 2 --one-way-ms 20 -- thorp torture --groups 2 --clients 3 --lab {lab}

docs/lab.md describes a lab's file. The course of the rounds is left beside the store as rounds.jsonl, and the history
as history.jsonl.";

/// `thorp newcomer`.
#[derive(Debug, Args)]
pub(crate) struct NewcomerArgs {
    /// The store.
    pub(crate) server: SocketAddr,
    /// Which part it traverses.
    pub(crate) seed: u64,
    /// Fetches single pages, when they are needed.
    #[arg(long)]
    pub(crate) on_demand: bool,
}

/// `thorp member`.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// The job that the store was prepared for.
    #[arg(long)]
    pub(crate) job: JobName,
    /// The client's number, which no other has.
    #[arg(long)]
    pub(crate) number: u32,
    /// The servers to connect to: one or several addresses.
    #[arg(long, value_name = "ADDR")]
    pub(crate) server: String,
    /// The group that it is to be a member of.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Where it listens when it takes over as the group's redirector.
    #[arg(long, value_name = "ADDR", requires_all = ["group", "store"])]
    pub(crate) eligible: Option<SocketAddr>,
    /// The store's address, for when it takes over.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<SocketAddr>,
    /// Fetches single pages, when they are needed.
    #[arg(long)]
    pub(crate) on_demand: bool,
    /// How long it waits for an answer, in milliseconds, if not as long as usual.
    #[arg(long, value_name = "MS")]
    pub(crate) patience_ms: Option<u64>,
    /// May listen on other addresses than loopback.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// `thorp doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The store's directory. No process may have it open.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// `thorp demo`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    /// Another demo than that of the store.
    #[command(subcommand)]
    pub(crate) scene: Option<DemoScene>,
    /// A design (IFC, STEP) to run on instead of OO7.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The store's directory, which must not exist yet or be empty; a new one in the temporary folder if there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Transactions of each client in each part of the comparison.
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) visits: u32,
}

/// The commands of `thorp volume`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Makes a volume: with --store one of this name, whose home is beside the store; without it the raw file of one host's
    /// volume, of zeros, which takes no room until it is written. A raw file or a block device that is there already can be
    /// attached as it is.
    Create(VolumeCreateArgs),
    /// Attaches a volume at this host and serves it to NBD clients, until SIGTERM or Ctrl-C; then what is not home goes
    /// there. A second Ctrl-C ends it at once: the cache has what is not home, and the next attachment goes on.
    #[command(after_help = VOLUME_ATTACH_HELP)]
    Attach(VolumeAttachArgs),
    /// Prints how a volume stands: its size, how often it was attached, and where; of a home, which cache has writes that are
    /// not home. Of a volume that is attached at this host, its process says more: what is not home, hits, holders, requests
    /// under way, troubles.
    #[command(after_help = VOLUME_STATUS_HELP)]
    Status(VolumeStatusArgs),
    /// Lists the volumes of a store, and where they are attached; or with --homes the files that are kept for volumes there,
    /// those of none among them.
    #[command(after_help = VOLUME_LIST_HELP)]
    List(VolumeListArgs),
    /// Lists the holders that give room to the volumes of a store, and the volumes that count on each; or tells of the one in
    /// this folder how much room its copies take, and those of each volume.
    #[command(after_help = VOLUME_HOLDERS_HELP)]
    Holders(VolumeHoldersArgs),
    /// Gives a volume another size, attached at this host or not at all. Behind the end of one that becomes smaller, which takes
    /// --shrink, all is gone for good. NBD clients see the new size when they connect again.
    #[command(after_help = VOLUME_RESIZE_HELP)]
    Resize(VolumeResizeArgs),
    /// Makes another volume with what was written to this one before, attached at this host or not at all. Both share their
    /// blocks until one changes them, so it takes no time and no room; the home's file system has to be able to do that
    /// (XFS and btrfs are).
    #[command(after_help = VOLUME_SNAPSHOT_HELP)]
    Snapshot(VolumeSnapshotArgs),
    /// Writes all that a volume has to a file, or to standard output. It is of one moment: of a volume that is attached at this
    /// host, a snapshot, which takes a home on XFS or btrfs.
    #[command(after_help = VOLUME_EXPORT_HELP)]
    Export(VolumeExportArgs),
    /// Makes a volume of what a file has, or standard input, in its size. One that is interrupted makes none.
    #[command(after_help = VOLUME_IMPORT_HELP)]
    Import(VolumeImportArgs),
    /// Brings home what a host that is gone has left of a volume at its holders, without attaching it here. A volume is detached
    /// by ending the `thorp volume attach` that has it; this is for those that cannot be.
    Detach(VolumeDetachArgs),
    /// Removes a volume of a store, with its home. It must not be attached. With --home it removes a home that belongs to no
    /// volume, as a command that was killed leaves it.
    #[command(after_help = VOLUME_REMOVE_HELP)]
    Remove(VolumeRemoveArgs),
}

/// `thorp volume create`.
#[derive(Debug, Args)]
pub(crate) struct VolumeCreateArgs {
    /// The name of the volume; or without --store the file, which must not be there yet.
    pub(crate) volume: PathBuf,
    /// Its size, such as 100G: a multiple of 4096 bytes.
    #[arg(long, value_parser = size)]
    pub(crate) size: usize,
    /// The address of the store, which was started with --volumes; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<String>,
    /// The copies of a write that its answer tells of, that of the host where the volume is attached among them.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(types::limits::VOLUME_COPIES_MAX)))]
    pub(crate) copies: u8,
    /// A host that is silent for longer may have its volume taken over: it answers no reads then.
    #[arg(long, value_name = "S", requires = "store", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease_s: u32,
}

/// `thorp volume list`.
#[derive(Debug, Args)]
pub(crate) struct VolumeListArgs {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// Lists the homes at the store: each with its number, its size, the bytes that it takes on its disk, when it was written
    /// last, and the volume that it belongs to, if to any.
    #[arg(long)]
    pub(crate) homes: bool,
}

const VOLUME_LIST_HELP: &str = "\
Examples:
  thorp volume list --store store:7411
  thorp volume list --store store:7411 --homes

The bytes on disk count blocks that snapshots share for each of them. A volume named `export-` and a number is the
snapshot of an export: if none is under way it was killed, and `thorp volume remove` removes it.";

/// The number of a home.
fn home_number(text: &str) -> Result<u64, String> {
    let number = Some(text).filter(|text| text.len() == 16).and_then(|text| u64::from_str_radix(text, 16).ok());
    number.ok_or_else(|| "expected 16 hexadecimal digits, as `thorp volume list --homes` shows them".to_owned())
}

/// `thorp volume holders`.
#[derive(Debug, Args)]
pub(crate) struct VolumeHoldersArgs {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR", required_unless_present = "dir")]
    pub(crate) store: Option<String>,
    /// The folder of a holder that runs at this host. With --store its volumes are told by their names.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const VOLUME_HOLDERS_HELP: &str = "\
Examples:
  thorp volume holders --store store:7411
  thorp volume holders --dir /ssd/r --store store:7411
  curl --unix-socket /ssd/r/control http://holder/metrics";

/// `thorp volume detach`.
#[derive(Debug, Args)]
pub(crate) struct VolumeDetachArgs {
    /// The name of the volume.
    pub(crate) volume: PathBuf,
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// Goes on without the copies of holders that do not answer, although that loses the writes that only they have.
    #[arg(long)]
    pub(crate) force: bool,
}

/// `thorp volume remove`.
#[derive(Debug, Args)]
pub(crate) struct VolumeRemoveArgs {
    /// The name of the volume.
    #[arg(required_unless_present = "home", conflicts_with = "home")]
    pub(crate) volume: Option<String>,
    /// Removes the home of this number, which belongs to no volume, nobody has open, and was written to a minute ago or longer.
    #[arg(long, value_name = "NUMBER", value_parser = home_number)]
    pub(crate) home: Option<u64>,
    /// Also if it was written to just now.
    #[arg(long, requires = "home")]
    pub(crate) force: bool,
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
}

const VOLUME_REMOVE_HELP: &str = "\
Examples:
  thorp volume remove v --store store:7411
  thorp volume remove --home 4f1c08a9d2e67b35 --store store:7411";

/// `thorp volume attach`.
#[derive(Debug, Args)]
pub(crate) struct VolumeAttachArgs {
    /// The name of the volume; or without --store its home: a raw file or a block device.
    pub(crate) volume: PathBuf,
    /// The address of the store that has the volume; or several, separated by commas.
    #[arg(long, value_name = "ADDR", conflicts_with = "beside")]
    pub(crate) store: Option<String>,
    /// The failure domain of this host: no holder in it gets copies. The name of this host, unless another one is said.
    #[arg(long, value_name = "NAME", requires = "store")]
    pub(crate) domain: Option<String>,
    /// Holders beyond those that copies are needed of: with one, writes go on without a pause when a holder is lost.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) spare: u8,
    /// A write that waits for its copies (`--ack write`, FUA) waits for one more for each so many times that one of its blocks was
    /// written since it was home, as far as there are holders for it (`--spare`). Never with 0.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 0)]
    pub(crate) more_copies_after: u8,
    /// The directory of the cache, on a fast disk. It is made if it is not there, and serves this volume only.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: PathBuf,
    /// The directory of the small files beside the home, if that is not its own: whose it is, and its journal. A device needs
    /// one, on a disk.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Option<PathBuf>,
    /// Where NBD clients come: unix:PATH, or nbd://HOST or nbd://HOST:PORT. May be given several times.
    #[arg(long, value_name = "ADDR", required = true)]
    pub(crate) listen: Vec<volumes::nbd::Address>,
    /// The name of the export, which clients may also leave out.
    #[arg(long, value_name = "NAME", default_value = "volume")]
    pub(crate) export: String,
    /// The room in the cache for writes that are not home, which it takes at once. When it is full, writers wait.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub(crate) dirty: usize,
    /// The room in the cache for clean blocks, 24 bytes of memory for each 4096.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size)]
    pub(crate) clean: usize,
    /// When a write is answered.
    #[arg(long, value_enum, default_value_t = VolumeAck::Flush)]
    pub(crate) ack: VolumeAck,
    /// A write is home before it is so old.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) age_s: u32,
    /// Attaches it although that loses writes which are not home: those of another cache, or of this one if the volume was
    /// attached elsewhere since; with --store, those that only holders have which do not answer. Or although the home does
    /// not know its cache any more.
    #[arg(long)]
    pub(crate) force: bool,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Detaches it when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

/// `thorp holder`.
#[derive(Debug, Args)]
pub(crate) struct HolderArgs {
    /// The store with the registry of volumes, such as localhost:7411.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// The directory of the copies, on a fast disk. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The room that its files may take, such as 50G. Half of it is given to owners: the rest is for what is not freed yet.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) room: usize,
    /// Listens here for the owners of volumes.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Where they reach it, if that is not where it listens: the registry says it to them.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// The failure domain: everything in one dies together, so a volume's copies are in different ones, and none in its
    /// owner's. The name of this host, unless another one is said.
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Brings home by itself what a host has left of a volume that has copies here, when that host is silent for so long. With 0 it
    /// does not, and leaves that to the next host that attaches the volume.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) bring_home_after_s: u32,
    /// When it is stopped, has owners move its copies elsewhere first; a second Ctrl-C ends it at once. Without this they
    /// stay, and count again when it is started again.
    #[arg(long)]
    pub(crate) leave: bool,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Stops the holder when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeAck {
    /// When it is on the cache's disk.
    Write,
    /// At once; a flush, or a write with FUA, when everything before it is on the cache's disk. As disks do.
    Flush,
}

/// `thorp volume status`.
#[derive(Debug, Args)]
pub(crate) struct VolumeStatusArgs {
    /// The name of the volume; or without --store the home. With --cache it may be left out.
    #[arg(required_unless_present = "cache")]
    pub(crate) volume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// Where a volume is known, and where it is attached.
#[derive(Debug, Args)]
pub(crate) struct VolumePlace {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR", conflicts_with = "beside")]
    pub(crate) store: Option<String>,
    /// The directory of the files beside a device, as it was attached with. A raw file says where they are.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Option<PathBuf>,
    /// The cache that it is attached with at this host, if it is not found by itself.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// `thorp volume resize`.
#[derive(Debug, Args)]
pub(crate) struct VolumeResizeArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// Its new size, such as 100G: a multiple of 4096 bytes.
    #[arg(long, value_parser = size)]
    pub(crate) size: usize,
    /// Makes it smaller, too, which loses what is behind its new end: make its file system smaller before.
    #[arg(long)]
    pub(crate) shrink: bool,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume snapshot`.
#[derive(Debug, Args)]
pub(crate) struct VolumeSnapshotArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// The name of the new one; or without --store its file, on the same file system.
    pub(crate) snapshot: PathBuf,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume export`.
#[derive(Debug, Args)]
pub(crate) struct VolumeExportArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// The file, in which zeros take no room; `-` is standard output.
    pub(crate) file: PathBuf,
    /// Takes the place of a file that is there, when all of it has come.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume import`.
#[derive(Debug, Args)]
pub(crate) struct VolumeImportArgs {
    /// The file, or the device; `-` is standard input.
    pub(crate) file: PathBuf,
    /// The name of the new volume; or without --store its home, a raw file.
    pub(crate) volume: PathBuf,
    /// The address of the store, which was started with --volumes; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<String>,
    /// The copies of a write that its answer tells of, that of the host where the volume is attached among them.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(types::limits::VOLUME_COPIES_MAX)))]
    pub(crate) copies: u8,
    /// A host that is silent for longer may have its volume taken over: it answers no reads then.
    #[arg(long, value_name = "S", requires = "store", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease_s: u32,
}

const VOLUME_EXPORT_HELP: &str = "\
Examples:
  thorp volume export v v.img --store store:7411
  thorp volume export v - --store store:7411 | zstd > v.img.zst
  thorp volume export v - --store store:7411 | thorp volume import - v --store elsewhere:7411

Nothing stands under the file's name before all of it has come; Ctrl-C leaves nothing.";

const VOLUME_IMPORT_HELP: &str = "\
Examples:
  thorp volume import debian.raw v --store store:7411
  qemu-img convert -O raw debian.qcow2 debian.raw
  zstdcat v.img.zst | thorp volume import - v --store store:7411

A size that is no multiple of 4096 bytes is rounded up, with zeros. Zeros take no room.";

const VOLUME_RESIZE_HELP: &str = "\
Examples:
  thorp volume resize v --store store:7411 --size 200G
  thorp volume resize disk.img --size 10G --shrink
  nbdinfo 'nbd+unix:///?socket=/run/v.sock'

Make a file system smaller before its volume, and larger after it.";

const VOLUME_SNAPSHOT_HELP: &str = "\
Examples:
  thorp volume snapshot v v-monday --store store:7411
  thorp volume snapshot disk.img disk-monday.img

The snapshot of a file system in use is as if its machine had lost power: fsfreeze it, or unmount it, for a clean one.";

const VOLUME_STATUS_HELP: &str = "\
Examples:
  thorp volume status v --store store:7411
  thorp volume status disk.img --json
  thorp volume status --cache /ssd/v
  curl --unix-socket /ssd/v/control http://volume/metrics";

const VOLUME_ATTACH_HELP: &str = "\
Examples:
  thorp volume create disk.img --size 20G
  thorp volume attach disk.img --cache /ssd/disk --listen unix:/run/disk.sock
  thorp volume attach v --store store:7411 --cache /ssd/v --listen unix:/run/v.sock
  nbdinfo 'nbd+unix:///?socket=/run/disk.sock'
  qemu-system-x86_64 -drive driver=nbd,server.type=unix,server.path=/run/disk.sock,export=volume ...
  nbd-client -unix /run/disk.sock /dev/nbd0 -N volume

While a volume is attached, and until its cache has nothing that is not home, no other program may write to its home.";

/// The demos that are not of the store.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoScene {
    /// Shows the web door: a shop on PostgreSQL, a watcher of its database, two proxies, readers and writers, beside nginx
    /// and Varnish with a time to live of one second. Then everything is killed and stopped in turn; every response is
    /// checked.
    Web(DemoWebArgs),
    /// Shows the block door: a volume with two copies, ext4 on it, programs that fsync. Then its host is killed and its disk is
    /// gone; attached on another host, the file system is whole and everything acknowledged is there. In the end, what copies
    /// cost.
    Volume(DemoVolumeArgs),
}

/// `thorp demo volume`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_VOLUME_HELP)]
pub(crate) struct DemoVolumeArgs {
    /// How long programs write before the host is killed, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) work_s: u32,
    /// The MiB that each kind of volume is written in the comparison; 0 leaves it out.
    #[arg(long, value_name = "COUNT", default_value_t = 48, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) table_mib: u32,
    /// Writes raw blocks even where a file system could be mounted.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The directory of all of it, which must not exist yet or be empty, and stays; without it one in the temporary folder, which
    /// is removed.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_VOLUME_HELP: &str = "\
ext4 is mounted by nbdfuse and a loop device, which takes root, FUSE and loop devices, and nbdfuse (libnbd-bin) and e2fsprogs
installed. Where something of that is missing it says so, and writes raw blocks. Ctrl-C undoes everything.";

/// `thorp demo web`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_WEB_HELP)]
pub(crate) struct DemoWebArgs {
    /// How long each cache has its turn in the comparison, in seconds.
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) turn_s: u32,
    /// How many things break; without it each kind of fault comes once.
    #[arg(long, value_name = "COUNT", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) faults: Option<u32>,
    /// Breaks things, in turn, for so long.
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub(crate) minutes: Option<f64>,
    /// Leaves nginx and Varnish out.
    #[arg(long)]
    pub(crate) alone: bool,
    /// Nobody watches the database, and the proxies keep pages for a second: the check has to find stale ones, and the
    /// command fails.
    #[arg(long, conflicts_with_all = ["faults", "minutes", "alone"])]
    pub(crate) unwatched: bool,
    /// Where the database and all the rest are made; a temporary folder without it. Removed in the end unless it is named.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const DEMO_WEB_HELP: &str = "\
Faults, in this order, again and again:
  killed     a proxy with its home; the watcher with the hub; the database; the application; all are started again
  stopped    the same, for 3 s, which is longer than a lease (SIGSTOP)
  restarted  the database

Checks, of every response:
  told       it has everything that a writer had been told is done when it was asked for
  seen       it has everything that anybody had been shown when it was asked for, by whichever proxy

It fails if a page is stale, or if hits on both proxies and updates do not go on within 40 s of a fault.";

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.01..=1440.0).contains(minutes));
    minutes.ok_or_else(|| "expected minutes, 0.01 to 1440".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
}
