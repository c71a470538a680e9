//! TLS between a watcher and a server.

use super::server::block_on;
use super::web::Web;
use super::{Day, ends, until};
use pgwatch::{WatchConfig, check};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// An authority that issues certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate for a host, and its key, where a server reads them.
    fn issue(&self, folder: &Path, host: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([host.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let owner = std::fs::metadata(folder).unwrap();
        for (name, text) in [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())] {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
    }

    /// The file by which it is trusted.
    fn file(&self, folder: &Path, name: &str) -> String {
        let file = folder.join(name);
        std::fs::write(&file, self.0.pem()).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

#[test]
fn connections_are_as_safe_as_sslmode_says() {
    let Some(mut day) = Day::begin_with(&["listen_addresses=127.0.0.1"], Web::start) else { return };
    day.stop_watching();
    let session = day.server.session();
    session.run("SET synchronous_commit = local");
    let data = session.ask("SHOW data_directory");
    let data = Path::new(&data);
    let (ours, other) = (Authority::new("ours"), Authority::new("another"));
    let (ours_file, other_file) = (ours.file(data, "ours.pem"), other.file(data, "other.pem"));
    let config = |host: &str, options: &str| {
        let port = day.server.config().get_ports()[0];
        let database = format!("postgres://postgres@{host}:{port}/postgres?connect_timeout=10&{options}");
        WatchConfig { database: database.parse().unwrap(), ..day.config.clone() }
    };
    let error = |host: &str, options: &str| match block_on(check(&config(host, options))) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert!(error("127.0.0.1", "sslmode=require").contains("the server speaks no TLS"));

    ours.issue(data, "localhost");
    // Nobody comes by TCP without TLS from now on.
    std::fs::write(session.ask("SHOW hba_file"), "local all all trust\nlocal replication all trust\nhostssl all all all trust\nhostssl replication all all trust\n").unwrap();
    session.run("ALTER SYSTEM SET ssl = on");
    session.run("SELECT pg_reload_conf()");
    until("it speaks TLS", || error("127.0.0.1", "sslmode=require").is_empty());
    until("it speaks nothing else", || error("127.0.0.1", "sslmode=disable").contains("no encryption"));
    let full = |file: &str| format!("sslmode=verify-full&sslrootcert={file}");
    assert!(error("localhost", &full(&other_file)).contains("no authority that is trusted"));
    assert!(error("127.0.0.1", &full(&ours_file)).contains("not valid for name"));
    assert_eq!(error("127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={ours_file}")), "");
    let required = error("127.0.0.1", &format!("sslmode=require&sslrootcert={other_file}"));
    assert!(required.contains("no authority that is trusted"), "{required}");
    let absent = error("localhost", &full("/nowhere/ca.pem"));
    assert!(absent.contains("/nowhere/ca.pem"), "{absent}");

    let watched = config("localhost", &full(&ours_file));
    day.config = watched;
    day.watch();
    assert_eq!(session.ask("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)"), "t");
    let kept = day.web.fill("item:1").unwrap();
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    ends(&ended);
    assert!(!kept.is_current());
}
