//! Tests random orchestrations with random deliveries. An execution that stays in memory and one
//! that is replayed before every turn must make the same history.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use wakeline_core::InstanceId;
use wakeline_flow::{
    Either, Execution, ExecutionSetup, ExecutionStart, FlowError, FlowMessage, Json,
    Nondeterminism, OrchestrationCode, OrchestrationContext, Raised, TurnEffects, TurnEnd,
    join_all, race, select2,
};

use crate::script::{
    cancel, child_done, done, event_text, failed, fired, id, json, raised, registry,
};

/// A random program that returns a number.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Op {
    Activity(u8),
    Limited(u8),
    Sleep(u8),
    Event(u8),
    Poll(u8),
    Child,
    Detached,
    Status,
    Value(u8),
    Push,
    Signal,
    Forgotten(u8),
    Fail,
    Panic,
    Again,
    Care,
    Seq(Vec<Op>),
    Join(Vec<Op>),
    Unordered(Vec<Op>),
    Race(Vec<Op>),
    Chance(Vec<Op>),
    Timeout(Box<Op>),
    Cancellable(Box<Op>),
    Caught(Box<Op>),
}

type Run = Pin<Box<dyn Future<Output = Result<u64, FlowError>> + Send>>;

fn run(ctx: OrchestrationContext, op: Op) -> Run {
    Box::pin(async move {
        let all =
            |ops: Vec<Op>| -> Vec<Run> { ops.into_iter().map(|op| run(ctx.clone(), op)).collect() };
        Ok(match op {
            Op::Seq(ops) => {
                let mut sum = 0;
                for op in ops {
                    sum = sum * 3 + run(ctx.clone(), op).await?;
                }
                sum
            }
            Op::Join(ops) => join_all(all(ops)).await.into_iter().sum::<Result<_, _>>()?,
            Op::Unordered(ops) => {
                let mut rest: FuturesUnordered<Run> = all(ops).into_iter().collect();
                let mut sum = 0;
                while let Some(n) = rest.next().await {
                    sum = sum * 2 + n?;
                    ctx.set_status(sum.to_string());
                }
                sum
            }
            Op::Race(ops) => {
                let (index, n) = race(all(ops)).await;
                index as u64 + n?
            }
            Op::Chance(mut ops) => {
                let index = ctx.random_below(ops.len() as u64) as usize;
                run(ctx.clone(), ops.swap_remove(index)).await?
            }
            Op::Timeout(op) => {
                let span = Duration::from_secs(1);
                ctx.timeout(span, run(ctx.clone(), *op)).await.unwrap_or(Ok(9))?
            }
            Op::Cancellable(op) => match select2(run(ctx.clone(), *op), ctx.cancelled()).await {
                Either::First(n) => n?,
                Either::Second(reason) => reason.len() as u64,
            },
            Op::Caught(op) => run(ctx.clone(), *op).await.unwrap_or(8),
            leaf => step(&ctx, leaf).await?,
        })
    })
}

async fn step(ctx: &OrchestrationContext, op: Op) -> Result<u64, FlowError> {
    let name = |n: u8| format!("e{n}");
    Ok(match op {
        Op::Activity(n) => ctx.activity("a", n).await?,
        Op::Limited(n) => ctx.activity("l", n).timeout(Duration::from_secs(2)).await?,
        Op::Sleep(n) => {
            ctx.sleep(Duration::from_secs(n.into())).await;
            1
        }
        Op::Event(n) => ctx.event(name(n)).await?,
        Op::Poll(n) => ctx.mailbox(name(n)).try_next()?.unwrap_or(0),
        Op::Child => ctx.child("c", ()).await?,
        Op::Detached => ctx.child::<_, ()>("d", ()).detached()?.as_str().len() as u64,
        Op::Status => {
            ctx.set_status(ctx.uuid().to_string());
            0
        }
        Op::Value(n) => {
            let before: u64 = ctx.kv_get("k")?.unwrap_or(0);
            ctx.kv_set("k", before + u64::from(n))?;
            before
        }
        Op::Push => ctx.push("q", ctx.now().0).map(|()| 0)?,
        Op::Signal => ctx.signal("j", "s", ctx.random_u64()).map(|()| 0)?,
        Op::Forgotten(n) => {
            let wait = ctx.event::<u64>(name(n)).start();
            let call = ctx.activity::<_, u64>("f", n).start();
            ctx.sleep(Duration::from_secs(1)).await;
            drop((call, wait));
            2
        }
        Op::Fail => return Err(FlowError::application("as programmed")),
        Op::Panic => std::panic::resume_unwind(Box::new("as programmed")),
        Op::Again => ctx.continue_as_new(Op::Seq(vec![Op::Detached, Op::Child, Op::Status])).await,
        Op::Care => {
            ctx.on_cancel();
            u64::from(ctx.is_cancelled())
        }
        _ => unreachable!("run by the caller"),
    })
}

