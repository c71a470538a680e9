//! The control socket of an attached volume, asked well and badly.

use attach::control::{Action, Control, ControlError, ControlledVolume, Order, ask, order};
use attach::{AttachConfig, Attached, create_home};
use bytes::Bytes;
use fixtures::nbd_client::{Client, Command as Nbd};
use nbd::{Address, Export, Server, ServerConfig};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

const SIZE: u64 = 4 << 20;

/// Everything that is waited for has come by then.
const LONG: Duration = Duration::from_secs(20);

/// A volume that is attached and served.
struct Rig {
    dir: PathBuf,
    attached: Option<Arc<Attached>>,
    server: Server,
    control: Option<Control>,
}

impl Rig {
    fn new() -> Self {
        static RIGS: AtomicU32 = AtomicU32::new(0);
        let name = format!("thorp-control-{}-{}", std::process::id(), RIGS.fetch_add(1, Relaxed));
        // An address in the file system has room for 107 bytes.
        let dir = std::env::temp_dir().join(name).join("with-a-path-that-no-address-has-room-for".repeat(3));
        std::fs::create_dir_all(&dir).unwrap();
        create_home(&dir.join("disk"), SIZE).unwrap();
        Self::attach(dir)
    }

    fn attach(dir: PathBuf) -> Self {
        let config = AttachConfig {
            log_bytes: 4 << 20,
            clean_bytes: 1 << 20,
            age_max: Duration::from_secs(600),
            ..AttachConfig::new(dir.join("disk"), dir.join("cache"))
        };
        let attached = Arc::new(Attached::attach(&config).unwrap());
        let export = Export { name: "v".into(), description: String::new(), device: attached.clone() };
        let server = Server::start(&ServerConfig::new("127.0.0.1:0".parse().unwrap()), vec![export]).unwrap();
        let controlled = ControlledVolume {
            name: "disk".into(),
            attached: attached.clone(),
            server: server.watch(),
            listen: vec![server.addresses()[0].to_string()],
            dirty_bytes_max: config.log_bytes,
            since: Instant::now(),
            scrubbing: None,
        };
        let control = Control::start(&config.cache, Arc::new(controlled)).unwrap();
        Self { dir, attached: Some(attached), server, control: Some(control) }
    }

    fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    fn identity(&self) -> String {
        self.dir.join("disk").canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    fn order(&self, action: Action) -> Result<(), ControlError> {
        order(&self.cache(), &Order { volume: self.identity(), action }, &|| false)
    }

    fn resize(&self, size: u64) -> Result<(), ControlError> {
        self.order(Action::Resize { size, may_shrink: true })
    }

    fn connect(&self) -> Client {
        let Address::Tcp(address) = &self.server.addresses()[0] else { panic!("it listens on TCP") };
        Client::connect(&Address::Tcp(*address), "").unwrap()
    }

    fn connect_to_control(&self) -> UnixStream {
        static LINKS: AtomicU32 = AtomicU32::new(0);
        // A shorter name of the same folder.
        let name = format!("thorp-control-link-{}-{}", std::process::id(), LINKS.fetch_add(1, Relaxed));
        let link = std::env::temp_dir().join(name);
        std::os::unix::fs::symlink(self.cache(), &link).unwrap();
        let stream = UnixStream::connect(link.join("control")).unwrap();
        std::fs::remove_file(&link).unwrap();
        stream
    }

    /// Sends bytes to the socket, and gives what comes back.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect_to_control();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // It may hang up before all is said.
        let _ = stream.write_all(bytes);
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("it neither answers nor hangs up: {error}"),
            }
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.control.take());
        self.attached.take();
        let _ = std::fs::remove_dir_all(self.dir.parent().unwrap());
    }
}

fn write(client: &mut Client, block: u64, mark: u8) -> u32 {
    client.call(&Nbd::Write { offset: block * 4096, data: &[mark; 4096], fua: true }).unwrap().error
}

fn read(client: &mut Client, block: u64) -> (u32, Bytes) {
    let read = client.call(&Nbd::Read { offset: block * 4096, len: 4096, whole: true }).unwrap();
    (read.error, read.data.into())
}

