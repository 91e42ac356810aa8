//! Webhooks: a sender says where it wants to be told what happens to its thread. No change of the thread, and no event.

use crate::domain::id::{Row, ThreadId};
use crate::domain::json::{Issues, Path, issue};
use crate::domain::thread::Thread;
use crate::domain::transition::Side;
use crate::domain::webhook::{Authentication, NewWebhook, Target, WEBHOOKS_MAX, Webhook};
use crate::error::{Error, Result, Symbol};
use crate::relay::threads::find_as_participant;
use crate::relay::{Caller, Relay};
use crate::store::{Connection, Tx, webhooks};

impl Relay {
    /// Adds a webhook to a thread: it is told what happens from now on. One with the same name is replaced. Returns it
    /// without token and credentials, which nobody reads again.
    ///
    /// # Errors
    /// In this order: `invalid_params`, `thread_not_found`, `not_a_participant`, `forbidden` for the recipient,
    /// `invalid_params` for one too many.
    pub async fn add_webhook(&self, caller: &Caller, thread: ThreadId, webhook: NewWebhook) -> Result<Webhook> {
        let mut issues = Issues::default();
        webhook.check(&Path::root(), &mut issues);
        issues.finish()?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                let thread = find_as_sender(tx, &caller, thread)?;
                refuse_if_full(tx, &thread, &webhook, &Path::root())?;
                insert(tx, thread.row, thread.sender.row, thread.generation, &webhook)
            })
            .await
    }

    /// Lists the webhooks of a thread, by name, without token and credentials.
    ///
    /// # Errors
    /// In this order: `thread_not_found`, `not_a_participant`, `forbidden` for the recipient.
    pub async fn webhooks(&self, caller: &Caller, thread: ThreadId) -> Result<Vec<Webhook>> {
        let caller = caller.clone();
        self.store().read(move |conn| webhooks::list(conn, find_as_sender(conn, &caller, thread)?.row)).await
    }

    /// Finds a webhook of a thread by its name.
    ///
    /// # Errors
    /// As [`Relay::webhooks`].
    pub async fn webhook(&self, caller: &Caller, thread: ThreadId, name: &str) -> Result<Option<Webhook>> {
        let (caller, name) = (caller.clone(), name.to_owned());
        self.store().read(move |conn| webhooks::find(conn, find_as_sender(conn, &caller, thread)?.row, &name)).await
    }

    /// Removes a webhook with its dead letters. Without one nothing happens. An update that is under way still arrives.
    ///
    /// # Errors
    /// As [`Relay::webhooks`].
    pub async fn remove_webhook(&self, caller: &Caller, thread: ThreadId, name: &str) -> Result<()> {
        let (caller, name) = (caller.clone(), name.to_owned());
        self.store()
            .write(move |tx| {
                let thread = find_as_sender(tx, &caller, thread)?;
                webhooks::delete(tx, thread.row, &name).map(|_| ())
            })
            .await
    }
}

/// The thread, which the caller must have sent.
fn find_as_sender(conn: &Connection, caller: &Caller, id: ThreadId) -> Result<Thread> {
    let (thread, side) = find_as_participant(conn, caller, id)?;
    refuse_recipient(side)?;
    Ok(thread)
}

/// The recipient makes what is told; it needs nobody to tell it.
pub(super) fn refuse_recipient(side: Side) -> Result<()> {
    match side {
        Side::Sender => Ok(()),
        Side::Recipient => {
            Err(Error::new(Symbol::Forbidden, "Only the sender of a thread has webhooks; leave them to it"))
        }
    }
}

/// Looks at a webhook that comes along with something else, before anything is written.
pub(super) fn check(webhook: Option<&NewWebhook>) -> Result<()> {
    let mut issues = Issues::default();
    if let Some(webhook) = webhook {
        webhook.check(&place(), &mut issues);
    }
    issues.finish()
}

/// Where a webhook stands in a call that brings it along.
pub(super) fn place() -> Path {
    Path::root().key("webhook")
}

/// Looks whether a thread has room for this webhook.
pub(super) fn refuse_if_full(conn: &Connection, thread: &Thread, webhook: &NewWebhook, place: &Path) -> Result<()> {
    let name = webhook.name.as_deref().unwrap_or_default();
    if webhooks::count_others(conn, thread.row, name)? < WEBHOOKS_MAX {
        return Ok(());
    }
    let message = format!("a thread has at most {WEBHOOKS_MAX} webhooks; remove one, or replace it by its name");
    Err(issue(place.key("name"), "too_big", message))
}

/// Inserts a webhook that was looked at. It was told up to the change `generation` of its thread.
pub(super) fn insert(
    tx: &mut Tx<'_>,
    thread: Row,
    sender: Row,
    generation: i64,
    webhook: &NewWebhook,
) -> Result<Webhook> {
    let name = webhook.name.clone().unwrap_or_else(|| tx.next_id().to_string());
    webhooks::insert(tx, thread, sender, generation, &name, &webhook.target)?;
    let Target { url, authentication, .. } = webhook.target.clone();
    let authentication = authentication.map(|given| Authentication { credentials: None, ..given });
    Ok(Webhook { name, target: Target { url, token: None, authentication } })
}
