//! The processes of a torture, or of a measurement of writers: the store, the redirectors of groups, and their members;
//! or clients of the store alone.

use crate::Result;
use crate::crew::{Crew, Eligible, MemberOptions};
use crate::job::{JobName, Work};
use crate::lab::Lab;
use crate::nodes::Nodes;
use fixtures::{Process, Program};
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
    /// How long the store's leases last, in milliseconds, if it gives any.
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
            let (program, more, store) = (place.program(&path), insecure(place.is_open()), server.address());
            let name = format!("site-{}", number + 1);
            let patience = roles.patience.map(|patience| ["--patience-ms".into(), patience.as_millis().to_string()]);
            let arguments = more.iter().map(ToString::to_string).chain(patience.into_iter().flatten()).collect();
            let mut ordinary =
                MemberOptions { program, job: JobName::Lists, server: store.to_string(), eligible: None, arguments };
            let (mut redirector, mut first) = (None, ordinary.clone());
            if roles.groups > 0 {
                let listen = place.address()?.to_string();
                let words = [&["--listen", &listen], more].concat();
                redirector = Some(ordinary.program.group(&name, store, &words)?.until("leads", &name)?);
                ordinary.server = format!("{listen},{store}");
                let eligible = Eligible { group: name.clone(), listen: place.address()?, store };
                first = MemberOptions { eligible: Some(eligible), ..ordinary.clone() };
            }
            let all = [&first].into_iter().chain(std::iter::repeat(&ordinary)).take(roles.clients as usize);
            let members = all.map(|member| crew.hire(member)).collect::<Result<_>>()?;
            groups.push(Group { name, redirector, ordinary, members });
        }
        Ok(Self { lab, store: Store::Single(program, Box::new(server)), groups, crew })
    }

    /// Starts clients of a store of several nodes. Each names another node first.
    pub(crate) fn around(nodes: Nodes, roles: Roles) -> Result<Self> {
        let (mut crew, lab) = (Crew::default(), Lab::loopback(0));
        let patience = roles.patience.map(|patience| ["--patience-ms".into(), patience.as_millis().to_string()]);
        let ordinary = MemberOptions {
            program: Program::this()?,
            job: JobName::Lists,
            server: nodes.addresses(0),
            eligible: None,
            arguments: patience.into_iter().flatten().collect(),
        };
        let of = |client| MemberOptions { server: nodes.addresses(client), ..ordinary.clone() };
        let members = (0..roles.clients as usize).map(|client| crew.hire(&of(client))).collect::<Result<_>>()?;
        let groups = vec![Group { name: "clients".into(), redirector: None, ordinary, members }];
        Ok(Self { lab, store: Store::Nodes(Box::new(nodes)), groups, crew })
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
