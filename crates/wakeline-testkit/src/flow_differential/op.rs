//! The steps of a sequence, and how they are drawn.

use proptest::prelude::*;
use proptest::sample::select;
use wakeline_store::flow::InstanceState;

/// Instances of a case.
pub(super) const INSTANCES: usize = 4;
/// Capabilities of a case.
pub(super) const CAPABILITIES: usize = 2;
/// Names of activities of a case.
const NAMES: usize = 2;

/// When something can be claimed.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Now,
    AfterMs(u64),
    AtMs(i64),
}

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Mail {
    pub(super) to: usize,
    pub(super) when: When,
    /// The capability, and whether it is unique.
    pub(super) starts: Option<(usize, bool)>,
    pub(super) even_if_ended: bool,
    pub(super) key: Option<u64>,
}

/// Who asks for turns: these capabilities, or any.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    Any,
    Only(usize),
    Both,
}

/// Who asks for work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) tags: Tags,
    /// The one activity that it knows; without, it takes any.
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

/// An activity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) activity: u64,
    pub(super) name: Option<usize>,
    pub(super) tagged: bool,
    pub(super) session: Option<usize>,
    pub(super) when: When,
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
pub(super) enum End {
    Open,
    Ended(InstanceState),
    Continued(usize),
}

/// What a turn does.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) birth: bool,
    pub(super) parent: Option<usize>,
    pub(super) events: Events,
    pub(super) pin: Option<usize>,
    /// `None` clears.
    pub(super) status: Vec<Option<u8>>,
    pub(super) kv: Vec<Kv>,
    pub(super) end: End,
    pub(super) clear: bool,
    pub(super) work: Vec<Task>,
    pub(super) cancelled_work: Vec<u64>,
    pub(super) mails: Vec<Mail>,
    pub(super) cancelled_mails: Vec<u64>,
    pub(super) push: Option<u8>,
    /// By number: the same one is the same decision.
    pub(super) emits: Vec<u8>,
    pub(super) dispatchers: Vec<Line>,
    pub(super) workers: Vec<Asks>,
}

/// One step of a sequence. Leases are counted back from the newest.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Send { mails: Vec<Mail>, dispatchers: Vec<Line> },
    ClaimTurns { line: Line, requests: usize, lease_secs: u64 },
    ClaimAgain(usize),
    Commit { hold: usize, plan: Box<Plan> },
    AddWork { to: usize, task: Task },
    ClaimWork { asks: Asks, requests: usize, lease_secs: u64 },
    Complete { hold: usize, mail: Option<Mail>, dispatchers: Vec<Line> },
    Renew { holds: Vec<usize>, secs: u64 },
    Abandon { hold: usize, delay_ms: u64, uncounted: bool },
    KeepSessions { owners: Vec<usize>, secs: u64, idle_ms: u64 },
    Suspend { instance: usize, mismatch: bool },
    SuspendTurn(usize),
    Resume(usize),
    RetryMismatched(Line),
    Terminate { instance: usize, mail: Option<Mail> },
    Delete { instances: Vec<usize>, force: bool },
    DeleteMatching { instances: Option<Vec<usize>>, ended_ms_ago: Option<u64> },
    Prune { keep_last: Option<u32>, ended_ms_ago: Option<u64> },
    Advance { ms: u64 },
    AdvanceToDue { beside_ms: i64 },
    Inspect,
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        5 => Just(When::Now),
        3 => select(vec![1_000_u64, 3_000, 10_000]).prop_map(When::AfterMs),
        1 => (-3_000_i64..8_000).prop_map(When::AtMs),
    ]
}

fn mail() -> impl Strategy<Value = Mail> {
    let starts = prop::option::weighted(0.4, (0..CAPABILITIES, prop::bool::weighted(0.7)));
    let key = prop::option::weighted(0.5, 0_u64..4);
    (0..INSTANCES, when(), starts, prop::bool::weighted(0.3), key).prop_map(
        |(to, when, starts, even_if_ended, key)| Mail { to, when, starts, even_if_ended, key },
    )
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        3 => Just(Line::Any),
        2 => (0..CAPABILITIES).prop_map(Line::Only),
        1 => Just(Line::Both),
    ]
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(line(), 1..4)]
}

fn asks() -> impl Strategy<Value = Asks> {
    let tags = select(vec![Tags::Any, Tags::Untagged, Tags::Tag, Tags::Both]);
    let (name, owner) =
        (prop::option::weighted(0.5, 0..NAMES), prop::option::weighted(0.7, 0_usize..2));
    (tags, name, owner).prop_map(|(tags, name, owner)| Asks { tags, name, owner })
}

