//! The helpers of the tests in this folder: a store without a disk, clients, and raw peers that misbehave.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod group;

use bytes::Bytes;
use client::{Client, Read, TxnError, TxnHandle, Write};
use framing::{Codec, Direction, End, Inbox, Preface, frames_of, preface_frame};
use machine::{Disk, Driver, Hosted, Machine, Parcel, RoleId};
use messages::{Hello, Outcome, PeerHello, ToClient, ToPeer, ToServer};
use net::{
    ConnectError, Handle, Host, ListenConfig, ListenError, Listener, Machines, PeerFamily, Runtime, Shared,
    UpstreamConfig, UpstreamState,
};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use store::{Checkpoint, DiskDone, DiskWork, Opened, Position, Record, Store};
use types::{ClientId, ClusterId, Incarnation, Life, ObjectId, PageId, PeerKey, Time, Version};

/// Long enough for anything that is going to happen on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const CLUSTER: ClusterId = ClusterId(0xC1);

type Callback<T> = Box<dyn Fn(T) + Send + Sync>;
type Failed = Box<dyn Fn(&str) + Send + Sync>;

/// A disk that forgets. Its flushes can be held up, to see who waits for them.
pub struct MemoryDisk {
    queue: Mutex<Vec<Position>>,
    commits: AtomicUsize,
    flushes: Mutex<(bool, u64)>,
    gate: Condvar,
    /// Whether a thread leads a flush; changed with the queue's lock held.
    led: AtomicBool,
    work: Mutex<Sender<DiskWork>>,
    done: Arc<OnceLock<Callback<DiskDone>>>,
    failed: OnceLock<Failed>,
}

impl MemoryDisk {
    pub fn new() -> Arc<Self> {
        let (work, queue) = channel();
        let done: Arc<OnceLock<Callback<DiskDone>>> = Arc::default();
        let deliver = Arc::clone(&done);
        thread::spawn(move || {
            let mut pages = HashMap::new();
            for work in queue {
                deliver.get().expect("registered before any work")(serve(&mut pages, work));
            }
        });
        Arc::new(Self {
            queue: Mutex::default(),
            commits: AtomicUsize::new(0),
            flushes: Mutex::new((true, 0)),
            gate: Condvar::new(),
            led: AtomicBool::new(false),
            work: Mutex::new(work),
            done,
            failed: OnceLock::new(),
        })
    }

    /// Lets flushes through, or holds them up.
    pub fn open_gate(&self, open: bool) {
        self.flushes.lock().unwrap().0 = open;
        self.gate.notify_all();
    }

    /// Waits until this many flushes have begun.
    pub fn wait_flushes(&self, count: u64) {
        drop(self.gate.wait_while(self.flushes.lock().unwrap(), |flushes| flushes.1 < count).unwrap());
    }

    pub fn flushes(&self) -> u64 {
        self.flushes.lock().unwrap().1
    }

    /// The commits that were ever queued.
    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    pub fn fail(&self, text: &str) {
        self.failed.get().expect("registered before any work")(text);
    }
}

type Pages = HashMap<PageId, (Version, Bytes)>;

fn serve(pages: &mut Pages, work: DiskWork) -> DiskDone {
    match work {
        DiskWork::Append(..) => unreachable!("appends are flushed"),
        DiskWork::ReadLog => unreachable!("the store has one node"),
        DiskWork::Free(_) | DiskWork::MakeRoom(_) => DiskDone::Freed { log_bytes_free: 1 << 30 },
        DiskWork::Read(wanted) => {
            DiskDone::Pages(wanted.into_iter().map(|page| (page, pages.get(&page).cloned())).collect())
        }
        DiskWork::Install(images, _) => {
            pages.extend(images.into_iter().map(|image| (image.page, (image.version, image.image))));
            DiskDone::Installed
        }
    }
}

impl Disk for MemoryDisk {
    type Work = DiskWork;
    type Done = DiskDone;

