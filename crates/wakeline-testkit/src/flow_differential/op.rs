//! The operations of random sequences.

use proptest::prelude::*;
use proptest::sample::select;
use wakeline_store::flow::InstanceState;

/// Number of instances in a sequence.
pub(super) const INSTANCES: usize = 4;
/// Number of capabilities in a sequence.
pub(super) const CAPABILITIES: usize = 2;
/// Number of activity names in a sequence.
const NAMES: usize = 2;

/// When a message or an activity can be claimed.
#[derive(Debug, Clone, Copy)]
pub(super) enum VisibleWhen {
    Now,
    AfterMs(u64),
    AtMs(i64),
}

/// A message to an instance.
#[derive(Debug, Clone)]
pub(super) struct FlowMail {
    pub(super) to: usize,
    pub(super) when: VisibleWhen,
    /// The capability that a start message needs, and whether the start is unique.
    pub(super) starts: Option<(usize, bool)>,
    pub(super) even_if_ended: bool,
    pub(super) key: Option<u64>,
}

/// The capabilities of a dispatcher that requests turns.
#[derive(Debug, Clone, Copy)]
pub(super) enum DispatcherSpec {
    Any,
    Only(usize),
    Both,
}

/// The filter of a worker that requests activities.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerSpec {
    pub(super) tags: Tags,
    /// The only activity name that the worker knows, or `None` for any.
    pub(super) name: Option<usize>,
    pub(super) owner: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Tags {
    Any,
    Untagged,
    Tag,
    Both,
}

