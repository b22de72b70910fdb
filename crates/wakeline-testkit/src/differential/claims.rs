//! Claims on both sides.
//!
//! A claim of one partition has one right result. A claim over several partitions may take those
//! that became due at the same time in any order. Such a claim therefore requests more than there
//! can be, and the oracle takes, partition by partition, what the store took: all of it must be
//! available, in the portions that the rules prescribe, and nothing may remain.

use std::time::Duration;

use wakeline_core::{LeaseToken, QueueLine, Subscription};
use wakeline_store::{
    ClaimRequest, ClaimedPartition, LineClaim, LineOutcome, QueueClaimResult, QueueStore as _,
};

use super::compare::{Comparison, same, same_next_due, same_partition, sweep_is_not_late};
use super::op::{Begin, MessageTarget, PARTITIONS, Portion, QUEUES};
use super::side::{Handle, QueueHold, QueueNames, ago};
use super::world::{QueueWorld, failed};

impl QueueWorld<'_> {
    pub(super) async fn claim(&mut self, place: MessageTarget, portion: Portion) -> Comparison {
        let line = self.names.line(place, portion.group);
        let requests = vec![request(portion, 1)];
        let oracle = self.claim_oracle(&line, portion, requests.clone()).await?;
        let store = self.claim_store(&line, portion, requests).await?;
        same("whether claims are paused", oracle.paused, store.paused)?;
        let (due, store_due) = (oracle.next_due, store.next_due);
        match (&oracle.results[0], &store.results[0]) {
            (Some(oracle), Some(store)) => {
                same("number of partitions", oracle.partitions.len(), store.partitions.len())?;
                same_partition(self.skew, &oracle.partitions[0], &store.partitions[0])?;
                same("length of the lease", oracle.lease_for, store.lease_for)?;
                self.remember_result(portion.group, oracle, store, 0)?;
                sweep_is_not_late(&[line], &[due], &[store_due])
            }
            (None, None) => same_next_due(due, store_due, &line),
            (oracle, store) => same(&format!("claim of {line:?}"), oracle, store),
        }
    }

    pub(super) async fn claim_all(
        &mut self,
        queue: Option<usize>,
        partitions: u32,
        portion: Portion,
    ) -> Comparison {
        let line = self.names.wide_line(queue, portion.group);
        let requests: Vec<_> =
            (0..=QUEUES * PARTITIONS).map(|_| request(portion, partitions)).collect();
        // Without a request the oracle only creates the group, for the whole line.
        self.claim_oracle(&line, portion, Vec::new()).await?;
        let store = self.claim_store(&line, portion, requests.clone()).await?;
        let mut left: Vec<MessageTarget> = QueueNames::places()
            .filter(|place| queue.is_none_or(|queue| queue == place.queue))
            .collect();
        let mut exhausted = false;
        let mut priority = (i32::MAX, i32::MAX);
        for (request, result) in requests.iter().zip(&store.results) {
            let Some(result) = result else {
                exhausted = true;
                continue;
            };
            if exhausted {
                return Err(format!("a later request was served before an earlier: {store:?}"));
            }
            let capacity = self.follow(request, result, portion, &mut left).await?;
            exhausted = capacity > 0 && result.partitions.len() < partitions as usize;
            for claimed in &result.partitions {
                let next = self.priority(claimed).await?;
                if next > priority {
                    let (queue, partition) = (&claimed.queue, &claimed.partition);
                    return Err(format!("{queue}/{partition} should have gone first"));
                }
                priority = next;
            }
        }
        for place in left {
            let line = self.names.line(place, portion.group);
            let missed = self.claim_oracle(&line, portion, vec![request(portion, 1)]).await?;
            same(&format!("what is left of {line:?}"), &missed.results, &vec![None])?;
        }
        same("whether claims are paused", self.is_paused().await?, store.paused)?;
        if store.paused {
            return Ok(());
        }
        let next_due = self.oracle.sweep(vec![line.clone()]).await.map_err(failed)?.remove(0);
        same_next_due(next_due, store.next_due, &line)
    }

    /// Lets the oracle take what the store gave to one request. Returns the capacity that is left.
    async fn follow(
        &mut self,
        request: &ClaimRequest,
        result: &QueueClaimResult,
        portion: Portion,
        left: &mut Vec<MessageTarget>,
    ) -> Result<u32, String> {
        let mut capacity = request.batch_len_max;
        let mut lease_for = Duration::MAX;
        for (n, claimed) in result.partitions.iter().enumerate() {
            let place = self.names.place(&claimed.queue, &claimed.partition);
            let at = left.iter().position(|left| {
                place.is_some_and(|p| (p.queue, p.partition) == (left.queue, left.partition))
            });
            let at =
                at.ok_or_else(|| format!("{claimed:?} is claimed twice, or is outside the line"))?;
            let line = self.names.line(left.remove(at), portion.group);
            let same_request =
                ClaimRequest { batch_len_max: capacity, partitions_len_max: 1, ..request.clone() };
            let oracle = self.claim_oracle(&line, portion, vec![same_request]).await?;
            let Some(taken) = &oracle.results[0] else {
                return Err(format!(
                    "the store leases {claimed:?}, but nothing can be taken there"
                ));
            };
            same_partition(self.skew, &taken.partitions[0], claimed)?;
            lease_for = lease_for.min(taken.lease_for);
            let len = u32::try_from(claimed.messages.len()).expect("a batch is small");
            capacity =
                capacity.checked_sub(len).ok_or("a claim result is larger than the batch")?;
            self.remember_result(portion.group, taken, result, n)?;
        }
        same("length of the lease", lease_for, result.lease_for)?;
        Ok(capacity)
    }

    async fn priority(&self, claimed: &ClaimedPartition) -> Result<(i32, i32), String> {
        use wakeline_store::QueueAdmin as _;
        let queue = self.oracle.queue(&claimed.queue).await.map_err(failed)?;
        let options = queue.ok_or("the claimed queue does not exist")?.options;
        Ok((options.priority, options.partition_priority(&claimed.partition)))
    }

    /// Remembers what the oracle took from one partition, and what the store took from the same
    /// partition, which is the one at index `of_store` of its result.
    fn remember_result(
        &mut self,
        group: usize,
        oracle: &QueueClaimResult,
        store: &QueueClaimResult,
        of_store: usize,
    ) -> Comparison {
        same("whether there is a lease", oracle.lease.is_some(), store.lease.is_some())?;
        let (Some(oracle_lease), Some(store_lease)) = (&oracle.lease, &store.lease) else {
            return Ok(());
        };
        same("token of the lease", oracle_lease.token, store_lease.token)?;
        same("cursors of the lease", store.partitions.len(), store_lease.cursors.len())?;
        let messages = &oracle.partitions[0].messages;
        self.remember(QueueHold {
            group,
            token: oracle_lease.token,
            oracle: Handle::of(oracle_lease, 0),
            store: Handle::of(store_lease, of_store),
            messages: messages.iter().map(|message| message.transaction_id.clone()).collect(),
        });
        Ok(())
    }

    async fn claim_oracle(
        &self,
        line: &QueueLine,
        portion: Portion,
        requests: Vec<ClaimRequest>,
    ) -> Result<LineOutcome, String> {
        let subscription = match portion.begin {
            Begin::All => Subscription::All,
            Begin::New => Subscription::New,
            Begin::FromMsAgo(ms) => Subscription::From(ago(self.oracle.now(), ms)),
        };
        let claim = LineClaim { line: line.clone(), subscription, requests, further: true };
        Ok(self.oracle.claim(vec![claim]).await.map_err(failed)?.remove(0))
    }

    async fn claim_store(
        &self,
        line: &QueueLine,
        portion: Portion,
        requests: Vec<ClaimRequest>,
    ) -> Result<LineOutcome, String> {
        let subscription = match portion.begin {
            Begin::All => Subscription::All,
            Begin::New => Subscription::New,
            Begin::FromMsAgo(ms) => {
                Subscription::From(self.skew.to_store(ago(self.oracle.now(), ms)))
            }
        };
        let requested = requests.len();
        // The next-due time of a single request is compared even if the request is served.
        let further = requested == 1;
        let claim = LineClaim { line: line.clone(), subscription, requests, further };
        let mut outcomes = self.store.claim(vec![claim]).await.map_err(failed)?;
        same("number of lines", 1, outcomes.len())?;
        let outcome = outcomes.remove(0);
        same("number of claim results", requested, outcome.results.len())?;
        Ok(outcome)
    }
}

fn request(portion: Portion, partitions: u32) -> ClaimRequest {
    ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max: portion.batch,
        bytes_max: u64::MAX,
        partitions_len_max: partitions,
        auto_ack: portion.auto_ack,
        worker: Some(format!("worker {}", portion.group)),
    }
}
