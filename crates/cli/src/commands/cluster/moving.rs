//! `thorp cluster move` and `drain`: shards move while the nodes serve, and the command waits until they have.
//!
//! The move is the nodes' work. It continues when the command is stopped, and the same command shows it again.

use super::ANSWER_WITHIN;
use crate::Result;
use crate::cli::{ClusterDrainArgs, ClusterMoveArgs};
use crate::output::{Output, bar, number, visible};
use indicatif::ProgressBar;
use membership::{Cluster, Copying, EtcdUrl, ShardStatus, Status};
use serde_json::json;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use types::Shard;

/// How often the state of the nodes is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often programs that read the output get a line with the progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

pub(super) fn move_shard(args: &ClusterMoveArgs, output: &mut Output) -> Result {
    let ClusterMoveArgs { url, shard, node, no_wait } = args;
    let cluster = Cluster::new(url, ANSWER_WITHIN)?;
    begin(&cluster, &[(Shard(*shard), node.clone())], *no_wait, output)
}

pub(super) fn drain(args: &ClusterDrainArgs, output: &mut Output) -> Result {
    let ClusterDrainArgs { url, node, no_wait } = args;
    let cluster = Cluster::new(url, ANSWER_WITHIN)?;
    let moves = cluster.view()?.drain(node)?;
    if moves.is_empty() {
        let text = format!("node {node} has no shards");
        return output.line(&json!({"moved": [], "node": node}), text);
    }
    begin(&cluster, &moves, *no_wait, output)
}

fn begin(cluster: &Cluster, moves: &[(Shard, String)], no_wait: bool, output: &mut Output) -> Result {
    cluster.move_shards(moves)?;
    if no_wait {
        let shards: Vec<_> = moves.iter().map(|(shard, to)| json!({"shard": shard.0, "to": to})).collect();
        let text = format!("{} moving: 'thorp cluster status' shows how far they are", shards_are(moves.len()));
        return output.line(&json!({"moving": shards}), text);
    }
    Waiting { left: moves.iter().map(|(shard, to)| (shard.0, to.clone())).collect(), told: Instant::now() }
        .wait(cluster, output)
}

fn shards_are(count: usize) -> String {
    if count == 1 { "1 shard is".into() } else { format!("{count} shards are") }
}

/// The shards that have not moved yet, and their nodes.
struct Waiting {
    left: BTreeMap<u16, String>,
    told: Instant,
}

impl Waiting {
    fn wait(mut self, cluster: &Cluster, output: &mut Output) -> Result {
        let all = self.left.clone();
        let progress = bar("move shards", all.len() as u64);
        while !self.left.is_empty() {
            let status = Status::of(&cluster.view()?);
            for shard in &status.placement {
                self.look(shard, cluster.url())?;
            }
            progress.set_position((all.len() - self.left.len()) as u64);
            self.say(&status, &progress, output)?;
            if !self.left.is_empty() {
                sleep(LOOK_EVERY);
            }
        }
        progress.finish_and_clear();
        let moved: Vec<_> = all.iter().map(|(shard, to)| json!({"shard": shard, "to": to})).collect();
        let text = match (all.len(), all.first_key_value()) {
            (1, Some((shard, to))) => format!("shard {shard} is at node {to}"),
            (count, _) => format!("{count} shards have moved"),
        };
        output.line(&json!({"moved": moved}), text)
    }

    /// Takes a shard off the list that has arrived.
    ///
    /// # Errors
    /// Its move was ended.
    fn look(&mut self, shard: &ShardStatus, url: &EtcdUrl) -> Result {
        let Some(to) = self.left.get(&shard.shard) else { return Ok(()) };
        if shard.node == *to {
            self.left.remove(&shard.shard);
        } else if shard.to.as_ref() != Some(to) {
            let (number, node) = (shard.shard, &shard.node);
            return Err(format!(
                "shard {number} stays at node {node}: {to} did not take it in time, or it was told to stay; see \
                 'thorp cluster status {url}', and try again"
            )
            .into());
        }
        Ok(())
    }

    /// Prints the progress of the shard that is being copied.
    fn say(&mut self, status: &Status, progress: &ProgressBar, output: &mut Output) -> Result {
        let coming = status.nodes.iter().flat_map(|node| &node.coming);
        let meant: Vec<_> = coming.filter(|coming| self.left.contains_key(&coming.shard)).collect();
        if let Some(Copying { shard, trouble: Some(trouble), .. }) =
            meant.iter().find(|coming| coming.trouble.is_some())
        {
            let text = format!("shard {shard} cannot be copied: {}", visible(trouble));
            return Err(format!("{text}; have it stay with 'thorp cluster move', naming its own node").into());
        }
        let Some(current) = meant.into_iter().find(|coming| coming.listed > 0) else { return Ok(()) };
        let Copying { shard, copied, listed, .. } = current;
        progress.set_message(format!("shard {shard}: {} of {} pages", number(*copied), number(*listed)));
        if output.is_json() && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            output.line(&json!({"shard": shard, "copied": copied, "listed": listed}), "")?;
            output.flush()?;
        }
        Ok(())
    }
}
