//! The spaces of a store: found by name, made, listed.
//!
//! The catalog is read and changed by ordinary transactions, so it is as durable, as coherent and as well recovered as
//! all else, and the store itself knows nothing of it.

use crate::catalog::{CATALOG, Catalog, MAIN_SPACE_NAME, Space, check_name, damaged};
use crate::{Cure, Database, Error, Result, Transaction, Tries};
use bytes::Bytes;
use client::{Read, Write};
use std::sync::Arc;
use std::task::Poll;
use types::MAIN_SPACE;

/// The answer of a copy of the catalog.
enum Answer<R> {
    /// A space that was found has its number for good, so a copy that is behind is as right about it as the store.
    Lasting(R),
    /// This is so if the copy is current, which the commit proves: a name that is missing may have come since.
    Current(R),
}

impl Database {
    /// The number of the space of this name; if there is none it is made, where `creates` says so. The main space is
    /// known without asking the store.
    ///
    /// # Errors
    /// [`Error::NoSuchSpace`], [`Error::SpaceName`], [`Error::TooManySpaces`]; [`Error::Damaged`] if the catalog is;
    /// otherwise what the store says.
    pub async fn space(self: &Arc<Self>, name: &str, creates: bool) -> Result<u32> {
        check_name(name)?;
        if name == MAIN_SPACE_NAME {
            return Ok(MAIN_SPACE);
        }
        let found = self.with_catalog(|catalog| {
            Ok(match catalog.find(name) {
                Some(number) => Answer::Lasting(Some(number)),
                None if creates => Answer::Current(Some(catalog.add(name)?)),
                None => Answer::Current(None),
            })
        });
        found.await?.ok_or_else(|| Error::NoSuchSpace(name.to_owned()))
    }

    /// All spaces of the store, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the catalog is; otherwise what the store says.
    pub async fn spaces(self: &Arc<Self>) -> Result<Vec<Space>> {
        let mut spaces = vec![Space::main()];
        spaces.extend(self.with_catalog(|catalog| Ok(Answer::Current(catalog.clone().into_spaces()))).await?);
        Ok(spaces)
    }

    /// Gives `step` the catalog, in a transaction that keeps what it adds; tried again while others are faster and the
    /// client is patient.
    async fn with_catalog<R>(self: &Arc<Self>, mut step: impl FnMut(&mut Catalog) -> Result<Answer<R>>) -> Result<R> {
        let mut tries = Tries::begin(self);
        loop {
            let transaction = Transaction::begin(self)?;
            let txn = transaction.handle();
            let error = match self.try_with_catalog(transaction, &mut step, &tries).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Some(cure) = Cure::of(&error) else { return Err(error) };
            if tries.pause(cure, txn).await.is_err() {
                return Err(error);
            }
        }
    }

    async fn try_with_catalog<R>(
        &self,
        transaction: Transaction,
        step: &mut impl FnMut(&mut Catalog) -> Result<Answer<R>>,
        tries: &Tries,
    ) -> Result<R> {
        let txn = transaction.handle();
        let read = self.wait(txn, |client, now| {
            Ok(match client.read(now, txn, CATALOG)? {
                Read::Value(bytes) => Poll::Ready(Catalog::from_bytes(bytes)),
                Read::Absent => Poll::Ready(Ok(Catalog::default())),
                Read::Wait => Poll::Pending,
            })
        });
        let before = read.await??;
        let mut catalog = before.clone();
        let answer = match step(&mut catalog)? {
            Answer::Lasting(answer) => return Ok(answer),
            Answer::Current(answer) => answer,
        };
        if catalog != before {
            let bytes = Bytes::from(catalog.to_bytes());
            let write = self.wait(txn, |client, now| {
                Ok(match client.write(now, txn, CATALOG, bytes.clone())? {
                    Write::Done => Poll::Ready(true),
                    Write::Full => Poll::Ready(false),
                    Write::Wait => Poll::Pending,
                })
            });
            if !write.await? {
                return Err(damaged("something else is in the page of the catalog of spaces"));
            }
        }
        transaction.commit(Some(tries)).await?;
        Ok(answer)
    }
}
