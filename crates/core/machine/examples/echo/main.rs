//! The smallest front end: an echo that writes down what it hears, and a caller of several of them. It is here to be
//! read, by anyone who adds a machine, and shows that nothing else is needed for one.
//!
//! ```text
//!   Caller --- Shout{text} ---> Echo --- Append(text) ---> its log
//!      |   <-- Heard{count, text} when the record is durable
//!      |   <-- Count{count} every second, after the first shout
//!      +------ Shout{text} ---> another Echo
//! ```
//! | to add a machine | see |
//! |---|---|
//! | its messages, an enum for each direction, and their bytes | `messages.rs` |
//! | the machine that serves, and lives on when its disk fails | `server.rs` |
//! | the machine that is its client, with several upstream sessions | `caller.rs` |
//! | its disk: a log in a directory | `disk.rs` |
//! | processes of them over TCP | this file |
//! | by hand, over TCP with faults, in virtual time | `../../tests/echo` |
//!
//! Neither `machine`, nor `net`, nor `sim` knows any of this. To try it:
//! ```text
//! cargo run -p thorp-machine --example echo -- serve /tmp/one 127.0.0.1:7501
//! cargo run -p thorp-machine --example echo -- serve /tmp/other 127.0.0.1:7502
//! echo hello | cargo run -p thorp-machine --example echo -- shout 127.0.0.1:7501 127.0.0.1:7502
//! ```

mod caller;
mod disk;
mod messages;
mod server;

use caller::{Caller, HEARD};
use disk::LogDisk;
use machine::{RoleId, UpstreamId};
use messages::ECHO;
use net::{Handle, Host, ListenConfig, Machines, Runtime, Shared};
use server::Echo;
use std::error::Error;
use std::io::{self, BufRead};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use vfs::Directory;

const USAGE: &str = "usage: echo serve DIRECTORY ADDRESS
       echo shout ADDRESS...    (one text in each line of its input)
       echo alone DIRECTORY     (both in one process)";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = match &words[..] {
        ["serve", dir, address] => serve(dir, address),
        ["shout", addresses @ ..] if !addresses.is_empty() => shout(addresses),
        ["alone", dir] => alone(dir),
        _ => Err(USAGE.into()),
    };
    let Err(error) = ran else { return ExitCode::SUCCESS };
    eprintln!("echo: {error}");
    ExitCode::FAILURE
}

/// Serves until the process is ended.
fn serve(dir: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let mut machines = Machines::new();
    let (role, echo) = add_echo(&mut machines, dir)?;
    let host = Host::start(machines, &Runtime::start()?);
    let address = host.listen(role, ListenConfig::new(ECHO, address.parse()?))?;
    let durable = echo.lock().unwrap_or_else(PoisonError::into_inner).look().durable();
    println!("an echo of {durable} texts listens on {address}");
    println!("{:?}", host.wait_end());
    Ok(())
}

/// Adds an echo over the log of a directory.
fn add_echo(machines: &mut Machines, dir: &str) -> Result<(RoleId, Shared<Echo>), Box<dyn Error>> {
    std::fs::create_dir_all(dir)?;
    let (disk, records) = LogDisk::open(Arc::new(Directory::new(Path::new(dir))))?;
    Ok(machines.add_with_disk(Echo::recovered(records), disk))
}

/// Shouts to the echoes at these addresses.
fn shout(addresses: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut machines = Machines::new();
    let (role, caller) = machines.add(Caller::default());
    let caller = Handle::new(caller, Host::start(machines, &Runtime::start()?).driver(role));
    let echoes: Vec<UpstreamId> = (1..).map(UpstreamId).take(addresses.len()).collect();
    for (&echo, address) in echoes.iter().zip(addresses) {
        let addresses = net::parse_addresses(address)?;
        caller.call(|caller| caller.call(echo, addresses));
    }
    shout_lines(&caller, &echoes)?;
    for echo in echoes {
        caller.call(|caller| caller.leave(echo));
    }
    Ok(())
}

/// Shouts to an echo in the same process.
fn alone(dir: &str) -> Result<(), Box<dyn Error>> {
    let mut machines = Machines::new();
    let (echo, _) = add_echo(&mut machines, dir)?;
    let (role, caller) = machines.add(Caller::of_one());
    machines.link(role, echo);
    let caller = Handle::new(caller, Host::start(machines, &Runtime::start()?).driver(role));
    shout_lines(&caller, &[UpstreamId::ONLY])
}

/// Shouts each line of the input, and waits until every echo has heard it.
fn shout_lines(caller: &Handle<Caller>, echoes: &[UpstreamId]) -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        caller.call(|caller| caller.shout(line));
        wait(caller);
        for &echo in echoes {
            let (last, count) = caller.look(|caller| (caller.heard(echo).last().cloned(), caller.count(echo)));
            println!("echo {}: {last:?}, {count:?} in all when it last told", echo.0);
        }
    }
    Ok(())
}

/// Waits until everything was heard.
fn wait(caller: &Handle<Caller>) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while !caller.look(|caller| caller.is_heard()) {
        caller.driver().wake_on(HEARD, &waker);
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
