//! HTTP: from a request to a page.

use crate::shop::database::Pool;
use crate::shop::page::Page;
use crate::shop::pages::{self, Found, ItemForm, Part, SHOWN, SHOWN_MAX};
use crate::shop::updates::{self, Done, Form, UpdateError};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};

/// The names that a page depends on (RFC 9875).
const GROUPS: HeaderName = HeaderName::from_static("cache-groups");

/// The directives for caches that are the shop's own (RFC 9213): a page is fresh until what it names has changed.
const CDN: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The versions of what a page shows, for a check of responses.
const VERSIONS: HeaderName = HeaderName::from_static("shop-versions");

/// The bytes of a form.
const FORM_BYTES_MAX: usize = 64 * 1024;

const CONNECTIONS_MAX: usize = 4096;

/// How long a visitor may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// How a shop is run.
#[derive(Clone, Debug)]
pub struct ShopConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where its data is.
    pub database: tokio_postgres::Config,
    /// Its pages name what they depend on. Without names they depend on everything.
    pub names: bool,
    /// For how long its own caches may keep a page that does not change, in seconds.
    pub max_age_s: u32,
}

impl ShopConfig {
    /// A shop that names its pages' dependencies.
    pub fn new(listen: SocketAddr, database: tokio_postgres::Config) -> Self {
        Self { listen, database, names: true, max_age_s: 86_400 }
    }
}

/// Why a shop does not start.
#[derive(Debug)]
pub struct ShopError {
    listen: SocketAddr,
    source: std::io::Error,
}

impl fmt::Display for ShopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shop cannot listen on {}: {}", self.listen, self.source)
    }
}

impl std::error::Error for ShopError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A running shop. Dropping it ends it, with the requests that are under way.
#[derive(Debug)]
pub struct Shop {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Shop {
    /// Listens, and serves from now on. The database may come later.
    ///
    /// # Errors
    /// The address is taken, or there can be no thread.
    pub fn start(config: ShopConfig) -> Result<Self, ShopError> {
        let listen = config.listen;
        let failed = |source| ShopError { listen, source };
        let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("shop".to_owned());
        let thread = thread.spawn(move || run(&runtime, listener, config, ended)).map_err(failed)?;
        Ok(Self { address, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been printed.
            let _ = thread.join();
        }
    }
}

fn run(runtime: &Runtime, listener: TcpListener, config: ShopConfig, ended: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            () = accept(listener, config) => {}
            // The sender is dropped with the shop.
            _ = ended => {}
        }
    });
}

async fn accept(listener: TcpListener, config: ShopConfig) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let desk = Arc::new(Desk { pool: Pool::new(config.database), names: config.names, max_age_s: config.max_age_s });
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // There can be no more sockets for now.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Without it small responses wait for the visitor's acknowledgement.
        let _ = stream.set_nodelay(true);
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            let serve = service_fn(|request| async { Ok::<_, Infallible>(desk.serve(request).await) });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .serve_connection(TokioIo::new(stream), serve);
            // A visitor that is gone has no use for an error.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// The place where requests come in.
struct Desk {
    pool: Pool,
    names: bool,
    max_age_s: u32,
}

/// Whether caches may keep a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Cached,
    Private,
}

