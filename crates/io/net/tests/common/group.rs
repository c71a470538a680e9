//! A group whose redirector does what a test tells it to. Its members are real: hosts with clients, over real sockets.

use super::*;
use messages::{Fetch, GROUP, Help, Lineage, NoHelp, Page, PeerPage, Pong, Resumed, SessionLimits, Welcome};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::MutexGuard;
use std::sync::mpsc::sync_channel;
use types::{NodeId, ObjectPage, PeerKey, Sharding, SlotChange};

/// How a page that a member has comes to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The helper is told where the other is reached.
    Direct,
    /// The helper is told this instead.
    By(String),
    /// Nobody is asked: the test does it.
    Held,
}

/// The redirector's knowledge, and the messages that have come by it.
pub struct State {
    pub way: Way,
    pub members: BTreeMap<ClientId, Seat>,
    /// The client that was sent the page first.
    pub holders: BTreeMap<PageId, ClientId>,
    /// Fetches that are held.
    pub held: Vec<(ClientId, Fetch)>,
    pub relayed: usize,
    pub arrived: usize,
    closed: bool,
}

/// A member, as its redirector sees it.
pub struct Seat {
    out: TcpStream,
    pub address: String,
    pub key: PeerKey,
    /// How often it has said where it is reached.
    pub said: usize,
}

#[derive(Clone)]
pub struct Group {
    pub address: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Group {
    pub fn start() -> Self {
        Self::at("127.0.0.1:0")
    }

    pub fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (way, members, holders, held) = (Way::Direct, BTreeMap::new(), BTreeMap::new(), Vec::new());
        let state = State { way, members, holders, held, relayed: 0, arrived: 0, closed: false };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let group = Self { address: listener.local_addr().unwrap(), shared };
        let serving = group.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (group, stream) = (serving.clone(), stream.unwrap());
                if group.state().closed {
                    return;
                }
                thread::spawn(move || group.serve(&stream));
            }
        });
        group
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }

    /// Waits until the state is as wanted.
    pub fn wait(&self, what: &str, is: impl Fn(&State) -> bool) {
        let (_state, waited) = self.shared.1.wait_timeout_while(self.state(), PATIENCE, |state| !is(state)).unwrap();
        assert!(!waited.timed_out(), "never: {what}");
    }

    /// A member that has joined and is reachable.
    pub fn join(&self) -> Member {
        self.join_on(&runtime())
    }

    pub fn join_on(&self, runtime: &Runtime) -> Member {
        self.take(Member::new(runtime))
    }

    /// Has a member join, and be reachable.
    pub fn take(&self, member: Member) -> Member {
        member.host.connect(UpstreamConfig::new(messages::CLIENT, self.address.to_string()));
        self.wait("reachable", |state| state.members.get(&member.id).is_some_and(|seat| seat.said > 0));
        member
    }

    /// Where peers reach the member, and what they are let in by.
    pub fn door_of(&self, member: &Member) -> (SocketAddr, PeerKey) {
        (self.address_of(member), self.state().members[&member.id].key)
    }

    /// Where peers reach the member.
    pub fn address_of(&self, member: &Member) -> SocketAddr {
        self.state().members[&member.id].address.parse().unwrap()
    }

    /// Ends the session of a member.
    pub fn cut(&self, member: &Member) {
        self.state().members[&member.id].out.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// The redirector is gone.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for seat in state.members.values() {
            let _ = seat.out.shutdown(std::net::Shutdown::Both);
        }
        drop(state);
        // Has the listening thread look up.
        let _ = TcpStream::connect(self.address);
    }

    fn serve(&self, stream: &TcpStream) {
        stream.set_nodelay(true).unwrap();
        let (mut raw, mut client) = (Raw::<ToServer>::over(stream.try_clone().unwrap()), ClientId(0));
        raw.stream.set_read_timeout(None).unwrap();
        while let Some(message) = raw.try_next() {
            let mut state = self.state();
            match message {
                ToServer::Hello(hello) => {
                    client = hello.client;
                    let (out, address) = (stream.try_clone().unwrap(), String::new());
                    let said = state.members.get(&client).map_or(0, |seat| seat.said);
                    state.members.insert(client, Seat { out, address, key: PeerKey::default(), said });
                    state.tell(client, &welcome(GROUP));
                }
                other => state.hear(client, other),
            }
            self.shared.1.notify_all();
        }
    }
}

pub fn welcome(features: u64) -> ToClient {
    ToClient::Welcome(Welcome {
        features,
        cluster: CLUSTER,
        node: NodeId(0),
        incarnation: Incarnation(1),
        lineage: Lineage::default(),
        sharding: Sharding::ONE,
        through: Version(1).into(),
        limits: SessionLimits { fetches: 100, commits: 100, silence_ms: 10_000 },
    })
}

impl State {
    pub fn tell(&self, client: ClientId, message: &ToClient) {
        // A member that is gone hears nothing.
        let _ = (&self.members[&client].out).write_all(&frame(message));
    }