    fn submit(&self, work: DiskWork) -> bool {
        match work {
            DiskWork::Append(position, record) => {
                self.queue.lock().unwrap().push(position);
                self.commits.fetch_add(usize::from(matches!(record, Record::Commit(_))), Ordering::SeqCst);
                true
            }
            work => {
                self.work.lock().unwrap().send(work).unwrap();
                false
            }
        }
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        let through = {
            let mut queue = self.queue.lock().unwrap();
            let Some(&through) = queue.last() else { return false };
            if self.led.swap(true, Ordering::SeqCst) {
                return false;
            }
            queue.clear();
            through
        };
        let mut flushes = self.flushes.lock().unwrap();
        flushes.1 += 1;
        self.gate.notify_all();
        drop(self.gate.wait_while(flushes, |flushes| !flushes.0).unwrap());
        done(DiskDone::Durable { through, log_bytes_free: 1 << 30 });
        let queue = self.queue.lock().unwrap();
        self.led.store(false, Ordering::SeqCst);
        !queue.is_empty()
    }

    fn on_done(&self, done: Callback<DiskDone>) {
        assert!(self.done.set(done).is_ok());
    }

    fn on_failed(&self, failed: Failed) {
        assert!(self.failed.set(failed).is_ok());
    }
}

pub fn runtime() -> Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::start().unwrap()).clone()
}

pub fn store() -> Store {
    store_with(store::Config::default())
}

pub fn store_with(config: store::Config) -> Store {
    let opened = Opened {
        cluster: CLUSTER,
        incarnation: Incarnation(1),
        life: Life(1),
        checkpoint: Checkpoint::default(),
        pages: Vec::new(),
        log_bytes_free: 1 << 30,
    };
    Store::new(config, opened)
}

pub fn new_client() -> Client {
    client_with(PATIENCE)
}

fn client_with(patience: Duration) -> Client {
    // Raw peers of the tests have small numbers.
    static LAST: AtomicU64 = AtomicU64::new(0x2_0000);
    let config = client::Config { patience, ..client::Config::default() };
    Client::new(config, ClientId(1 + LAST.fetch_add(1, Ordering::SeqCst)))
}

/// A machine of a host, as its front end has it, and its driver.
pub struct At<M> {
    pub host: Arc<Host>,
    pub role: RoleId,
    machine: Shared<M>,
    driver: Arc<dyn Driver>,
}

impl<M> Clone for At<M> {
    fn clone(&self) -> Self {
        let (host, machine, driver) = (self.host.clone(), self.machine.clone(), self.driver.clone());
        Self { host, role: self.role, machine, driver }
    }
}

impl<M> Deref for At<M> {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl<M: Machine> At<M> {
    /// A machine alone in its process.
    pub fn alone(machine: M, runtime: &Runtime) -> Self {
        let mut machines = Machines::new();
        let added = machines.add(machine);
        Self::of(Host::start(machines, runtime), added)
    }

    /// The same with a disk.
    pub fn with_disk(machine: M, disk: Arc<impl Disk>, runtime: &Runtime) -> Self {
        let mut machines = Machines::new();
        let added = machines.add_with_disk(machine, disk);
        Self::of(Host::start(machines, runtime), added)
    }

    fn of(host: Arc<Host>, (role, machine): (RoleId, Shared<M>)) -> Self {
        Self { driver: host.driver(role), host, role, machine }
    }

    pub fn lock(&self) -> MutexGuard<'_, Hosted<M>> {
        self.machine.lock().unwrap()
    }

    pub fn connect(&self, config: UpstreamConfig) {
        let peers = Some(PeerFamily { codec: messages::PEER, admit: messages::admit });
        self.host.connect(self.role, UpstreamConfig { peers, ..config });
    }

    pub fn wait_connected(&self, within: Duration) -> Result<(), ConnectError> {
        self.host.wait_connected(self.role, within)
    }

    pub fn state(&self) -> UpstreamState {
        self.host.server_state(self.role)
    }

    pub fn listen(&self, config: ListenConfig) -> Result<SocketAddr, ListenError> {
        self.host.listen(self.role, config)
    }

    pub fn listen_at(&self, listener: Listener) -> Result<SocketAddr, ListenError> {
        self.host.listen_at(self.role, listener)
    }

    pub fn close(&self) {
        self.host.close(self.role);
    }

    pub fn now(&self) -> Time {
        self.driver.now()
    }

    pub fn settle(&self) {
        self.driver.settle();
    }

    pub fn handle(&self) -> Handle<M> {
        Handle::new(self.machine.clone(), self.driver.clone())
    }

    pub fn wake_on(&self, txn: TxnHandle, waker: &Waker) {
        self.driver.wake_on(txn.into(), waker);
    }

