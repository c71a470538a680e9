//! The commands of the web front end.

use super::operators::{DEFAULT_ADMIN, OperatorArgs};
use super::{listen_address, size};
use clap::{ArgGroup, Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use types::limits::{DEPENDENCIES_PER_RESPONSE_MAX, SOURCE_NAME_BYTES_MAX, TABLE_SLOTS_MAX};

fn source_name(text: &str) -> Result<coherence::SourceName, String> {
    let expected = || format!("expected up to {SOURCE_NAME_BYTES_MAX} bytes without control characters, such as shop");
    coherence::SourceName::new(text).ok_or_else(expected)
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
    /// Where the application is: http://HOST:PORT or https://HOST:PORT, without a path. Over TLS its certificate has to
    /// be for HOST, and from an authority that this system trusts.
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    pub(crate) origin: Option<proxy::OriginUrl>,
    /// A TOML file, in which each of these options may stand as a key of the same name, such as `listen =
    /// "0.0.0.0:80"`; what is also on the command line goes before it. Read again at SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Returns whether a proxy could start with these options and files, and ends.
    #[arg(long)]
    pub(crate) check_config: bool,
    /// PEM: the proxy's certificate, and behind it those that lead to its authority. Clients then speak HTTPS. Read
    /// again when a file changes, and at SIGHUP. May be given several times, each with a --tls-key: a client gets the
    /// first that is for the name it asks for.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Vec<PathBuf>,
    /// PEM: the private key of the certificate, without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Vec<PathBuf>,
    /// Something in front of the proxy ends TLS: clients speak HTTPS.
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    pub(crate) behind_tls: bool,
    /// PEM: the authorities that alone are trusted for the application's certificate, in place of the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// Speaks HTTP/2 to the origin: over TLS, or without it by prior knowledge.
    #[arg(long)]
    pub(crate) origin_http2: bool,
    /// Passes on request fields with underscores in their names, which are dropped otherwise: many applications read
    /// `X_Forwarded_For` as `X-Forwarded-For`, so a client could write what only the proxy may. Names that are the
    /// proxy's own, or rewrite a request, are dropped all the same.
    #[arg(long)]
    pub(crate) keep_underscores: bool,
    /// How long the origin may take to begin its response, and how long it may pause in the middle, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) origin_timeout: u32,
    /// A directory for bodies of requests. Each is collected before the origin is asked: up to 64 KiB in memory, a
    /// larger one in a file without a name. Without it the system's directory for temporary files is taken.
    #[arg(long, value_name = "DIR")]
    pub(crate) upload_dir: Option<PathBuf>,
    /// The most that all bodies in --upload-dir take together, and the largest that is accepted: bytes, or with K, M
    /// or G.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub(crate) upload_space: usize,
    /// The rate at which clients have to send bodies, in bytes a second. A client that falls behind by 30 seconds is
    /// cut off.
    #[arg(long, value_name = "BYTES", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) upload_rate: u32,
    /// Passes bodies on as they arrive where a request's path begins with this; `/` is everywhere. Each such request
    /// holds a place at the origin for as long as its client takes. May be given several times.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) stream_uploads: Vec<String>,
    /// Websockets and event streams that are open at a time. They do not count among the 1024 requests at the origin.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) long_lived: u32,
    /// Memory for stored responses: bytes, or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub(crate) cache: usize,
    /// A directory of the proxy's own, where responses are kept that do not fit into memory. It has to be there; what
    /// an earlier proxy has left in it for the same --origin is validated with the application before it is used.
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    /// The most that --disk takes there: bytes, or with K, M or G. At least four times --largest and a little more.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = size, requires = "disk")]
    pub(crate) disk_size: usize,
    /// The largest response that is stored. Larger ones are passed on.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    pub(crate) largest: usize,
    /// Connections that one client address may have at a time, or one /64 network of IPv6; further ones are closed.
    /// Without it there is no limit by address. Leave it out where clients come through another proxy.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections_per_address: Option<u32>,
    /// Threads that serve clients. Without it as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Listens here for other proxies of the same application, which say --hub: a change that passes through any of
    /// them, or is reported to it, counts for all.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The address at which another proxy of the same application listens with --hub-listen. Nothing is stored while it
    /// is not reached.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from the
    /// cache. May be given several times. A watcher whose name is not among them is refused.
    #[arg(
        long = "source",
        value_name = "NAME",
        requires = "hub_listen",
        conflicts_with_all = ["hub", "homes"],
        value_parser = source_name
    )]
    pub(crate) sources: Vec<coherence::SourceName>,
    /// A home that is a process of its own (`thorp home`), which proxies share: its socket on this machine, as a path
    /// with a slash, or HOST:PORT on another one, such as an application's. May be given several times, for homes that
    /// have one hub: each has some of the responses, by their URLs, which are not stored while it is not there.
    #[arg(long = "home", value_name = "PATH_OR_ADDR", conflicts_with_all = ["hub", "hub_listen"])]
    pub(crate) homes: Vec<proxy::HomeAddress>,
    /// Reads the table of a home on another machine by libfabric, without the home's processor, with the provider of
    /// this name as the home says it (`thorp home --fabric`), such as `verbs;ofi_rxm`.
    #[arg(
        long,
        value_name = "PROVIDER",
        requires = "homes",
        conflicts_with_all = ["hub", "hub_listen", "sources", "insecure"]
    )]
    pub(crate) fabric: Option<String>,
    /// Listens for other proxies on other addresses than loopback, although their connections are neither encrypted nor
    /// authenticated yet.
    #[arg(long, requires = "hub_listen", conflicts_with_all = ["hub", "homes"])]
    pub(crate) insecure: bool,
    /// Stops the proxy when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// The options of `thorp proxy` about its access log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// A file to which a line is appended for each request, when its answer has been given. It is opened again at
    /// SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// The form of these lines: that of Apache and nginx, or JSON, which also has the time that the answer took and
    /// what the cache has done.
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_enum, requires = "access_log")]
    pub(crate) access_log_format: LogFormat,
}

