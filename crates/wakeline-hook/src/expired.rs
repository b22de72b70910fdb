//! The end of deliveries whose payload has expired, for senders and for clients that pull.

use std::time::Duration;

use bytes::Bytes;
use wakeline_store::hook::{AttemptRecord, DeliveryItem, DeliveryTarget, SettleDelivery};

use crate::announce;
use crate::guard::shown_url;
use crate::policy::Decision;

/// The end of an attempt for which no payload is left to send. It counts as failed but says nothing
/// about the endpoint, and operators are notified.
pub(crate) fn expired_end(target: &DeliveryTarget, item: &DeliveryItem) -> SettleDelivery {
    let decision = Decision::GIVEN_UP;
    SettleDelivery {
        token: item.token,
        record: AttemptRecord {
            began_ago: Duration::ZERO,
            took: Duration::ZERO,
            status: None,
            response: Bytes::new(),
            error: Some("not sent: the payload has expired".to_owned()),
            url: shown_url(&target.url),
        },
        verdict: decision.verdict,
        sample: decision.sample,
        throttle: None,
        gone: false,
        announce: announce::of_attempt(target, item, &decision, None),
        announce_disabled: None,
    }
}
