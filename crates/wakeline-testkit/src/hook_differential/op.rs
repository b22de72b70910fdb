//! The operations of random sequences.

use proptest::prelude::*;
use proptest::sample::select;
use wakeline_store::hook::{BreakerSample, JobKind};

/// Number of endpoints in a sequence; `side.rs` defines their options.
pub(super) const ENDPOINTS: usize = 4;
/// The endpoint whose deliveries are pulled.
pub(super) const PULLED: usize = 3;

/// A message to the application.
#[derive(Debug, Clone)]
pub(super) struct HookMail {
    pub(super) odd_type: bool,
    pub(super) channel: bool,
    pub(super) event_id: Option<u8>,
    pub(super) key: Option<(u8, u8)>,
    pub(super) only: Option<usize>,
    pub(super) short: bool,
}

/// The request of one waiter: its attempts, and those reserved for first attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSpec {
    pub(super) attempts: usize,
    pub(super) fresh_only: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum AttemptVerdict {
    Delivered,
    RetryMs(u64),
    Failed,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) verdict: AttemptVerdict,
    pub(super) sample: BreakerSample,
    pub(super) throttle: Option<u64>,
    pub(super) gone: bool,
    pub(super) announce: bool,
}

/// One step of a sequence. Leases and messages are numbered from the newest to the oldest.
#[derive(Debug, Clone)]
pub(super) enum HookOp {
    Emit { mail: HookMail, requests: Vec<RequestSpec> },
    Claim { pull: bool, requests: Vec<RequestSpec>, lease_secs: u64 },
    ClaimAgain(usize),
    Settle { hold: usize, ending: Ending },
    Release(usize),
    Extend(usize),
    Switch { endpoint: usize, on: bool },
    Limit { endpoint: usize, in_flight_max: u32 },
    DeleteEndpoint(usize),
    Rotate { endpoint: usize, grace: u64 },
    Resend { message: usize, endpoint: usize },
    Cancel { message: usize, endpoint: Option<usize> },
    Expunge(usize),
    Job { kind: JobKind, endpoint: Option<usize> },
    Background { rows: u32 },
    Advance { ms: u64 },
    AdvanceToDue { beside_ms: i64 },
    Inspect,
}

fn mails() -> impl Strategy<Value = HookMail> {
    let own = proptest::option::weighted(0.2, 0..3_u8);
    let key = proptest::option::weighted(0.2, (0..2_u8, 0..2_u8));
    let only = proptest::option::weighted(0.2, 0..ENDPOINTS);
    (prop::bool::weighted(0.4), any::<bool>(), own, key, only, prop::bool::weighted(0.1)).prop_map(
        |(odd_type, channel, event_id, key, only, short)| HookMail {
            odd_type,
            channel,
            event_id,
            key,
            only,
            short,
        },
    )
}

fn requests() -> impl Strategy<Value = RequestSpec> {
    let attempts = select(vec![1, 1, 2, 3, 8]);
    (attempts, select(vec![0, 0, 0, 1, 2]))
        .prop_map(|(attempts, fresh_only)| RequestSpec { attempts, fresh_only })
}

fn endings() -> impl Strategy<Value = Ending> {
    let verdict = select(vec![
        AttemptVerdict::Delivered,
        AttemptVerdict::Delivered,
        AttemptVerdict::RetryMs(0),
        AttemptVerdict::RetryMs(0),
        AttemptVerdict::RetryMs(4_000),
        AttemptVerdict::Failed,
    ]);
    let sample = select(vec![
        BreakerSample::Success,
        BreakerSample::Failure,
        BreakerSample::Failure,
        BreakerSample::None,
    ]);
    let throttle = proptest::option::weighted(0.1, select(vec![3, 9]));
    (verdict, sample, throttle, prop::bool::weighted(0.03), prop::bool::weighted(0.1)).prop_map(
        |(verdict, sample, throttle, gone, announce)| Ending {
            verdict,
            sample,
            throttle,
            gone,
            announce,
        },
    )
}

fn handling() -> impl Strategy<Value = HookOp> {
    let lease_secs = select(vec![5, 30]);
    let (some, few) =
        (prop::collection::vec(requests(), 1..3), prop::collection::vec(requests(), 0..2));
    let pull = prop::bool::weighted(0.25);
    prop_oneof![
        8 => (mails(), few).prop_map(|(mail, requests)| HookOp::Emit { mail, requests }),
        8 => (pull, some, lease_secs)
            .prop_map(|(pull, requests, lease_secs)| HookOp::Claim { pull, requests, lease_secs }),
        1 => (0..4_usize).prop_map(HookOp::ClaimAgain),
        8 => (0..4_usize, endings()).prop_map(|(hold, ending)| HookOp::Settle { hold, ending }),
        1 => (0..4_usize).prop_map(HookOp::Release),
        1 => (0..4_usize).prop_map(HookOp::Extend),
        4 => select(vec![1, 250, 1_000, 5_000, 20_000]).prop_map(|ms| HookOp::Advance { ms }),
        3 => (-1..=0_i64).prop_map(|beside_ms| HookOp::AdvanceToDue { beside_ms }),
        1 => Just(HookOp::Inspect),
    ]
}

fn managing() -> impl Strategy<Value = HookOp> {
    let kinds =
        select(vec![JobKind::Recover, JobKind::ReplayMissing, JobKind::Resend, JobKind::Cancel]);
    let one = || 0..ENDPOINTS;
    let maybe = || proptest::option::of(0..ENDPOINTS);
    prop_oneof![
        3 => (one(), any::<bool>()).prop_map(|(endpoint, on)| HookOp::Switch { endpoint, on }),
        1 => (one(), 1..4_u32)
            .prop_map(|(endpoint, in_flight_max)| HookOp::Limit { endpoint, in_flight_max }),
        1 => one().prop_map(HookOp::DeleteEndpoint),
        1 => (one(), select(vec![0, 9]))
            .prop_map(|(endpoint, grace)| HookOp::Rotate { endpoint, grace }),
        4 => (0..4_usize, one())
            .prop_map(|(message, endpoint)| HookOp::Resend { message, endpoint }),
        2 => (0..4_usize, maybe())
            .prop_map(|(message, endpoint)| HookOp::Cancel { message, endpoint }),
        1 => (0..4_usize).prop_map(HookOp::Expunge),
        3 => (kinds, maybe()).prop_map(|(kind, endpoint)| HookOp::Job { kind, endpoint }),
        3 => select(vec![1, 3, 50]).prop_map(|rows| HookOp::Background { rows }),
    ]
}

pub(super) fn sequences() -> impl Strategy<Value = Vec<HookOp>> {
    prop::collection::vec(prop_oneof![4 => handling(), 1 => managing()], 1..60)
}
