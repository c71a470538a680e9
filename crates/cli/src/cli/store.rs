//! The commands of the store, and of groups.

use super::condition::Condition;
use super::operators::OperatorArgs;
use super::{DEFAULT_SERVER, StoreTarget, Target, listen_address, size};
use clap::{Args, ValueEnum};
use files::BucketUrl;
use membership::EtcdUrl;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How a store's memory is bounded.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    /// Committed changes that may wait in memory for write-back, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) mob_mib: u32,
    /// Pages kept in memory for those who fetch them, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_mib: u32,
    /// Spaces whose coherence is leased, by their numbers, such as 0,3: groups validate read-only transactions on them
    /// without asking the store, and a commit that changes what other groups hold waits for their acknowledgements, or
    /// for one lease if they are dead. The others are optimistic.
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
    /// The address to listen on, or a name such as localhost; a name stands for its first IPv4 address. Port 0
    /// takes any free port; the line that says "ready" names it.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_SERVER, value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// The directory of the homes of volumes, for owners that come to the same address. Made if there is none, but not
    /// the directories above it.
    #[arg(long, value_name = "HOMES")]
    pub(crate) volumes: Option<PathBuf>,
    /// Keeps the large chunks of published files in a bucket: s3://BUCKET/PREFIX, a place that no other store has. The
    /// directory records it, so later starts and other commands need not name it. Endpoint, region and credentials are
    /// those of the environment, as for other programs that use S3 (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
    /// AWS_SECRET_ACCESS_KEY), at every start. Chunks that are in the directory stay there.
    #[arg(long, value_name = "URL", conflicts_with_all = ["cluster", "node", "advertise"])]
    pub(crate) chunks: Option<BucketUrl>,
    /// How long a server that follows a published site may show what it was told last without saying that there may be
    /// something newer, in milliseconds. A publish that waits for all servers waits so long for one that is lost.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(500..=600_000))]
    pub(crate) site_lease_ms: u32,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Closes the store when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    /// Runs one node of a store of several, which `thorp cluster create` has made in etcd:
    /// etcd://HOST:PORT[,HOST:PORT]/NAME. The node serves while it has a lease there. If etcd stays away for longer,
    /// the node ends its sessions and serves again when etcd is back.
    #[arg(long, value_name = "URL", requires = "node")]
    pub(crate) cluster: Option<EtcdUrl>,
    /// The node's name in the store. Its directory is its own: it is refused under another name.
    #[arg(long, value_name = "NODE", requires = "cluster")]
    pub(crate) node: Option<String>,
    /// The address that the other nodes are told, if it is not the one that is listened on.
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    pub(crate) advertise: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
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
    /// Where to listen for members, as for `thorp serve`. Port 0 takes any free port; the line that says "ready" names
    /// it.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// The address that members are told, if it is not the one that is listened on.
    #[arg(long, value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// Stands by: leads the group only while no other redirector does. Members name it behind the one that leads,
    /// before the store, and are with it at once when that one ends; without that they find it when the store has
    /// noticed.
    #[arg(long)]
    pub(crate) eligible: bool,
    /// Memory for pages that the redirector keeps itself, for members that come when others have left: bytes, or with
    /// K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub(crate) stand_by_cache: usize,
    /// Memory for the chunks of published sites that members of the group fetch: bytes, or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub(crate) site_cache: usize,
    /// How long a member may take to send a page that another wants, in milliseconds, before the next one, or the
    /// store, is asked for it. More where the members' network is slow and the store still further; `late_help` in
    /// `thorp status` counts the pages that took longer.
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) help_within: u32,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Closes the redirector when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
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
    /// All documents at the path and under it, and designs too, in transactions of bounded size: others see it go piece
    /// by piece, but a design at once. Ctrl-C ends it between batches; the next call continues.
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

/// `thorp find`.
#[derive(Debug, Args)]
#[command(after_help = FIND_HELP)]
pub(crate) struct FindArgs {
    /// The design.
    #[arg(value_name = "DESIGN")]
    pub(crate) name: String,
    /// A type of entities, such as IfcWall, in upper or lower case. Subtypes are types of their own. Can be given
    /// several times, for entities of any of these types. Without it, all types match.
    #[arg(long, value_name = "TYPE")]
    pub(crate) kind: Vec<String>,
    /// A condition on an attribute, such as Name=W1 or 9>2.5. Can be given several times: an entity has to meet all.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<Condition>,
    /// Print at most this many entities.
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) target: Target,
}

const FIND_HELP: &str = "\
A condition is ATTRIBUTE OPERATOR VALUE, without blanks between. The attribute is its place in the entity, from 1, or a
name: GlobalId, OwnerHistory, Name and Description for entities with a GlobalId; Name, Description, NominalValue and
Unit for IfcPropertySingleValue; Name for IfcMaterial. The operator is = or !=, ~ for a text that contains the value in
upper or lower case, or one of < <= > >= for numbers. The value is a text without quotation marks, a number, the name of an
enumeration such as T, an entity such as #12, or $ for a value that is not given. A list meets a condition if one of its
values does. The design is read in several transactions, as by `dump --in-parts`.";

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
    /// The file, or `-` for standard input. It is a design if it begins like one, whatever its name: with
    /// `ISO-10303-21` behind blanks and comments, or as a zip archive with such a file in it. All else is JSON lines.
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
    /// one or all of the other, and references into the previous design become invalid.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Load a design although it refers to entities that it does not have, and report their numbers. `keep` keeps such
    /// references as they are, for `dump`; `null` puts `$` in their places. Only for designs; without it such a file is
    /// refused.
    #[arg(long, value_name = "HOW")]
    pub(crate) dangling: Option<DanglingArg>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// How `thorp load` treats references to missing entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DanglingArg {
    /// `$` takes the places of references.
    Null,
    /// References stay as they are.
    Keep,
}

const LOAD_HELP: &str = "\
JSON lines go in batches, each a transaction with the mark of how far the file is in: an interrupted load continues where it stopped when it is called again with the same file. A pipe cannot be recognized: its lines are loaded again from the beginning, and lines that are already stored do not change. The load of a design can continue from a pipe, since the whole input is read before it is compared.";

/// `thorp dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_HELP)]
pub(crate) struct DumpArgs {
    /// The collection or design.
    pub(crate) name: String,
    /// Not one moment: page by page, each as it is when it is read. For what others change all the time, and for what
    /// is larger than the folder for temporary files has room.
    #[arg(long)]
    pub(crate) in_parts: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

const DUMP_HELP: &str = "\
A collection is one line of JSON per document, {\"name\": NAME, \"document\": DOCUMENT}, in the order of names; a design is a
file of ISO 10303-21, with or without --json. Everything is read in one transaction and kept in a temporary file until it commits, so the output is of one moment. If they go on doing so, it is tried again for
30 seconds, and fails.";

/// `thorp doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The store's directory. No process may have it open.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Copy what is whole to a new store in this directory, which must not exist, and name what is lost.
    ///
    /// The damaged store is not changed.
    #[arg(long, value_name = "DIR")]
    pub(crate) salvage: Option<PathBuf>,
}
