//! Requests and answers in JSON, as the gateway has them: bytes in base64, numbers of 64 bits as texts, and fields that
//! are zero or false left out.

use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use serde_json::{Value, json};
use std::time::Duration;

/// The number of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// A lease as etcd has granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// How long it lasts after each keep-alive: what was asked for, or etcd's shortest.
    pub length: Duration,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The revision of its last change.
    pub revision: i64,
}

/// The keys below a prefix, as of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of all of etcd: it grows with every change, deletions and expired leases included.
    pub revision: i64,
    /// The keys in order.
    pub entries: Vec<Entry>,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// There is no such key.
    Absent(String),
    /// The key was changed last in this revision.
    Unchanged(String, i64),
}

/// A change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets a key, which goes with the lease if there is one.
    Put(String, String, Option<LeaseId>),
    /// Deletes a key.
    Delete(String),
}

impl Snapshot {
    /// The request for all keys below a prefix.
    pub(crate) fn request(prefix: &str) -> Value {
        json!({"key": BASE64.encode(prefix.as_bytes()), "range_end": BASE64.encode(after(prefix))})
    }

    /// Parses the answer; the error is what was expected.
    pub(crate) fn parse(answer: &Value) -> Result<Self, &'static str> {
        let entry = |kv: &Value| {
            let text =
                |field: &str| String::from_utf8(BASE64.decode(kv[field].as_str().unwrap_or_default()).ok()?).ok();
            let key = text("key").ok_or("keys in base64 of UTF-8")?;
            let value = text("value").ok_or("values in base64 of UTF-8")?;
            Ok(Entry { key, value, revision: number(&kv["mod_revision"]).ok_or("a mod_revision of each key")? })
        };
        let found = answer["kvs"].as_array().into_iter().flatten();
        if answer["more"] == true {
            return Err("all keys at once");
        }
        Ok(Self { revision: revision(answer)?, entries: found.map(entry).collect::<Result<_, _>>()? })
    }
}

/// The request for the revision of all of etcd.
pub(crate) fn revision_request(prefix: &str) -> Value {
    json!({"key": BASE64.encode(prefix.as_bytes()), "count_only": true})
}

/// The revision of all of etcd, from the header of an answer.
pub(crate) fn revision(answer: &Value) -> Result<i64, &'static str> {
    number(&answer["header"]["revision"]).filter(|&revision| revision > 0).ok_or("a header with a revision")
}

/// The request for a transaction.
pub(crate) fn transaction(compares: &[Compare], operations: &[Operation]) -> Value {
    let compare = |compare: &Compare| match compare {
        Compare::Absent(key) => {
            json!({"key": BASE64.encode(key.as_bytes()), "target": "CREATE", "result": "EQUAL", "create_revision": "0"})
        }
        Compare::Unchanged(key, revision) => {
            let revision = revision.to_string();
            json!({"key": BASE64.encode(key.as_bytes()), "target": "MOD", "result": "EQUAL", "mod_revision": revision})
        }
    };
    let operation = |operation: &Operation| match operation {
        Operation::Put(key, value, lease) => {
            let lease = lease.map_or(0, |LeaseId(id)| id).to_string();
            let put =
                json!({"key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(value.as_bytes()), "lease": lease});
            json!({"request_put": put})
        }
        Operation::Delete(key) => json!({"request_delete_range": {"key": BASE64.encode(key.as_bytes())}}),
    };
    let compare: Vec<_> = compares.iter().map(compare).collect();
    json!({"compare": compare, "success": operations.iter().map(operation).collect::<Vec<_>>()})
}

/// Whether a transaction was carried out.
pub(crate) fn has_succeeded(answer: &Value) -> Result<bool, &'static str> {
    revision(answer)?;
    Ok(answer["succeeded"] == true)
}

impl Lease {
    /// The request for a lease of this length, in whole seconds.
    pub(crate) fn request(length: Duration) -> Value {
        json!({"TTL": length.as_secs().max(1).to_string()})
    }

    /// Parses the answer to that.
    pub(crate) fn parse(answer: &Value) -> Result<Self, &'static str> {
        let id = number(&answer["ID"]).filter(|&id| id != 0).ok_or("the ID of a lease")?;
        Ok(Self { id: LeaseId(id), length: length(answer)?.ok_or("the TTL of a lease")? })
    }
}

/// The request that names a lease.
pub(crate) fn of_lease(LeaseId(id): LeaseId) -> Value {
    json!({"ID": id.to_string()})
}

/// How long a lease that was kept alive lasts; `None` if it has expired.
pub(crate) fn kept_alive(answer: &Value) -> Result<Option<Duration>, &'static str> {
    // A stream of one answer.
    let answer = &answer["result"];
    revision(answer)?;
    length(answer)
}

fn length(answer: &Value) -> Result<Option<Duration>, &'static str> {
    let seconds = number(&answer["TTL"]).ok_or("a TTL")?;
    // A year: no user asks for more, and no sum overflows.
    let seconds = u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(|seconds| seconds.min(31_536_000));
    Ok(seconds.map(Duration::from_secs))
}

/// A number of 64 bits: a text, left out if it is zero.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        value => value.as_i64(),
    }
}

/// The end of the range of keys below a prefix.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // The last byte of UTF-8 is never the greatest.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_parsed() {
        let header = json!({"cluster_id": "1", "revision": "12"});
        let kv = json!({"key": "L2E=", "value": "Yg==", "mod_revision": "7"});
        let parsed = Snapshot::parse(&json!({"header": header, "kvs": [kv], "count": "1"})).unwrap();
        let entry = Entry { key: "/a".into(), value: "b".into(), revision: 7 };
        assert_eq!(parsed, Snapshot { revision: 12, entries: vec![entry] });
        assert_eq!(Snapshot::parse(&json!({"header": header})).unwrap().entries, []);
    }

    #[test]
    fn answers_of_other_servers_are_refused() {
        let header = json!({"revision": "12"});
        for answer in [
            json!(null),
            json!([]),
            json!({"header": {"revision": "-1"}}),
            json!({"header": {"revision": "99999999999999999999"}}),
            json!({"header": header, "more": true}),
            json!({"header": header, "kvs": [{"key": "?"}]}),
            json!({"header": header, "kvs": [{"key": "/////w==", "value": ""}]}),
            json!({"header": header, "kvs": [{"key": "L2E=", "value": "", "mod_revision": [1]}]}),
        ] {
            assert!(Snapshot::parse(&answer).is_err(), "{answer}");
        }
        assert!(Lease::parse(&json!({"TTL": "5"})).is_err() && Lease::parse(&json!({"ID": "5"})).is_err());
        let huge = Lease::parse(&json!({"ID": "-5", "TTL": "9223372036854775807"})).unwrap();
        assert_eq!(huge.length, Duration::from_secs(31_536_000));
        assert_eq!(kept_alive(&json!({"result": {"header": header, "ID": "5"}})), Ok(None));
        assert!(kept_alive(&json!({"result": {"header": header, "TTL": "x"}})).is_err());
    }
}
