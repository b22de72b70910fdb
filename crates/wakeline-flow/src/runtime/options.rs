//! The options of a runtime.

use std::time::Duration;

use wakeline_core::{OwnerId, TagFilter};
use wakeline_wake::{LongPollConfig, WakeMode};

/// How many items are fetched ahead while all slots are busy. They run as soon as a slot is free,
/// but other processes do not get them meanwhile.
///
/// A slot is busy with an item that waits for it, runs in it, or ran in it and is being committed.
/// A fetch ahead that finds nothing is not repeated until another item has arrived. Nothing is
/// fetched ahead from a provider without long polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// Fetches as many items as would begin within a time, estimated from recent run times, and
    /// none while these are unknown. An item that waits 20 times as long is given back.
    Adaptive {
        /// The time within which items should begin, from 1 ms to one hour. The default is 50 ms.
        within: Duration,
        /// The maximum number of items, at most 10,000. The default is 124.
        max: usize,
    },
    /// Fetches this many items, whatever the run time, at most 10,000; 0 fetches nothing ahead.
    Fixed(usize),
}

/// The maximum number of turns, or activities, at the same time: each has a task that waits for it.
const CONCURRENCY_MAX: usize = 100_000;
/// The maximum number of items that are fetched ahead: as many as may wait in a hub by default.
const PREFETCH_MAX: usize = 10_000;
/// The longest time for which items are fetched ahead.
const WITHIN_MAX: Duration = Duration::from_secs(3600);

impl Default for Prefetch {
    fn default() -> Self {
        Self::Adaptive { within: Duration::from_millis(50), max: 124 }
    }
}

/// The options of a runtime. Every field has a default that suits most programs.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// The number of turns that run at the same time. The default is 4.
    pub orchestration_concurrency: usize,
    /// The number of activities that run at the same time. The default is 4.
    pub worker_concurrency: usize,
    /// How many turns, and how many activities, are fetched ahead while all slots are busy. By
    /// default as many as would begin within 50 ms, at most 124.
    pub prefetch: Prefetch,
    /// How long a dispatcher sleeps after the provider returned nothing before the poll timeout.
    /// The default is 100 ms. Starting the runtime also sets the provider's
    /// `degraded_poll_interval` to this value: the interval at which all waiters of the provider
    /// look for work while hints are unreliable. If several runtimes share a provider, the last one
    /// that was started decides.
    pub dispatcher_idle_sleep: Duration,
    /// How long a fetch waits for work; `None` never waits. The default is 30 s.
    pub dispatcher_long_poll_timeout: Option<Duration>,
    /// How long a turn is leased. The lease is renewed while the turn runs. The default is 30 s.
    pub orchestrator_lock_timeout: Duration,
    /// How long an activity is leased. The lease is renewed while the activity runs. The default is
    /// 30 s.
    pub worker_lock_timeout: Duration,
    /// How the dispatchers are woken; `None` uses the wake mode of the provider.
    pub wake_mode: Option<WakeMode>,
    /// How the dispatchers poll if `wake_mode` is set. `dispatcher_idle_sleep` replaces its
    /// `degraded_poll_interval`, which must therefore have that value or the default.
    pub long_poll: LongPollConfig,
    /// The number of fetches of one turn, or of one activity beyond the attempts of its policy,
    /// after which it fails as poison. The default is 10.
    pub attempts_max: u32,
    /// How long a cancelled activity may take to return before it is dropped. The default is 10 s.
    pub cancellation_grace: Duration,
    /// The number of instances that are kept in memory between turns; with 0, every turn is
    /// replayed. The default is 1,000.
    pub sticky_max: usize,
    /// The tags of the activities that are taken. By default only activities without a tag.
    pub tags: TagFilter,
    /// The owner for which sessions are claimed; `None` takes no activities of sessions. The
    /// default is a random name.
    pub session_owner: Option<OwnerId>,
    /// How long a session stays with its owner without a renewal. The default is 30 s.
    pub session_lock_timeout: Duration,
    /// A session without activity for this long is released. The default is 5 minutes.
    pub session_idle_timeout: Duration,
    /// The time after which pending instances and activities that no worker claims fail. With
    /// `None`, the default, they wait forever.
    pub unclaimed_timeout: Option<Duration>,
    /// A warning is logged if a history gets longer than this many events. The default is 10,000.
    pub history_warn_len: u64,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        let owner = OwnerId::new(uuid::Uuid::new_v4().to_string());
        Self {
            orchestration_concurrency: 4,
            worker_concurrency: 4,
            prefetch: Prefetch::default(),
            dispatcher_idle_sleep: Duration::from_millis(100),
            dispatcher_long_poll_timeout: Some(Duration::from_secs(30)),
            orchestrator_lock_timeout: Duration::from_secs(30),
            worker_lock_timeout: Duration::from_secs(30),
            wake_mode: None,
            long_poll: LongPollConfig::default(),
            attempts_max: 10,
            cancellation_grace: Duration::from_secs(10),
            sticky_max: 1_000,
            tags: TagFilter::untagged(),
            session_owner: Some(owner.expect("a UUID is a valid name")),
            session_lock_timeout: Duration::from_secs(30),
            session_idle_timeout: Duration::from_secs(300),
            unclaimed_timeout: None,
            history_warn_len: 10_000,
        }
    }
}

