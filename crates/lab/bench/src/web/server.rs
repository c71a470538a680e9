//! The caches that are measured, each in processes of its own, set up in a scratch folder.

use super::origin::Origin;
use crate::process::{Process, listening};
use crate::{Program, Result, lasting_address};
use rustix::process::geteuid;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A cache that others have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// nginx with `proxy_cache`.
    Nginx,
    /// Varnish.
    Varnish,
}

impl Rival {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
        }
    }
}

/// A cache before the origin.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    address: SocketAddr,
    /// For operators, of `thorp proxy`.
    admin: Option<SocketAddr>,
    process: Running,
}

/// Dropping it ends the process.
#[derive(Debug)]
enum Running {
    Thorp(Process),
    Rival(Ended),
}

/// How long a server may take to answer for the first time.
const READY_WITHIN: Duration = Duration::from_secs(20);

impl Server {
    /// `thorp proxy` with these options, and else as it is without.
    pub(crate) fn thorp(program: &Path, origin: &Origin, threads: usize, options: &[&str]) -> Result<Self> {
        let mut command = Program::from(program).command();
        command
            .args(["proxy", "--json", "--until-stdin-closes", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--threads", &threads.to_string(), "--origin", &format!("http://{}", origin.address())])
            .args(options);
        let (process, ready) = Process::start(&mut command, "the proxy")?;
        let admin = ready["admin"].as_str().and_then(|address| address.parse().ok());
        Ok(Self { name: "thorp", address: listening(&ready)?, admin, process: Running::Thorp(process) })
    }

    /// A rival; `None` if it is not installed.
    pub(crate) fn rival(rival: Rival, dir: &Path, origin: &Origin, threads: usize) -> Result<Option<Self>> {
        let dir = fs::canonicalize(dir)?.join(rival.name());
        fs::create_dir_all(&dir)?;
        let address = lasting_address()?;
        let mut command = match rival {
            Rival::Nginx => nginx(&dir, address, origin, threads)?,
            Rival::Varnish => varnish(&dir, address, origin)?,
        };
        let output = fs::File::create(dir.join("output"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            child => Ended(child?),
        };
        let mut server = Self { name: rival.name(), address, admin: None, process: Running::Rival(child) };
        server.wait_until_ready(&dir)?;
        Ok(Some(server))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The memory that its process has now, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let pid = match &self.process {
            Running::Thorp(process) => process.id(),
            Running::Rival(child) => child.0.id(),
        };
        resident_bytes(pid).ok_or_else(|| "the system does not say how much memory a process has".into())
    }

    /// The status that it tells operators.
    pub(crate) fn status(&self) -> Result<Value> {
        let admin = self.admin.ok_or("there is no listener for operators")?;
        let mut stream = TcpStream::connect(admin)?;
        write!(stream, "GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").filter(|_| answer.starts_with("HTTP/1.1 200")).map(|(_, body)| body);
        Ok(serde_json::from_str(body.ok_or_else(|| format!("expected a status, got: {answer}"))?)?)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn wait_until_ready(&mut self, dir: &Path) -> Result<()> {
        let begun = Instant::now();
        while !answers(self.address) {
            if begun.elapsed() > READY_WITHIN {
                let said = fs::read_to_string(dir.join("output")).unwrap_or_default();
                return Err(format!("{} does not answer; it has said: {}", self.name, said.trim()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /1/0 HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        std::io::Result::Ok(answer.starts_with(b"HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

/// nginx as Debian sets it up, with a cache; it writes no log, as the others do not, keeps its connections, and keeps
/// the files of what it has stored open: as its makers would have it run.
fn nginx(dir: &Path, address: SocketAddr, origin: &Origin, threads: usize) -> Result<Command> {
    let (folder, origin) = (dir.display(), origin.address());
    // Its workers would be of a user who has no access to the folder.
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let config = format!(
        "{user} daemon off; worker_processes {threads}; pid {folder}/pid; error_log {folder}/errors;
        events {{ worker_connections 768; }}
        http {{
            sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000000;
            client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            proxy_cache_path {folder}/cache keys_zone=web:16m max_size=256m;
            open_file_cache max=10000 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;
            server {{
                listen {address};
                location / {{ proxy_pass http://{origin}; proxy_http_version 1.1; proxy_cache web; }}
            }}
        }}\n"
    );
    let path = dir.join("nginx.conf");
    fs::write(&path, config)?;
    let mut command = Command::new("nginx");
    command.arg("-e").arg(dir.join("errors")).arg("-p").arg(dir).arg("-c").arg(path);
    Ok(command)
}

/// Varnish as it is by default, which has a thread for each connection.
fn varnish(dir: &Path, address: SocketAddr, origin: &Origin) -> Result<Command> {
    let origin = origin.address();
    let config =
        format!("vcl 4.0;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n", origin.ip(), origin.port());
    let path = dir.join("varnish.vcl");
    fs::write(&path, config)?;
    let mut command = Command::new("varnishd");
    command.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,256m", "-a", &address.to_string()]);
    command.arg("-n").arg(dir.join("work")).arg("-f").arg(path);
    Ok(command)
}

/// A process that is asked to end when this is dropped, so that it ends its own processes too.
#[derive(Debug)]
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process};
        // An error means that it has ended already.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