#[test]
fn a_volume_tells_how_it_stands() {
    let rig = Rig::new();
    let mode = std::fs::metadata(rig.control.as_ref().unwrap().path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = rig.connect();
    assert_eq!(write(&mut client, 3, 7), 0);
    assert_eq!(read(&mut client, 3).0, 0);
    assert_eq!(read(&mut client, 9).0, 0);
    // It is answered before it is cached.
    let begun = Instant::now();
    while ask(&rig.cache()).unwrap()["clean_blocks"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "what was read is not cached");
    }
    assert_eq!(read(&mut client, 9).0, 0);
    let status = ask(&rig.cache()).unwrap();
    let figure = |name: &str| status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"));
    assert_eq!((figure("size"), figure("attachment"), figure("dirty_writes")), (SIZE, 1, 1));
    assert_eq!((figure("read_blocks_dirty"), figure("read_blocks_home"), figure("read_blocks_clean")), (1, 1, 1));
    assert_eq!((figure("written_blocks"), figure("connections"), figure("copies")), (1, 1, 1));
    assert!(status["dirty_age_s"].as_f64().unwrap() < 60.0 && status["degraded"].is_null(), "{status}");
    let metrics = rig.say(b"GET /metrics HTTP/1.1\r\nHost: v\r\n\r\n");
    assert!(metrics.contains("\nthorp_volume_dirty_writes{volume=\"disk\"} 1\n"), "{metrics}");
    assert!(metrics.contains("# TYPE thorp_volume_written_blocks_total counter\n"), "{metrics}");
}

#[test]
fn everything_comes_home_when_it_is_wanted() {
    let rig = Rig::new();
    let mut client = rig.connect();
    assert_eq!(write(&mut client, 3, 7), 0);
    assert_eq!(std::fs::read(rig.dir.join("disk")).unwrap()[3 * 4096], 0);
    rig.order(Action::BringHome).unwrap();
    assert_eq!(std::fs::read(rig.dir.join("disk")).unwrap()[3 * 4096], 7);
    assert_eq!(ask(&rig.cache()).unwrap()["dirty_writes"], 0);
    // Where there is nothing, it is done.
    rig.order(Action::BringHome).unwrap();
}

#[test]
fn a_volume_is_given_another_size_while_it_is_attached() {
    let rig = Rig::new();
    let mut client = rig.connect();
    assert_eq!((write(&mut client, 1, 7), write(&mut client, 800, 8)), (0, 0));
    rig.resize(1 << 20).unwrap();
    let len = || std::fs::metadata(rig.dir.join("disk")).unwrap().len();
    assert_eq!((len(), &ask(&rig.cache()).unwrap()["size"]), (1 << 20, &(1 << 20).into()));
    // The connections that there are know the old size, and are refused behind the new end.
    assert_ne!(read(&mut client, 800).0, 0);
    assert_ne!(write(&mut client, 800, 9), 0);
    assert_eq!(rig.connect().info().size, 1 << 20);
    rig.resize(2 * SIZE).unwrap();
    assert_eq!((len(), rig.connect().info().size), (2 * SIZE, 2 * SIZE));
    // The writes behind the end do not come back.
    let mut client = rig.connect();
    assert!(read(&mut client, 800).1.iter().all(|byte| *byte == 0));
    assert!(read(&mut client, 1).1.iter().all(|byte| *byte == 7));
    assert_eq!(write(&mut client, 2 * SIZE / 4096 - 1, 5), 0);
    for size in [0, 4097, u64::MAX] {
        let refused = rig.resize(size).unwrap_err().to_string();
        assert!(refused.contains("whole number of blocks"), "{refused}");
    }
}

/// A volume changes its size again and again while clients read and write: what is before the smaller end stays, and
/// what is behind it is refused or gone.
#[test]
fn requests_go_on_while_the_size_changes() {
    let rig = Rig::new();
    let (is_over, taken, blocks) = (AtomicBool::new(false), AtomicU32::new(0), SIZE / 4096);
    std::thread::scope(|scope| {
        let kept = scope.spawn(|| {
            let (mut client, mut marks) = (rig.connect(), vec![0; blocks as usize / 2]);
            for number in (0..blocks / 2).cycle() {
                if is_over.load(SeqCst) {
                    return marks;
                }
                let mark = marks[number as usize] % 250 + 1;
                assert_eq!(write(&mut client, number, mark), 0, "block {number}");
                marks[number as usize] = mark;
                let (error, data) = read(&mut client, number);
                assert!(error == 0 && data.iter().all(|byte| *byte == mark), "block {number}: {error}");
            }
            unreachable!("there is no last one")
        });
        let lost = scope.spawn(|| {
            let mut client = rig.connect();
            for number in (blocks / 2..blocks).cycle().take_while(|_| !is_over.load(SeqCst)) {
                // It is refused while the volume is small.
                taken.fetch_add(u32::from(write(&mut client, number, 255) == 0), SeqCst);
                let (error, data) = read(&mut client, number);
                assert!(error != 0 || data.iter().all(|byte| *byte == data[0]), "block {number} is mixed");
            }
        });
        for _ in 0..10 {
            rig.resize(SIZE / 2).unwrap();
            rig.resize(SIZE).unwrap();
            let (before, begun) = (taken.load(SeqCst), Instant::now());
            while taken.load(SeqCst) == before && !lost.is_finished() && begun.elapsed() < LONG {
                std::thread::yield_now();
            }
        }
        let last = taken.load(SeqCst);
        rig.resize(SIZE / 2).unwrap();
        is_over.store(true, SeqCst);
        lost.join().unwrap();
        let marks = kept.join().unwrap();
        assert!(last >= 10, "hardly anything was written behind the smaller end: {last} times");
        rig.resize(SIZE).unwrap();
        let mut client = rig.connect();
        for number in 0..blocks {
            let expected = marks.get(number as usize).copied().unwrap_or(0);
            let (error, data) = read(&mut client, number);
            assert!(error == 0 && data.iter().all(|byte| *byte == expected), "block {number}: {error}");
        }
    });
}