/// The values of `--access-log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// The combined format.
    Combined,
    /// An object a line.
    Json,
}

const PROXY_HELP: &str = "\
A configuration file:
  listen = \"0.0.0.0:443\"
  origin = \"http://127.0.0.1:8000\"
  tls-cert = [\"/etc/thorp/shop.pem\"]
  tls-key = [\"/etc/thorp/shop.key\"]
  cache = \"2G\"
  weak = true

At SIGHUP, and at POST /reload of operators, the file is read again, with all files that the options name.
New settings hold for new requests, all at once; those that need a new start are named and left. Settings that cannot be used change nothing. After a change of the origin or of what is stored, every stored response is validated at its next use.";

/// The options of `thorp proxy` about storing: which responses, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Storing")]
pub(crate) struct PolicyArgs {
    /// Serves stale responses where `stale-while-revalidate`, `stale-if-error` or a client's `max-stale` allow it.
    /// Never one that an update has changed.
    #[arg(long)]
    pub(crate) weak: bool,
    /// The lifetime of responses for browsers, and for caches between them and the proxy: with `no-cache` they ask
    /// before each use of one that the proxy may store, as no update reaches them; with `as-is` they use it for as long
    /// as the application says, changed or not.
    #[arg(long, value_name = "HOW", default_value = "no-cache", value_enum)]
    pub(crate) browser_cache: BrowserCache,
    /// A response field that names dependencies, and how it separates them: NAME:list, NAME:spaces or NAME:commas. May
    /// be given several times. Without it Cache-Groups, Surrogate-Key, Cache-Tag, Edge-Cache-Tag and xkey are.
    #[arg(long, value_name = "FIELD")]
    pub(crate) dependency_field: Vec<responses::DependencyField>,
    /// The most dependencies that a response may name. One with more is not stored.
    #[arg(long, value_name = "COUNT", default_value_t = DEPENDENCIES_PER_RESPONSE_MAX as u16,
        value_parser = clap::value_parser!(u16).range(1..=DEPENDENCIES_PER_RESPONSE_MAX as i64))]
    pub(crate) dependencies_max: u16,
    /// A field that speaks to this cache before Cache-Control does (RFC 9213): NAME, or NAME:surrogate for one that is
    /// written like Surrogate-Control. May be given several times, the first before the others. Without it
    /// Thorp-Cache-Control, CDN-Cache-Control and Surrogate-Control are.
    #[arg(long, value_name = "FIELD")]
    pub(crate) targeted_field: Vec<responses::TargetedField>,
    /// The least lifetime of a response that states none, in seconds, such as 120. Not of one that says `no-store`,
    /// `private` or `no-cache`, that sets a cookie, or whose request has one.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) default_lifetime: u32,
    /// The lifetime of a response that names dependencies and states no lifetime, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86400)]
    pub(crate) dependent_lifetime: u32,
    /// The lifetime of another response that states none, in percent of its age since Last-Modified. With 0 none is
    /// guessed.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) guess_percent: u8,
    /// The longest such lifetime, in seconds.
    #[arg(long, value_name = "S", default_value_t = 86400)]
    pub(crate) guess_max: u32,
    /// A parameter of queries that makes no difference, such as `fbclid`, or all that begin alike, such as `utm_*`.
    /// Neither the key nor the application's request has it. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) ignore_query: Vec<responses::NamePattern>,
    /// A cookie of requests that makes no difference, such as `_fbp`, or all that begin alike, such as `_ga*`. The
    /// application does not get it. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) ignore_cookie: Vec<responses::NamePattern>,
    /// A cookie whose value every response differs by, such as `lang`: it is part of the key. May be given several
    /// times.
    #[arg(long, value_name = "NAME")]
    pub(crate) key_cookie: Vec<responses::CookieName>,
    /// Clients cannot have a stored response validated: of their Cache-Control only `only-if-cached` is followed.
    #[arg(long)]
    pub(crate) ignore_reloads: bool,
    /// A coding that the application's responses may have: Accept-Encoding is reduced to these. May be given several
    /// times. Without it br, gzip and zstd are.
    #[arg(long, value_name = "NAME", value_parser = coding)]
    pub(crate) coding: Vec<responses::Token>,
}

