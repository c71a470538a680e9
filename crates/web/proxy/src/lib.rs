//! The web front end: a caching reverse proxy.
//!
//! ```text
//!   clients           threads (serving)                              origin
//!     |                                                                 ^
//!     +-> connection -> exchange -- entries: hit --> answer             |
//!                          |                                            |
//!                          +-- fills: wait for another                  |
//!                          +-- fill ------------------------ origin ----+
//!                          +-- pass ------------------------ origin ----+
//!                          +-- tunnel ---------------------- origin ----+
//! ```
//! Every decision about what is stored and reused is of the crate `responses`; here is what carries it out: bodies,
//! timeouts, and the stored responses themselves. Clients' connections are served by the crate `serving`.
//!
//! | module | duty |
//! |---|---|
//! | `proxy`, `shared` | start and stop; the state that all threads share |
//! | `front` | requests from the server of clients' connections |
//! | `worker`, `client` | what the requests of a thread share, and the client of one |
//! | `request` | a request, from its head to the answer |
//! | `stored` | stored responses in memory and on disk, and their coherence |
//! | `fill` | a response of the origin on its way to the cache and to waiting clients |
//! | `origin` | requests to the origin, and connections that leave HTTP |
//! | `operate` | status, metrics, logs and the operators' listener |
//! | `config`, `settings`, `limits` | what an operator sets, checked |

mod client;
mod config;
mod fill;
mod front;
pub mod limits;
mod operate;
mod origin;
mod proxy;
mod request;
mod settings;
mod shared;
mod stored;
mod worker;

pub use ::coherence::{HomeAddress, SiteConfig};
pub use config::{BrowserCache, Config, DiskConfig};
pub use limits::Limits;
pub use operate::access_log::{AccessLogConfig, AccessLogFormat};
pub use operate::ask::{AskError, Changes, invalidate, who, why};
pub use operate::counters::Tally;
pub use operate::notes::Note;
pub use operate::tables;
pub use origin::url::OriginUrl;
pub use proxy::{Proxy, Stopper};
pub use request::target::Scheme;
pub use serving::CertificateFiles;
pub use serving::tls::TlsFileError;
pub use settings::StartError;
