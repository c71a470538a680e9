//! A redirector's host: members on one side, the store on the other.

mod common;

use common::group::{eventually, welcome};
use common::*;
use machine::Goodbye;
use messages::{GROUP, Hello, ToClient, ToServer};
use net::{ConnectError, ListenConfig, Listener, UpstreamConfig, UpstreamState};
use redirector::{Config, Redirector, Stats};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use types::{ClientId, GoodbyeReason};

/// A redirector that knows no store yet, and where its members reach it.
fn redirector() -> (At<Redirector>, SocketAddr) {
    redirector_at("127.0.0.1:0".parse().unwrap())
}

/// One whose address no other test is given when it is gone.
fn redirector_for_itself() -> (At<Redirector>, SocketAddr) {
    static LAST: AtomicU8 = AtomicU8::new(1);
    redirector_at(SocketAddr::from(([127, 0, 1, LAST.fetch_add(1, Relaxed)], 0)))
}

fn redirector_at(address: SocketAddr) -> (At<Redirector>, SocketAddr) {
    let listener = Listener::bind(ListenConfig::new(messages::SERVER, address)).unwrap();
    let address = listener.address();
    let config = Config { group: "site".into(), address: address.to_string(), ..Config::default() };
    let host = At::alone(Redirector::new(config, ClientId(0x2ED)), &runtime());
    host.listen_at(listener).unwrap();
    (host, address)
}

fn stats(host: &At<Redirector>) -> Stats {
    host.lock().machine().status().stats
}

#[test]
fn a_group_shares_what_one_of_it_has() {
    let server = server();
    let (redirector, address) = redirector();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
    redirector.wait_connected(PATIENCE).unwrap();
    assert_eq!(redirector.state(), UpstreamState::Up(server.address.to_string()));
    let members: Vec<_> = (0..4).map(|_| connect(address)).collect();
    put_surely(&members[0], 1, b"first");
    for member in &members {
        assert_eq!(get(member, 1).as_deref(), Some(&b"first"[..]));
    }
    put_surely(&members[3], 1, b"second");
    for member in &members {
        eventually("all hear of it", || get(member, 1).as_deref() == Some(b"second"));
    }
    let stats = stats(&redirector);
    assert_eq!((stats.from_store, stats.from_peers, stats.upstream_sessions), (1, 3, 1), "{stats:?}");
}

#[test]
fn the_upstream_says_how_it_stands() {
    let (redirector, _) = redirector();
    assert_eq!(redirector.state(), UpstreamState::Connecting);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    redirector.connect(UpstreamConfig {
        pause_max: Duration::from_millis(20),
        ..UpstreamConfig::new(messages::CLIENT, nobody.to_string())
    });
    let why = redirector.wait_connected(Duration::ZERO).unwrap_err();
    assert_eq!(why.to_string(), format!("no server at {nobody}: connection refused"));
    assert_eq!(redirector.state(), UpstreamState::Down(why));
    let server = server_with(|config| config.address = nobody);
    redirector.wait_connected(PATIENCE).unwrap();
    server.host.close();
    server.host.wait_end();
    drop(server);
    eventually("down again", || matches!(redirector.state(), UpstreamState::Down(_)));
}

#[test]
fn a_upstream_that_is_lost_or_superseded_is_opened_again() {
    let (tell, told) = channel();
    let address = listen(move |mut raw| {
        let Hello { features, client, epoch, .. } = hello_of(&mut raw);
        tell.send((features, client, epoch)).unwrap();
        raw.send(&welcome(GROUP));
        assert!(matches!(raw.next(), Some(ToServer::Resume(_))));
        if epoch == 2 {
            let (reason, text) = (GoodbyeReason::Superseded, "another leads the group".into());
            raw.send(&ToClient::Goodbye(Goodbye { reason, text }));
        }
    });
    let (redirector, _) = redirector();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, address));
    let hellos: Vec<_> = told.iter().take(3).collect();
    assert_eq!(hellos, [1, 2, 3].map(|epoch| (GROUP, ClientId(0x2ED), epoch)));
}

