//! The processes of a torture, or of a measurement of writers: the store, the redirectors of groups, and their members;
//! or clients of the store alone.

use crate::Result;
use crate::crew::{Crew, Eligible, MemberOptions};
use crate::job::{JobName, Work};
use crate::lab::Lab;
use crate::nodes::Nodes;
use fixtures::{Process, Program, lasting_address};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use types::MAIN_SPACE;

/// The kind of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles {
    /// How many groups there are; with none the clients speak to the store directly.
    pub(crate) groups: u32,
    /// The clients of each group, or of the store.
    pub(crate) clients: u32,
    /// How long the leases of groups last, in milliseconds, if the store gives any.
    pub(crate) lease_ms: Option<u32>,
    /// How long a client waits for an answer, if not as long as usual.
    pub(crate) patience: Option<Duration>,
}

/// All of them.
pub(crate) struct Cluster {
    pub(crate) lab: Lab,
    pub(crate) store: Store,
    /// The groups; if there are none, the clients that speak to the store directly are one without a redirector.
    pub(crate) groups: Vec<Group>,
    pub(crate) crew: Crew,
}

/// The processes of the store.
pub(crate) enum Store {
    /// One process, and the program at its place.
    Single(Program, Box<Process>),
    /// Several nodes.
    Nodes(Box<Nodes>),
}

/// A group.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) redirector: Option<Process>,
    /// Where its first member leads when it has taken over.
    pub(crate) stand_in: Option<SocketAddr>,
    /// How those are started who cannot take over.
    pub(crate) ordinary: MemberOptions,
    /// The crew's members that are in it.
    pub(crate) members: Vec<usize>,
}

impl Cluster {
    /// Starts all of them, on a store that has been prepared.
    pub(crate) fn gather(dir: &Path, mut lab: Lab, roles: Roles) -> Result<Self> {
        let path = std::env::current_exe()?;
        let insecure = |is_open: bool| if is_open { &["--insecure"][..] } else { &[] };
        let (listen, lease_ms) =
            (lab.store.address()?.to_string(), roles.lease_ms.map(|lease_ms| lease_ms.to_string()));
        let mut words = [&["--listen", &listen], insecure(lab.store.is_open())].concat();
        let space = MAIN_SPACE.to_string();
        words.extend(lease_ms.iter().flat_map(|lease_ms| ["--leased", &space, "--lease-ms", lease_ms]));
        let program = lab.store.program(&path);
        let server = program.serve(dir, &words)?;
        let (mut crew, mut groups) = (Crew::default(), Vec::new());
        for number in 0..roles.groups.max(1) {
            let place = lab.sites.get_mut(number as usize).unwrap_or(&mut lab.store);
            let more = insecure(place.is_open()).iter().map(ToString::to_string).collect();
            let start = Start { program: place.program(&path), store: server.address().to_string(), more };
            groups.push(if roles.groups > 0 {
                start.group(format!("site-{}", number + 1), &roles, || place.address(), &mut crew)?
            } else {
                start.clients(&roles, |_| server.address().to_string(), &mut crew)?
            });
        }
        Ok(Self { lab, store: Store::Single(program, Box::new(server)), groups, crew })
    }

    /// Starts groups, or clients, of a store of several nodes.
    pub(crate) fn around(nodes: Nodes, roles: Roles) -> Result<Self> {
        let mut crew = Crew::default();
        let groups = Group::all_of(&nodes, &roles, &mut crew)?;
        Ok(Self { lab: Lab::loopback(0), store: Store::Nodes(Box::new(nodes)), groups, crew })
    }

    /// Everybody who is there.
    pub(crate) fn members(&self) -> Vec<usize> {
        self.groups.iter().flat_map(|group| group.members.iter().copied()).collect()
    }

    /// Everybody who is not among these.
    pub(crate) fn others(&self, these: &[usize]) -> Vec<usize> {
        self.members().into_iter().filter(|member| !these.contains(member)).collect()
    }

    /// Tells everybody what to do.
    pub(crate) fn work(&mut self, work: &dyn Fn(usize) -> Work) -> Result {
        self.members().into_iter().try_for_each(|member| self.crew.work(member, &work(member)))
    }
}

impl Group {
    /// Starts groups of a store of several nodes, or clients without groups. Each names another node first.
    pub(crate) fn all_of(nodes: &Nodes, roles: &Roles, crew: &mut Crew) -> Result<Vec<Self>> {
        let program = Program::this()?;
        let start = |group| Start { program: program.clone(), store: nodes.addresses(group), more: Vec::new() };
        if roles.groups == 0 {
            return Ok(vec![start(0).clients(roles, |client| nodes.addresses(client), crew)?]);
        }
        let name = |group| format!("site-{}", group + 1);
        (0..roles.groups as usize).map(|group| start(group).group(name(group), roles, lasting_address, crew)).collect()
    }
}

/// The way in which clients of one place are started.
struct Start {
    program: Program,
    /// The store: one or several addresses.
    store: String,
    /// More words for the command line of each process.
    more: Vec<String>,
}

impl Start {
    /// Starts a group: its redirector, and clients, of which the first can take over.
    fn group(
        self,
        name: String,
        roles: &Roles,
        mut address: impl FnMut() -> Result<SocketAddr>,
        crew: &mut Crew,
    ) -> Result<Group> {
        let listen = address()?.to_string();
        let words: Vec<&str> = ["--listen", &listen].into_iter().chain(self.more.iter().map(String::as_str)).collect();
        let redirector = self.program.group(&name, &self.store, &words)?.until("leads", &name)?;
        let ordinary = self.member(roles, format!("{listen},{}", self.store));
        let stand_in = address()?;
        let eligible = Eligible { group: name.clone(), listen: stand_in, store: self.store };
        let first = MemberOptions { eligible: Some(eligible), ..ordinary.clone() };
        let all = [&first].into_iter().chain(std::iter::repeat(&ordinary)).take(roles.clients as usize);
        let members = all.map(|member| crew.hire(member)).collect::<Result<_>>()?;
        Ok(Group { name, redirector: Some(redirector), stand_in: Some(stand_in), ordinary, members })
    }

    /// Starts clients that speak to the store directly.
    fn clients(self, roles: &Roles, addresses: impl Fn(usize) -> String, crew: &mut Crew) -> Result<Group> {
        let ordinary = self.member(roles, self.store.clone());
        let of = |client| MemberOptions { server: addresses(client), ..ordinary.clone() };
        let members = (0..roles.clients as usize).map(|client| crew.hire(&of(client))).collect::<Result<_>>()?;
        Ok(Group { name: "clients".into(), redirector: None, stand_in: None, ordinary, members })
    }

    fn member(&self, roles: &Roles, server: String) -> MemberOptions {
        let patience = roles.patience.map(|patience| ["--patience-ms".into(), patience.as_millis().to_string()]);
        let arguments = self.more.iter().cloned().chain(patience.into_iter().flatten()).collect();
        MemberOptions { program: self.program.clone(), job: JobName::Lists, server, eligible: None, arguments }
    }
}
