//! The store as its clients see it: conversations over a fake driver, whose disk can crash and fill up.

mod ahead;
mod commits;
mod damage;
mod driver;
mod follow;
mod grants;
mod groups;
mod hostile;
mod lease_waits;
mod leases;
mod losses;
mod model;
mod moves;
mod nodes;
mod placement;
mod promised;
mod recovery;
mod room;
mod rules;
mod sessions;
mod turns;
mod watch;
mod watched_nodes;