fn program() -> impl Strategy<Value = Op> {
    let leaf = prop_oneof![
        24 => any::<u8>().prop_map(Op::Activity),
        8 => any::<u8>().prop_map(Op::Limited),
        12 => (0..3_u8).prop_map(Op::Sleep),
        20 => (0..2_u8).prop_map(Op::Event),
        8 => (0..2_u8).prop_map(Op::Poll),
        8 => Just(Op::Child),
        4 => Just(Op::Detached),
        4 => Just(Op::Status),
        4 => any::<u8>().prop_map(Op::Value),
        4 => Just(Op::Push),
        4 => Just(Op::Signal),
        8 => (0..2_u8).prop_map(Op::Forgotten),
        1 => Just(Op::Fail),
        1 => Just(Op::Panic),
        2 => Just(Op::Again),
        4 => Just(Op::Care),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let some = || vec(inner.clone(), 1..5);
        prop_oneof![
            4 => some().prop_map(Op::Seq),
            2 => some().prop_map(Op::Join),
            2 => some().prop_map(Op::Unordered),
            2 => some().prop_map(Op::Race),
            1 => some().prop_map(Op::Chance),
            1 => inner.clone().prop_map(|op| Op::Timeout(Box::new(op))),
            1 => inner.clone().prop_map(|op| Op::Cancellable(Box::new(op))),
            1 => inner.clone().prop_map(|op| Op::Caught(Box::new(op))),
        ]
    })
}

/// A message to deliver: its kind, the index of an open operation, and a value.
type Delivery = (u8, u16, u8);

/// The operations that messages may arrive for, including some that have already ended.
#[derive(Default)]
struct World {
    activities: Vec<u64>,
    timers: Vec<u64>,
    children: Vec<u64>,
    /// The ids of all children of all executions.
    started: HashSet<InstanceId>,
}

impl World {
    fn note(&mut self, effects: &TurnEffects) {
        for start in &effects.starts {
            let id = start.instance().clone();
            assert!(self.started.insert(id), "{} is started twice", start.instance());
        }
        self.activities.extend(effects.activities.iter().map(|task| task.event));
        self.timers.extend(effects.timers.iter().map(|timer| timer.event));
        for start in &effects.starts {
            if let FlowMessage::StartOrchestration { parent: Some(parent), .. } = start {
                self.children.push(parent.event);
            }
        }
    }

    fn message(&self, (kind, which, value): Delivery) -> FlowMessage {
        let pick = |from: &[u64]| match from.len() {
            0 => 0,
            // Later operations are more likely to be open.
            len => from[len - 1 - (usize::from(which) % len).min(usize::from(which % 4))],
        };
        match kind % 16 {
            0..=5 => done(pick(&self.activities), value),
            6 => failed(pick(&self.activities), "failed".into()),
            7..=9 => fired(pick(&self.timers)),
            10..=12 => raised(&format!("e{}", which % 2), value),
            13 | 14 => child_done(pick(&self.children), value),
            _ if value % 8 == 0 => cancel("stop"),
            _ => done(u64::from(which), value),
        }
    }
}

fn start_of(
    code: &Arc<OrchestrationCode>,
    setup: &ExecutionSetup,
    input: Json,
    carried: Vec<Raised>,
) -> Execution {
    let start = ExecutionStart { input, parent: None, seed: 3, carried };
    Execution::start(code, setup.clone(), start)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn executions_in_memory_and_replayed_ones_make_the_same_history(
        op in vec(program(), 2..5).prop_map(|mut ops| {
            ops.insert(0, Op::Detached);
            Op::Seq(ops)
        }),
        turns in vec((vec(any::<(u8, u16, u8)>(), 1..6), any::<bool>()), 1..24),
    ) {
        let registry = registry(|r| r.orchestration("flow", run));
        let code = registry.newest("flow").expect("registered");
        let mut setup = ExecutionSetup { instance: id("i"), execution: 1, kv: BTreeMap::new() };
        let mut sticky = start_of(&code, &setup, json(&op), Vec::new());
        let mut replayed = start_of(&code, &setup, json(&op), Vec::new());
        let mut world = World::default();
        let mut history = Vec::new();
        let mut now = 0;
        for (deliveries, forget) in turns {
            now += 500_000;
            let messages: Vec<_> = deliveries.into_iter().map(|d| world.message(d)).collect();
            if forget && !history.is_empty() {
                replayed = Execution::replay(&code, setup.clone(), history.iter().cloned())
                    .map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            let (expected, turn) =
                match (sticky.deliver(messages.clone(), now), replayed.deliver(messages, now)) {
                    (Ok(expected), Ok(turn)) => (expected, turn),
                    (Err(expected), Err(nondeterminism)) => {
                        let is_panic = matches!(expected, Nondeterminism::Panic { .. });
                        prop_assert!(is_panic, "{expected}");
                        prop_assert_eq!(expected, nondeterminism);
                        break;
                    }
                    (expected, turn) => panic!("{expected:?}, but replayed {turn:?}"),
                };
            prop_assert_eq!(format!("{:?}", &turn), format!("{:?}", &expected));
            prop_assert_eq!(sticky.last_event(), replayed.last_event());
            world.note(&turn.effects);
            history.extend(turn.events);
            if turn.end != TurnEnd::Open {
                prop_assert!(sticky.has_ended());
            }
            if let TurnEnd::ContinuedAsNew { input, carried, .. } = turn.end {
                setup.execution += 1;
                history.clear();
                sticky = start_of(&code, &setup, input.clone(), carried.clone());
                replayed = start_of(&code, &setup, input, carried);
            }
        }
        let texts: Vec<String> = history.iter().map(|event| event_text(&event.kind)).collect();
        if history.is_empty() {
            return Ok(());
        }
        let last = Execution::replay(&code, setup, history);
        prop_assert!(last.is_ok(), "{:?}\n{texts:#?}", last.err());
    }
}
