//! The store as its clients see it: conversations over fake hands, whose disk can crash and fill up.

mod ahead;
mod commits;
mod follow;
mod grants;
mod groups;
mod hands;
mod hostile;
mod lease_waits;
mod leases;
mod losses;
mod model;
mod promised;
mod recovery;
mod room;
mod rules;
mod sessions;
mod turns;
