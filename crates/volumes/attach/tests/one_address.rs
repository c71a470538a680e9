//! A store and homes of volumes at one address: the first message of a connection tells whose it is.

use attach::{FarHome, HomeServer};
use database::Recovered;
use machines::messages::holder::{Epoch, VolumeId};
use machines::{Registered, VolumeId as Id};
use net::{ListenConfig, Listener, Runtime};
use registry::StoreRegistry;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use types::NodeId;

#[test]
fn a_store_and_homes_are_reached_at_one_address() {
    let folder = std::env::temp_dir().join(format!("thorp-one-address-{}", std::process::id()));
    let (store, homes) = (folder.join("store"), folder.join("homes"));
    std::fs::create_dir_all(&store).unwrap();
    let runtime = Runtime::start().unwrap();
    let recovered = Recovered::read(&store, &disk::Config::default(), store::Config::default(), |_| {}).unwrap();
    let store = recovered.start(None, &runtime);
    let homes = HomeServer::start(&homes, &runtime).unwrap();
    let config = ListenConfig {
        hello_within: Duration::from_millis(300),
        ..ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into())
    };
    let listener = Listener::bind(config).unwrap();
    let address = store.host().listen_with(store.role(), listener, vec![homes.beside(8)]).unwrap();

    let registry = StoreRegistry::connect(&address.to_string(), "one").unwrap();
    let home = FarHome::create(&address.to_string(), VolumeId(7), 1 << 20, &runtime).unwrap();
    registry.create("disk", Id(7), &Registered::new(1 << 20, 1, Duration::from_secs(10)), NodeId(0)).unwrap();
    home.fence(Epoch(1), 5).unwrap();
    assert_eq!(home.opened().unwrap().size, 1 << 20);

    // Neither a connection that says nothing, nor one that begins slowly, nor one of another protocol is in the way.
    let silent = TcpStream::connect(address).unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"T").unwrap();
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(FarHome::connect(&address.to_string(), VolumeId(7), &runtime).is_ok());
    for mut refused in [silent, slow, other] {
        refused.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = Vec::new();
        let ended = refused.read_to_end(&mut said);
        assert!(ended.is_ok() && said.starts_with(b"Th"), "it is told why: {ended:?} {said:?}");
    }
    store.close().unwrap();
    drop((registry, home, homes));
    std::fs::remove_dir_all(&folder).unwrap();
}
