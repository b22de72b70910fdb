//! The jobs that every side of the flow benchmark does, and how they are measured.
//!
//! # Where it sits
//! A module of this program and, by its path, of the program for the peers, which has a separate
//! workspace. Sides differ only in their [`Engine`]: the loops and the time measurement are the
//! same source code.
//!
//! # Invariants
//! * Rates do not depend on how a client waits: the code of an orchestration reports its own end to
//!   [`Ends`] as its last step.
//! * Latencies are those that a client sees with its own way of waiting. The end of the code is
//!   recorded, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The name of the orchestration.
pub(crate) const ORCHESTRATION: &str = "fan_out";
/// Number of dispatchers of turns, and of activities.
pub(crate) const CONCURRENCY: usize = 4;
/// An orchestration that takes longer has failed.
pub(crate) const ORCHESTRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of first orchestrations that are not counted in latencies.
const WARM_UP: usize = 10;
/// Idle time before each start.
const QUIET: Duration = Duration::from_millis(6);

/// What an orchestration does: a number of concurrent activities of the same duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Number of activities.
    pub(crate) activities: u32,
    /// Duration of each activity in milliseconds.
    pub(crate) delay_ms: u64,
}

/// A measurement that a side makes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Keeps a number of orchestrations running, whose code reports their ends.
    Rate { plan: Plan, concurrent: usize, warm_up_s: f64, seconds: f64 },
    /// Runs one orchestration after the other on an idle system, until there are enough samples or
    /// the time is over.
    Latency { plan: Plan, samples: usize, seconds_max: f64 },
    /// Runs one orchestration after the other, without a client that waits.
    Unwatched { plan: Plan, samples: usize },
    /// Runs a number of clients, each of which starts an orchestration and waits for it,
    /// repeatedly.
    Stress { plan: Plan, clients: usize, seconds: f64 },
}

/// The result of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DriveOutcome {
    /// Orchestrations that completed within the measured time.
    pub(crate) completed: u64,
    /// Orchestrations that failed or never ended.
    pub(crate) failed: u64,
    /// The measured time.
    pub(crate) seconds: f64,
    /// Times from each start to the answer to the client, in microseconds, sorted.
    pub(crate) answered_us: Vec<u64>,
    /// Times from each start to the end of the code, in microseconds, sorted.
    pub(crate) ended_us: Vec<u64>,
}

/// Runs orchestrations on one side of the comparison.
pub(crate) trait Engine: Clone + Send + Sync + 'static {
    /// Starts an orchestration.
    fn start(&self, instance: String, plan: Plan) -> impl Future<Output = Result<()>> + Send;

    /// Waits until the orchestration has completed, in the way in which clients of this side wait.
    fn answer(&self, instance: String) -> impl Future<Output = Result<()>> + Send;
}

/// Where orchestrations report that their code has ended.
#[derive(Clone, Default)]
pub(crate) struct Ends(Arc<Mutex<HashMap<String, oneshot::Sender<Instant>>>>);

impl Ends {
    /// Reports the end of an orchestration. Its code calls this.
    pub(crate) fn report(&self, instance: &str) {
        let waiter = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(instance);
        if let Some(waiter) = waiter {
            let _ = waiter.send(Instant::now());
        }
    }

    fn expect(&self, instance: &str) -> oneshot::Receiver<Instant> {
        let (sender, ended) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(instance.to_owned(), sender);
        ended
    }
}

/// Runs jobs on an engine.
#[derive(Clone)]
pub(crate) struct FlowDriver<E> {
    engine: E,
    ends: Ends,
    /// The prefix of all instance names, which differs from those of earlier jobs.
    prefix: String,
}

