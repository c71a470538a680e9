//! Caches of others, which keep a page for a second: nobody tells them what changes.

use super::PLAIN_TTL_S;
use crate::Result;
use bench::lasting_address;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long one may take to listen.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A cache of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    Nginx,
    Varnish,
}

/// One that runs. Dropping it ends it.
pub(super) struct Running {
    address: SocketAddr,
    child: Child,
}

impl Rival {
    pub(super) const ALL: [Self; 2] = [Self::Nginx, Self::Varnish];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
        }
    }

    /// Starts one before an application; `None` if it is not installed.
    pub(super) fn start(self, dir: &Path, origin: SocketAddr) -> Result<Option<Running>> {
        let dir = dir.join(self.name());
        fs::create_dir(&dir)?;
        let address = lasting_address()?;
        let mut command = match self {
            Self::Nginx => nginx(&dir, address, origin)?,
            Self::Varnish => varnish(&dir, address, origin)?,
        };
        let output = File::create(dir.join("output"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            child => child?,
        };
        let running = Running { address, child };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > READY_WITHIN {
                let said = fs::read_to_string(dir.join("output")).unwrap_or_default();
                return Err(format!("{} does not listen; it has said: {}", self.name(), said.trim()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(running))
    }
}

impl Running {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already. It is asked, and not killed, so that it ends its own processes.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

fn nginx(dir: &Path, address: SocketAddr, origin: SocketAddr) -> Result<Command> {
    let folder = dir.display();
    // Its workers would be of a user who has no access to the folder.
    let user = if geteuid().is_root() { "user root;" } else { "" };
    let config = format!(
        "{user} daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
        events {{ worker_connections 1024; }}
        http {{
            access_log off;
            client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            proxy_cache_path {folder}/cache keys_zone=web:16m;
            upstream shop {{ server {origin}; keepalive 64; }}
            server {{
                listen {address};
                location / {{
                    proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection \"\";
                    proxy_cache web; proxy_cache_lock on; proxy_cache_valid 200 404 {PLAIN_TTL_S}s;
                    proxy_ignore_headers Cache-Control; add_header X-Cache $upstream_cache_status always;
                }}
            }}
        }}\n"
    );
    let path = dir.join("nginx.conf");
    fs::write(&path, config)?;
    let mut command = Command::new("nginx");
    command.arg("-e").arg(dir.join("errors")).arg("-p").arg(dir).arg("-c").arg(path);
    Ok(command)
}

fn varnish(dir: &Path, address: SocketAddr, origin: SocketAddr) -> Result<Command> {
    let (ip, port) = (origin.ip(), origin.port());
    let config = format!(
        "vcl 4.0;
        backend default {{ .host = \"{ip}\"; .port = \"{port}\"; }}
        sub vcl_backend_response {{
            set beresp.ttl = {PLAIN_TTL_S}s;
            set beresp.grace = 0s;
            if (beresp.status < 500) {{ return (deliver); }}
        }}
        sub vcl_deliver {{ if (obj.hits > 0) {{ set resp.http.X-Cache = \"HIT\"; }} }}\n"
    );
    let path = dir.join("varnish.vcl");
    fs::write(&path, config)?;
    let mut command = Command::new("varnishd");
    command.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,64m", "-a", &address.to_string()]);
    command.arg("-n").arg(dir.join("work")).arg("-f").arg(path);
    Ok(command)
}