/// An activity to schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) activity: u64,
    pub(super) name: Option<usize>,
    pub(super) tagged: bool,
    pub(super) session: Option<usize>,
    pub(super) when: VisibleWhen,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Events {
    None,
    Next(u64),
    Wrong,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kv {
    Set(usize),
    Clear(usize),
    ClearAll,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PlannedTurnEnd {
    Open,
    Ended(InstanceState),
    Continued(usize),
}

/// The changes that a turn commits.
#[derive(Debug, Clone)]
pub(super) struct PlannedTurn {
    pub(super) new_instance: bool,
    pub(super) parent: Option<usize>,
    pub(super) events: Events,
    pub(super) pin: Option<usize>,
    /// Status changes; `None` clears the status.
    pub(super) status: Vec<Option<u8>>,
    pub(super) kv: Vec<Kv>,
    pub(super) end: PlannedTurnEnd,
    pub(super) clear: bool,
    pub(super) work: Vec<Task>,
    pub(super) cancelled_work: Vec<u64>,
    pub(super) mails: Vec<FlowMail>,
    pub(super) cancelled_mails: Vec<u64>,
    pub(super) push: Option<u8>,
    /// The numbers of decisions that emit a message. Equal numbers are the same decision.
    pub(super) emits: Vec<u8>,
    pub(super) dispatchers: Vec<DispatcherSpec>,
    pub(super) workers: Vec<WorkerSpec>,
}

/// One step of a sequence. Leases are numbered from the newest to the oldest.
#[derive(Debug, Clone)]
pub(super) enum FlowOp {
    Send { mails: Vec<FlowMail>, dispatchers: Vec<DispatcherSpec> },
    ClaimTurns { line: DispatcherSpec, requests: usize, lease_secs: u64 },
    ClaimAgain(usize),
    Commit { hold: usize, plan: Box<PlannedTurn> },
    AddWork { to: usize, task: Task },
    ClaimWork { spec: WorkerSpec, requests: usize, lease_secs: u64 },
    Complete { hold: usize, mail: Option<FlowMail>, dispatchers: Vec<DispatcherSpec> },
    Renew { holds: Vec<usize>, secs: u64 },
    Abandon { hold: usize, delay_ms: u64, uncounted: bool },
    KeepSessions { owners: Vec<usize>, secs: u64, idle_ms: u64 },
    Suspend { instance: usize, mismatch: bool },
    SuspendTurn(usize),
    Resume(usize),
    RetryMismatched(DispatcherSpec),
    Terminate { instance: usize, mail: Option<FlowMail> },
    Delete { instances: Vec<usize>, force: bool },
    DeleteMatching { instances: Option<Vec<usize>>, ended_ms_ago: Option<u64> },
    Prune { keep_last: Option<u32>, ended_ms_ago: Option<u64> },
    Advance { ms: u64 },
    AdvanceToDue { beside_ms: i64 },
    Inspect,
}

fn when() -> impl Strategy<Value = VisibleWhen> {
    prop_oneof![
        5 => Just(VisibleWhen::Now),
        3 => select(vec![1_000_u64, 3_000, 10_000]).prop_map(VisibleWhen::AfterMs),
        1 => (-3_000_i64..8_000).prop_map(VisibleWhen::AtMs),
    ]
}

fn mail() -> impl Strategy<Value = FlowMail> {
    let starts = prop::option::weighted(0.4, (0..CAPABILITIES, prop::bool::weighted(0.7)));
    let key = prop::option::weighted(0.5, 0_u64..4);
    (0..INSTANCES, when(), starts, prop::bool::weighted(0.3), key).prop_map(
        |(to, when, starts, even_if_ended, key)| FlowMail { to, when, starts, even_if_ended, key },
    )
}

fn line() -> impl Strategy<Value = DispatcherSpec> {
    prop_oneof![
        3 => Just(DispatcherSpec::Any),
        2 => (0..CAPABILITIES).prop_map(DispatcherSpec::Only),
        1 => Just(DispatcherSpec::Both),
    ]
}

fn lines() -> impl Strategy<Value = Vec<DispatcherSpec>> {
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(line(), 1..4)]
}

fn worker_spec() -> impl Strategy<Value = WorkerSpec> {
    let tags = select(vec![Tags::Any, Tags::Untagged, Tags::Tag, Tags::Both]);
    let (name, owner) =
        (prop::option::weighted(0.5, 0..NAMES), prop::option::weighted(0.7, 0_usize..2));
    (tags, name, owner).prop_map(|(tags, name, owner)| WorkerSpec { tags, name, owner })
}

fn task() -> impl Strategy<Value = Task> {
    let session = prop::option::weighted(0.4, 0_usize..2);
    let name = prop::option::weighted(0.6, 0..NAMES);
    (0_u64..5, name, prop::bool::weighted(0.3), session, when()).prop_map(
        |(activity, name, tagged, session, when)| Task { activity, name, tagged, session, when },
    )
}

fn end() -> impl Strategy<Value = PlannedTurnEnd> {
    use InstanceState::{Cancelled, Completed, Failed};
    prop_oneof![
        6 => Just(PlannedTurnEnd::Open),
        2 => select(vec![Completed, Failed, Cancelled]).prop_map(PlannedTurnEnd::Ended),
        3 => (0..CAPABILITIES).prop_map(PlannedTurnEnd::Continued),
    ]
}

fn kv() -> impl Strategy<Value = Kv> {
    prop_oneof![
        4 => (0_usize..3).prop_map(Kv::Set),
        2 => (0_usize..3).prop_map(Kv::Clear),
        1 => Just(Kv::ClearAll),
    ]
}

fn plan() -> impl Strategy<Value = PlannedTurn> {
    let events = prop_oneof![
        1 => Just(Events::None),
        8 => (1_u64..4).prop_map(Events::Next),
        1 => Just(Events::Wrong),
    ];
    let being = (prop::bool::weighted(0.95), prop::option::weighted(0.4, 0..INSTANCES), events);
    let facts = (
        prop::option::weighted(0.2, 0..CAPABILITIES),
        prop::collection::vec(prop::option::weighted(0.8, any::<u8>()), 0..3),
        prop::collection::vec(kv(), 0..4),
    );
    let outcome = (
        end(),
        prop::bool::weighted(0.3),
        prop::option::weighted(0.2, 0_u8..4),
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(0_u8..9, 1..4)],
    );
    let work = (
        prop::collection::vec(task(), 0..4),
        prop::collection::vec(0_u64..5, 0..2),
        prop::collection::vec(worker_spec(), 0..3),
    );
    let mails =
        (prop::collection::vec(mail(), 0..4), prop::collection::vec(0_u64..4, 0..4), lines());
    (being, facts, outcome, work, mails).prop_map(|(being, facts, outcome, work, mails)| {
        PlannedTurn {
            new_instance: being.0,
            parent: being.1,
            events: being.2,
            pin: facts.0,
            status: facts.1,
            kv: facts.2,
            end: outcome.0,
            clear: outcome.1,
            push: outcome.2,
            emits: outcome.3,
            work: work.0,
            cancelled_work: work.1,
            workers: work.2,
            mails: mails.0,
            cancelled_mails: mails.1,
            dispatchers: mails.2,
        }
    })
}

