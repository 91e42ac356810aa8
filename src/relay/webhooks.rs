//! TEMP
use crate::domain::id::ThreadId;
use crate::domain::webhook::{NewWebhook, Webhook};
use crate::error::{Error, Result};
use crate::relay::{Caller, Relay};
impl Relay {
    pub async fn add_webhook(&self, _: &Caller, _: ThreadId, _: NewWebhook) -> Result<Webhook> {
        Err(Error::stopping())
    }
    pub async fn webhook(&self, _: &Caller, _: ThreadId, _: String) -> Result<Option<Webhook>> {
        Err(Error::stopping())
    }
    pub async fn webhooks(&self, _: &Caller, _: ThreadId) -> Result<Vec<Webhook>> {
        Err(Error::stopping())
    }
    pub async fn remove_webhook(&self, _: &Caller, _: ThreadId, _: String) -> Result<()> {
        Err(Error::stopping())
    }
}
