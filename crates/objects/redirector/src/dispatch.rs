//! The messages of members, each to the method that hears it.

use crate::Redirector;
use machine::Goodbye;
use messages::{Ping, Pong, ToServer};
use types::{GoodbyeReason, SessionId, Time};

impl Redirector {
    /// One message of a member. An error that must end its session comes back as its goodbye.
    pub(crate) fn dispatch(&mut self, now: Time, from: SessionId, message: ToServer) -> Result<(), Goodbye> {
        match message {
            ToServer::Hello(hello) => self.hello(now, from, hello),
            ToServer::Resume(resume) if self.members.is_waiting(from) => self.members.keep_resume(from, resume),
            ToServer::Fetch(fetch) if self.members.is_waiting(from) => self.members.keep_fetch(from, fetch),
            ToServer::Goodbye(_) => Err(Goodbye { reason: GoodbyeReason::Done, text: "the member is done".into() }),
            _ if self.members.client(from).is_none() => {
                Err(Goodbye::malformed("expected a hello before anything else".into()))
            }
            ToServer::Resume(resume) => self.resume(now, from, resume),
            ToServer::Ping(ping) => {
                self.ping(from, ping);
                Ok(())
            }
            ToServer::Pong(_) => Ok(()),
            _ if !self.members.is_joined(from) => {
                Err(Goodbye::malformed("expected a resumption before anything is asked for".into()))
            }
            ToServer::Fetch(fetch) => self.fetch(now, from, fetch),
            ToServer::Released(released) => self.released(now, from, &released),
            ToServer::Commit(request) => self.commit(now, from, request),
            ToServer::AskOutcome(ask) => self.ask_outcome(now, from, ask),
            ToServer::Ack(ack) => {
                self.members.ack(from, &ack.through);
                Ok(())
            }
            ToServer::Sync(sync) => {
                self.sync(now, from, sync);
                Ok(())
            }
            ToServer::Grant(grant) => self.grant(now, from, grant),
            ToServer::Reachable(reachable) => {
                self.members.reach(from, reachable);
                self.leadership.tell_members_soon(now);
                Ok(())
            }
            ToServer::NoHelp(no_help) => {
                self.no_help(now, from, no_help);
                Ok(())
            }
            ToServer::PeerPage(page) => {
                self.relay(page);
                Ok(())
            }
            ToServer::Arrived(arrived) => {
                self.arrived(from, &arrived);
                Ok(())
            }
            ToServer::Revalidate(_)
            | ToServer::Departed(_)
            | ToServer::Lead(_)
            | ToServer::FindLeader(_)
            | ToServer::Promise(_) => {
                Err(Goodbye::malformed("expected a request of a member, got one of a redirector".into()))
            }
        }
    }

    /// A heartbeat. The answer moves the horizon of a member that asks for nothing else.
    fn ping(&mut self, from: SessionId, ping: Ping) {
        self.flush_all(from);
        self.out.send(from, Pong { nonce: ping.nonce });
    }

    /// The store is reached: those who have waited for that are welcome.
    pub(crate) fn welcome_waiting(&mut self, now: Time) {
        for (session, hello, brought) in self.members.take_waiting() {
            let admitted = self.admit(now, session, hello);
            let mut said = brought.messages();
            let joined = admitted.and_then(|()| said.try_for_each(|message| self.dispatch(now, session, message)));
            if let Err(why) = joined {
                self.end(now, session, why);
            }
        }
    }
}