    fn hear(&mut self, client: ClientId, message: ToServer) {
        match message {
            ToServer::Resume(resume) if resume.last => {
                self.tell(client, &ToClient::Resumed(Resumed { through: Version(1).into(), dropped: vec![] }));
            }
            ToServer::Reachable(reachable) => {
                let seat = self.members.get_mut(&client).unwrap();
                (seat.address, seat.key, seat.said) = (reachable.address, reachable.key, seat.said + 1);
            }
            ToServer::Fetch(fetch) if self.way == Way::Held => self.held.push((client, fetch)),
            ToServer::Fetch(fetch) => self.answer(client, &fetch),
            ToServer::PeerPage(page) => {
                self.relayed += 1;
                self.tell(page.requester, &ToClient::PeerPage(page));
            }
            ToServer::NoHelp(NoHelp { requester, number, pages }) => {
                for page in pages {
                    self.send(requester, page, number);
                }
            }
            ToServer::Arrived(arrived) => self.arrived += arrived.pages.len(),
            ToServer::Ping(ping) => self.tell(client, &ToClient::Pong(Pong { nonce: ping.nonce })),
            _ => {}
        }
    }

    /// Has those help who have the pages, and sends the others.
    pub fn answer(&mut self, client: ClientId, fetch: &Fetch) {
        for &page in &fetch.pages {
            match self.holders.get(&page) {
                Some(&helper) if helper != client => self.ask(helper, client, page, fetch.number),
                _ => self.send(client, page, fetch.number),
            }
        }
    }

    /// Asks a member to send a page to another.
    pub fn ask(&self, helper: ClientId, requester: ClientId, page: PageId, number: u64) {
        let seat = &self.members[&requester];
        let address = match &self.way {
            Way::By(address) => address.clone(),
            _ => seat.address.clone(),
        };
        let help = Help { requester, number, through: Version(0).into(), address, key: seat.key, pages: vec![page] };
        self.tell(helper, &ToClient::Help(help));
    }

    /// Sends a page of the store's.
    pub fn send(&mut self, client: ClientId, page: PageId, number: u64) {
        self.holders.entry(page).or_insert(client);
        let image = image(page);
        self.tell(
            client,
            &ToClient::Page(Page { page, version: Version(1), number, fresh: true, behind: Vec::new(), image }),
        );
    }
}

/// The content of a page.
pub fn value(page: PageId) -> Vec<u8> {
    page.number.to_le_bytes().repeat(if page.number >= LARGE { 15_000 } else { 20 })
}

/// From this number on a page is as large as pages are.
pub const LARGE: u32 = 1_000_000;

pub fn image(page: PageId) -> Bytes {
    let value = Some(value(page).into());
    ObjectPage::empty().with(&[SlotChange { slot: 0, value }]).unwrap().image().clone()
}

/// A page from a peer.
pub fn peer_page(requester: ClientId, page: PageId, number: u64) -> ToPeer {
    let page = Page { page, version: Version(1), number, fresh: false, behind: Vec::new(), image: image(page) };
    ToPeer::PeerPage(PeerPage { requester, through: Version(0).into(), page })
}

/// A host whose client is a member of a group.
#[derive(Clone)]
pub struct Member {
    pub host: At<Client>,
    pub id: ClientId,
}

impl Member {
    pub fn new(runtime: &Runtime) -> Self {
        Self::reading_ahead(runtime, 0)
    }

    /// One that may fetch so many pages ahead.
    pub fn reading_ahead(runtime: &Runtime, pages: u32) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0x1000);
        let id = ClientId(1 + LAST.fetch_add(1, Ordering::SeqCst));
        let config =
            client::Config { prefetch_pages_max: pages, first_window_bytes: usize::MAX, ..client::Config::default() };
        Self { host: At::alone(Client::new(config, id), runtime), id }
    }

    /// Reads what is in a page, within reason.
    pub fn read(&self, page: PageId) -> Vec<u8> {
        self.begin_read(page)()
    }

    /// Begins to; gives what waits for the end of it.
    pub fn begin_read(&self, page: PageId) -> impl FnOnce() -> Vec<u8> + use<> {
        let (tell, told) = sync_channel(1);
        let member = self.clone();
        thread::spawn(move || {
            let value = member.read_here(page);
            drop(member);
            tell.send(value)
        });
        move || told.recv_timeout(PATIENCE).expect("the page comes")
    }

    /// The same on this thread.
    pub fn read_here(&self, page: PageId) -> Vec<u8> {
        let host = &self.host;
        let txn = begin(host);
        let value = wait(host, txn, |client| {
            Ok(match client.read(host.now(), txn, ObjectId::new(page, 0))? {
                Read::Value(value) => Some(value.to_vec()),
                Read::Absent => Some(Vec::new()),
                Read::Wait => None,
            })
        });
        host.lock().machine().abort(host.now(), txn);
        host.settle();
        value.unwrap()
    }

    /// The pages from the store or peers, those of them from peers, and those given to peers.
    pub fn pages(&self) -> (u64, u64, u64) {
        let stats = self.host.lock().machine().stats();
        (stats.pages_fetched, stats.pages_from_peers, stats.pages_given)
    }
}

/// Waits until something is so.
pub fn eventually(what: &str, is: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        thread::yield_now();
    }
}
