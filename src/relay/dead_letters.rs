//! Dead letters: the operator looks at what webhooks could not be told, and has it tried once more or dropped.
//!
//! A letter that is tried once more is told by itself, whatever its webhook was told since: its place in the order is
//! lost. When it arrives it is gone; when not, it stays and says why.

use crate::domain::id::DeadLetterId;
use crate::domain::webhook::DeadLetter;
use crate::error::{Error, Result, Symbol};
use crate::relay::Relay;
use crate::store::{Connection, Tx, dead_letters};

/// Which dead letters are meant.
#[derive(Clone, Debug)]
pub enum Letters {
    /// Every one.
    All,
    /// These.
    Ids(Vec<DeadLetterId>),
}

impl Relay {
    /// Lists dead letters, newest first.
    pub async fn dead_letters(&self, count: usize) -> Result<Vec<DeadLetter>> {
        self.store().read(move |conn| dead_letters::list(conn, count)).await
    }

    /// Has dead letters tried once more, as soon as possible, by the relay that serves the file. Returns how many.
    ///
    /// # Errors
    /// `recipient_not_found` when there is one that does not exist: then none is tried.
    pub async fn retry_dead_letters(&self, letters: Letters) -> Result<usize> {
        self.store()
            .write(move |tx| match &letters {
                Letters::All => dead_letters::update_all_due(tx),
                Letters::Ids(ids) => each(tx, ids, dead_letters::update_due),
            })
            .await
    }

    /// Deletes dead letters. Returns how many.
    ///
    /// # Errors
    /// `recipient_not_found` when there is one that does not exist: then none is deleted.
    pub async fn drop_dead_letters(&self, letters: Letters) -> Result<usize> {
        self.store()
            .write(move |tx| match &letters {
                Letters::All => dead_letters::delete_all(tx),
                Letters::Ids(ids) => each(tx, ids, dead_letters::delete),
            })
            .await
    }
}

fn each(tx: &Tx<'_>, ids: &[DeadLetterId], change: impl Fn(&Tx<'_>, DeadLetterId) -> Result<()>) -> Result<usize> {
    for id in ids {
        refuse_if_missing(tx, *id)?;
    }
    for id in ids {
        change(tx, *id)?;
    }
    Ok(ids.len())
}

fn refuse_if_missing(conn: &Connection, id: DeadLetterId) -> Result<()> {
    if dead_letters::exists(conn, id)? {
        return Ok(());
    }
    Err(Error::new(Symbol::RecipientNotFound, format!("No dead letter has the id '{id}'; see deadletters list")))
}
