//! The processes of a torture, or of a measurement of writers: the store, the redirectors of groups, and their members;
//! or clients of the store alone.

use crate::Result;
use crate::crew::{Crew, Eligible, MemberOptions};
use crate::job::{JobName, Work};
use crate::lab::Lab;
use bench::{Redirector, RedirectorOptions, Server, ServerOptions};
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
    pub(crate) options: ServerOptions,
    pub(crate) server: Server,
    /// The groups; if there are none, the clients that speak to the store directly are one without a redirector.
    pub(crate) groups: Vec<Group>,
    pub(crate) crew: Crew,
}

/// A group.
pub(crate) struct Group {
    /// How its redirector is started.
    pub(crate) options: RedirectorOptions,
    pub(crate) redirector: Option<Redirector>,
    /// How those are started who cannot take over.
    pub(crate) ordinary: MemberOptions,
    /// The crew's members that are in it.
    pub(crate) members: Vec<usize>,
}

impl Cluster {
    /// Starts all of them, on a store that has been prepared.
    pub(crate) fn gather(dir: &Path, mut lab: Lab, roles: Roles) -> Result<Self> {
        let path = std::env::current_exe()?;
        let insecure = |is_open: bool| if is_open { vec!["--insecure".to_owned()] } else { Vec::new() };
        let mut options = ServerOptions::new(lab.store.program(&path), dir);
        options.listen = lab.store.address()?;
        options.arguments = insecure(lab.store.is_open());
        if let Some(lease_ms) = roles.lease_ms {
            options.arguments.extend([
                "--leased".into(),
                MAIN_SPACE.to_string(),
                "--lease-ms".into(),
                lease_ms.to_string(),
            ]);
        }
        let server = Server::start(&options)?;
        let (mut crew, mut groups) = (Crew::default(), Vec::new());
        for number in 0..roles.groups.max(1) {
            let place = lab.sites.get_mut(number as usize).unwrap_or(&mut lab.store);
            let (program, more, store) = (place.program(&path), insecure(place.is_open()), server.address());
            let mut options = RedirectorOptions::new(program.clone(), format!("site-{}", number + 1), store);
            options.arguments.clone_from(&more);
            let patience = roles.patience.map(|patience| ["--patience-ms".into(), patience.as_millis().to_string()]);
            let arguments = more.into_iter().chain(patience.into_iter().flatten()).collect();
            let mut ordinary =
                MemberOptions { program, job: JobName::Lists, server: store.to_string(), eligible: None, arguments };
            let (mut redirector, mut first) = (None, ordinary.clone());
            if roles.groups > 0 {
                options.listen = place.address()?;
                redirector = Some(Redirector::start(&options)?);
                ordinary.server = format!("{},{store}", options.listen);
                let eligible = Eligible { group: options.group.clone(), listen: place.address()?, store };
                first = MemberOptions { eligible: Some(eligible), ..ordinary.clone() };
            }
            let all = [&first].into_iter().chain(std::iter::repeat(&ordinary)).take(roles.clients as usize);
            let members = all.map(|member| crew.hire(member)).collect::<Result<_>>()?;
            groups.push(Group { options, redirector, ordinary, members });
        }
        Ok(Self { lab, options, server, groups, crew })
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
