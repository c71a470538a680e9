//! The web door: a caching reverse proxy.
//!
//! ```text
//!   clients           worker threads                                 origin
//!     |                                                                 ^
//!     +-> connection -> exchange -- entries: hit --> answer             |
//!                          |                                            |
//!                          +-- fills: wait for another                  |
//!                          +-- fill ------------------------ origin ----+
//!                          +-- pass ------------------------ origin ----+
//!                          +-- tunnel ---------------------- origin ----+
//! ```
//! Every decision about what is stored and reused is of the crate `responses`; here is what carries it out: sockets,
//! bodies, time-outs, and the stored responses themselves.
//!
//! | module | duty |
//! |---|---|
//! | `proxy`, `threads`, `worker` | start and stop; threads, each with a runtime of its own |
//! | `connections` | how many clients' connections there may be, and which make room for others |
//! | `connection`, `client`, `activity` | a client's connection, and when it has been slow for too long |
//! | `exchange` | the way of a request |
//! | `target`, `forward`, `refusal` | what a request is for; what is said on the way; why it goes no further |
//! | `ignored` | URIs without parameters that make no difference |
//! | `entries`, `entry`, `s3fifo`, `content` | stored responses: found, kept in memory, evicted, read |
//! | `disk`, `disk_content` | those on disk: as records, and read in steps |
//! | `fills`, `moments` | requests that meet, and which of them came before the origin was asked |
//! | `fill`, `collect`, `along`, `reserved` | a response into the cache, to those who read along meanwhile, and room for it |
//! | `coherence`, `announcements` | where the rules of coherent responses are kept; changes on their way to the hub |
//! | `shared_home`, `homes_together` | homes of other processes; whether they have one hub |
//! | `upload`, `client_body`, `spool`, `upload_room` | the body of a request: on its way, as it arrives, collected, and its room |
//! | `early_hints`, `pending_hints` | what the origin sends before its response |
//! | `framing`, `chunks` | where a message ends: checked, and set for the next connection |
//! | `answer`, `prepared`, `body`, `paced` | answers, their fields and their bodies |
//! | `origin`, `origin_permits`, `connector`, `origin_tls_error`, `url`, `tunnel` | requests to the origin, and how many; connections to it, and where it is; those that leave HTTP |
//! | `tls`, `certificates`, `handshake` | PEM files; who the proxy is to its clients; how a connection over TLS begins |
//! | `misread` | fields of the origin that could not be read, counted and told |
//! | `admin`, `ask`, `notes` | the listener for operators, and asking it; what they are told unasked |
//! | `observer` | what the proxy checks by itself, for its notes |
//! | `access_log` | a line for each request |
//! | `explain`, `decisions` | why a URL is answered as it is |
//! | `config`, `settings`, `limits` | what an operator says, and whether it can be done |
//! | `shared`, `counters`, `answers`, `dropped_fields` | what all threads look at; what happened how often; answers by status and time; fields that were dropped |

mod access_log;
mod activity;
mod admin;
mod along;
mod announcements;
mod answer;
mod answers;
mod ask;
mod body;
mod certificates;
mod chunks;
mod client;
mod client_body;
mod coherence;
mod collect;
mod config;
mod connection;
mod connections;
mod connector;
mod content;
mod counters;
mod decisions;
mod disk;
mod disk_content;
mod dropped_fields;
mod early_hints;
mod entries;
mod entry;
mod exchange;
mod explain;
mod fill;
mod fills;
mod forward;
mod framing;
mod handshake;
mod homes_together;
mod ignored;
pub mod limits;
mod misread;
mod moments;
mod notes;
mod observer;
mod origin;
mod origin_permits;
mod origin_tls_error;
mod paced;
mod pending_hints;
mod prepared;
mod proxy;
mod refusal;
mod reserved;
mod s3fifo;
mod settings;
mod shared;
mod shared_home;
mod spool;
mod target;
mod threads;
mod tls;
mod tunnel;
mod upload;
mod upload_room;
mod url;
mod worker;

pub use ::coherence::{HomeAddress, SiteConfig};
pub use access_log::{AccessLogConfig, AccessLogFormat};
pub use ask::{AskError, Changes, invalidate, who, why};
pub use certificates::CertificateFiles;
pub use config::{BrowserCache, Config, DiskConfig};
pub use counters::Tally;
pub use limits::Limits;
pub use notes::Note;
pub use proxy::{Proxy, Stopper};
pub use settings::StartError;
pub use target::Scheme;
pub use tls::TlsFileError;
pub use url::OriginUrl;
