//! Random programs for orchestrations, and the expected result of each: a number, and messages in a
//! queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use wakeline::{ActivityContext, ClosePolicy, FlowError, OrchestrationContext, Registry};

/// A source of random numbers that returns the same numbers for the same seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A step of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Step {
    Activity(u64),
    InSession(u64),
    Sleep,
    /// Takes this number of events.
    Take(u64),
    Child(Vec<Step>),
    Detached(Vec<Step>),
    /// Starts a detached child, which sends a signal at its end, and waits for the signal.
    WorldResult(Vec<Step>),
    Push,
    ContinueAsNew,
    /// The last step: starts a child that is open when its parent ends, and is closed then.
    Leave(ClosePolicy, Vec<Step>),
    /// Waits forever: only a close policy or a cancellation request ends it.
    Forever,
    /// The last step: waits for a cancellation request, and pushes. A program with this step
    /// continues until then, whenever the request comes.
    CleanUp,
}

/// A program and its progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The label of its pushes; unique for each start of an instance.
    pub(crate) label: String,
    pub(crate) steps: Vec<Step>,
    at: usize,
    /// The number of events that were taken.
    taken: u64,
    sum: u64,
    /// The instance to send the sum to.
    listener: Option<String>,
}

impl Program {
    pub(crate) fn new(label: String, steps: Vec<Step>) -> Self {
        Self { label, steps, at: 0, taken: 0, sum: 0, listener: None }
    }

    /// Returns random steps for a program that is started from outside. A hundred programs are
    /// likely to contain every kind of step.
    pub(crate) fn random(dice: &mut Dice, depth: u32) -> Vec<Step> {
        let length = 1 + dice.below(5);
        let mut steps: Vec<_> = (0..length).map(|_| Self::random_step(dice, depth)).collect();
        if depth > 0 && dice.one_in(3) {
            let policy = match dice.below(3) {
                0 => ClosePolicy::Terminate,
                1 => ClosePolicy::RequestCancel,
                _ => ClosePolicy::Abandon,
            };
            let mut inner = Self::random(dice, depth - 1);
            if policy == ClosePolicy::RequestCancel && dice.one_in(2) {
                inner.push(Step::CleanUp);
            } else if policy != ClosePolicy::Abandon {
                // A child that leaves a child open itself is left open while that is closed.
                inner.insert(0, Step::Forever);
                inner.rotate_left(usize::from(dice.one_in(2)));
            }
            steps.push(Step::Leave(policy, inner));
        }
        if depth == 2 && dice.one_in(24) {
            // More events than two turns take, so that the message that begins the second execution
            // is behind them.
            steps.splice(0..0, [Step::ContinueAsNew, Step::Take(2_100)]);
        }
        steps
    }

    /// Returns the last step of a program that is cancelled.
    pub(crate) fn random_wait_for_cancel(dice: &mut Dice) -> Option<Step> {
        match dice.below(3) {
            0 => None,
            1 => Some(Step::Forever),
            _ => Some(Step::CleanUp),
        }
    }

    /// Whether the program does not end by itself.
    pub(crate) fn waits_forever(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Forever))
    }

    /// Whether the program handles cancellation requests itself.
    pub(crate) fn cleans_up(&self) -> bool {
        matches!(self.steps.last(), Some(Step::CleanUp))
    }

    fn random_step(dice: &mut Dice, depth: u32) -> Step {
        let inner = |dice: &mut Dice| match depth {
            0 => vec![Step::Push],
            _ => Self::random(dice, depth - 1),
        };
        match dice.below(16) {
            0..=3 => Step::Activity(dice.below(100)),
            4 => Step::InSession(dice.below(100)),
            5 | 6 => Step::Sleep,
            // Events are sent only to programs that are started from outside.
            7 | 8 if depth == 2 && dice.one_in(16) => Step::Take(1_050),
            7 | 8 if depth == 2 => Step::Take(1 + dice.below(4)),
            9 | 10 => Step::Child(inner(dice)),
            11 => Step::Detached(inner(dice)),
            12 => Step::WorldResult(inner(dice)),
            13 => Step::ContinueAsNew,
            _ => Step::Push,
        }
    }

    fn child(&self, steps: &[Step]) -> Self {
        Self::new(format!("{}/{}", self.label, self.at), steps.to_vec())
    }

    /// Returns the expected result.
    pub(crate) fn expected(mut self) -> Expected {
        let mut expected = Expected::default();
        while let Some(step) = self.steps.get(self.at).cloned() {
            match &step {
                Step::Activity(n) | Step::InSession(n) => expected.sum += n + 1,
                Step::Sleep | Step::ContinueAsNew => {}
                Step::Take(count) => {
                    expected.sum += (expected.events..expected.events + count).sum::<u64>();
                    expected.events += count;
                }
                Step::Child(steps) | Step::WorldResult(steps) => {
                    let child = self.child(steps).expected();
                    expected.sum += child.sum;
                    expected.add(child);
                }
                Step::Detached(steps) | Step::Leave(ClosePolicy::Abandon, steps) => {
                    expected.add(self.child(steps).expected());
                }
                Step::Leave(policy, steps) => {
                    let child = self.child(steps);
                    let cleans_up = *policy == ClosePolicy::RequestCancel && child.cleans_up();
                    let child = child.expected();
                    if cleans_up {
                        expected.add(child);
                    } else {
                        expected.may.extend(child.pushes);
                        expected.may.extend(child.may);
                    }
                }
                Step::Forever => {}
                Step::Push | Step::CleanUp => expected.pushes.push(self.pushed()),
            }
            self.at += 1;
        }
        expected.instances += 1;
        expected
    }

    fn pushed(&self) -> String {
        format!("{}#{}", self.label, self.at)
    }
}

