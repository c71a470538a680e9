//! TLS on both sides, with real clients and certificates that are made here.

use crate::harness::{Client, Origin, PATIENCE, config, connect, response};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::{CertificateFiles, Changes, Config, Note, Proxy, invalidate};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Another one each time.
fn number() -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A folder that is removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("thorp-tls-{}-{}", std::process::id(), number());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two of the same name would be taken for one whose signature is wrong.
        let name = format!("authority {}", number());
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for names, and its key.
    fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The same in files.
    fn issue_to(&self, folder: &Folder, names: &[&str]) -> CertificateFiles {
        let (certificate, key) = self.issue(names);
        let chain = folder.write(&format!("{}.pem", names[0]), &certificate);
        CertificateFiles { chain, key: folder.write(&format!("{}.key", names[0]), &key) }
    }

    /// A client that trusts it alone, and speaks these protocols.
    fn client(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A server of HTTP/1.1, or of HTTP/2, with a certificate for these names.
    fn acceptor(&self, names: &[&str], protocol: &str) -> TlsAcceptor {
        let (certificate, key) = self.issue(names);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

type Over = StreamOwned<ClientConnection, std::net::TcpStream>;

/// A connection over TLS, which may come to nothing.
fn shake(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> std::io::Result<Over> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(client.clone(), name).unwrap(), connect(address));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

fn client(proxy: &Proxy, config: &Arc<ClientConfig>) -> Client {
    Client::on(shake(proxy.address(), config, "shop.example").unwrap())
}

/// Returns how the request came.
fn echo(request: &Request<Bytes>) -> Response<Bytes> {
    let said = ["x-forwarded-proto", "forwarded"].map(|name| request.headers()[name].to_str().unwrap());
    response(200, &[("cache-control", "max-age=60")], said.join(" "))
}

fn tls_config(origin: &Origin, files: &CertificateFiles) -> Config {
    Config { certificates: vec![files.clone()], ..config(origin.address) }
}

#[test]
fn clients_speak_either_http_over_tls() {
    let (folder, authority, origin) = (Folder::new(), Authority::new(), Origin::start(echo));
    let files = authority.issue_to(&folder, &["shop.example"]);
    let admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(Config { admin, ..tls_config(&origin, &files) }).unwrap();
    let mut one = client(&proxy, &authority.client(&["http/1.1"]));
    let answer = one.get("/page");
    assert_eq!(answer.text(), "https for=127.0.0.1;host=\"shop.example\";proto=https");
    assert!(one.get("/page").is_hit());
    let (status, protocol) = get_by_http2(proxy.address(), &authority.client(&["h2", "http/1.1"]));
    assert!(status.contains("; hit"), "{status}");
    assert_eq!(protocol, b"h2");
    // A client speaks what it has agreed on.
    let mut other = client(&proxy, &authority.client(&["h2"]));
    other.write("GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    assert_eq!(other.rest(), b"");
    // The scheme is part of the key.
    let admin = proxy.admin_address().unwrap().to_string();
    let removed = |url: &str| {
        let changes = Changes { urls: vec![url.to_owned()], ..Changes::default() };
        invalidate(&admin, None, &changes).unwrap()["removed"].as_u64().unwrap()
    };
    assert_eq!([removed("http://shop.example/page"), removed("https://shop.example/page")], [0, 1]);
}

/// `Cache-Status` of a page, and the protocol that was agreed on.
fn get_by_http2(address: SocketAddr, config: &Arc<ClientConfig>) -> (String, Vec<u8>) {
    let config = config.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("shop.example").unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
        let protocol = stream.get_ref().1.alpn_protocol().unwrap().to_vec();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("https://shop.example/page").body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.headers()["cache-status"].to_str().unwrap().to_owned();
        response.collect().await.unwrap();
        (status, protocol)
    })
}

#[test]
fn a_handshake_that_fails_is_counted_and_harms_nobody() {
    let (folder, authority, origin) = (Folder::new(), Authority::new(), Origin::start(echo));
    let files = authority.issue_to(&folder, &["shop.example"]);
    let mut config = tls_config(&origin, &files);
    config.limits.handshake = Duration::from_secs(3);
    let proxy = Proxy::start(config).unwrap();
    let mut served = client(&proxy, &authority.client(&[]));
    // One that says nothing, one that stops in the middle.
    let silent = connect(proxy.address());
    let mut halting = connect(proxy.address());
    halting.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let mut plain = Client::connect(proxy.address());
    let answer = plain.get("/page");
    assert_eq!((answer.status, answer.text()), (400, "plain-http: this port is for https:// URLs\n"));
    connect(proxy.address()).write_all(&[0; 100]).unwrap();
    connect(proxy.address()).write_all(&[22, 3, 1, 0, 5, 1, 2, 3, 4, 5]).unwrap();
    assert!(shake(proxy.address(), &Authority::new().client(&[]), "shop.example").is_err());
    assert!(shake(proxy.address(), &authority.client(&["smtp"]), "shop.example").is_err());
    for mut stream in [silent, halting] {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the proxy ends it");
    }
    let expected =
        [("timeout", 2), ("plain-http", 1), ("nothing-in-common", 1), ("refused-by-client", 1), ("protocol", 2)];
    wait_for(|| proxy.tally().failed_handshakes == expected, || format!("{:?}", proxy.tally()));
    assert_eq!(served.get("/page").status, 200);
}

fn wait_for(is_so: impl Fn() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{}", what());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The certificate that a new client is shown.
fn shown(proxy: &Proxy, name: &str, client: &Arc<ClientConfig>) -> Vec<u8> {
    let stream = shake(proxy.address(), client, name).unwrap();
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn certificates_are_read_again_and_broken_ones_refused() {
    let (folder, authority, origin) = (Folder::new(), Authority::new(), Origin::start(echo));
    let files = authority.issue_to(&folder, &["shop.example"]);
    let (notes, noted) = mpsc::channel();
    let config = Config { notes: Some(notes), ..tls_config(&origin, &files) };
    let proxy = Proxy::start(config.clone()).unwrap();
    let trusting = authority.client(&[]);
    let mut early = client(&proxy, &trusting);
    let first = shown(&proxy, "shop.example", &trusting);
    // The certificate is there before its key, as `cp` does it.
    let (certificate, key) = authority.issue(&["shop.example"]);
    fs::write(&files.chain, certificate).unwrap();
    let refused = proxy.reload(config.clone()).unwrap_err().to_string();
    assert!(refused.contains(": wrong-key: "), "{refused}");
    assert_eq!(shown(&proxy, "shop.example", &trusting), first);
    fs::write(&files.key, key).unwrap();
    proxy.reload(config).unwrap();
    let second = shown(&proxy, "shop.example", &trusting);
    assert_ne!(second, first);
    // Without being told, too.
    fs::write(&files.chain, "nothing").unwrap();
    loop {
        match noted.recv_timeout(PATIENCE).unwrap() {
            Note::CertificatesRefused(why) => break assert_eq!(why.name(), "no-certificate", "{why}"),
            // The reload above may have been noticed as well.
            Note::CertificatesChanged => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(shown(&proxy, "shop.example", &trusting), second);
    authority.issue_to(&folder, &["shop.example"]);
    // On a busy machine the proxy may have seen the one file without the other.
    while !matches!(noted.recv_timeout(PATIENCE).unwrap(), Note::CertificatesChanged) {}
    assert_ne!(shown(&proxy, "shop.example", &trusting), second);
    assert_eq!(early.get("/page").status, 200, "a connection that is there goes on");
}

#[test]
fn a_client_gets_the_certificate_for_the_name_it_asks_for() {
    let (folder, authority, origin) = (Folder::new(), Authority::new(), Origin::start(echo));
    let certificates = ["shop.example", "*.blog.example"].map(|name| authority.issue_to(&folder, &[name]));
    let config = Config { certificates: certificates.to_vec(), ..config(origin.address) };
    let proxy = Proxy::start(config).unwrap();
    let trusting = authority.client(&[]);
    let of = |name| shown(&proxy, name, &trusting);
    assert_ne!(of("shop.example"), of("a.blog.example"));
    assert!(shake(proxy.address(), &trusting, "other.example").is_err(), "it is shown the first, and refuses it");
}

#[test]
fn files_that_cannot_be_used_are_refused_by_name() {
    let (folder, authority, origin) = (Folder::new(), Authority::new(), Origin::start(echo));
    let (good, other) = (authority.issue_to(&folder, &["a.example"]), authority.issue_to(&folder, &["b.example"]));
    let nothing = folder.write("nothing", "");
    let half = fs::read_to_string(&good.chain).unwrap();
    let half = folder.write("half", &half[..half.len() / 2]);
    let odd = folder.write("odd", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let large = folder.write("large", &"\n".repeat((4 << 20) + 1));
    let refused = |chain: &Path, key: &Path| {
        let files = CertificateFiles { chain: chain.to_owned(), key: key.to_owned() };
        Proxy::start(tls_config(&origin, &files)).unwrap_err().to_string()
    };
    let absent = folder.0.join("absent");
    for (chain, key, name) in [
        (&absent, &good.key, "unreadable"),
        (&good.chain, &absent, "unreadable"),
        (&folder.0, &good.key, "unreadable"),
        (&good.chain, &other.key, "wrong-key"),
        (&good.key, &good.chain, "no-certificate"),
        (&good.chain, &good.chain, "no-key"),
        (&nothing, &good.key, "no-certificate"),
        (&half, &good.key, "not-pem"),
        (&odd, &good.key, "bad-certificate"),
        (&large, &good.key, "too-large"),
    ] {
        let error = refused(chain, key);
        assert!(error.contains(&format!(": {name}: ")), "expected {name}: {error}");
    }
}

#[test]
fn a_proxy_that_stops_ends_its_connections_over_tls() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (arrived, arrival) = mpsc::sync_channel(0);
    let (release, released) = mpsc::channel();
    let (arrived, released) = (std::sync::Mutex::new(arrived), std::sync::Mutex::new(released));
    let origin = Origin::start(move |request| {
        if request.uri() == "/slow" {
            arrived.lock().unwrap().send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        response(200, &[], "done")
    });
    let files = authority.issue_to(&folder, &["shop.example"]);
    let mut proxy = Proxy::start(tls_config(&origin, &files)).unwrap();
    let trusting = authority.client(&[]);
    let (mut idle, mut busy) = (client(&proxy, &trusting), client(&proxy, &trusting));
    assert_eq!(idle.get("/").status, 200);
    let asking = std::thread::spawn(move || busy.get("/slow"));
    arrival.recv().unwrap();
    proxy.stop();
    assert_eq!(idle.rest(), b"", "an idle connection is closed");
    release.send(()).unwrap();
    assert_eq!(asking.join().unwrap().text(), "done");
    proxy.wait().unwrap();
}

/// A proxy before an origin over TLS.
fn before(origin: &Origin, name: &str, ca: Option<PathBuf>) -> Config {
    let url = format!("https://{name}:{}", origin.address.port());
    Config { origin: url.parse().unwrap(), origin_ca: ca, ..config(origin.address) }
}

#[test]
fn an_origin_is_reached_over_tls_if_its_certificate_is_trusted() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let ca = folder.write("ca.pem", &authority.0.pem());
    let other_ca = folder.write("other.pem", &Authority::new().0.pem());
    let origin = Origin::start_as(false, Some(authority.acceptor(&["localhost"], "http/1.1")), echo);
    let answer = |config: Config| {
        let (notes, noted) = mpsc::channel();
        let proxy = Proxy::start(Config { notes: Some(notes), ..config }).unwrap();
        let answers = [(); 2].map(|()| Client::connect(proxy.address()).get("/page"));
        let noted: Vec<String> = noted.try_iter().map(|note| note.to_string()).collect();
        (answers, noted)
    };
    let (answers, noted) = answer(before(&origin, "localhost", Some(ca.clone())));
    // How the client came, not how the origin is reached.
    assert_eq!(answers[0].text(), "http for=127.0.0.1;host=\"shop.example\";proto=http");
    assert!(answers[1].is_hit() && noted.is_empty(), "{noted:?}");
    // By an address that the certificate does not name, and by an authority that did not issue it.
    for (name, ca, why) in [("127.0.0.1", &ca, "not valid for name"), ("localhost", &other_ca, "--origin-ca")] {
        let (answers, noted) = answer(before(&origin, name, Some(ca.clone())));
        assert_eq!(answers[0].status, 502);
        let status = answers[0].field("proxy-status").unwrap();
        assert_eq!(status, "thorp; error=tls_certificate_error; details=\"origin-certificate\"");
        assert!(noted.len() == 1 && noted[0].contains(why), "it is said once: {noted:?}");
    }
    let plain = Origin::start(echo);
    let (answers, _) = answer(before(&plain, "localhost", Some(ca)));
    assert_eq!(answers[0].field("proxy-status").unwrap(), "thorp; error=tls_protocol_error; details=\"origin-tls\"");
}

#[test]
fn an_origin_over_tls_is_asked_in_http2_where_it_is_to_be() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let ca = folder.write("ca.pem", &authority.0.pem());
    for (protocol, status) in [("h2", 200), ("http/1.1", 502)] {
        let origin = Origin::start_as(true, Some(authority.acceptor(&["localhost"], protocol)), echo);
        let config = Config { origin_http2: true, ..before(&origin, "localhost", Some(ca.clone())) };
        let proxy = Proxy::start(config).unwrap();
        let answer = Client::connect(proxy.address()).get("/page");
        assert_eq!(answer.status, status, "{answer:?}");
    }
}