    pub fn wake_at(&self, time: Time, waker: &Waker) {
        self.driver.wake_at(time, waker);
    }

    pub fn assist(&self, woken: &dyn Fn() -> bool) {
        self.driver.assist(woken);
    }
}

/// A client with a store in its process, which is the first machine there.
pub fn embedded(disk: Arc<impl Disk>, runtime: &Runtime) -> At<Client> {
    let mut machines = Machines::new();
    let (store, _) = machines.add_with_disk(store(), disk);
    let client = machines.add(new_client());
    machines.link(client.0, store);
    At::of(Host::start(machines, runtime), client)
}

/// A store that takes sessions.
pub struct Server {
    pub host: At<Store>,
    pub disk: Arc<MemoryDisk>,
    pub address: SocketAddr,
}

pub fn server() -> Server {
    server_with(|_| {})
}

pub fn server_with(change: impl FnOnce(&mut ListenConfig)) -> Server {
    let disk = MemoryDisk::new();
    let host = At::with_disk(store(), disk.clone(), &runtime());
    let mut config = ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap());
    change(&mut config);
    let address = host.listen(config).unwrap();
    Server { host, disk, address }
}

/// A client that has connected.
pub fn connect(address: SocketAddr) -> At<Client> {
    connected(new_client(), address)
}

/// The same for tests of what never comes, which wait for it.
pub fn connect_impatient(address: SocketAddr) -> At<Client> {
    connected(client_with(Duration::from_secs(2)), address)
}

fn connected(client: Client, address: SocketAddr) -> At<Client> {
    let host = At::alone(client, &runtime());
    host.connect(UpstreamConfig::new(messages::CLIENT, address.to_string()));
    host.wait_connected(PATIENCE).unwrap();
    host
}

/// A thread that waits as a front end's does: it reads the socket itself, unless another thread does.
pub struct Waiting {
    thread: Thread,
    woken: AtomicBool,
}

impl Waiting {
    pub fn here() -> Arc<Self> {
        Arc::new(Self { thread: thread::current(), woken: AtomicBool::new(false) })
    }