impl Desk {
    async fn serve(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        match *request.method() {
            Method::GET | Method::HEAD => {
                let part = part(request.uri().query().unwrap_or_default());
                self.read(&words, part).await
            }
            Method::POST => self.update(&words, request).await,
            _ => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and POST are served");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
                response
            }
        }
    }

    async fn read(&self, words: &[&str], part: Part) -> Response<Full<Bytes>> {
        let pool = &self.pool;
        let number = |word: &str| word.parse::<i32>().ok();
        let mut keep = Keep::Cached;
        let found: Option<Found> = match *words {
            [] => Some(Ok(pages::home())),
            ["browse"] => Some(Ok(pages::browse())),
            ["register"] => Some(Ok(pages::register())),
            ["sell"] => Some(pages::sell(pool).await),
            ["categories"] => Some(pages::categories(pool, None).await),
            ["regions"] => Some(pages::regions(pool).await),
            [place, id, ref rest @ ..] => match (place, number(id), rest) {
                ("region", Some(region), []) => Some(pages::categories(pool, Some(region)).await),
                ("region", Some(region), ["category", category]) => match number(category) {
                    Some(category) => Some(pages::shelf(pool, region, category, part).await),
                    None => None,
                },
                ("best", Some(first), []) => Some(pages::best(pool, first, part).await),
                ("category", Some(category), []) => Some(pages::category(pool, category, part).await),
                ("item", Some(item), []) => Some(pages::item(pool, item, ItemForm::None).await),
                ("item", Some(item), ["bid"]) => Some(pages::item(pool, item, ItemForm::Bid).await),
                ("item", Some(item), ["buy"]) => Some(pages::item(pool, item, ItemForm::Buy).await),
                ("item", Some(item), ["bids"]) => Some(pages::bids(pool, item).await),
                ("user", Some(user), []) => Some(pages::user(pool, user).await),
                ("user", Some(user), ["comment"]) => Some(pages::comment_form(pool, user).await),
                ("about", Some(user), []) => {
                    keep = Keep::Private;
                    Some(pages::about(pool, user).await)
                }
                _ => None,
            },
            _ => None,
        };
        match found {
            None => plain(StatusCode::NOT_FOUND, "there is no such page"),
            Some(Ok((status, page))) => self.response(status, page, keep),
            Some(Err(error)) => plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        }
    }

    async fn update(&self, words: &[&str], request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Ok(body) = Limited::new(request.into_body(), FORM_BYTES_MAX).collect().await else {
            return plain(StatusCode::BAD_REQUEST, "the form is too large, or has not come");
        };
        let (pool, form) = (&self.pool, Form::parse(&body.to_bytes()));
        let done: Done = match *words {
            ["bids"] => updates::bid(pool, &form).await,
            ["purchases"] => updates::buy(pool, &form).await,
            ["comments"] => updates::comment(pool, &form).await,
            ["items"] => updates::sell(pool, &form).await,
            ["users"] => updates::register(pool, &form).await,
            _ => return plain(StatusCode::NOT_FOUND, "there is no such form"),
        };
        match done {
            Ok(page) => self.response(StatusCode::OK, page, Keep::Private),
            Err(UpdateError::Field(name)) => {
                plain(StatusCode::UNPROCESSABLE_ENTITY, &format!("the field {name} is missing or wrong"))
            }
            Err(UpdateError::Refused(why)) => plain(StatusCode::CONFLICT, why),
            Err(UpdateError::Database(error)) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, &format!("nobody knows whether it is done: {error}"))
            }
        }
    }

    fn response(&self, status: StatusCode, page: Page, keep: Keep) -> Response<Full<Bytes>> {
        let (groups, versions) = (page.groups(), page.versions());
        let mut response = Response::new(Full::new(page.finish().into()));
        *response.status_mut() = status;
        let fields = response.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        match keep {
            Keep::Cached => {
                // Browsers ask again each time: nobody tells them what has changed.
                fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                fields.insert(CDN, value(&format!("max-age={}", self.max_age_s)));
                if self.names {
                    fields.insert(GROUPS, value(&groups));
                }
            }
            Keep::Private => drop(fields.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"))),
        }
        fields.insert(VERSIONS, value(&versions));
        response
    }
}

/// A field's value of letters, digits and punctuation.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("names have no control characters")
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(format!("{text}\n").into()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The part of a list that a query asks for: `page=2&show=40`.
fn part(query: &str) -> Part {
    let number = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<i64>().ok())
    };
    let shown = number("show").unwrap_or(SHOWN).clamp(1, SHOWN_MAX);
    Part { page: number("page").unwrap_or(0).clamp(0, 1_000_000), shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded() {
        let shown = |query| (part(query).page, part(query).shown);
        assert_eq!(shown(""), (0, SHOWN));
        assert_eq!(shown("show=40&page=2"), (2, 40));
        assert_eq!(shown("page=-1&show=1000000"), (0, SHOWN_MAX));
    }
}
