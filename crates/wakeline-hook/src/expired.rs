//! Deliveries whose payload has expired, whoever finds them.

use std::time::Duration;

use bytes::Bytes;
use wakeline_store::hook::{AttemptRecord, DeliveryItem, SettleDelivery, Target};

use crate::announce;
use crate::guard::shown_url;
use crate::policy::Decision;

/// The end of an attempt for which there is nothing left to send: it has failed, it is nobody's
/// fault, and operators hear of it.
pub(crate) fn expired_end(target: &Target, item: &DeliveryItem) -> SettleDelivery {
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
