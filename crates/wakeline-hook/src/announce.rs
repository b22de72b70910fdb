//! Operational messages: what operators want to hear of, sent like any other message.
//!
//! # Invariants
//! * They belong to an application of their own, which is made with its first endpoint; without
//!   it they are dropped by the store.
//! * The deliveries of operational messages are not announced themselves.

use bytes::Bytes;
use serde_json::json;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, EventTypeName, HookMessageId, MESSAGE_RETENTION_DEFAULT, Uid,
};
use wakeline_store::hook::{
    BreakerSample, DeliveryItem, DeliveryVerdict, NewApplication, NewMessage, Target, Trigger,
};

use crate::policy::Decision;
use crate::send::request::rfc3339;

/// What the own ids of the server's applications begin with.
pub const RESERVED_UID: &str = "wakeline.";
/// The own id of the application whose endpoints get operational messages.
pub const OPERATIONAL_UID: &str = "wakeline.operational";
/// The id of the application whose endpoints get operational messages.
pub const OPERATIONAL_APPLICATION: ApplicationId =
    ApplicationId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001));

/// The failed attempt after which operators hear of a message.
const FAILING_AFTER: u32 = 4;

/// The application whose endpoints get operational messages.
pub(crate) fn operational_application() -> NewApplication {
    NewApplication {
        id: OPERATIONAL_APPLICATION,
        name: "Operational messages".to_owned(),
        uid: Some(Uid::parse(OPERATIONAL_UID).expect("it keeps the rules of own ids")),
        rate_limit: None,
        metadata: Bytes::from_static(b"{}"),
    }
}

/// What operators hear of the end of an attempt.
pub(crate) fn of_attempt(
    target: &Target,
    item: &DeliveryItem,
    decision: &Decision,
    status: Option<u16>,
) -> Vec<NewMessage> {
    let scheduled = item.trigger == Trigger::Scheduled;
    let kind = match decision.verdict {
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
    message(target, kind, data).into_iter().collect()
}

/// What operators hear if the attempt disables its endpoint.
pub(crate) fn of_disabling(target: &Target, decision: &Decision) -> Option<NewMessage> {
    let may = decision.gone
        || decision.sample == BreakerSample::Failure && target.options.disable_after.is_some();
    if !may {
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

fn message(target: &Target, kind: &str, data: serde_json::Value) -> Option<NewMessage> {
    if target.application == OPERATIONAL_APPLICATION {
        return None;
    }
    let payload = json!({ "type": kind, "data": data });
    Some(NewMessage {
        id: HookMessageId::generate(),
        application: ApplicationRef::Id(OPERATIONAL_APPLICATION),
        create_application: None,
        event_type: EventTypeName::new(kind).expect("kinds are plain"),
        event_id: None,
        channels: Vec::new(),
        payload: payload.to_string().into(),
        retention: MESSAGE_RETENTION_DEFAULT,
        only: None,
        idempotency: None,
    })
}
