//! `thorp why` and `thorp who`: a proxy explains what it has stored.

use crate::Result;
use crate::cli::{WhoArgs, WhyArgs};
use crate::operators::token;
use crate::output::{Output, visible};
use serde_json::Value;

pub(super) fn why(args: &WhyArgs, output: &mut Output) -> Result {
    let token = args.proxy.token_file.as_deref().map(token).transpose()?;
    let said = proxy::why(&args.proxy.admin.to_string(), token.as_deref(), &args.url)?;
    output.line(&said, lines(&said, explain))
}

pub(super) fn who(args: &WhoArgs, output: &mut Output) -> Result {
    let token = args.proxy.token_file.as_deref().map(token).transpose()?;
    let said = proxy::who(&args.proxy.admin.to_string(), token.as_deref(), &args.dependency)?;
    output.line(&said, lines(&said, list))
}

/// Lines for a person, with nothing in them that controls a terminal.
fn lines(said: &Value, write: fn(&Value, &mut Vec<String>)) -> String {
    let mut lines = Vec::new();
    write(said, &mut lines);
    lines.iter().map(|line| visible(line)).collect::<Vec<_>>().join("\n")
}

fn explain(said: &Value, lines: &mut Vec<String>) {
    lines.push(text(&said["url"]));
    let stored = said["stored"].as_array().map(Vec::as_slice).unwrap_or_default();
    if stored.is_empty() {
        lines.push("  nothing is stored".to_owned());
        let scheme = text(&said["clients_speak"]);
        if !text(&said["url"]).starts_with(&format!("{scheme}://")) {
            lines.push(format!("  clients of this proxy speak {scheme}: ask for {scheme}://..."));
        }
    }
    for response in stored {
        let [status, bytes] = ["status", "bytes"].map(|name| text(&response[name]));
        let fresh = fresh(response);
        let next = &response["next_request"];
        let because = text(&next["because"]);
        let next = match next["answer"].as_str() {
            Some("hit") => "the next request is answered with it".to_owned(),
            Some("stale") => format!("the next request is answered with it although it is stale ({because})"),
            _ => format!("it is validated before it is used again ({because})"),
        };
        let place = if response["in"] == "disk" { " on disk" } else { "" };
        lines.push(format!("  stored{place}: status {status}, {bytes} bytes, {fresh}; {next}"));
        let names = list_of(&response["dependencies"]);
        let more = response["dependencies_more"].as_u64().filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        lines.push(format!("    depends on: {names}{more}"));
        let requests = list_of(&response["for_requests_with"]);
        if !requests.is_empty() {
            lines.push(format!("    for requests with: {requests}"));
        }
    }
    lines.push(match &said["last_from_origin"] {
        Value::Null => "  no request for it that took the application is remembered".to_owned(),
        last => {
            let [ago, because] = ["ago_s", "because"].map(|name| text(&last[name]));
            let status =
                last["status"].as_u64().map_or_else(|| "no response".to_owned(), |status| format!("status {status}"));
            let stored = if last["stored"] == true { "stored" } else { "not stored" };
            let detail = last["detail"].as_str().map(|detail| format!(" ({detail})")).unwrap_or_default();
            format!("  last from the application, {ago} s ago: {because}, {status}, {stored}{detail}")
        }
    });
}

fn list(said: &Value, lines: &mut Vec<String>) {
    let [count, dependency] = ["responses", "dependency"].map(|name| text(&said[name]));
    lines.push(match count.as_str() {
        "0" => format!("no stored response depends on {dependency}"),
        "1" => format!("1 stored response depends on {dependency}"),
        _ => format!("{count} stored responses depend on {dependency}"),
    });
    for entry in said["entries"].as_array().into_iter().flatten() {
        lines.push(format!("  {} ({})", text(&entry["url"]), fresh(entry)));
    }
    if let Some(more) = said["entries_more"].as_u64().filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
}

fn fresh(response: &Value) -> String {
    let (age, ttl) = (text(&response["age_s"]), response["ttl_s"].as_i64().unwrap_or_default());
    if ttl > 0 { format!("{age} s old, fresh for {ttl} s") } else { format!("{age} s old, stale for {} s", -ttl) }
}

fn list_of(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
