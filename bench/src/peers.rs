//! Results of other products that were measured separately, on a similar machine (2 cores,
//! PostgreSQL 15, fsync on, client and server on it), but not in the same run. They are a
//! reference: ratios to them depend on the machine.

/// The label of these results in tables.
pub(crate) const LABEL: &str = "reference, measured elsewhere";

/// Messages per second for requests of one size.
pub(crate) struct Reference {
    /// Messages per request.
    pub(crate) batch: usize,
    /// Messages per second.
    pub(crate) messages: f64,
    /// The target, as a multiple of `messages`.
    pub(crate) times: f64,
}

impl Reference {
    /// The target in messages per second.
    pub(crate) fn target(&self) -> f64 {
        self.messages * self.times
    }
}

/// Queen 0.15.1, 2 workers, 64 partitions, 32 connections: push.
pub(crate) const QUEEN_PUSH: [Reference; 3] = [
    Reference { batch: 1, messages: 1_842.0, times: 8.0 },
    Reference { batch: 10, messages: 8_671.0, times: 10.0 },
    Reference { batch: 100, messages: 13_400.0, times: 10.0 },
];

/// Queen 0.15.1, 2 workers, 64 partitions, 32 connections: pop and ack.
pub(crate) const QUEEN_POP: [Reference; 3] = [
    Reference { batch: 1, messages: 511.0, times: 10.0 },
    Reference { batch: 10, messages: 2_724.0, times: 10.0 },
    Reference { batch: 100, messages: 7_172.0, times: 10.0 },
];

/// PGMQ: `pop` in its best batched setting, messages per second.
pub(crate) const PGMQ_POP: f64 = 53_000.0;

/// Absurd, 4 workers: workflows of one step a second.
pub(crate) const ABSURD_STEPS: f64 = 290.0;

/// Svix: deliveries a second to a local receiver.
pub(crate) const SVIX_DELIVERIES: f64 = 740.0;
