//! How connections come about and what is said first on them: sessions that are taken and dialled, peers, and the
//! status that anybody may ask for. [`host::Host`] is the crate's front.

pub(crate) mod address;
pub(crate) mod descriptor;
pub(crate) mod dial;
pub(crate) mod host;
pub(crate) mod listen;
pub(crate) mod peer_family;
pub(crate) mod peers;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod unix;
mod upstreams;
