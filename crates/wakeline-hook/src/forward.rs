//! What a pulled delivery would have been sent with, for those who pass it on.

use std::collections::BTreeMap;

use wakeline_core::{ApplicationRef, EndpointRef};
use wakeline_store::hook::DeliveryItem;

use crate::error::HookError;
use crate::send::request::{Envelope, headers};
use crate::service::HookService;

impl HookService {
    /// The headers with which pulled deliveries would have been sent to their endpoint, signatures
    /// included, in the order of the deliveries. `None` if there is no such endpoint.
    pub async fn forward_headers(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        items: &[&DeliveryItem],
    ) -> Result<Option<Vec<BTreeMap<String, String>>>, HookError> {
        let Some(found) = self.store().endpoint(application, endpoint).await? else {
            return Ok(None);
        };
        let secrets = self.store().secrets(application, endpoint).await?;
        let keys = self.vault().open_keys(found.id, &secrets)?;
        let own = self.vault().open_headers(found.id, &found.headers)?;
        let sent = |item: &&DeliveryItem| {
            let id = item.message.to_string();
            let style = found.options.header_style;
            let envelope = Envelope { id: &id, at: item.now, keys: &keys, style };
            let body = item.payload.as_deref().unwrap_or_default();
            let all = headers(&envelope, body, &own, &self.inner.user_agent);
            let texts = all.iter().filter_map(|(name, value)| {
                Some((name.to_string(), value.to_str().ok()?.to_owned()))
            });
            texts.collect()
        };
        Ok(Some(items.iter().map(sent).collect()))
    }
}
