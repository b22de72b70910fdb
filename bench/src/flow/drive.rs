//! What every side of the flow benchmark is made to do: jobs, and how they are measured.
//!
//! # Where it sits
//! A module of this program and, by its path, of the peers' program, which has a workspace of its
//! own. Sides differ in their [`Engine`] only: the loops and the clocks are the same source.
//!
//! # Invariants
//! * Rates do not depend on how a client waits: an orchestration tells its end itself, by
//!   [`Ends`], as the last thing that its code does.
//! * Latencies are what a client sees, by its own way of waiting; the end of the code is taken
//!   beside it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The name of the orchestration.
pub(crate) const ORCHESTRATION: &str = "fan_out";
/// Dispatchers of turns, and of activities.
pub(crate) const CONCURRENCY: usize = 4;
/// An orchestration that takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Orchestrations that are not counted, before latencies are taken one at a time.
const WARM_UP: usize = 10;
/// Quiet time before a start: the system is idle when it comes.
const QUIET: Duration = Duration::from_millis(6);

/// What an orchestration does: so many activities at once, each of which takes so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Activities.
    pub(crate) activities: u32,
    /// Milliseconds that each takes.
    pub(crate) delay_ms: u64,
}

/// What a side is to measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// So many orchestrations under way all the time; ends are told by the code.
    Rate { plan: Plan, under_way: usize, warm_up_s: f64, seconds: f64 },
    /// One after the other on an idle system, until there are enough or the time is over.
    Latency { plan: Plan, samples: usize, seconds_max: f64 },
    /// One after the other, and no client waits.
    Unwatched { plan: Plan, samples: usize },
    /// So many clients, each of which starts one and waits for it, again and again.
    Stress { plan: Plan, clients: usize, seconds: f64 },
}

/// What a side found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Orchestrations that completed within the measured time.
    pub(crate) completed: u64,
    /// Those that failed or never ended.
    pub(crate) failed: u64,
    /// The measured time.
    pub(crate) seconds: f64,
    /// From each start to the client's answer, in microseconds, in order.
    pub(crate) answered_us: Vec<u64>,
    /// From each start to the end of the code, in microseconds, in order.
    pub(crate) ended_us: Vec<u64>,
}

/// One side: something that runs orchestrations.
pub(crate) trait Engine: Clone + Send + Sync + 'static {
    /// Starts one.
    fn start(&self, instance: String, plan: Plan) -> impl Future<Output = Result<()>> + Send;

    /// Waits until it has completed, as the side's client waits.
    fn answer(&self, instance: String) -> impl Future<Output = Result<()>> + Send;
}

/// Where orchestrations tell that their code has come to its end.
#[derive(Clone, Default)]
pub(crate) struct Ends(Arc<Mutex<HashMap<String, oneshot::Sender<Instant>>>>);

impl Ends {
    /// Called by an orchestration.
    pub(crate) fn tell(&self, instance: &str) {
        let waiter = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(instance);
        if let Some(waiter) = waiter {
            let _ = waiter.send(Instant::now());
        }
    }

    fn expect(&self, instance: &str) -> oneshot::Receiver<Instant> {
        let (tell, told) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), tell);
        told
    }
}

/// A side and where its orchestrations tell their ends.
#[derive(Clone)]
pub(crate) struct Driver<E> {
    engine: E,
    ends: Ends,
    /// Begins the names of all instances: those of earlier jobs have other names.
    prefix: String,
}

