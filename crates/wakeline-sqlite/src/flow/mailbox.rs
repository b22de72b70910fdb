//! Reads messages that wait in lanes, including lanes of instances that were never started.

use async_trait::async_trait;
use wakeline_core::{InstanceId, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{EarlyMailbox, ListMailboxes, MailboxReader, WaitingMessage};

use super::lane::count;
use crate::SqliteStore;
use crate::error::{Res, corrupt};
use crate::session::DbSession;

fn early(s: &DbSession<'_>, list: &ListMailboxes) -> Res<Vec<EarlyMailbox>> {
    let sql = include_str!("../../sql/queries/flow_mailbox_list.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let after = list.after.as_ref().map_or("", InstanceId::as_str);
    let mut rows = statement.query((&list.id_prefix, after, list.limit))?;
    let mut mailboxes = Vec::new();
    while let Some(row) = rows.next()? {
        mailboxes.push(EarlyMailbox {
            instance: InstanceId::new(row.get::<_, String>(0)?).map_err(corrupt("lane", 0))?,
            messages: count("lane", row.get(1)?)?,
            oldest_at: Timestamp(row.get(2)?),
        });
    }
    Ok(mailboxes)
}

fn waiting(s: &DbSession<'_>, instance: &InstanceId, limit: u32) -> Res<Vec<WaitingMessage>> {
    let sql = include_str!("../../sql/queries/flow_mailbox.sql");
    let mut statement = s.conn.prepare_cached(sql)?;
    let found = statement.query_map((instance.as_str(), limit), |row| {
        Ok(WaitingMessage {
            seq: row.get(0)?,
            visible_at: Timestamp(row.get(1)?),
            payload: row.get::<_, Vec<u8>>(2)?.into(),
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

#[async_trait]
impl MailboxReader for SqliteStore {
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError> {
        self.read("early_mailboxes", move |s| early(s, &list)).await
    }

    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        let instance = instance.clone();
        self.read("waiting_messages", move |s| waiting(s, &instance, limit)).await
    }
}
