//! Dead letters: listing and purging.

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    DeadLetterId, GroupName, MessageId, PartitionId, PartitionName, QueueName, Timestamp,
    TransactionId,
};
use wakeline_store::{DeadLetter, DeadLetterFilter, DeadLetters, Page};

use crate::error::{Res, corrupt};
use crate::session::DbSession;

/// The maximum number of dead letters that one transaction removes.
pub(super) const PURGE_LEN: u32 = 5_000;

/// A filter with the id of its queue, as the parameters of the queries.
pub(super) struct DeadLetterQuery<'f> {
    queue: Option<i64>,
    filter: &'f DeadLetterFilter,
}

impl<'f> DeadLetterQuery<'f> {
    pub(super) fn new(s: &mut DbSession<'_>, filter: &'f DeadLetterFilter) -> Res<Option<Self>> {
        match &filter.queue {
            None => Ok(Some(Self { queue: None, filter })),
            Some(name) => {
                let queue = s.queue(name)?;
                Ok(queue.map(|queue| Self { queue: Some(queue.id), filter }))
            }
        }
    }

    /// The parameters 1 to 7, followed by `more`.
    fn params(&self, more: &[i64]) -> Vec<Box<dyn ToSql>> {
        let filter = self.filter;
        let mut params: Vec<Box<dyn ToSql>> = vec![
            Box::new(self.queue),
            Box::new(filter.group.as_ref().map(|group| group.as_str().to_owned())),
            Box::new(filter.partition.as_ref().map(|name| name.as_str().to_owned())),
            Box::new(filter.number.map(|number| number.0)),
            Box::new(filter.from.map(|from| from.0)),
            Box::new(filter.to.map(|to| to.0)),
            Box::new(filter.error.clone()),
        ];
        params.extend(more.iter().map(|number| Box::new(*number) as Box<dyn ToSql>));
        params
    }

    /// Reads the dead letters that a statement finds, each with the offset of its message.
    fn read(&self, s: &DbSession<'_>, sql: &str, more: &[i64]) -> Res<Vec<(i64, DeadLetter)>> {
        let mut statement = s.conn.prepare_cached(sql)?;
        let params = self.params(more);
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        let mut letters = Vec::new();
        while let Some(row) = rows.next()? {
            letters.push((row.get(14)?, decode(s, row)?));
        }
        Ok(letters)
    }

    /// The next dead letters of a redrive after `place` and up to `last`, with the offsets of their
    /// messages.
    pub(super) fn next(
        &self,
        s: &DbSession<'_>,
        place: i64,
        last: i64,
        limit: u32,
    ) -> Res<Vec<(i64, DeadLetter)>> {
        let sql = include_str!("../../sql/queries/dead_letter_next.sql");
        self.read(s, sql, &[place, last, limit.into()])
    }

    /// The number of dead letters that match.
    pub(super) fn count(&self, s: &DbSession<'_>) -> Res<u64> {
        let sql = include_str!("../../sql/queries/dead_letter_count.sql");
        let mut statement = s.conn.prepare_cached(sql)?;
        let params = rusqlite::params_from_iter(self.params(&[]));
        let count: i64 = statement.query_row(params, |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }
}

/// Lists dead letters, newest first.
pub(super) fn list(
    s: &mut DbSession<'_>,
    filter: &DeadLetterFilter,
    page: Page,
) -> Res<DeadLetters> {
    let Some(query) = DeadLetterQuery::new(s, filter)? else { return Ok(DeadLetters::default()) };
    let sql = match query.queue {
        Some(_) => include_str!("../../sql/queries/dead_letter_list_queue.sql"),
        None => include_str!("../../sql/queries/dead_letter_list.sql"),
    };
    let letters = query.read(s, sql, &[page.limit.into(), page.offset.into()])?;
    let letters = letters.into_iter().map(|(_, letter)| letter).collect();
    Ok(DeadLetters { letters, total: query.count(s)? })
}

/// Removes up to [`PURGE_LEN`] dead letters, and returns how many were removed.
pub(super) fn purge(s: &mut DbSession<'_>, filter: &DeadLetterFilter) -> Res<u64> {
    let Some(query) = DeadLetterQuery::new(s, filter)? else { return Ok(0) };
    let sql = include_str!("../../sql/queries/dead_letter_purge.sql");
    let params = rusqlite::params_from_iter(query.params(&[PURGE_LEN.into()]));
    Ok(s.conn.prepare_cached(sql)?.execute(params)? as u64)
}

fn decode(s: &DbSession<'_>, row: &Row<'_>) -> Res<DeadLetter> {
    let number: i64 = row.get(0)?;
    let broken = || corrupt("dead letter", number);
    let uuid = |bytes: &[u8]| Uuid::from_slice(bytes).map_err(corrupt("dead letter", number));
    let id: Vec<u8> = row.get(1)?;
    let id = MessageId(uuid(&id)?);
    let trace_id: Option<Vec<u8>> = row.get(13)?;
    let (transaction_id, queue, partition, group): (String, String, String, String) =
        (row.get(2)?, row.get(4)?, row.get(5)?, row.get(6)?);
    let payload: Vec<u8> = row.get(9)?;
    Ok(DeadLetter {
        number: DeadLetterId(number),
        id,
        transaction_id: TransactionId::new(transaction_id).map_err(broken())?,
        trace_id: trace_id.as_deref().map(uuid).transpose()?,
        partition_id: PartitionId(row.get(3)?),
        queue: QueueName::new(queue).map_err(broken())?,
        partition: PartitionName::new(partition).map_err(broken())?,
        group: GroupName::new(group).map_err(broken())?,
        error: row.get(7)?,
        failures: row.get(8)?,
        payload: (s.encryption.decrypt(id, Bytes::from(payload)))
            .map_err(corrupt("dead letter", number))?,
        producer: row.get(10)?,
        created_at: Timestamp(row.get(11)?),
        failed_at: Timestamp(row.get(12)?),
    })
}
