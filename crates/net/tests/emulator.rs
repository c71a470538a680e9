//! The emulated line keeps its word.

use net::Emulator;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A server that says back what it hears.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..bytes]).unwrap();
                }
            });
        }
    });
    address
}

fn round_trip(stream: &mut TcpStream, bytes: usize) -> Duration {
    let (start, sent, mut got) = (Instant::now(), vec![7; bytes], vec![0; bytes]);
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&sent).unwrap());
    stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    start.elapsed()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// How late the machine wakes a thread that sleeps for a moment.
fn lateness() -> Duration {
    let (moment, start) = (Duration::from_millis(1), Instant::now());
    thread::sleep(moment);
    start.elapsed().saturating_sub(moment)
}

#[test]
fn a_line_of_20_ms_has_20_ms() {
    let line = Emulator::start(echo(), Duration::from_millis(20), None).unwrap();
    let mut stream = connect(line.address());
    let trips = (0..20).map(|_| (round_trip(&mut stream, 100), lateness()));
    let (trips, late): (Vec<_>, Vec<_>) = trips.unzip();
    let (least, late) = (*trips.iter().min().unwrap(), *late.iter().min().unwrap());
    // Other work on the machine can only make it longer, so the least of some is what the line itself does; but for the
    // delay of a sleeper on a busy machine, which happens twice.
    assert!(least >= Duration::from_millis(40), "{least:?}");
    assert!(least < Duration::from_micros(40_800) + 2 * late, "{trips:?}, and {late:?} late");
}

#[test]
fn a_fresh_connection_takes_a_round_trip_and_carries_little() {
    let line = Emulator::start(echo(), Duration::from_millis(20), None).unwrap();
    // 40 segments' worth leave in three windows, each way, and what has arrived is on its way back meanwhile.
    let (bytes, start) = (40 * 1448, Instant::now());
    let mut stream = connect(line.address());
    round_trip(&mut stream, bytes);
    let fresh = start.elapsed();
    assert!(fresh >= Duration::from_millis(40 + 40 + 2 * 40), "{fresh:?}");
    let used = (0..5).map(|_| round_trip(&mut stream, bytes)).min().unwrap();
    assert!(used >= Duration::from_millis(40) && used < Duration::from_millis(60), "{used:?}");
}

#[test]
fn a_line_carries_no_more_than_its_rate() {
    let line = Emulator::start(echo(), Duration::ZERO, Some(20_000_000)).unwrap();
    let mut stream = connect(line.address());
    let took = round_trip(&mut stream, 2_000_000);
    assert!(took >= Duration::from_millis(100), "{took:?}");
    assert_eq!((line.tally().bytes_up, line.tally().bytes_down), (2_000_000, 2_000_000));
}

#[test]
fn both_ends_hear_of_a_close() {
    let line = Emulator::start(echo(), Duration::from_millis(1), None).unwrap();
    let mut stream = connect(line.address());
    round_trip(&mut stream, 10);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn without_a_store_the_connection_closes() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = Emulator::start(nobody, Duration::ZERO, None).unwrap();
    assert_eq!(connect(line.address()).read(&mut [0; 10]).unwrap(), 0);
}
