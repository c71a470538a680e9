//! Write-back to a home in another process, over loopback, beside `dd conv=fdatasync` on the same file system, in
//! turns.
//!
//! ```text
//! cargo run --release -p thorp-attach --example far_beside_dd -- DIRECTORY [MEBIBYTES] [TURNS] [CACHE]
//! ```
//! It prints a line of JSON. A volume is written through its cache until all of it is durable in the log; what is timed
//! is the detach, which reads the log, sends it home, and returns when it is durable there. CACHE is a directory for
//! the log: on the disk of home the two share what `dd` has for itself, so give it another one, or memory. Then all of
//! it is read from home, as the owner does, beside a read of the file itself.

use attach::{AttachConfig, Attached, FarHome, HomeServer};
use fixtures::nbd_client::{Client, Command};
use fixtures::{Process, Result};
use machines::messages::holder::VolumeId;
use nbd::{Address, Export, Server, ServerConfig};
use net::Runtime;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["homes", dir] => serve(Path::new(dir)),
        [dir] => compare(dir, dir, 512, 5),
        [dir, mib] => compare(dir, dir, mib.parse()?, 5),
        [dir, mib, turns] => compare(dir, dir, mib.parse()?, turns.parse()?),
        [dir, mib, turns, cache] => compare(dir, cache, mib.parse()?, turns.parse()?),
        _ => Err("expected DIRECTORY [MEBIBYTES] [TURNS] [CACHE]".into()),
    }
}

/// The homes, in a process of their own, until its standard input ends.
fn serve(dir: &Path) -> Result<()> {
    let homes = HomeServer::start(dir, &Runtime::start()?)?;
    println!("{}", homes.listen("127.0.0.1:0".parse()?, false)?);
    std::io::stdin().read_exact(&mut [0]).or(Ok(()))
}

/// Starts it; gives where it listens, too.
fn start_homes(dir: &Path) -> Result<(Process, String)> {
    let mut program = Program::new(std::env::current_exe()?);
    program.arg("homes").arg(dir).stdin(Stdio::piped());
    let homes = Process::spawn(program, "the homes")?;
    let address = homes.line()?.trim().to_owned();
    Ok((homes, address))
}

fn compare(dir: &str, cache: &str, mib: u64, turns: u64) -> Result<()> {
    let name = format!("far-beside-dd-{}", std::process::id());
    let (dir, cache) = (Path::new(dir).join(&name), Path::new(cache).join(name));
    std::fs::create_dir_all(&dir)?;
    std::fs::create_dir_all(&cache)?;
    let (homes, address) = start_homes(&dir.join("homes"))?;
    let runtime = Runtime::start()?;
    let (mut dd, mut back, mut file, mut far) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=turns {
        dd.push(write_by_dd(&dir.join("dd"), mib)?);
        let volume = VolumeId(turn);
        back.push(write_back(&address, volume, &cache.join("cache"), mib, &runtime)?);
        let raw = dir.join("homes").join(format!("{turn:016x}.raw"));
        file.push(read_file(&raw, mib)?);
        far.push(read_far(&address, volume, mib, &runtime)?);
        std::fs::remove_file(raw)?;
    }
    drop(homes);
    std::fs::remove_dir_all(&dir)?;
    // It may have been the same.
    let _ = std::fs::remove_dir_all(&cache);
    let rate = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        mib as f64 / seconds[seconds.len() / 2]
    };
    let [dd, back, file, far] = [&mut dd, &mut back, &mut file, &mut far].map(rate);
    println!(
        "{{\"mib\": {mib}, \"turns\": {turns}, \"dd_mib_s\": {dd:.0}, \"write_back_mib_s\": {back:.0}, \"ratio\": {:.2}, \
         \"file_read_mib_s\": {file:.0}, \"far_read_mib_s\": {far:.0}}}",
        back / dd
    );
    Ok(())
}

fn write_by_dd(path: &Path, mib: u64) -> Result<f64> {
    let begun = Instant::now();
    let mut dd = Program::new("dd");
    dd.args(["if=/dev/zero", "bs=1M", "conv=fdatasync", "status=none"]);
    let status = dd.arg(format!("of={}", path.display())).arg(format!("count={mib}")).status()?;
    let seconds = begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    if status.success() { Ok(seconds) } else { Err("dd has failed".into()) }
}

/// Writes a volume through its cache, and times its way home.
fn write_back(home: &str, volume: VolumeId, cache: &Path, mib: u64, runtime: &Runtime) -> Result<f64> {
    let home = FarHome::create(home, volume, mib * MIB, runtime)?;
    let config = AttachConfig {
        log_bytes: 3 * mib * MIB,
        clean_bytes: 0,
        age_max: Duration::from_secs(3600),
        ..AttachConfig::new(PathBuf::new(), cache.to_owned())
    };
    let attached = Arc::new(Attached::attach_far(home, &config)?);
    let address = Address::Unix(cache.with_extension("socket"));
    let export = Export { name: "volume".to_owned(), description: String::new(), device: attached.clone() };
    let server = Server::start(&ServerConfig::new(address.clone()), vec![export])?;
    let mut client = Client::connect(&address, "volume")?;
    let data: Vec<u8> = (0..MIB).map(|at| (at % 251) as u8).collect();
    for at in 0..mib {
        client.call(&Command::Write { offset: at * MIB, data: &data, fua: false })?;
    }
    client.call(&Command::Flush)?;
    drop(client);
    server.stop(Duration::from_secs(30));
    let begun = Instant::now();
    attached.detach()?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(attached);
    std::fs::remove_dir_all(cache)?;
    Ok(seconds)
}

fn read_file(path: &Path, mib: u64) -> Result<f64> {
    let (mut file, mut buffer) = (std::fs::File::open(path)?, vec![0; 4 << 20]);
    let begun = Instant::now();
    for _ in 0..mib / 4 {
        file.read_exact(&mut buffer)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn read_far(home: &str, volume: VolumeId, mib: u64, runtime: &Runtime) -> Result<f64> {
    let home = FarHome::connect(home, volume, runtime)?;
    let mut buffer = vec![0; 4 << 20];
    let begun = Instant::now();
    for at in 0..mib / 4 {
        home.read((at * 1024) as u32, &mut buffer)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}