fn task() -> impl Strategy<Value = Task> {
    let session = prop::option::weighted(0.4, 0_usize..2);
    let name = prop::option::weighted(0.6, 0..NAMES);
    (0_u64..5, name, prop::bool::weighted(0.3), session, when()).prop_map(
        |(activity, name, tagged, session, when)| Task { activity, name, tagged, session, when },
    )
}

fn end() -> impl Strategy<Value = End> {
    use InstanceState::{Cancelled, Completed, Failed};
    prop_oneof![
        6 => Just(End::Open),
        2 => select(vec![Completed, Failed, Cancelled]).prop_map(End::Ended),
        3 => (0..CAPABILITIES).prop_map(End::Continued),
    ]
}

fn kv() -> impl Strategy<Value = Kv> {
    prop_oneof![
        4 => (0_usize..3).prop_map(Kv::Set),
        2 => (0_usize..3).prop_map(Kv::Clear),
        1 => Just(Kv::ClearAll),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
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
        prop::collection::vec(asks(), 0..3),
    );
    let mails =
        (prop::collection::vec(mail(), 0..4), prop::collection::vec(0_u64..4, 0..4), lines());
    (being, facts, outcome, work, mails).prop_map(|(being, facts, outcome, work, mails)| Plan {
        birth: being.0,
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
    })
}

fn hold() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0_usize), 2 => Just(1_usize), 2 => 2_usize..8]
}

fn lease_secs() -> impl Strategy<Value = u64> {
    select(vec![4_u64, 30, 30])
}

fn turns() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(mail(), 1..5), lines())
            .prop_map(|(mails, dispatchers)| Op::Send { mails, dispatchers }),
        7 => (line(), 1_usize..6, lease_secs()).prop_map(|(line, requests, lease_secs)| {
            Op::ClaimTurns { line, requests, lease_secs }
        }),
        1 => hold().prop_map(Op::ClaimAgain),
        8 => (hold(), plan()).prop_map(|(hold, plan)| Op::Commit { hold, plan: Box::new(plan) }),
    ]
}

fn work() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0..INSTANCES, task()).prop_map(|(to, task)| Op::AddWork { to, task }),
        3 => (asks(), 1_usize..4, lease_secs()).prop_map(|(asks, requests, lease_secs)| {
            Op::ClaimWork { asks, requests, lease_secs }
        }),
        3 => (hold(), prop::option::weighted(0.8, mail()), lines()).prop_map(
            |(hold, mail, dispatchers)| Op::Complete { hold, mail, dispatchers }
        ),
        1 => (prop::collection::vec(hold(), 1..4), 0_u64..60)
            .prop_map(|(holds, secs)| Op::Renew { holds, secs }),
        2 => (hold(), select(vec![0_u64, 0, 2_000, 9_000]), any::<bool>()).prop_map(
            |(hold, delay_ms, uncounted)| Op::Abandon { hold, delay_ms, uncounted }
        ),
        1 => (select(vec![vec![], vec![0_usize], vec![0, 1]]), 0_u64..60, 0_u64..30_000).prop_map(
            |(owners, secs, idle_ms)| Op::KeepSessions { owners, secs, idle_ms }
        ),
    ]
}

fn interventions() -> impl Strategy<Value = Op> {
    let some = || prop::collection::vec(0..INSTANCES, 1..3);
    let ago = || prop::option::of(0_u64..15_000);
    prop_oneof![
        3 => (0..INSTANCES, any::<bool>())
            .prop_map(|(instance, mismatch)| Op::Suspend { instance, mismatch }),
        1 => hold().prop_map(Op::SuspendTurn),
        3 => (0..INSTANCES).prop_map(Op::Resume),
        1 => line().prop_map(Op::RetryMismatched),
        1 => (0..INSTANCES, prop::option::of(mail()))
            .prop_map(|(instance, mail)| Op::Terminate { instance, mail }),
        2 => (some(), any::<bool>())
            .prop_map(|(instances, force)| Op::Delete { instances, force }),
        1 => (prop::option::of(some()), ago()).prop_map(|(instances, ended_ms_ago)| {
            Op::DeleteMatching { instances, ended_ms_ago }
        }),
        2 => (prop::option::of(0_u32..4), ago())
            .prop_map(|(keep_last, ended_ms_ago)| Op::Prune { keep_last, ended_ms_ago }),
        4 => Just(Op::Inspect),
    ]
}

fn time() -> impl Strategy<Value = Op> {
    let ms = select(vec![1_u64, 500, 1_000, 2_000, 3_999, 4_000, 10_000, 30_000, 60_000]);
    prop_oneof![
        1 => ms.prop_map(|ms| Op::Advance { ms }),
        2 => (-1_i64..2).prop_map(|beside_ms| Op::AdvanceToDue { beside_ms }),
    ]
}

/// A sequence.
pub(super) fn sequences() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![12 => turns(), 7 => work(), 3 => interventions(), 4 => time()];
    prop::collection::vec(op, 1..90)
}
