//! The bytes of slots as they are, past the library: what a program of another kind may have stored.

use bytes::Bytes;
use client::{Read, Write};
use database::{Database, Transaction, block_on};
use objects::ObjectId;
use std::sync::Arc;
use std::task::Poll;

pub(crate) fn read(database: &Arc<Database>, object: ObjectId) -> Option<Bytes> {
    let transaction = Transaction::begin(database).unwrap();
    let txn = transaction.handle();
    let read = database.wait(txn, |client, now| {
        Ok(match client.read(now, txn, object)? {
            Read::Value(bytes) => Poll::Ready(Some(Bytes::copy_from_slice(bytes))),
            Read::Absent => Poll::Ready(None),
            Read::Wait => Poll::Pending,
        })
    });
    block_on(read).unwrap()
}

pub(crate) fn write(database: &Arc<Database>, object: ObjectId, bytes: &[u8]) {
    let transaction = Transaction::begin(database).unwrap();
    let txn = transaction.handle();
    let written = database.wait(txn, |client, now| {
        let bytes = Bytes::copy_from_slice(bytes);
        Ok(if client.write(now, txn, object, bytes)? == Write::Wait { Poll::Pending } else { Poll::Ready(()) })
    });
    block_on(written).unwrap();
    block_on(transaction.commit(None)).unwrap();
}
