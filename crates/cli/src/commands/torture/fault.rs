//! The faults of the torture.

use super::nodes::NodeFault;
use crate::lab::Cut;

/// One thing that is broken, and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The store is killed, and started again.
    KillStore,
    /// A member is stopped for long, and continues.
    StopMember,
    /// A redirector is killed, and started again at once.
    ReplaceRedirector,
    /// A redirector is killed; a member takes over, until there is one again.
    KillRedirector,
    /// A redirector hangs; a member takes over, and it finds that out.
    StopRedirector,
    /// A member is killed; another one comes.
    KillMember,
    /// A group's line is a black hole, in one direction or both.
    CutSite(Cut),
    /// None but what is different about the lines.
    OnlyLines,
    /// A fault of a store of several nodes.
    Node(NodeFault),
}

impl Fault {
    /// Everything that there can be where lines can be cut so.
    pub(super) fn all(groups: usize, cuts: &[Cut]) -> Vec<Self> {
        let mut faults = vec![Self::KillStore];
        faults.extend(Self::of_groups(groups));
        faults.extend(cuts.iter().map(|&cut| Self::CutSite(cut)));
        faults.extend((!cuts.is_empty()).then_some(Self::OnlyLines));
        faults
    }

    /// The faults of redirectors and members.
    pub(super) fn of_groups(groups: usize) -> impl Iterator<Item = Self> {
        let redirectors = [Self::ReplaceRedirector, Self::KillRedirector, Self::StopRedirector];
        let all = [Self::StopMember].into_iter().chain(redirectors).chain([Self::KillMember]);
        all.filter(move |_| groups > 0)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillStore => "kill the store",
            Self::StopMember => "stop a member",
            Self::ReplaceRedirector => "replace a redirector",
            Self::KillRedirector => "kill a redirector",
            Self::StopRedirector => "stop a redirector",
            Self::KillMember => "kill a member",
            Self::CutSite(Cut::Both) => "cut a site off",
            Self::CutSite(Cut::FromSite) => "drop what a site sends",
            Self::CutSite(Cut::ToSite) => "drop what is sent to a site",
            Self::OnlyLines => "change the lines",
            Self::Node(fault) => fault.name(),
        }
    }

    /// Whether it is a SIGKILL.
    pub(super) fn kills(self) -> bool {
        match self {
            Self::Node(fault) => fault.kills(),
            Self::StopMember | Self::CutSite(_) | Self::OnlyLines => false,
            _ => true,
        }
    }
}
