//! Settles delivery attempts, many in one call.
//!
//! # Invariants
//! * Two attempts of a call are never of the same delivery.
//! * Messages that announce the end of an attempt are stored in the same transaction, and only if
//!   the attempt was settled.
//! * A call of unknown outcome is not repeated, because its leases have ended if it was executed.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::HookChange;
use wakeline_store::StoreError;
use wakeline_store::hook::{
    BreakerSample, DeliveryVerdict, NewMessage, SettleDelivery, SettledDelivery, SettledState,
};

use super::HookCore;
use super::wire::{self, index, merge, micros, shown};
use crate::commands::{Flushed, apart};
use crate::connect::PgLink;
use crate::error;
use crate::queue::{ROLLBACKS_MAX, same_error};
use crate::rows::Columns;

const SETTLE: &str = "settle deliveries";

/// Returns the approximate number of bytes that an end adds to a call.
pub(super) fn bytes(end: &SettleDelivery) -> usize {
    let record = &end.record;
    let announced: usize = end.announce.iter().map(|message| message.payload.len() + 300).sum();
    300 + record.response.len() + record.url.len() + announced
}

/// The ends of deliveries, as arrays.
#[derive(Default)]
struct SettleArrays<'a> {
    deliveries: Vec<i64>,
    keys: Vec<Uuid>,
    verdicts: Vec<i16>,
    delays: Vec<Option<i64>>,
    samples: Vec<i16>,
    throttles: Vec<Option<i64>>,
    gone: Vec<bool>,
    began: Vec<i64>,
    took: Vec<i64>,
    status: Vec<Option<i32>>,
    responses: Vec<&'a [u8]>,
    errors: Vec<Option<String>>,
    urls: Vec<String>,
}

impl<'a> SettleArrays<'a> {
    fn of(ends: &[&'a SettleDelivery]) -> Self {
        let mut arrays = Self::default();
        for end in ends {
            let (verdict, delay) = match end.verdict {
                DeliveryVerdict::Delivered => (0, None),
                DeliveryVerdict::Retry(after) => (1, Some(micros(after))),
                DeliveryVerdict::Failed => (2, None),
            };
            arrays.deliveries.push(end.token.delivery);
            arrays.keys.push(end.token.attempt.0);
            arrays.verdicts.push(verdict);
            arrays.delays.push(delay);
            arrays.samples.push(match end.sample {
                BreakerSample::None => 0,
                BreakerSample::Success => 1,
                BreakerSample::Failure => 2,
            });
            arrays.throttles.push(end.throttle.map(micros));
            arrays.gone.push(end.gone);
            arrays.began.push(micros(end.record.began_ago));
            arrays.took.push(micros(end.record.took));
            arrays.status.push(end.record.status.map(i32::from));
            arrays.responses.push(&end.record.response);
            arrays.errors.push(end.record.error.as_deref().map(shown));
            arrays.urls.push(shown(&end.record.url));
        }
        arrays
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.deliveries,
            &self.keys,
            &self.verdicts,
            &self.delays,
            &self.samples,
            &self.throttles,
            &self.gone,
            &self.began,
            &self.took,
            &self.status,
            &self.responses,
            &self.errors,
            &self.urls,
        ]
    }
}

fn announces(end: &SettleDelivery) -> bool {
    !end.announce.is_empty() || end.announce_disabled.is_some()
}

impl HookCore {
    /// Settles many attempts in one call, or in several if some are of the same delivery. Each
    /// caller gets one answer for all its attempts.
    pub(super) async fn flush_settle(
        &self,
        link: usize,
        commands: Vec<Vec<SettleDelivery>>,
    ) -> Flushed<Vec<SettledDelivery>> {
        let lengths: Vec<usize> = commands.iter().map(Vec::len).collect();
        let ends: Vec<SettleDelivery> = commands.into_iter().flatten().collect();
        let mut answers: Vec<Option<Result<SettledDelivery, StoreError>>> =
            ends.iter().map(|_| None).collect();
        for (indexes, part) in apart(ends, |end| vec![end.token.delivery]) {
            for (index, answer) in indexes.into_iter().zip(self.settle_round(link, &part).await) {
                answers[index] = Some(answer);
            }
        }
        let mut answers = answers.into_iter().flatten();
        lengths.iter().map(|len| together(answers.by_ref().take(*len).collect())).collect()
    }