#[test]
fn bad_questions_are_refused_and_harm_nobody() {
    let rig = Rig::new();
    let post = |path: &str, body: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: v\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let resize = |volume: &str, more: &str| post("/resize", &format!(r#"{{"volume": "{volume}", {more}}}"#));
    let own = rig.identity();
    let refused = [
        (post("/resize", "{}"), " 400 "),
        (post("/resize", r#"{"size": 4096, "may_shrink": true}"#), " 400 "),
        (resize(&own, r#""size": -4096, "may_shrink": true"#), " 400 "),
        (resize(&own, r#""size": 4096, "may_shrink": true, "force": true"#), " 400 "),
        (post("/resize", &" ".repeat(100_000)), " 400 "),
        (resize(&own, r#""size": 5, "may_shrink": true"#), " 409 "),
        (resize("/another", r#""size": 4096, "may_shrink": true"#), " 409 "),
        (post("/status", "{}"), " 404 "),
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: v\r\n\r\n".to_owned(), " 404 "),
        ("\r\n\0\u{7f}ELF no protocol at all\r\n\r\n".to_owned(), " 400 "),
        (format!("GET /status HTTP/1.1\r\nHost: {}\r\n\r\n", "v".repeat(1 << 20)), " 4"),
    ];
    for (request, expected) in refused {
        let said = rig.say(request.as_bytes());
        // Of a request that is not read to its end the answer may be lost.
        let is_cut = said.is_empty() && request.len() > 50_000;
        assert!(said.lines().next().is_some_and(|line| line.contains(expected)) || is_cut, "{request:.80}: {said}");
    }
    assert_eq!(ask(&rig.cache()).unwrap()["size"], SIZE);
}

#[test]
fn those_that_say_nothing_take_nobodys_place_for_long() {
    let rig = Rig::new();
    let silent: Vec<_> = (0..40).map(|_| rig.connect_to_control()).collect();
    assert_eq!(ask(&rig.cache()).unwrap()["size"], SIZE);
    drop(silent);
}

/// A folder may be that of another volume by now.
#[test]
fn a_command_is_for_one_volume() {
    let (rig, other) = (Rig::new(), Rig::new());
    assert_eq!(ask(&rig.cache()).unwrap()["identity"], rig.identity().as_str());
    for action in [Action::BringHome, Action::Resize { size: 4096, may_shrink: true }] {
        let refused = order(&rig.cache(), &Order { volume: other.identity(), action }, &|| false).unwrap_err();
        assert!(refused.to_string().contains("and not of"), "{refused}");
    }
    assert_eq!(ask(&rig.cache()).unwrap()["size"], SIZE);
}

#[test]
fn a_volume_loses_nothing_unless_that_is_said() {
    let rig = Rig::new();
    let refused = rig.order(Action::Resize { size: SIZE / 2, may_shrink: false }).unwrap_err().to_string();
    assert!(refused.contains("--shrink"), "{refused}");
    assert_eq!(ask(&rig.cache()).unwrap()["size"], SIZE);
    rig.order(Action::Resize { size: 2 * SIZE, may_shrink: false }).unwrap();
    assert_eq!(ask(&rig.cache()).unwrap()["size"], 2 * SIZE);
}

#[test]
fn a_socket_says_whether_there_is_somebody() {
    let mut rig = Rig::new();
    let cache = rig.cache();
    assert!(matches!(ask(&rig.dir.join("none")), Err(ControlError::NotThere(_))));
    assert!(matches!(ask(&rig.dir), Err(ControlError::NotThere(_))));
    drop(rig.control.take());
    assert!(matches!(ask(&cache), Err(ControlError::NotThere(_))));
    rig.attached.take().unwrap().detach().unwrap();
    // A process that was killed leaves its socket.
    let link = rig.dir.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&cache, &link).unwrap();
    drop(UnixListener::bind(link.join("control")).unwrap());
    assert!(matches!(ask(&cache), Err(ControlError::Ended(_))));
    let again = Rig::attach(rig.dir.clone());
    assert_eq!(ask(&cache).unwrap()["attachment"], 2);
    drop((again.control.as_ref(), rig));
}