/// The expected result of a program.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) sum: u64,
    pub(crate) pushes: Vec<String>,
    /// Messages that children that are closed may have pushed.
    pub(crate) may: Vec<String>,
    /// The number of events that it takes.
    pub(crate) events: u64,
    /// The number of instances, including all children.
    pub(crate) instances: u64,
}

impl Expected {
    fn add(&mut self, child: Self) {
        self.pushes.extend(child.pushes);
        self.may.extend(child.may);
        self.instances += child.instances;
    }
}

async fn run(ctx: OrchestrationContext, mut program: Program) -> Result<u64, FlowError> {
    let mut left_open = Vec::new();
    if program.cleans_up() {
        ctx.on_cancel();
    }
    while let Some(step) = program.steps.get(program.at).cloned() {
        program.sum += match &step {
            Step::Activity(n) => ctx.activity("count", *n).await?,
            Step::InSession(n) => {
                ctx.activity("count", *n).session(ctx.instance().as_str()).await?
            }
            Step::Sleep => {
                ctx.sleep(Duration::from_millis(50)).await;
                0
            }
            Step::Take(count) => take(&ctx, &mut program.taken, *count).await?,
            Step::Child(steps) => ctx.child("program", program.child(steps)).await?,
            Step::Detached(steps) => {
                ctx.child::<_, u64>("program", program.child(steps)).detached()?;
                0
            }
            Step::WorldResult(steps) => {
                let mut child = program.child(steps);
                let event = child.label.clone();
                child.listener = Some(ctx.instance().to_string());
                ctx.child::<_, u64>("program", child).detached()?;
                ctx.event(event).await?
            }
            Step::Push => {
                ctx.push("out", program.pushed())?;
                0
            }
            Step::Leave(policy, steps) => {
                let child = ctx.child::<_, u64>("program", program.child(steps));
                left_open.push(child.close_policy(*policy).start());
                // A child that is started and dropped in one turn never begins.
                ctx.sleep(Duration::from_millis(50)).await;
                0
            }
            Step::Forever => ctx.event("never").await?,
            Step::CleanUp => {
                ctx.cancelled().await;
                ctx.push("out", program.pushed())?;
                0
            }
            Step::ContinueAsNew => {
                program.at += 1;
                ctx.continue_as_new(program.clone()).await
            }
        };
        program.at += 1;
    }
    if let Some(listener) = &program.listener {
        ctx.signal(listener, &program.label, program.sum)?;
    }
    Ok(program.sum)
}

/// Takes events in their order. A sender repeats an event after a failed call, so an event may
/// arrive twice.
async fn take(ctx: &OrchestrationContext, taken: &mut u64, count: u64) -> Result<u64, FlowError> {
    let mut sum = 0;
    for expected in *taken..*taken + count {
        let event = loop {
            let event: u64 = ctx.event("n").await?;
            if event >= expected {
                break event;
            }
        };
        if event != expected {
            let message = format!("event {event} came instead of {expected}");
            return Err(FlowError::application(message));
        }
        sum += event;
    }
    *taken += count;
    Ok(sum)
}

/// The number of runs of each activity, by its idempotency key.
pub(crate) type Runs = Arc<Mutex<HashMap<String, u32>>>;

pub(crate) fn registry(runs: &Runs) -> Registry {
    let runs = Arc::clone(runs);
    let count = move |ctx: ActivityContext, n: u64| {
        *runs.lock().entry(ctx.idempotency_key()).or_default() += 1;
        async move {
            // The sleep leaves time for disturbances.
            tokio::time::sleep(Duration::from_millis(4 * n)).await;
            Ok::<_, FlowError>(n + 1)
        }
    };
    let registry = Registry::builder().orchestration("program", run).activity("count", count);
    registry.build().expect("no name twice")
}

/// Counts how often each text is in a list.
pub(crate) fn counted(texts: impl IntoIterator<Item = String>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}