    async fn settle_round(&self, link: usize, ends: &[SettleDelivery]) -> Flushed<SettledDelivery> {
        let link = &self.shared.links.hook.settle[link];
        let mut answers: Vec<Option<Result<SettledDelivery, StoreError>>> =
            ends.iter().map(|_| None).collect();
        for announcing in [false, true] {
            let places: Vec<usize> =
                (0..ends.len()).filter(|place| announces(&ends[*place]) == announcing).collect();
            let part: Vec<&SettleDelivery> = places.iter().map(|place| &ends[*place]).collect();
            for (place, answer) in
                places.iter().zip(self.settle_part(link, &part, announcing).await)
            {
                answers[*place] = Some(answer);
            }
        }
        let lost = || Err(error::unanswered(SETTLE));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// Executes one call; if it fails because of invalid values, one call for each end.
    async fn settle_part(
        &self,
        link: &PgLink,
        ends: &[&SettleDelivery],
        announcing: bool,
    ) -> Flushed<SettledDelivery> {
        if ends.is_empty() {
            return Vec::new();
        }
        match self.settle_call(link, ends, announcing).await {
            Ok(settled) => settled.into_iter().map(Ok).collect(),
            Err(error) if ends.len() > 1 && error::blames_values(&error) => {
                let mut results = Vec::with_capacity(ends.len());
                for end in ends {
                    let one = self.settle_call(link, &[*end], announcing).await;
                    results.push(one.map(|mut settled| settled.remove(0)));
                }
                results
            }
            Err(error) => ends.iter().map(|_| Err(same_error(&error))).collect(),
        }
    }

    async fn settle_call(
        &self,
        link: &PgLink,
        ends: &[&SettleDelivery],
        announcing: bool,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        let arrays = SettleArrays::of(ends);
        let mut tries = 0;
        let settled = loop {
            let result = if announcing {
                self.settle_announcing(link, ends, &arrays).await
            } else {
                let rows = link.query(SETTLE, &self.sql.settle, &arrays.params()).await;
                rows.and_then(|rows| read(&rows, ends.len()))
            };
            match result {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => break other?,
            }
        };
        let mut changes = Vec::new();
        for change in settled.iter().flat_map(|one| &one.changes) {
            merge(&mut changes, change.clone());
        }
        self.notify(&changes);
        Ok(settled)
    }

    /// Settles attempts and stores the messages that announce their ends, in one transaction.
    async fn settle_announcing(
        &self,
        link: &PgLink,
        ends: &[&SettleDelivery],
        arrays: &SettleArrays<'_>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        let transaction = link.begin(SETTLE).await?;
        let rows = transaction.query(&self.sql.settle, &arrays.params()).await?;
        let mut settled = read(&rows, ends.len())?;
        let mut announcements: Vec<(usize, &NewMessage)> = Vec::new();
        for (place, (end, settled)) in ends.iter().zip(&settled).enumerate() {
            if settled.state == SettledState::Stale {
                continue;
            }
            let final_message = end.announce_disabled.iter().filter(|_| settled.disabled.is_some());
            announcements
                .extend(end.announce.iter().chain(final_message).map(|message| (place, message)));
        }
        let sent: Vec<&NewMessage> = announcements.iter().map(|(_, message)| *message).collect();
        let replies = self.emit_each(&transaction, sent).await?;
        for ((place, _), reply) in announcements.iter().zip(replies) {
            for change in reply.changes {
                merge(&mut settled[*place].changes, change);
            }
        }
        transaction.commit().await?;
        Ok(settled)
    }
}

/// Builds the answer to one caller. If some of its attempts were settled, an error must not say
/// that nothing was written.
fn together(answers: Flushed<SettledDelivery>) -> Result<Vec<SettledDelivery>, StoreError> {
    let settled = answers.iter().any(Result::is_ok);
    let all: Result<Vec<_>, StoreError> = answers.into_iter().collect();
    all.map_err(|error| if settled { error.after_write() } else { error })
}

fn read(rows: &[Row], len: usize) -> Result<Vec<SettledDelivery>, StoreError> {
    let stale = || SettledDelivery {
        state: SettledState::Stale,
        disabled: None,
        opened: false,
        changes: Vec::new(),
    };
    let mut settled: Vec<SettledDelivery> = (0..len).map(|_| stale()).collect();
    for row in rows {
        let mut columns = Columns::new(SETTLE, row);
        let place = index(columns.take()?);
        let state = match columns.take::<i16>()? {
            1 => SettledState::Delivered,
            2 => SettledState::Retrying,
            3 => SettledState::Failed,
            _ => SettledState::Cancelled,
        };
        let disabled = columns.take::<Option<i16>>()?.map(wire::disabled);
        let due: Option<i64> = columns.take()?;
        let (endpoint, pull): (Uuid, bool) = (columns.take()?, columns.take()?);
        let opened: bool = columns.take()?;
        let changes: Vec<HookChange> =
            due.map(|due| wire::change(endpoint, pull, due)).into_iter().collect();
        settled[place] = SettledDelivery { state, disabled, opened, changes };
    }
    Ok(settled)
}
