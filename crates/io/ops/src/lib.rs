//! The operators' listener of a program, over HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /status` | the program's tables, as JSON |
//! | `GET /health` | 200, or 503 with the reasons |
//! | `GET /metrics` | the same tables for Prometheus |
//! | `POST /reload` | the program has read its settings again; 404 if it has none to read |
//! | others | requests of the program's own |
//!
//! A program is a [`Service`]. A refused request is answered with `{"error": TEXT, "refused": NAME}`.
//!
//! | module | duty |
//! |---|---|
//! | `server` | sockets, connections and their limits, on threads of their own |
//! | `guard` | who may ask: the token, and the refusal of web pages |
//! | `requests` | the requests that every program answers |
//! | `service` | a program, as its operators see it |
//! | `figures` | tables as JSON |
//! | `prometheus` | tables in Prometheus' text format |

mod figures;
mod guard;
mod prometheus;
mod requests;
mod server;
mod service;

pub use figures::{json, row};
pub use guard::check_address;
pub use http::{Request, Response, StatusCode};
pub use hyper::body::Incoming;
pub use prometheus::metric;
pub use requests::{body, json_answer};
pub use server::{Limits, Listener, Server, Stopper};
pub use service::{Answer, Answering, Observed, Refused, Reload, Service, Tables, not_found};
