//! How a watcher stands with its slot and with commits, as the server says on the connection for questions.

use crate::error::WatchError;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use tokio_postgres::Client;

/// A process of the server: its number alone may be another one's later.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) id: i32,
    /// When it was begun, as the server says it.
    pub(crate) begun: String,
}

impl Process {
    /// The query for one's own process.
    pub(crate) const OWN: &str =
        "SELECT pid, extract(epoch FROM backend_start) FROM pg_stat_get_activity(pg_backend_pid())";
}

/// The server's word on the watcher whose process asks.
pub(crate) struct Answer {
    /// Whether that has the slot.
    pub(crate) is_ours: bool,
    /// The list of those that commits wait for.
    pub(crate) standbys: String,
}

const QUERY: &str = "SELECT current_setting('synchronous_standby_names'), EXISTS (SELECT FROM pg_replication_slots, pg_stat_get_activity($2) process \
                     WHERE slot_name = $1 AND active_pid = $2 AND process.pid = $2 \
                     AND extract(epoch FROM backend_start)::text = $3)";

type Question = Pin<Box<dyn Future<Output = Result<Answer, WatchError>>>>;

/// The questions, one at a time.
pub(crate) struct Standing {
    client: Arc<Client>,
    slot: String,
    process: Process,
    question: Option<Question>,
}

impl Standing {
    pub(crate) fn new(client: Arc<Client>, slot: String, process: Process) -> Self {
        Self { client, slot, process, question: None }
    }

    /// Asks; nothing is under way.
    pub(crate) fn ask(&mut self) {
        let (client, slot, process) = (self.client.clone(), self.slot.clone(), self.process.clone());
        self.question = Some(Box::pin(async move {
            let row = client.query_one(QUERY, &[&slot, &process.id, &process.begun]).await?;
            Ok(Answer { standbys: row.try_get(0)?, is_ours: row.try_get(1)? })
        }));
    }

    /// The answer, if there is a question.
    pub(crate) async fn answer(&mut self) -> Result<Answer, WatchError> {
        let Some(question) = &mut self.question else { return future::pending().await };
        let answer = question.await;
        self.question = None;
        answer
    }
}
