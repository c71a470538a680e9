//! The web front end: a caching reverse proxy.
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
//! bodies, timeouts, and the stored responses themselves.
//!
//! | module | duty |
//! |---|---|
//! | `proxy`, `shared` | start and stop; the state that all threads share |
//! | `listen` | clients' connections, and the threads that serve them |
//! | `request` | a request, from its head to the answer |
//! | `stored` | stored responses in memory and on disk, and their coherence |
//! | `fill` | a response of the origin on its way to the cache and to waiting clients |
//! | `origin` | requests to the origin, and connections that leave HTTP |
//! | `operate` | status, metrics, logs and the operators' listener |
//! | `config`, `settings`, `limits` | what an operator sets, checked |

mod config;
mod fill;
pub mod limits;
mod listen;
mod operate;
mod origin;
mod proxy;
mod request;
mod settings;
mod shared;
mod stored;

pub use ::coherence::{HomeAddress, SiteConfig};
pub use config::{BrowserCache, Config, DiskConfig};
pub use limits::Limits;
pub use listen::certificates::CertificateFiles;
pub use listen::tls::TlsFileError;
pub use operate::access_log::{AccessLogConfig, AccessLogFormat};
pub use operate::ask::{AskError, Changes, invalidate, who, why};
pub use operate::counters::Tally;
pub use operate::notes::Note;
pub use operate::tables;
pub use origin::url::OriginUrl;
pub use proxy::{Proxy, Stopper};
pub use request::target::Scheme;
pub use settings::StartError;