    /// Waits until it is woken.
    pub fn wait(&self, host: &At<Client>) {
        host.assist(&|| self.woken.load(Ordering::SeqCst));
        while !self.woken.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Calls the client again and again until it need not wait.
pub fn wait<R>(
    host: &At<Client>,
    txn: TxnHandle,
    mut call: impl FnMut(&mut Client) -> Result<Option<R>, TxnError>,
) -> Result<R, TxnError> {
    let waiting = Waiting::here();
    let waker = Waker::from(Arc::clone(&waiting));
    loop {
        let answer = call(host.lock().machine())?;
        host.settle();
        if let Some(answer) = answer {
            return Ok(answer);
        }
        host.wake_on(txn, &waker);
        waiting.wait(host);
    }
}

pub fn begin(host: &At<Client>) -> TxnHandle {
    host.lock().machine().begin()
}

pub fn object(slot: u16) -> ObjectId {
    ObjectId { slot, ..ObjectId::root(0) }
}

pub fn read(host: &At<Client>, txn: TxnHandle, slot: u16) -> Result<Option<Vec<u8>>, TxnError> {
    wait(host, txn, |client| {
        Ok(match client.read(host.now(), txn, object(slot))? {
            Read::Value(value) => Some(Some(value.to_vec())),
            Read::Absent => Some(None),
            Read::Wait => None,
        })
    })
}

pub fn commit(host: &At<Client>, txn: TxnHandle) -> Result<Outcome, TxnError> {
    host.lock().machine().commit(host.now(), txn)?;
    wait(host, txn, |client| client.outcome(txn))
}

/// Writes one object in a transaction of its own.
pub fn put(host: &At<Client>, slot: u16, value: &[u8]) -> Result<Outcome, TxnError> {
    let txn = begin(host);
    wait(host, txn, |client| {
        let written = client.write(host.now(), txn, object(slot), Bytes::copy_from_slice(value))?;
        Ok((written != Write::Wait).then_some(()))
    })?;
    commit(host, txn)
}

/// Writes it again and again until nobody else gets in between.
pub fn put_surely(host: &At<Client>, slot: u16, value: &[u8]) {
    while !matches!(put(host, slot, value), Ok(Outcome::Committed { .. })) {}
}

/// Reads one object in a transaction of its own, which commits.
pub fn get(host: &At<Client>, slot: u16) -> Option<Vec<u8>> {
    loop {
        let txn = begin(host);
        let value = read(host, txn, slot);
        if let (Ok(value), Ok(Outcome::Committed { .. })) = (value, commit(host, txn)) {
            return value;
        }
    }
}

/// A peer that says what it likes, also what nobody says to the other end, and hears what one in its place does.
pub struct Raw<Hears = ToClient> {
    pub stream: TcpStream,
    inbox: Inbox,
    hears: PhantomData<Hears>,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// Connects and says hello, and is welcomed.
    pub fn greet(address: SocketAddr, client: ClientId, epoch: u64) -> Self {
        let mut raw = Self::connect(address);
        raw.send(&hello(client, epoch));
        let answer = raw.next();
        assert!(matches!(answer, Some(ToClient::Welcome(_))), "{answer:?}");
        raw
    }
}

/// The end of a link that hears these messages.
pub trait Side: Direction {
    const CODEC: &'static dyn Codec;
}

impl Side for ToClient {
    const CODEC: &'static dyn Codec = messages::CLIENT;
}

impl Side for ToServer {
    const CODEC: &'static dyn Codec = messages::SERVER;
}

impl Side for framing::Answer {
    const CODEC: &'static dyn Codec = framing::OPERATOR;
}

impl Side for ToPeer {
    const CODEC: &'static dyn Codec = messages::PEER;
}

impl Raw<ToPeer> {
    /// Connects to a member as a peer does, and shows a key.
    pub fn peer((address, key): (SocketAddr, PeerKey)) -> Self {
        let mut raw = Self::over(TcpStream::connect(address).unwrap());
        raw.send(&ToPeer::PeerHello(PeerHello { client: ClientId(0xE11), key }));
        raw
    }
}

impl<Hears: Side> Raw<Hears> {
    /// Begins with a preface.
    pub fn over(stream: TcpStream) -> Self {
        let mut raw = Self::bare(stream);
        raw.send_bytes(&preface_frame(Hears::CODEC, &Preface::of(Hears::CODEC)));
        raw
    }

    /// Begins with nothing.
    pub fn bare(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, inbox: Inbox::new(Hears::CODEC), hears: PhantomData }
    }

    pub fn send<M: Direction + Clone>(&mut self, message: &M) {
        self.send_bytes(&frame(message));
    }

    /// The peer may refuse the bytes in the middle of them: that is no error here.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next message; `None` when the peer has closed.
    pub fn next(&mut self) -> Option<Hears> {
        self.receive().unwrap_or_else(|e| panic!("waiting for a message: {e}"))
    }

    /// The next message; `None` when there is none to come, for whatever reason.
    pub fn try_next(&mut self) -> Option<Hears> {
        self.receive().ok().flatten()
    }

    fn receive(&mut self) -> std::io::Result<Option<Hears>> {
        let mut byte = [0];
        while self.stream.read(&mut byte)? > 0 {
            if let Some(message) = self.inbox.next(&mut &byte[..]).unwrap() {
                return Ok(Some(message.open().unwrap()));
            }
        }
        Ok(None)
    }

    /// The reason of the goodbye that ends the connection, whatever comes before it.
    pub fn goodbye(&mut self) -> (&'static str, String) {
        loop {
            let message = self.next().expect("a goodbye before the end");
            if let Some(goodbye) = message.goodbye() {
                assert_eq!(self.next(), None, "nothing follows a goodbye");
                return (goodbye.reason.name(), goodbye.text.clone());
            }
        }
    }
}

pub fn hello(client: ClientId, epoch: u64) -> ToServer {
    ToServer::Hello(Hello { features: 0, cluster: None, client, epoch })
}

pub fn frame<M: Direction + Clone>(message: &M) -> Vec<u8> {
    frames_of(End::<M, M>::CODEC, &Parcel::new(message.clone())).unwrap()
}

/// Listens, and answers each connection with what `answer` gives.
pub fn listen(mut answer: impl FnMut(Raw<ToServer>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(Raw::over(stream.unwrap()));
        }
    });
    address
}

/// The hello of the peer that has connected.
pub fn hello_of(raw: &mut Raw<ToServer>) -> Hello {
    match raw.next() {
        Some(ToServer::Hello(hello)) => hello,
        other => panic!("expected a hello, got {other:?}"),
    }
}