/// The values of `--browser-cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BrowserCache {
    /// Asked for before each use.
    NoCache,
    /// Used for as long as the application says.
    AsIs,
}

/// The name of a content coding.
fn coding(text: &str) -> Result<responses::Token, String> {
    responses::Token::new(text).ok_or_else(|| format!("'{text}' is not a coding: expected a name such as gzip"))
}

/// `thorp home`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("caches").args(["socket", "listen"]).multiple(true).required(true))]
#[command(group = ArgGroup::new("listens").args(["listen", "hub_listen"]).multiple(true))]
pub(crate) struct HomeArgs {
    /// The socket of proxies of this machine, which say --home. Its file can be reached by this user and its group.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listens here for proxies of other machines, which say --home, and at the next port for their lookups.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Lets proxies of other machines read the table by libfabric, at the address where this listens, with the provider
    /// of this name, such as `verbs;ofi_rxm`.
    #[arg(long, value_name = "PROVIDER", requires = "listen")]
    pub(crate) fabric: Option<String>,
    /// The address of the hub of the application, if it is not here: nothing is stored while it is not reached.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// Listens here for other homes and proxies of the same application, which say --hub, and for `thorp watch --hub`.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from
    /// caches. May be given several times. A watcher whose name is not among them is refused.
    #[arg(
        long = "source",
        value_name = "NAME",
        requires = "hub_listen",
        conflicts_with = "hub",
        value_parser = source_name
    )]
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
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