#[test]
fn a_store_that_takes_no_groups_is_not_tried_again() {
    let mut connections = 0;
    let address = listen(move |mut raw| {
        connections += 1;
        assert_eq!(connections, 1);
        hello_of(&mut raw);
        raw.send(&welcome(0));
        while raw.try_next().is_some() {}
    });
    let (redirector, _) = redirector();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, address));
    eventually("over", || matches!(redirector.state(), UpstreamState::Over(_)));
    let UpstreamState::Over(ConnectError::Refused { reason, .. }) = redirector.state() else { unreachable!() };
    assert_eq!(reason, GoodbyeReason::Protocol);
}

#[test]
fn a_redirector_that_closes_sends_its_members_away() {
    let server = server();
    let (redirector, address) = redirector();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
    let addresses = vec![address.to_string(), server.address.to_string()];
    let member = At::alone(new_client(), &runtime());
    member.connect(UpstreamConfig::of(messages::CLIENT, addresses));
    member.wait_connected(PATIENCE).unwrap();
    eventually("up", || member.state() == UpstreamState::Up(address.to_string()));
    assert!(member.lock().look().is_member());
    redirector.close();
    assert_eq!(redirector.wait_end_within(PATIENCE), Some(net::HostEnd::Closed));
    eventually("directly", || member.state() == UpstreamState::Up(server.address.to_string()));
    assert!(!member.lock().look().is_member());
    put_surely(&member, 1, b"alone");
}

/// Ends what keeps members busy, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A member that is never silent needs no heartbeat of its store, and asks for its redirector all the same.
#[test]
fn busy_members_are_back_soon_after_their_redirector_is() {
    let server = server();
    let (redirector, address) = redirector_for_itself();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
    redirector.wait_connected(PATIENCE).unwrap();
    let members = [(); 3].map(|()| {
        let member = At::alone(new_client(), &runtime());
        member.connect(UpstreamConfig::of(messages::CLIENT, vec![address.to_string(), server.address.to_string()]));
        member.wait_connected(PATIENCE).unwrap();
        member
    });
    eventually("members", || members.iter().all(|member| member.lock().look().is_member()));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        for (slot, member) in (1..).zip(&members) {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    put_surely(member, slot, b"busy");
                }
            });
        }
        redirector.close();
        assert_eq!(redirector.wait_end_within(PATIENCE), Some(net::HostEnd::Closed));
        drop(redirector);
        let directly = UpstreamState::Up(server.address.to_string());
        eventually("directly", || members.iter().all(|member| member.state() == directly));
        let (redirector, _) = redirector_at(address);
        let start = Instant::now();
        redirector.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
        eventually("members again", || members.iter().all(|member| member.lock().look().is_member()));
        let took = start.elapsed();
        println!("busy members are back {took:?} after their redirector");
        assert!(took < Duration::from_secs(2), "busy members are back after {took:?}");
    });
}

#[test]
fn a_member_that_knows_no_group_goes_back_to_an_address_that_answers_again() {
    let server = server();
    let (first, address) = redirector_for_itself();
    first.close();
    first.wait_end();
    drop(first);
    let member = At::alone(new_client(), &runtime());
    member.connect(UpstreamConfig::of(messages::CLIENT, vec![address.to_string(), server.address.to_string()]));
    member.wait_connected(PATIENCE).unwrap();
    assert_eq!(member.state(), UpstreamState::Up(server.address.to_string()));
    put_surely(&member, 1, b"alone");
    let (redirector, _) = redirector_at(address);
    redirector.connect(UpstreamConfig::new(messages::CLIENT, server.address.to_string()));
    eventually("a member", || member.lock().look().is_member());
    eventually("up", || member.state() == UpstreamState::Up(address.to_string()));
    assert_eq!(get(&member, 1).as_deref(), Some(&b"alone"[..]));
}
