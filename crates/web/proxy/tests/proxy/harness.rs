//! A proxy in this process, a real origin behind it, and a client that writes and reads bytes.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::{Config, Proxy};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Requests as an origin has received them.
pub(crate) type Received = Arc<Mutex<Vec<Request<Bytes>>>>;

trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for S {}

/// An origin that answers with what a function says.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    received: Received,
}

impl Origin {
    pub(crate) fn start<F>(answer: F) -> Self
    where
        F: Fn(&Request<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    {
        Self::start_as(false, None, answer)
    }

    /// One that speaks HTTP/2 and nothing else, or HTTP/1.1; over TLS or without.
    pub(crate) fn start_as<F>(is_http2: bool, tls: Option<TlsAcceptor>, answer: F) -> Self
    where
        F: Fn(&Request<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Received::default());
        let (answer, requests) = (Arc::new(answer), received.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (answer, requests) = (answer.clone(), requests.clone());
                    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                        let (answer, requests) = (answer.clone(), requests.clone());
                        async move {
                            let (head, body) = request.into_parts();
                            // A body that breaks off is one that the test wants broken.
                            let body =
                                body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                            let request = Request::from_parts(head, body);
                            requests.lock().unwrap().push(request.clone());
                            let answered = tokio::task::spawn_blocking(move || answer(&request).map(Full::new));
                            Ok::<_, Infallible>(answered.await.unwrap())
                        }
                    });
                    let tls = tls.clone();
                    tokio::spawn(async move {
                        let stream: Box<dyn AsyncStream> = match tls {
                            None => Box::new(stream),
                            // A proxy that does not trust this origin hangs up.
                            Some(tls) => match tls.accept(stream).await {
                                Ok(stream) => Box::new(stream),
                                Err(_) => return,
                            },
                        };
                        let io = TokioIo::new(stream);
                        if is_http2 {
                            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                            let _ = server.serve_connection(io, service).await;
                        } else {
                            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                        }
                    });
                }
            });
        });
        Self { address, received }
    }

    /// The requests that it has received so far.
    pub(crate) fn received(&self) -> Vec<Request<Bytes>> {
        self.received.lock().unwrap().clone()
    }
}

/// An origin that sends bytes to each connection once a request's head is there, and closes it.
pub(crate) fn raw_origin(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for answer in answers.iter().cycle() {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                line.clear();
            }
            // The proxy may have hung up.
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    address
}

/// A step of an origin's answer.
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Until the test says so.
    Wait,
}

/// An origin that answers in steps, each request on a connection of its own, which it closes then.
pub(crate) struct Stepped {
    pub(crate) address: SocketAddr,
    /// The first lines of the requests.
    asked: mpsc::Receiver<String>,
    gate: Arc<Gate>,
}

/// Where answers wait, and the leave of some to continue: of any, or of those to the requests of that number.
#[derive(Default)]
struct Gate {
    leave: Mutex<Vec<Option<usize>>>,
    given: Condvar,
}

impl Gate {
    fn pass(&self, number: usize) {
        let is_meant = |leave: &Option<usize>| leave.is_none_or(|meant| meant == number);
        let leave = self.leave.lock().unwrap();
        let mut leave = self.given.wait_while(leave, |leave| !leave.iter().any(is_meant)).unwrap();
        let place = leave.iter().position(is_meant).unwrap();
        leave.remove(place);
    }

    fn open(&self, number: Option<usize>) {
        self.leave.lock().unwrap().push(number);
        self.given.notify_all();
    }
}

