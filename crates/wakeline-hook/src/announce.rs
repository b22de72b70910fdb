//! Operational messages, which notify operators of failing endpoints and are sent like any other
//! message.
//!
//! # Invariants
//! * They belong to an application of their own, which is created with its first endpoint. Without
//!   the application the store drops them.
//! * Deliveries of operational messages do not cause operational messages.

use bytes::Bytes;
use serde_json::json;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, EventTypeName, HookMessageId, MESSAGE_RETENTION_DEFAULT, Uid,
};
use wakeline_store::hook::{
    BreakerSample, DeliveryItem, DeliveryTarget, DeliveryVerdict, NewApplication, NewMessage,
    Trigger,
};

use crate::policy::Decision;
use crate::send::request::rfc3339;

/// The prefix that is reserved for uids of the server's own applications.
pub const RESERVED_UID: &str = "wakeline.";
/// The uid of the application whose endpoints receive operational messages.
pub const OPERATIONAL_UID: &str = "wakeline.operational";
/// The id of the application whose endpoints receive operational messages.
pub const OPERATIONAL_APPLICATION: ApplicationId =
    ApplicationId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001));

/// The number of failed attempts after which operators are notified of a delivery.
const FAILING_AFTER: u32 = 4;

/// The application whose endpoints receive operational messages.
pub(crate) fn operational_application() -> NewApplication {
    NewApplication {
        id: OPERATIONAL_APPLICATION,
        name: "Operational messages".to_owned(),
        uid: Some(Uid::parse(OPERATIONAL_UID).expect("a valid uid")),
        rate_limit: None,
        metadata: Bytes::from_static(b"{}"),
    }
}

/// The operational messages about the end of an attempt.
pub(crate) fn of_attempt(
    target: &DeliveryTarget,
    item: &DeliveryItem,
    decision: &Decision,
    status: Option<u16>,
) -> Vec<NewMessage> {
    let scheduled = item.trigger == Trigger::Scheduled;
    let event_type = match decision.verdict {
        DeliveryVerdict::Failed if scheduled => "message.attempt.exhausted",
        DeliveryVerdict::Retry(_) if scheduled && item.scheduled_no == FAILING_AFTER => {
            "message.attempt.failing"
        }
        DeliveryVerdict::Delivered if item.scheduled_no > FAILING_AFTER => {
            "message.attempt.recovered"
        }
        _ => return Vec::new(),
    };
    let data = json!({
        "appId": target.application,
        "endpointId": target.endpoint,
        "msgId": item.message,
        "msgEventId": item.event_id,
        "lastAttempt": {
            "id": item.token.attempt,
            "number": item.attempt_no,
            "responseStatusCode": status,
            "timestamp": rfc3339(item.now),
        },
    });
    message(target, event_type, data).into_iter().collect()
}

/// The operational message to emit if the attempt disables its endpoint.
pub(crate) fn of_disabling(target: &DeliveryTarget, decision: &Decision) -> Option<NewMessage> {
    let may_disable = decision.gone
        || decision.sample == BreakerSample::Failure && target.options.disable_after.is_some();
    if !may_disable {
        return None;
    }
    let trigger = if decision.gone { "gone" } else { "failing" };
    let data = json!({
        "appId": target.application,
        "endpointId": target.endpoint,
        "trigger": trigger,
    });
    message(target, "endpoint.disabled", data)
}

fn message(
    target: &DeliveryTarget,
    event_type: &str,
    data: serde_json::Value,
) -> Option<NewMessage> {
    if target.application == OPERATIONAL_APPLICATION {
        return None;
    }
    let payload = json!({ "type": event_type, "data": data });
    Some(NewMessage {
        id: HookMessageId::generate(),
        application: ApplicationRef::Id(OPERATIONAL_APPLICATION),
        create_application: None,
        event_type: EventTypeName::new(event_type).expect("a valid name"),
        event_id: None,
        channels: Vec::new(),
        payload: payload.to_string().into(),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    })
}