/// An option has an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct RuntimeOptionsError {
    /// The name of the option.
    pub field: &'static str,
    /// The reason why its value is invalid.
    pub reason: String,
}

impl RuntimeOptionsError {
    pub(super) fn new(field: &'static str, reason: &str) -> Self {
        Self { field, reason: reason.to_owned() }
    }
}

impl RuntimeOptions {
    /// Checks the options. Fails with the first one that is invalid.
    pub fn validate(&self) -> Result<(), RuntimeOptionsError> {
        let spans = [
            ("dispatcher_idle_sleep", self.dispatcher_idle_sleep),
            ("orchestrator_lock_timeout", self.orchestrator_lock_timeout),
            ("worker_lock_timeout", self.worker_lock_timeout),
            ("session_lock_timeout", self.session_lock_timeout),
        ];
        for (field, span) in spans {
            if span < Duration::from_millis(1) {
                return Err(RuntimeOptionsError::new(
                    field,
                    &format!("must be at least 1 ms, not {span:?}"),
                ));
            }
        }
        if self.unclaimed_timeout.is_some_and(|span| span < Duration::from_secs(1)) {
            let reason = "must be at least 1 s: claims take a while on a busy store";
            return Err(RuntimeOptionsError::new("unclaimed_timeout", reason));
        }
        if self.attempts_max == 0 {
            return Err(RuntimeOptionsError::new("attempts_max", "must be at least 1, not 0"));
        }
        let concurrencies = [
            ("orchestration_concurrency", self.orchestration_concurrency),
            ("worker_concurrency", self.worker_concurrency),
        ];
        for (field, concurrency) in concurrencies {
            if concurrency > CONCURRENCY_MAX {
                return Err(RuntimeOptionsError::new(
                    field,
                    &format!("must be at most {CONCURRENCY_MAX}, not {concurrency}"),
                ));
            }
        }
        self.prefetch.validate()?;
        self.validate_degraded()?;
        let wake = self.wake_mode.map_or(Ok(()), |mode| mode.validate());
        wake.and_then(|()| self.long_poll.validate())
            .map_err(|error| RuntimeOptionsError::new(error.field, error.reason))
    }

    /// Checks that an interval is not set that would be silently ignored.
    fn validate_degraded(&self) -> Result<(), RuntimeOptionsError> {
        let (pace, sleep) = (self.long_poll.degraded_poll_interval, self.dispatcher_idle_sleep);
        if pace == sleep || pace == LongPollConfig::default().degraded_poll_interval {
            return Ok(());
        }
        let reason = format!(
            "must not be set to {pace:?}: a runtime uses dispatcher_idle_sleep instead, which is \
             {sleep:?}; set that option"
        );
        Err(RuntimeOptionsError::new("long_poll.degraded_poll_interval", &reason))
    }
}

