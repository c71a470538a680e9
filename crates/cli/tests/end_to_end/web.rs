//! The proxy as an operator runs it.

use crate::program::command;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

/// An application that says how often it was asked.
fn application() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let body = format!("asked {number}");
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\n";
            write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    format!("http://{address}")
}

#[test]
fn a_proxy_caches_until_it_is_told_to_stop() {
    let mut child = command()
        .args(["proxy", "--json", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--origin", &application()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let address = line()["listen"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nasked 0"), "{answer}");
    }
    drop(child.stdin.take());
    let stopped = line();
    assert_eq!((&stopped["requests"], &stopped["hits"]), (&2.into(), &1.into()), "{stopped}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_origin_that_is_none_is_refused_with_what_was_expected() {
    for origin in ["shop", "ftp://shop", "http://shop/path", "http://user@shop"] {
        let ran = crate::program::thorp(["proxy", "--origin", origin]);
        assert_eq!(ran.code, Some(2), "{origin}");
        assert!(ran.stderr.contains("http://HOST:PORT"), "{}", ran.stderr);
    }
}
