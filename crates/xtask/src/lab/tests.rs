//! A real lab, where there can be one: what it costs, what passes and what does not. Where there can be none, each test
//! says so and passes.

use super::*;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 7411;

/// How long nothing must come of what is cut off, and how long to wait for what must come: a connection that has waited
/// for long tries again seldom.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

fn lab(sites: usize, one_way: Duration) -> Option<Lab> {
    if let Some(why) = namespace::obstacle() {
        println!("skipped: there can be no lab here: {why}");
        return None;
    }
    let quality = Quality { one_way, bits_per_s: None, loss_percent: 0.0 };
    Some(Lab::open(&Options { sites, quality }).unwrap())
}

/// Does something in the network of a place. A socket belongs to the place where it was made, whoever uses it then.
fn at<T: Send>(place: &Namespace, act: impl FnOnce() -> T + Send) -> T {
    let enter_and_act = || {
        let namespace = File::open(&place.path).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(enter_and_act).join().unwrap())
}

/// A connection from one place to another, and its other end.
fn connect(from: &Namespace, to: &Namespace) -> (TcpStream, TcpStream) {
    let address = SocketAddr::from((to.ip, PORT));
    let listener = at(to, || TcpListener::bind(address).unwrap());
    let near = at(from, || TcpStream::connect(address).unwrap());
    let (far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    (near, far)
}

/// The least time of a few questions and answers: the others were kept waiting by other work of the machine.
fn round_trip(near: &mut TcpStream, far: &mut TcpStream) -> Duration {
    let ask = |_| {
        let start = Instant::now();
        near.write_all(b"?").unwrap();
        far.read_exact(&mut [0]).unwrap();
        far.write_all(b"!").unwrap();
        near.read_exact(&mut [0]).unwrap();
        start.elapsed()
    };
    (0..10).map(ask).min().unwrap()
}

/// Tells the control socket something, and takes the answer.
fn tell(lab: &Lab, words: &str) -> String {
    let mut stream = BufReader::new(UnixStream::connect(lab.control()).unwrap());
    stream.get_mut().write_all(format!("{words}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

#[track_caller]
fn assert_about(took: Duration, nominal: Duration) {
    println!("{nominal:?} took {took:?}");
    assert!(took >= nominal, "{took:?} is faster than the line's {nominal:?}");
    assert!(took < nominal.mul_f64(1.5) + Duration::from_millis(20), "{took:?} where the line takes {nominal:?}");
}

#[test]
fn a_round_trip_takes_as_long_as_the_lines_say() {
    let one_way = Duration::from_millis(10);
    let Some(lab) = lab(2, one_way) else { return };
    let (mut near, mut far) = connect(&lab.sites[0], &lab.store);
    assert_about(round_trip(&mut near, &mut far), 2 * one_way);
    let (mut near, mut far) = connect(&lab.sites[0], &lab.sites[1]);
    assert_about(round_trip(&mut near, &mut far), 4 * one_way);
}

#[test]
fn nothing_passes_a_cut_and_what_waits_passes_when_it_is_healed() {
    let Some(lab) = lab(1, Duration::from_millis(1)) else { return };
    let (mut near, mut far) = connect(&lab.sites[0], &lab.store);
    round_trip(&mut near, &mut far);

    assert_eq!(tell(&lab, "cut 1"), "done");
    near.write_all(b"?").unwrap();
    far.set_read_timeout(Some(SILENCE)).unwrap();
    let silent = far.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(silent, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silent}");

    assert_eq!(tell(&lab, "heal 1"), "done");
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    far.read_exact(&mut [0]).unwrap();
    round_trip(&mut near, &mut far);
}

/// How long it takes to send so much from one end of a connection to the other.
fn transfer(near: &mut TcpStream, far: &mut TcpStream, bytes: usize) -> Duration {
    let (sent, mut received) = (vec![7; bytes], vec![0; bytes]);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| near.write_all(&sent).unwrap());
        far.read_exact(&mut received).unwrap();
    });
    start.elapsed()
}

#[test]
fn a_line_gets_slower_and_is_healed_while_connections_use_it() {
    const BYTES: usize = 250_000;
    let Some(lab) = lab(1, Duration::from_millis(1)) else { return };
    let (mut near, mut far) = connect(&lab.sites[0], &lab.store);
    assert_eq!(tell(&lab, "rate 1 10"), "done");
    // At 10 Mbit/s 250 kB take 200 ms.
    let slow = transfer(&mut near, &mut far, BYTES);
    assert!(slow >= Duration::from_millis(150), "{slow:?}");
    assert_eq!(tell(&lab, "heal 1"), "done");
    let healed = transfer(&mut near, &mut far, BYTES);
    assert!(healed < slow / 2, "{healed:?} after {slow:?}");
}

#[test]
fn a_whole_stream_passes_unchanged() {
    const BYTES: usize = 8 << 20;
    let Some(lab) = lab(1, Duration::from_millis(1)) else { return };
    let (mut near, mut far) = connect(&lab.sites[0], &lab.store);
    let sent: Vec<u8> = (0..BYTES).map(|index| (index / 251) as u8).collect();
    let mut received = vec![0; BYTES];
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| near.write_all(&sent).unwrap());
        far.read_exact(&mut received).unwrap();
    });
    println!("{:.0} Mbit/s", BYTES as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64());
    assert!(sent == received);
}

#[test]
fn orders_to_the_control_socket_are_bounded_and_answered() {
    let Some(lab) = lab(1, Duration::ZERO) else { return };
    let refusal = tell(&lab, "jump");
    assert!(refusal.starts_with("error: `jump`: understood are `cut N`, "), "{refusal}");
    assert!(refusal.ends_with("; N is from 1 to 1"), "{refusal}");
    assert_eq!(tell(&lab, "cut 2").split(':').next(), Some("error"));
    assert_eq!(tell(&lab, &"x".repeat(1000)), "error: a line has at most 128 bytes");
    let crowd: Vec<_> = (0..40).map(|_| UnixStream::connect(lab.control()).unwrap()).collect();
    drop(crowd);
    assert_eq!(tell(&lab, "cut 1"), "done", "who says nothing and goes is no trouble");
}

#[test]
fn a_program_started_by_a_places_words_is_there_and_all_goes_with_the_lab() {
    let Some(lab) = lab(1, Duration::ZERO) else { return };
    let description = std::fs::read_to_string(lab.write_description().unwrap()).unwrap();
    let description: Value = serde_json::from_str(&description).unwrap();
    let site = &description["sites"][0];
    let words: Vec<&str> = site["run"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let output = Command::new(words[0]).args(&words[1..]).args(["ip", "-4", "addr"]).output().unwrap();
    let addresses = String::from_utf8(output.stdout).unwrap();
    assert!(addresses.contains(&format!("inet {}/24", site["ip"].as_str().unwrap())), "{addresses}");

    let (folder, path) = (lab.folder.path().to_owned(), lab.store.path.clone());
    drop(lab);
    assert!(!folder.exists() && !PathBuf::from(path).exists());
}