impl<E: Engine> FlowDriver<E> {
    /// Creates a driver for an engine.
    pub(crate) fn new(engine: E, ends: Ends) -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { engine, ends, prefix: format!("{}-{}", std::process::id(), now.as_nanos()) }
    }

    /// Runs a job.
    pub(crate) async fn run(&self, job: Job) -> Result<DriveOutcome> {
        let mut outcome = match job {
            Job::Rate { plan, concurrent, warm_up_s, seconds } => {
                let warm_up = Duration::from_secs_f64(warm_up_s);
                self.rate(plan, concurrent, warm_up, Duration::from_secs_f64(seconds)).await
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

    /// Starts an orchestration, and waits until its code has reported its end.
    async fn run_to_the_end(&self, instance: String, plan: Plan) -> Result<Instant> {
        let ended = self.ends.expect(&instance);
        self.engine.start(instance, plan).await?;
        let ended = tokio::time::timeout(ORCHESTRATION_TIMEOUT, ended).await;
        let ended = ended.context("the orchestration never ended")?;
        ended.context("the end was not reported")
    }

    async fn rate(
        &self,
        plan: Plan,
        concurrent: usize,
        warm_up: Duration,
        window: Duration,
    ) -> DriveOutcome {
        let from = Instant::now() + warm_up;
        let until = from + window;
        let mut tasks = JoinSet::new();
        for task in 0..concurrent {
            let driver = self.clone();
            tasks.spawn(async move {
                let mut outcome = DriveOutcome::default();
                for number in 0.. {
                    if Instant::now() >= until {
                        break;
                    }
                    let instance = format!("{}-{task}-{number}", driver.prefix);
                    match driver.run_to_the_end(instance, plan).await {
                        Ok(at) => outcome.completed += u64::from(at >= from && at < until),
                        Err(error) => outcome.fail(&error),
                    }
                }
                outcome
            });
        }
        DriveOutcome { seconds: window.as_secs_f64(), ..sum(tasks).await }
    }

    async fn latency(&self, plan: Plan, samples: usize, most: Duration) -> Result<DriveOutcome> {
        let mut outcome = DriveOutcome::default();
        let began = Instant::now();
        for number in 0..samples + WARM_UP {
            if number > WARM_UP && began.elapsed() >= most {
                break;
            }
            // The pauses do not follow any polling interval.
            tokio::time::sleep(QUIET + Duration::from_micros(number as u64 * 617 % 3_001)).await;
            let instance = format!("{}-{number}", self.prefix);
            let ended = self.ends.expect(&instance);
            let start = Instant::now();
            self.engine.start(instance.clone(), plan).await?;
            self.engine.answer(instance).await?;
            let answered = start.elapsed();
            let ended = ended.await.context("the end was not reported")?;
            if number >= WARM_UP {
                outcome.completed += 1;
                outcome.answered_us.push(micros(answered));
                outcome.ended_us.push(micros(ended.saturating_duration_since(start)));
            }
        }
        outcome.seconds = began.elapsed().as_secs_f64();
        Ok(outcome)
    }

    async fn unwatched(&self, plan: Plan, samples: usize) -> Result<DriveOutcome> {
        let began = Instant::now();
        for number in 0..samples {
            tokio::time::sleep(QUIET).await;
            self.run_to_the_end(format!("{}-{number}", self.prefix), plan).await?;
        }
        // The last commit follows the end of the code.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let seconds = began.elapsed().as_secs_f64();
        Ok(DriveOutcome { completed: samples as u64, seconds, ..DriveOutcome::default() })
    }

    async fn stress(&self, plan: Plan, clients: usize, span: Duration) -> DriveOutcome {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..clients {
            let driver = self.clone();
            tasks.spawn(async move {
                let mut outcome = DriveOutcome::default();
                for number in 0.. {
                    if began.elapsed() >= span {
                        break;
                    }
                    let instance = format!("{}-{task}-{number}", driver.prefix);
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
        let outcome = sum(tasks).await;
        DriveOutcome { seconds: began.elapsed().as_secs_f64(), ..outcome }
    }
}

impl DriveOutcome {
    fn fail(&mut self, error: &anyhow::Error) {
        if self.failed == 0 {
            eprintln!("an orchestration failed: {error:#}");
        }
        self.failed += 1;
    }

    /// Completed orchestrations per second.
    #[allow(dead_code, reason = "only the program that prints the tables uses it")]
    pub(crate) fn rate(&self) -> f64 {
        self.completed as f64 / self.seconds
    }
}

async fn sum(mut tasks: JoinSet<DriveOutcome>) -> DriveOutcome {
    let mut all = DriveOutcome::default();
    while let Some(task) = tasks.join_next().await {
        let task = task.unwrap_or(DriveOutcome { failed: 1, ..DriveOutcome::default() });
        all.completed += task.completed;
        all.failed += task.failed;
        all.answered_us.extend(task.answered_us);
    }
    all
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
