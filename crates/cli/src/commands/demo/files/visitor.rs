//! A visitor: a browser that follows links, keeps its cookie, and gets another server each time, as behind a load
//! balancer that knows of no sessions.

use super::acknowledged::Acknowledged;
use super::client::{Answer, Client, Mode};
use super::content::{PAGES, Page};
use super::readers::{Step, Tally};
use std::net::SocketAddr;
use std::time::Instant;

/// The refusals that a server may answer with: it is behind the visitor, or has no longer what the visitor reads.
const REFUSALS: [u16; 2] = [503, 410];

pub(super) struct Visitor {
    number: usize,
    servers: Vec<Client>,
    acknowledged: Acknowledged,
    cookie: String,
    /// The page that it opens next.
    page: u64,
    /// The newest version that it has seen.
    newest: u64,
    turn: usize,
    random: u64,
}

impl Visitor {
    pub(super) fn new(number: usize, servers: Vec<SocketAddr>, acknowledged: Acknowledged) -> Self {
        Self {
            number,
            servers: servers.into_iter().map(Client::new).collect(),
            acknowledged,
            cookie: String::new(),
            page: number as u64 % PAGES,
            newest: 0,
            turn: number,
            random: number as u64,
        }
    }

    /// The visitor as a reader: each step opens a page.
    pub(super) fn into_step(mut self) -> Step {
        Box::new(move |tally| self.open_page(tally))
    }

    /// Opens a page at the next server, and fetches its parts there and at another server by turns.
    fn open_page(&mut self, tally: &mut Tally) {
        self.turn += 1;
        let count = self.servers.len();
        let here = self.turn % count;
        let there = (here + 1 + self.turn / count % (count - 1)) % count;
        let asked = Instant::now();
        let Some(answer) = self.ask(here, &Page::path(self.page), Mode::Navigate, tally) else { return };
        let is_stale = answer.field("thorp-stale").is_some();
        tally.stale += u64::from(is_stale);
        if let Some(cookie) = answer.field("set-cookie").and_then(|cookie| cookie.split(';').next()) {
            cookie.clone_into(&mut self.cookie);
        }
        let page = Page::read(&answer.body).filter(|page| page.number == self.page);
        let Some(page) = page else {
            tally.pages += 1;
            return tally.mix(format!("page {} mixes versions in itself", self.page));
        };
        if page.version < self.newest {
            let (visitor, number, newest) = (self.number, page.number, self.newest);
            tally.go_back(format!("visitor {visitor} got page {number} of version {} after {newest}", page.version));
        }
        let oldest = self.acknowledged.oldest_fresh(asked);
        if page.version < oldest && !is_stale {
            let Page { number, version } = page;
            tally
                .conceal(format!("server {} gave page {number} of version {version} a lease after {oldest}", here + 1));
        }
        self.newest = self.newest.max(page.version);
        let mut mixed = None;
        for (index, part) in page.parts().enumerate() {
            let order = if index % 2 == 0 { [here, there] } else { [there, here] };
            // A server that is away, or behind the page, is passed over.
            let answer = order.into_iter().find_map(|at| self.ask(at, &part.path(), Mode::NoCors, tally));
            let Some(answer) = answer else {
                tally.incomplete += 1;
                return;
            };
            if answer.body != part.text() {
                let got = answer.body.lines().next().unwrap_or_default();
                mixed.get_or_insert_with(|| {
                    let Page { number, version } = page;
                    format!(
                        "page {number} of version {version} wants {} of {}, and got `{got}`",
                        part.path(),
                        part.version
                    )
                });
            }
        }
        tally.pages += 1;
        if let Some(finding) = mixed {
            tally.mix(finding);
        }
        let links = page.links();
        self.page = links[types::splitmix(&mut self.random) as usize % links.len()];
    }

    /// The answer of a server that serves the path. Everything else is counted.
    fn ask(&mut self, server: usize, path: &str, mode: Mode, tally: &mut Tally) -> Option<Answer> {
        match self.servers[server].get(path, mode, &self.cookie) {
            Err(_) => tally.unanswered += 1,
            Ok(answer) if answer.status == 200 => return Some(answer),
            Ok(answer) if REFUSALS.contains(&answer.status) => tally.refused += 1,
            Ok(Answer { status, body, .. }) => {
                tally.err(format!("server {} answered {status} to /{path}: {}", server + 1, body.trim()));
            }
        }
        None
    }
}
