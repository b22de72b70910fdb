//! Rules of signing secrets and their rotation.

use bytes::Bytes;
use wakeline_core::{EndpointId, EndpointRef};
use wakeline_store::hook::{EndpointSecret, RotateOutcome, Rotation};

use super::{HookBench, endpoint, plain, push, request, secs, uid};

async fn rotate(bench: &HookBench, id: EndpointId, key: &str, grace: u64) -> RotateOutcome {
    let rotation = Rotation {
        encrypted: Bytes::copy_from_slice(key.as_bytes()),
        grace: secs(grace),
        old_max: 2,
    };
    let rotated = bench.hook.rotate_secret(&bench.of_app(), &EndpointRef::Id(id), rotation).await;
    rotated.expect("a rotation is answered")
}

async fn secrets(bench: &HookBench, id: EndpointId) -> Vec<EndpointSecret> {
    bench.hook.secrets(&bench.of_app(), &EndpointRef::Id(id)).await.expect("secrets are read")
}

async fn texts(bench: &HookBench, id: EndpointId) -> String {
    let secrets = secrets(bench, id).await;
    let texts =
        secrets.iter().map(|secret| String::from_utf8_lossy(&secret.encrypted).into_owned());
    texts.collect::<Vec<_>>().join(", ")
}

/// Rule 5: the current secret does not expire.
pub async fn a_new_endpoint_has_one_secret_without_an_end(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let current =
        EndpointSecret { encrypted: Bytes::from_static(b"first secret"), expires_at: None };
    assert_eq!(secrets(bench, id).await, [current]);
}

/// Rule 5: the previous secret is valid for its grace period.
pub async fn a_rotated_secret_signs_until_its_grace_is_over(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let now = bench.now().await;
    assert_eq!(rotate(bench, id, "second", 60).await, RotateOutcome::Rotated);
    let both = secrets(bench, id).await;
    assert_eq!((both[0].encrypted.as_ref(), both[0].expires_at), (&b"second"[..], None));
    let (old, expires_at) = (both[1].encrypted.as_ref(), both[1].expires_at);
    assert_eq!((old, expires_at), (&b"first secret"[..], Some(now.plus(secs(60)))));
    bench.advance_ms(59_999).await;
    assert_eq!(secrets(bench, id).await.len(), 2);
    bench.advance_ms(1).await;
    assert_eq!(texts(bench, id).await, "second");
}

/// Rule 5: without a grace period the previous secret expires at once.
pub async fn a_rotation_without_grace_ends_the_old_secret(bench: &HookBench) {
    let id = bench.with(plain()).await;
    assert_eq!(rotate(bench, id, "second", 0).await, RotateOutcome::Rotated);
    assert_eq!(texts(bench, id).await, "second");
}

/// Rule 5: secrets are listed youngest first.
pub async fn secrets_come_youngest_first(bench: &HookBench) {
    let id = bench.with(plain()).await;
    rotate(bench, id, "second", 60).await;
    bench.advance(1).await;
    rotate(bench, id, "third", 30).await;
    assert_eq!(texts(bench, id).await, "third, second, first secret");
    bench.advance(30).await;
    assert_eq!(texts(bench, id).await, "third, first secret", "each has its own end");
}

/// Rule 5: a rotation that would keep too many old secrets is refused, and nothing changes.
pub async fn too_many_old_secrets_are_refused(bench: &HookBench) {
    let id = bench.with(plain()).await;
    rotate(bench, id, "second", 60).await;
    rotate(bench, id, "third", 60).await;
    assert_eq!(rotate(bench, id, "fourth", 60).await, RotateOutcome::TooMany);
    assert_eq!(texts(bench, id).await, "third, second, first secret");
    assert_eq!(rotate(bench, id, "fourth", 0).await, RotateOutcome::Rotated);
    assert_eq!(texts(bench, id).await, "fourth, second, first secret");
}

/// Rule 5: expired secrets do not count.
pub async fn expired_secrets_do_not_count(bench: &HookBench) {
    let id = bench.with(plain()).await;
    rotate(bench, id, "second", 60).await;
    rotate(bench, id, "third", 60).await;
    bench.advance(60).await;
    assert_eq!(rotate(bench, id, "fourth", 60).await, RotateOutcome::Rotated);
    assert_eq!(texts(bench, id).await, "fourth, third");
}

/// An unknown endpoint has no secrets, and its secret cannot be rotated.
pub async fn secrets_of_an_unknown_endpoint_are_missing(bench: &HookBench) {
    let unknown = EndpointRef::Own(uid("unknown"));
    let rotation = Rotation { encrypted: Bytes::from_static(b"x"), grace: secs(1), old_max: 9 };
    let rotated = bench.hook.rotate_secret(&bench.of_app(), &unknown, rotation).await;
    assert_eq!(rotated.expect("answered"), RotateOutcome::Missing);
    assert_eq!(bench.hook.secrets(&bench.of_app(), &unknown).await.expect("read"), []);
}

/// A claim returns the secrets that are valid at that time.
pub async fn a_claim_brings_the_secrets_that_sign(bench: &HookBench) {
    let id = bench.endpoint(endpoint(plain())).await;
    bench.emit_many(2).await;
    rotate(bench, id, "second", 60).await;
    let answer = bench.claim(push(vec![request(1)])).await;
    assert_eq!(answer.groups[0][0].target.secrets, secrets(bench, id).await);
    bench.advance(61).await;
    let answer = bench.claim(push(vec![request(1)])).await;
    let signing = &answer.groups[0][0].target.secrets;
    assert_eq!((signing.len(), signing[0].encrypted.as_ref()), (1, &b"second"[..]));
}
