//! Push notification configs (A2A v1.0.1, sections 3.1.7 to 3.1.10): a task's webhooks, without their secrets.

use crate::api::a2a::error::Failure;
use crate::api::a2a::read::{self, CreatePushConfig, PushConfigName};
use crate::api::a2a::wire::{AuthenticationInfo, PushConfig, PushConfigList};
use crate::api::a2a::{Door, Outcome, Result};
use crate::domain::id::ThreadId;
use crate::domain::json::Object;
use crate::domain::webhook::Webhook;

impl Door {
    pub(super) async fn create_push_config(&self, params: &Object<'_>) -> Result<Outcome> {
        let request = CreatePushConfig::read(params)?;
        let thread = self.sent_task(&request.task_id)?.id;
        let webhook = self.app.relay.add_webhook(&self.caller, thread, request.webhook).await?;
        Ok(Outcome::Config(self.push_config(thread, webhook)))
    }

    pub(super) async fn get_push_config(&self, params: &Object<'_>) -> Result<Outcome> {
        let request = PushConfigName::read(params)?;
        let thread = self.sent_task(&request.task_id)?.id;
        let webhook = self.app.relay.webhook(&self.caller, thread, &request.id).await?;
        // The specification has no error of its own for it (3.1.8).
        let webhook = webhook.ok_or_else(Failure::task_not_found)?;
        Ok(Outcome::Config(self.push_config(thread, webhook)))
    }

    pub(super) async fn list_push_configs(&self, params: &Object<'_>) -> Result<Outcome> {
        let thread = self.sent_task(&read::listed_task(params)?)?.id;
        let webhooks = self.app.relay.webhooks(&self.caller, thread).await?;
        let configs = webhooks.into_iter().map(|webhook| self.push_config(thread, webhook)).collect();
        Ok(Outcome::Configs(PushConfigList { configs, next_page_token: "" }))
    }

    pub(super) async fn delete_push_config(&self, params: &Object<'_>) -> Result<Outcome> {
        let request = PushConfigName::read(params)?;
        let thread = self.sent_task(&request.task_id)?.id;
        self.app.relay.remove_webhook(&self.caller, thread, &request.id).await?;
        Ok(Outcome::Deleted)
    }

    fn push_config(&self, thread: ThreadId, webhook: Webhook) -> PushConfig {
        let target = webhook.target;
        PushConfig {
            tenant: self.agent.to_string(),
            id: webhook.name,
            task_id: thread.to_string(),
            url: target.url,
            authentication: target.authentication.map(|given| AuthenticationInfo { scheme: given.scheme }),
        }
    }
}