impl Stepped {
    /// Its answers are made of the target and the number of requests for that before.
    pub(crate) fn start(answer: impl Fn(&str, usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((ask, asked), gate) = (mpsc::channel(), Arc::<Gate>::default());
        let (answer, waits) = (Arc::new(answer), gate.clone());
        let counts = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, waits, counts, ask) = (answer.clone(), waits.clone(), counts.clone(), ask.clone());
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                    let first = lines.next().unwrap_or_default();
                    let _ = lines.find(String::is_empty);
                    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
                    let number = {
                        let mut counts = counts.lock().unwrap();
                        let count = counts.entry(target.clone()).or_default();
                        *count += 1;
                        *count - 1
                    };
                    // A test that has ended does not listen any more.
                    let _ = ask.send(first);
                    for step in answer(&target, number) {
                        match step {
                            // The test may have ended.
                            Step::Send(bytes) => drop(stream.write_all(&bytes)),
                            Step::Wait => waits.pass(number),
                        }
                    }
                });
            }
        });
        Self { address, asked, gate }
    }

    pub(crate) fn wait_for(&self, request: &str) {
        assert_eq!(self.asked.recv_timeout(PATIENCE).unwrap(), format!("{request} HTTP/1.1"));
    }

    /// Whether it was asked for something that nobody has waited for.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.try_recv().is_ok()
    }

    /// One answer continues.
    pub(crate) fn go(&self) {
        self.gate.open(None);
    }

    /// The answer to a request continues that has this many before it.
    pub(crate) fn go_on(&self, number: usize) {
        self.gate.open(Some(number));
    }
}

pub(crate) fn config(origin: SocketAddr) -> Config {
    let mut config = Config::new("127.0.0.1:0".parse().unwrap(), format!("http://{origin}").parse().unwrap());
    config.threads = 2;
    config
}

pub(crate) fn proxy(origin: &Origin) -> Proxy {
    Proxy::start(config(origin.address)).unwrap()
}

/// A response, as it was read from a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The values of a field, joined.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> =
            self.fields.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Whether a stored response has answered, by its own word.
    pub(crate) fn is_hit(&self) -> bool {
        self.field("cache-status").is_some_and(|status| status.contains("; hit"))
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A client on HTTP/1.1.
pub(crate) struct Client {
    reader: BufReader<Box<dyn Stream>>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::on(connect(address))
    }

    pub(crate) fn on(stream: impl Stream + 'static) -> Self {
        Self { reader: BufReader::new(Box::new(stream)) }
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.reader.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Writes to a proxy that may have closed the connection.
    pub(crate) fn try_write(&mut self, bytes: &str) {
        let _ = self.reader.get_mut().write_all(bytes.as_bytes());
    }

    /// Whether a request is answered, and its connection not closed.
    pub(crate) fn is_served(&mut self) -> bool {
        self.try_write("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n");
        self.read().is_some()
    }

    /// The next response; none if the connection is closed.
    pub(crate) fn read(&mut self) -> Option<Answer> {
        self.read_for("GET")
    }

    fn read_for(&mut self, method: &str) -> Option<Answer> {
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let mut answer = Answer { status, ..Answer::default() };
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            answer.fields.push((name.to_owned(), value.to_owned()));
        }
        if method == "HEAD" || status == 304 || status == 204 || status == 101 {
            return Some(answer);
        }
        if answer.field("transfer-encoding").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).ok()?;
                if size == 0 {
                    while !self.line()?.is_empty() {}
                    return Some(answer);
                }
                answer.body.extend(self.bytes(size)?);
                self.line()?;
            }
        }
        answer.body = match answer.field("content-length") {
            Some(length) => self.bytes(length.parse().ok()?)?,
            None => self.rest(),
        };
        Some(answer)
    }

    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// All until the connection is closed.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end, too.
        let _ = self.reader.read_to_end(&mut bytes);
        bytes
    }

    /// Sends a request without a body and reads the response.
    pub(crate) fn ask(&mut self, method: &str, path: &str, fields: &str) -> Answer {
        self.write(format!("{method} {path} HTTP/1.1\r\nHost: shop.example\r\n{fields}\r\n"));
        self.read_for(method).expect("a response")
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }
}

/// A response with fields.
pub(crate) fn response(status: u16, fields: &[(&str, &str)], body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}