/// `thorp verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct VerifyArgs {
    /// The socket at which servers and applications ask. Its file can be reached by this user and its group: start this
    /// with the group of the server's user.
    pub(crate) socket: PathBuf,
    /// An address of this machine at which they can ask, too, such as 127.0.0.1:7414. Every user of the machine can.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// A home that is a process of its own (`thorp home`): its socket on this machine, as a path with a slash, or
    /// HOST:PORT on another one, such as the application's. Without it the home is in this process.
    #[arg(long, value_name = "PATH_OR_ADDR", conflicts_with_all = ["hub", "hub_listen"])]
    pub(crate) home: Option<proxy::HomeAddress>,
    /// The address of the hub of the application, such as that of `thorp watch`: nothing is kept while it is not
    /// reached. Without it the hub is in this process.
    #[arg(long, value_name = "ADDR", conflicts_with = "hub_listen")]
    pub(crate) hub: Option<String>,
    /// Listens here for other homes and proxies of the same application, which say --hub, and for `thorp watch --hub`.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) hub_listen: Option<SocketAddr>,
    /// The name of a source, as `thorp watch --hub` gives it: while its watcher is away, nothing is answered from
    /// caches. May be given several times. A watcher whose name is not among them is refused.
    #[arg(
        long = "source",
        value_name = "NAME",
        requires = "hub_listen",
        conflicts_with_all = ["hub", "home"],
        value_parser = source_name
    )]
    pub(crate) sources: Vec<coherence::SourceName>,
    /// Listens on other addresses than loopback for those, although connections are neither encrypted nor authenticated
    /// yet.
    #[arg(long, requires = "hub_listen", conflicts_with_all = ["hub", "home"])]
    pub(crate) insecure: bool,
    /// How many keys can be known at a time: some 500 bytes of memory each if something is stored under them, and the
    /// key.
    #[arg(long, value_name = "N", default_value_t = 1 << 18, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) responses: u32,
    /// Stops the helper when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
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
    /// Names of what has changed: responses that depend on one of them are no longer served.
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
    /// Where the database is: postgres://USER@HOST:PORT/NAME, or `host=... user=... dbname=...`. The environment
    /// variable PGPASSWORD may have the password. For TLS say sslmode=verify-full, and sslrootcert=FILE where its
    /// certificate is from an authority of your own: postgres://USER@HOST/NAME?sslmode=verify-full&sslrootcert=FILE. Or
    /// where the store is: thorp://HOST:PORT, which leases the spaces to watch (`thorp serve --leased 0`). Only
    /// --listen, --insecure and --check go with it.
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
    /// The address of a hub in another process, in place of one in this. It has to expect the watcher under the name of
    /// its --source, and answers nothing from its caches while that is away.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["listen", "insecure"])]
    pub(crate) hub: Option<String>,
    /// The name by which the hub elsewhere knows the database: that of the slot, if it is not given.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = source_name,
        requires = "hub",
        conflicts_with_all = ["listen", "insecure"]
    )]
    pub(crate) source: Option<coherence::SourceName>,
    /// Prepares the database, as a superuser, says what it has made, and ends. From then on commits wait for a watcher.
    #[arg(long)]
    pub(crate) setup: bool,
    /// Returns a role that writes such settings, in this database, that its commits wait, and no time limit ends that.
    /// With --setup, or alone at any time. May be given several times. --remove undoes it.
    #[arg(long = "guard", value_name = "ROLE", conflicts_with_all = ["check", "remove", "renew_slot"])]
    pub(crate) guards: Vec<String>,
    /// Returns what is wrong with the database or the store, and which holes it leaves, and ends.
    #[arg(long)]
    pub(crate) check: bool,
    /// Undoes what --setup has made, and ends. The watcher has to be stopped before.
    #[arg(long)]
    pub(crate) remove: bool,
    /// Creates a lost slot again once no cache answers, and ends.
    #[arg(long)]
    pub(crate) renew_slot: bool,
    /// Stops the watcher when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
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
    net::parse_addresses(text).map_err(|error| error.to_string())?;
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
    /// The task to do instead of watching.
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
