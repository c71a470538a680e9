//! The view and the controls of operators.
//!
//! | module | duty |
//! |---|---|
//! | `admin`, `ask` | the requests of operators, and their client |
//! | `notes`, `observer` | reports that nobody asked for, and the checks behind them |
//! | `access_log` | a line for each request |
//! | `explain`, `decisions` | why a URL is answered as it is |
//! | `counters`, `answers`, `dropped_fields` | counts; answers by status and time; fields that were dropped |
//! | `tables` | the figures of a status, made of these |

pub(crate) mod access_log;
pub(crate) mod admin;
pub(crate) mod answers;
pub(crate) mod ask;
pub(crate) mod counters;
pub(crate) mod decisions;
pub(crate) mod dropped_fields;
pub(crate) mod explain;
pub(crate) mod notes;
pub(crate) mod observer;
pub mod tables;
