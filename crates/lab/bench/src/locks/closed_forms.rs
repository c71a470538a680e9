//! The paper's figures as arithmetic, from the numbers that it states (`docs/experiments.md`, Publish).

use super::scene::Scene;
use spread::messages::Consistency;

/// Messages for an update and a server (the paper's figure 3).
pub(super) fn messages(consistency: Consistency) -> f64 {
    match consistency {
        Consistency::Publish => 1.0,
        Consistency::Callback => 3.0,
        Consistency::Sequential => 4.0,
    }
}

/// The part of the line that one file takes, in percent: messages without a file have the least bytes, and one of
/// them has the file.
pub(super) fn use_percent(scene: &Scene) -> f64 {
    let with_file = (scene.file_bytes as f64).max(scene.least_bytes as f64);
    let bytes = (messages(scene.consistency) - 1.0) * scene.least_bytes as f64 + with_file;
    let capacity = scene.megabits as f64 * 1e6 / 8.0 * scene.every.as_secs_f64();
    100.0 * scene.servers as f64 * bytes / capacity
}

/// The mean latency of all reads and of those that wait, in milliseconds, where all servers ask for the file at once.
///
/// The line carries the file to one server after the other, in T altogether. A server waits for w, uniform up to T.
/// With r reads a second, 1 + r w of its reads wait, together for w + r w^2 / 2.
pub(super) fn latency_ms(scene: &Scene) -> (f64, f64) {
    if scene.consistency == Consistency::Publish {
        return (0.0, 0.0);
    }
    let (rate, reads) = (scene.megabits as f64 * 1e6 / 8.0, scene.reads);
    let round = scene.servers as f64 * (scene.file_bytes as f64).max(scene.least_bytes as f64) / rate;
    let (mean, square) = (round / 2.0, round * round / 3.0);
    let waits = mean + reads * square / 2.0;
    (1e3 * waits / (reads * scene.every.as_secs_f64()), 1e3 * waits / (1.0 + reads * mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_latencies_follow_and_its_files_do_not() {
        let (all, waiting) = latency_ms(&Scene::camera(Consistency::Callback));
        assert_eq!(((all * 10.0).round(), (waiting / 10.0).round()), (213.0, 90.0));
        let files = |consistency| (100.0 / use_percent(&Scene::ticker(consistency))).round() as u32;
        let all = [Consistency::Publish, Consistency::Callback, Consistency::Sequential].map(files);
        assert_eq!(all, [244, 81, 61], "the paper: more than 300, and 70");
    }
}
