//! A site over HTTP: pages of one revision each, also during a publish.
//!
//! ```text
//!   navigation, no cookie ------> the newest revision; the cookie names it
//!   navigation, cookie of 16 ---> the newest revision; the cookie names it from now on
//!   image, script ... of 17 ----> revision 17, whatever the newest is
//! ```
//! A visitor's session is a signed cookie that names a revision. A navigation moves it to the newest one; the requests
//! that a page makes read the revision that the page is of. So no page mixes two revisions, and no visitor goes back.
//!
//! | module | duty |
//! |---|---|
//! | `server`, `served` | start and stop; the state that all threads share, and counts |
//! | `answers` | a request, from its head to its answer |
//! | `visitor` | the cookie, and the revision that a request reads |
//! | `route` | the site's answer to a path: a file, a redirect, or its page for missing files |
//! | `resolve` | the file at a path |
//! | `rules` | `_redirects` and `_headers` |
//! | `page`, `pages` | a file with its precompressed variants; those that were served lately |
//! | `reply` | fields of answers: validators, ranges, types |
//! | `refusal` | the requests that are refused, each by name |
//! | `body` | content on its way to a client |

mod answers;
mod body;
mod page;
mod pages;
mod refusal;
mod reply;
mod resolve;
mod route;
mod rules;
mod served;
mod server;
mod visitor;

pub use rules::SkippedRule;
pub use served::Tally;
pub use server::{SiteConfig, SiteServer, SiteStopper};