impl Prefetch {
    fn validate(self) -> Result<(), RuntimeOptionsError> {
        let (field, ahead) = match self {
            Self::Adaptive { max, .. } => ("prefetch.max", max),
            Self::Fixed(ahead) => ("prefetch", ahead),
        };
        if ahead > PREFETCH_MAX {
            return Err(RuntimeOptionsError::new(field, "must be at most 10000"));
        }
        match self {
            Self::Adaptive { within, .. }
                if within < Duration::from_millis(1) || within > WITHIN_MAX =>
            {
                Err(RuntimeOptionsError::new("prefetch.within", "must be from 1 ms to 1 hour"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_a_busy_loop_is_refused() {
        assert_eq!(RuntimeOptions::default().validate(), Ok(()));
        let spinning =
            RuntimeOptions { dispatcher_idle_sleep: Duration::ZERO, ..RuntimeOptions::default() };
        let refused = spinning.validate().expect_err("zero");
        assert_eq!(refused.to_string(), "dispatcher_idle_sleep must be at least 1 ms, not 0ns");
    }

    #[test]
    fn an_interval_that_would_be_ignored_is_refused() {
        let options = |pace, dispatcher_idle_sleep| RuntimeOptions {
            dispatcher_idle_sleep,
            long_poll: LongPollConfig { degraded_poll_interval: pace, ..LongPollConfig::default() },
            ..RuntimeOptions::default()
        };
        let [set, default, other] = [5, 100, 50].map(Duration::from_millis);
        for (pace, sleep) in [(default, default), (default, set), (set, set)] {
            assert_eq!(options(pace, sleep).validate(), Ok(()), "{pace:?}, {sleep:?}");
        }
        for sleep in [default, other] {
            let refused = options(set, sleep).validate().expect_err("ignored").to_string();
            for named in ["long_poll.degraded_poll_interval", "dispatcher_idle_sleep", "5ms"] {
                assert!(refused.contains(named), "{refused}");
            }
        }
    }

    #[test]
    fn unbounded_prefetch_is_refused() {
        let refused = |prefetch| {
            let options = RuntimeOptions { prefetch, ..RuntimeOptions::default() };
            options.validate().err().map(|error| error.to_string())
        };
        let within = Duration::from_millis(50);
        for (prefetch, reason) in [
            (Prefetch::Fixed(usize::MAX), "prefetch must be at most 10000"),
            (Prefetch::Fixed(10_001), "prefetch must be at most 10000"),
            (Prefetch::Adaptive { within, max: 10_001 }, "prefetch.max must be at most 10000"),
            (
                Prefetch::Adaptive { within: Duration::MAX, max: 1 },
                "prefetch.within must be from 1 ms to 1 hour",
            ),
            (
                Prefetch::Adaptive { within: Duration::ZERO, max: 1 },
                "prefetch.within must be from 1 ms to 1 hour",
            ),
        ] {
            assert_eq!(refused(prefetch).as_deref(), Some(reason), "{prefetch:?}");
        }
        let longest = Prefetch::Adaptive { within: WITHIN_MAX, max: PREFETCH_MAX };
        for prefetch in [Prefetch::Fixed(0), Prefetch::Fixed(PREFETCH_MAX), longest] {
            assert_eq!(refused(prefetch), None, "{prefetch:?}");
        }
    }

    #[test]
    fn excessive_concurrency_is_refused() {
        let many = usize::MAX;
        let turns = RuntimeOptions { orchestration_concurrency: many, ..RuntimeOptions::default() };
        let work = RuntimeOptions { worker_concurrency: many, ..RuntimeOptions::default() };
        let refused = [turns, work].map(|options| options.validate().expect_err("too many").field);
        assert_eq!(refused, ["orchestration_concurrency", "worker_concurrency"]);
    }
}