impl<E: Engine> Driver<E> {
    /// A driver of a side.
    pub(crate) fn new(engine: E, ends: Ends) -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { engine, ends, prefix: format!("{}-{}", std::process::id(), now.as_nanos()) }
    }

    /// Does a job.
    pub(crate) async fn run(&self, job: Job) -> Result<Outcome> {
        let mut outcome = match job {
            Job::Rate { plan, under_way, warm_up_s, seconds } => {
                let spans = (Duration::from_secs_f64(warm_up_s), Duration::from_secs_f64(seconds));
                self.rate(plan, under_way, spans).await
            }
            Job::Latency { plan, samples, seconds_max } => {
                let most = Duration::from_secs_f64(seconds_max);
                self.latency(plan, samples, most).await?
            }
            Job::Unwatched { plan, samples } => self.unwatched(plan, samples).await?,
            Job::Stress { plan, clients, seconds } => {
                self.stress(plan, clients, Duration::from_secs_f64(seconds)).await
            }
        };
        outcome.answered_us.sort_unstable();
        outcome.ended_us.sort_unstable();
        Ok(outcome)
    }

    /// Starts one and waits until its code has told its end.
    async fn to_its_end(&self, instance: String, plan: Plan) -> Result<Instant> {
        let told = self.ends.expect(&instance);
        self.engine.start(instance, plan).await?;
        let ended = tokio::time::timeout(PATIENCE, told).await.context("it never ended")?;
        ended.context("nobody tells its end")
    }

    async fn rate(&self, plan: Plan, under_way: usize, spans: (Duration, Duration)) -> Outcome {
        let from = Instant::now() + spans.0;
        let until = from + spans.1;
        let mut lanes = JoinSet::new();
        for lane in 0..under_way {
            let driver = self.clone();
            lanes.spawn(async move {
                let mut outcome = Outcome::default();
                for number in 0.. {
                    if Instant::now() >= until {
                        break;
                    }
                    let instance = format!("{}-{lane}-{number}", driver.prefix);
                    match driver.to_its_end(instance, plan).await {
                        Ok(at) => outcome.completed += u64::from(at >= from && at < until),
                        Err(error) => outcome.fail(&error),
                    }
                }
                outcome
            });
        }
        Outcome { seconds: spans.1.as_secs_f64(), ..sum(lanes).await }
    }

    async fn latency(&self, plan: Plan, samples: usize, most: Duration) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let began = Instant::now();
        for number in 0..samples + WARM_UP {
            if number > WARM_UP && began.elapsed() >= most {
                break;
            }
            // Not a whole number of anything: no rhythm of a poll is met again and again.
            tokio::time::sleep(QUIET + Duration::from_micros(number as u64 * 617 % 3_001)).await;
            let instance = format!("{}-{number}", self.prefix);
            let told = self.ends.expect(&instance);
            let start = Instant::now();
            self.engine.start(instance.clone(), plan).await?;
            self.engine.answer(instance).await?;
            let answered = start.elapsed();
            let ended = told.await.context("nobody tells its end")?;
            if number >= WARM_UP {
                outcome.completed += 1;
                outcome.answered_us.push(micros(answered));
                outcome.ended_us.push(micros(ended.saturating_duration_since(start)));
            }
        }
        outcome.seconds = began.elapsed().as_secs_f64();
        Ok(outcome)
    }

    async fn unwatched(&self, plan: Plan, samples: usize) -> Result<Outcome> {
        let began = Instant::now();
        for number in 0..samples {
            tokio::time::sleep(QUIET).await;
            self.to_its_end(format!("{}-{number}", self.prefix), plan).await?;
        }
        // The last commit is still to come when the code ends.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Outcome { completed: samples as u64, seconds, ..Outcome::default() })
    }

    async fn stress(&self, plan: Plan, clients: usize, span: Duration) -> Outcome {
        let began = Instant::now();
        let mut lanes = JoinSet::new();
        for lane in 0..clients {
            let driver = self.clone();
            lanes.spawn(async move {
                let mut outcome = Outcome::default();
                for number in 0.. {
                    if began.elapsed() >= span {
                        break;
                    }
                    let instance = format!("{}-{lane}-{number}", driver.prefix);
                    let start = Instant::now();
                    let ended = async {
                        driver.engine.start(instance.clone(), plan).await?;
                        driver.engine.answer(instance).await
                    };
                    match ended.await {
                        Ok(()) => {
                            outcome.completed += 1;
                            outcome.answered_us.push(micros(start.elapsed()));
                        }
                        Err(error) => outcome.fail(&error),
                    }
                }
                outcome
            });
        }
        let outcome = sum(lanes).await;
        Outcome { seconds: began.elapsed().as_secs_f64(), ..outcome }
    }
}

impl Outcome {
    fn fail(&mut self, error: &anyhow::Error) {
        if self.failed == 0 {
            eprintln!("an orchestration failed: {error:#}");
        }
        self.failed += 1;
    }

    /// Orchestrations a second.
    #[allow(dead_code, reason = "only the program that prints the tables reads it")]
    pub(crate) fn rate(&self) -> f64 {
        self.completed as f64 / self.seconds
    }
}

async fn sum(mut lanes: JoinSet<Outcome>) -> Outcome {
    let mut all = Outcome::default();
    while let Some(lane) = lanes.join_next().await {
        let lane = lane.unwrap_or(Outcome { failed: 1, ..Outcome::default() });
        all.completed += lane.completed;
        all.failed += lane.failed;
        all.answered_us.extend(lane.answered_us);
    }
    all
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
