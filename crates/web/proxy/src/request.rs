//! A client's request, from its head to the answer.
//!
//! | module | duty |
//! |---|---|
//! | `exchange` | the way of a request |
//! | `target`, `forward`, `refusal` | the target of a request; the fields that are passed on; why a request is refused |
//! | `framing` | the end of a message: checked, and set for the next connection |
//! | `ignored` | URIs without the parameters that make no difference |
//! | `upload`, `client_body`, `spool`, `upload_room` | the body of a request: on its way, as it arrives, collected, and its room |
//! | `misread` | fields of the origin that could not be read, counted and reported |
//! | `answer`, `prepared`, `body`, `paced` | answers, their fields and their bodies |

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod client_body;
pub(crate) mod exchange;
pub(crate) mod forward;
pub(crate) mod framing;
pub(crate) mod ignored;
pub(crate) mod misread;
pub(crate) mod paced;
pub(crate) mod prepared;
pub(crate) mod refusal;
pub(crate) mod spool;
pub(crate) mod target;
pub(crate) mod upload;
pub(crate) mod upload_room;