fn hold() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0_usize), 2 => Just(1_usize), 2 => 2_usize..8]
}

fn lease_secs() -> impl Strategy<Value = u64> {
    select(vec![4_u64, 30, 30])
}

fn turns() -> impl Strategy<Value = FlowOp> {
    prop_oneof![
        6 => (prop::collection::vec(mail(), 1..5), lines())
            .prop_map(|(mails, dispatchers)| FlowOp::Send { mails, dispatchers }),
        7 => (line(), 1_usize..6, lease_secs()).prop_map(|(line, requests, lease_secs)| {
            FlowOp::ClaimTurns { line, requests, lease_secs }
        }),
        1 => hold().prop_map(FlowOp::ClaimAgain),
        8 => (hold(), plan())
            .prop_map(|(hold, plan)| FlowOp::Commit { hold, plan: Box::new(plan) }),
    ]
}

fn work() -> impl Strategy<Value = FlowOp> {
    prop_oneof![
        1 => (0..INSTANCES, task()).prop_map(|(to, task)| FlowOp::AddWork { to, task }),
        3 => (worker_spec(), 1_usize..4, lease_secs()).prop_map(|(spec, requests, lease_secs)| {
            FlowOp::ClaimWork { spec, requests, lease_secs }
        }),
        3 => (hold(), prop::option::weighted(0.8, mail()), lines()).prop_map(
            |(hold, mail, dispatchers)| FlowOp::Complete { hold, mail, dispatchers }
        ),
        1 => (prop::collection::vec(hold(), 1..4), 0_u64..60)
            .prop_map(|(holds, secs)| FlowOp::Renew { holds, secs }),
        2 => (hold(), select(vec![0_u64, 0, 2_000, 9_000]), any::<bool>()).prop_map(
            |(hold, delay_ms, uncounted)| FlowOp::Abandon { hold, delay_ms, uncounted }
        ),
        1 => (select(vec![vec![], vec![0_usize], vec![0, 1]]), 0_u64..60, 0_u64..30_000).prop_map(
            |(owners, secs, idle_ms)| FlowOp::KeepSessions { owners, secs, idle_ms }
        ),
    ]
}

fn interventions() -> impl Strategy<Value = FlowOp> {
    let some = || prop::collection::vec(0..INSTANCES, 1..3);
    let ago = || prop::option::of(0_u64..15_000);
    prop_oneof![
        3 => (0..INSTANCES, any::<bool>())
            .prop_map(|(instance, mismatch)| FlowOp::Suspend { instance, mismatch }),
        1 => hold().prop_map(FlowOp::SuspendTurn),
        3 => (0..INSTANCES).prop_map(FlowOp::Resume),
        1 => line().prop_map(FlowOp::RetryMismatched),
        1 => (0..INSTANCES, prop::option::of(mail()))
            .prop_map(|(instance, mail)| FlowOp::Terminate { instance, mail }),
        2 => (some(), any::<bool>())
            .prop_map(|(instances, force)| FlowOp::Delete { instances, force }),
        1 => (prop::option::of(some()), ago()).prop_map(|(instances, ended_ms_ago)| {
            FlowOp::DeleteMatching { instances, ended_ms_ago }
        }),
        2 => (prop::option::of(0_u32..4), ago())
            .prop_map(|(keep_last, ended_ms_ago)| FlowOp::Prune { keep_last, ended_ms_ago }),
        4 => Just(FlowOp::Inspect),
    ]
}

fn time() -> impl Strategy<Value = FlowOp> {
    let ms = select(vec![1_u64, 500, 1_000, 2_000, 3_999, 4_000, 10_000, 30_000, 60_000]);
    prop_oneof![
        1 => ms.prop_map(|ms| FlowOp::Advance { ms }),
        2 => (-1_i64..2).prop_map(|beside_ms| FlowOp::AdvanceToDue { beside_ms }),
    ]
}

/// Generates sequences.
pub(super) fn sequences() -> impl Strategy<Value = Vec<FlowOp>> {
    let op = prop_oneof![12 => turns(), 7 => work(), 3 => interventions(), 4 => time()];
    prop::collection::vec(op, 1..90)
}
