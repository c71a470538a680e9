//! The view and the controls of operators.
//!
//! | module | duty |
//! |---|---|
//! | `admin`, `ask` | the listener for operators, and its client |
//! | `notes`, `observer` | reports that nobody asked for, and the checks behind them |
//! | `access_log` | a line for each request |
//! | `explain`, `decisions` | why a URL is answered as it is |
//! | `counters`, `answers`, `dropped_fields` | counts; answers by status and time; fields that were dropped |

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
