//! The steps of a sequence, and how they are drawn.

use proptest::prelude::*;
use proptest::sample::select;
use wakeline_store::hook::{BreakerSample, JobKind};

/// Endpoints of a case; see `side.rs` for what each is like.
pub(super) const ENDPOINTS: usize = 4;
/// The one whose owner fetches.
pub(super) const PULLED: usize = 3;

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Mail {
    pub(super) odd_type: bool,
    pub(super) channel: bool,
    pub(super) event_id: Option<u8>,
    pub(super) key: Option<(u8, u8)>,
    pub(super) only: Option<usize>,
    pub(super) short: bool,
}

/// One waiter: attempts, and those for first ones only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) attempts: usize,
    pub(super) fresh_only: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    Delivered,
    RetryMs(u64),
    Failed,
}

/// How attempts end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) verdict: Verdict,
    pub(super) sample: BreakerSample,
    pub(super) throttle: Option<u64>,
    pub(super) gone: bool,
    pub(super) announce: bool,
}

/// One step of a sequence. Leases and messages are counted back from the newest.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Emit { mail: Mail, asks: Vec<Asks> },
    Claim { pull: bool, asks: Vec<Asks>, lease_secs: u64 },
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
    Chores { rows: u32 },
    Advance { ms: u64 },
    AdvanceToDue { beside_ms: i64 },
    Inspect,
}

fn mails() -> impl Strategy<Value = Mail> {
    let own = proptest::option::weighted(0.2, 0..3_u8);
    let key = proptest::option::weighted(0.2, (0..2_u8, 0..2_u8));
    let only = proptest::option::weighted(0.2, 0..ENDPOINTS);
    (prop::bool::weighted(0.4), any::<bool>(), own, key, only, prop::bool::weighted(0.1)).prop_map(
        |(odd_type, channel, event_id, key, only, short)| Mail {
            odd_type,
            channel,
            event_id,
            key,
            only,
            short,
        },
    )
}

fn asks() -> impl Strategy<Value = Asks> {
    let attempts = select(vec![1, 1, 2, 3, 8]);
    (attempts, select(vec![0, 0, 0, 1, 2]))
        .prop_map(|(attempts, fresh_only)| Asks { attempts, fresh_only })
}

fn endings() -> impl Strategy<Value = Ending> {
    let verdict = select(vec![
        Verdict::Delivered,
        Verdict::Delivered,
        Verdict::RetryMs(0),
        Verdict::RetryMs(0),
        Verdict::RetryMs(4_000),
        Verdict::Failed,
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

fn handling() -> impl Strategy<Value = Op> {
    let lease_secs = select(vec![5, 30]);
    let (some, few) = (prop::collection::vec(asks(), 1..3), prop::collection::vec(asks(), 0..2));
    let pull = prop::bool::weighted(0.25);
    prop_oneof![
        8 => (mails(), few).prop_map(|(mail, asks)| Op::Emit { mail, asks }),
        8 => (pull, some, lease_secs)
            .prop_map(|(pull, asks, lease_secs)| Op::Claim { pull, asks, lease_secs }),
        1 => (0..4_usize).prop_map(Op::ClaimAgain),
        8 => (0..4_usize, endings()).prop_map(|(hold, ending)| Op::Settle { hold, ending }),
        1 => (0..4_usize).prop_map(Op::Release),
        1 => (0..4_usize).prop_map(Op::Extend),
        4 => select(vec![1, 250, 1_000, 5_000, 20_000]).prop_map(|ms| Op::Advance { ms }),
        3 => (-1..=0_i64).prop_map(|beside_ms| Op::AdvanceToDue { beside_ms }),
        1 => Just(Op::Inspect),
    ]
}

fn managing() -> impl Strategy<Value = Op> {
    let kinds =
        select(vec![JobKind::Recover, JobKind::ReplayMissing, JobKind::Resend, JobKind::Cancel]);
    let one = || 0..ENDPOINTS;
    let maybe = || proptest::option::of(0..ENDPOINTS);
    prop_oneof![
        3 => (one(), any::<bool>()).prop_map(|(endpoint, on)| Op::Switch { endpoint, on }),
        1 => (one(), 1..4_u32)
            .prop_map(|(endpoint, in_flight_max)| Op::Limit { endpoint, in_flight_max }),
        1 => one().prop_map(Op::DeleteEndpoint),
        1 => (one(), select(vec![0, 9]))
            .prop_map(|(endpoint, grace)| Op::Rotate { endpoint, grace }),
        4 => (0..4_usize, one()).prop_map(|(message, endpoint)| Op::Resend { message, endpoint }),
        2 => (0..4_usize, maybe()).prop_map(|(message, endpoint)| Op::Cancel { message, endpoint }),
        1 => (0..4_usize).prop_map(Op::Expunge),
        3 => (kinds, maybe()).prop_map(|(kind, endpoint)| Op::Job { kind, endpoint }),
        3 => select(vec![1, 3, 50]).prop_map(|rows| Op::Chores { rows }),
    ]
}

pub(super) fn sequences() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(prop_oneof![4 => handling(), 1 => managing()], 1..60)
}
