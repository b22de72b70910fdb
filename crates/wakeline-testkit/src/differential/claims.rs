//! Claims on both sides.
//!
//! A claim of one partition has one right answer. A claim over several partitions may take those
//! that became due at the same moment in any order; so it asks for more than there can be, and
//! the oracle takes partition by partition what the store took: all of that must be there, in the
//! portions that the rules ask for, and nothing may be left.

use std::time::Duration;

use wakeline_core::{LeaseToken, QueueLine, Subscription};
use wakeline_store::{
    ClaimRequest, Grant, GrantedPartition, LineClaim, LineOutcome, QueueStore as _,
};

use super::compare::{Same, same, same_next_due, same_partition, sweep_is_not_late};
use super::op::{Begin, PARTITIONS, Place, Portion, QUEUES};
use super::side::{Handle, Hold, Names, ago};
use super::world::{World, failed};

impl World<'_> {
    pub(super) async fn claim(&mut self, place: Place, portion: Portion) -> Same {
        let line = self.names.line(place, portion.group);
        let requests = vec![request(portion, 1)];
        let oracle = self.claim_oracle(&line, portion, requests.clone()).await?;
        let store = self.claim_store(&line, portion, requests).await?;
        same("whether claims are paused", oracle.paused, store.paused)?;
        let (due, store_due) = (oracle.next_due, store.next_due);
        match (&oracle.grants[0], &store.grants[0]) {
            (Some(oracle), Some(store)) => {
                same("number of partitions", oracle.partitions.len(), store.partitions.len())?;
                same_partition(self.skew, &oracle.partitions[0], &store.partitions[0])?;
                same("length of the lease", oracle.lease_for, store.lease_for)?;
                self.remember_grant(portion.group, (oracle, 0), (store, 0))?;
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
    ) -> Same {
        let line = self.names.wide_line(queue, portion.group);
        let requests: Vec<_> =
            (0..=QUEUES * PARTITIONS).map(|_| request(portion, partitions)).collect();
        // No request: the oracle only begins the group, for the line as a whole.
        self.claim_oracle(&line, portion, Vec::new()).await?;
        let store = self.claim_store(&line, portion, requests.clone()).await?;
        let mut left: Vec<Place> = Names::places()
            .filter(|place| queue.is_none_or(|queue| queue == place.queue))
            .collect();
        let mut exhausted = false;
        let mut priority = (i32::MAX, i32::MAX);
        for (request, grant) in requests.iter().zip(&store.grants) {
            let Some(grant) = grant else {
                exhausted = true;
                continue;
            };
            if exhausted {
                return Err(format!("a later request was served before an earlier: {store:?}"));
            }
            let room = self.follow(request, grant, portion, &mut left).await?;
            exhausted = room > 0 && grant.partitions.len() < partitions as usize;
            for granted in &grant.partitions {
                let next = self.priority(granted).await?;
                if next > priority {
                    let (queue, partition) = (&granted.queue, &granted.partition);
                    return Err(format!("{queue}/{partition} should have gone first"));
                }
                priority = next;
            }
        }
        for place in left {
            let line = self.names.line(place, portion.group);
            let missed = self.claim_oracle(&line, portion, vec![request(portion, 1)]).await?;
            same(&format!("what is left of {line:?}"), &missed.grants, &vec![None])?;
        }
        same("whether claims are paused", self.is_paused().await?, store.paused)?;
        if store.paused {
            return Ok(());
        }
        let next_due = self.oracle.sweep(vec![line.clone()]).await.map_err(failed)?.remove(0);
        same_next_due(next_due, store.next_due, &line)
    }

    /// Lets the oracle take what the store gave to one request. Returns the room that is left.
    async fn follow(
        &mut self,
        request: &ClaimRequest,
        grant: &Grant,
        portion: Portion,
        left: &mut Vec<Place>,
    ) -> Result<u32, String> {
        let mut room = request.batch_len_max;
        let mut lease_for = Duration::MAX;
        for (n, granted) in grant.partitions.iter().enumerate() {
            let place = self.names.place(&granted.queue, &granted.partition);
            let at = left.iter().position(|left| {
                place.is_some_and(|p| (p.queue, p.partition) == (left.queue, left.partition))
            });
            let at = at.ok_or_else(|| format!("{granted:?} is given twice, or out of place"))?;
            let line = self.names.line(left.remove(at), portion.group);
            let same_request =
                ClaimRequest { batch_len_max: room, partitions_len_max: 1, ..request.clone() };
            let oracle = self.claim_oracle(&line, portion, vec![same_request]).await?;
            let Some(taken) = &oracle.grants[0] else {
                return Err(format!("the store gives {granted:?}, but nothing can be taken there"));
            };
            same_partition(self.skew, &taken.partitions[0], granted)?;
            lease_for = lease_for.min(taken.lease_for);
            let len = u32::try_from(granted.messages.len()).expect("a batch is small");
            room = room.checked_sub(len).ok_or("a grant is larger than its batch")?;
            self.remember_grant(portion.group, (taken, 0), (grant, n))?;
        }
        same("length of the lease", lease_for, grant.lease_for)?;
        Ok(room)
    }

    async fn priority(&self, granted: &GrantedPartition) -> Result<(i32, i32), String> {
        use wakeline_store::QueueAdmin as _;
        let queue = self.oracle.queue(&granted.queue).await.map_err(failed)?;
        let options = queue.ok_or("a grant of a queue that does not exist")?.options;
        Ok((options.priority, options.partition_priority(&granted.partition)))
    }

    fn remember_grant(
        &mut self,
        group: usize,
        (oracle, of_oracle): (&Grant, usize),
        (store, of_store): (&Grant, usize),
    ) -> Same {
        same("whether there is a lease", oracle.lease.is_some(), store.lease.is_some())?;
        let (Some(oracle_lease), Some(store_lease)) = (&oracle.lease, &store.lease) else {
            return Ok(());
        };
        same("token of the lease", oracle_lease.token, store_lease.token)?;
        same("cursors of the lease", store.partitions.len(), store_lease.cursors.len())?;
        let messages = &oracle.partitions[of_oracle].messages;
        self.remember(Hold {
            group,
            token: oracle_lease.token,
            oracle: Handle::of(oracle_lease, of_oracle),
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
        let asked = requests.len();
        // What is next is compared whether a single request is served or not.
        let further = asked == 1;
        let claim = LineClaim { line: line.clone(), subscription, requests, further };
        let mut outcomes = self.store.claim(vec![claim]).await.map_err(failed)?;
        same("number of lines", 1, outcomes.len())?;
        let outcome = outcomes.remove(0);
        same("number of grants", asked, outcome.grants.len())?;
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
