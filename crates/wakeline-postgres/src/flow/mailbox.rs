//! `MailboxReader` on PostgreSQL: lists messages that wait in mailboxes.

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::InstanceId;
use wakeline_store::StoreError;
use wakeline_store::flow::{EarlyMailbox, ListMailboxes, MailboxReader, WaitingMessage};

use super::items::unsigned;
use crate::PostgresStore;
use crate::rows::Columns;

const LIST: &str = "list mailboxes";
const READ: &str = "read mailbox";

#[async_trait]
impl MailboxReader for PostgresStore {
    async fn early_mailboxes(&self, list: ListMailboxes) -> Result<Vec<EarlyMailbox>, StoreError> {
        let core = &self.flow.core;
        let params: &[&(dyn ToSql + Sync)] = &[
            &list.id_prefix,
            &list.after.as_ref().map(InstanceId::as_str),
            &i64::from(list.limit),
        ];
        let read = |row: &Row| {
            let mut columns = Columns::new(LIST, row);
            Ok(EarlyMailbox {
                instance: columns.name("instance")?,
                messages: unsigned(columns.take()?),
                oldest_at: columns.moment()?,
            })
        };
        core.general(LIST, &core.sql.mailbox_list, params).await?.iter().map(read).collect()
    }

    async fn waiting_messages(
        &self,
        instance: &InstanceId,
        limit: u32,
    ) -> Result<Vec<WaitingMessage>, StoreError> {
        let core = &self.flow.core;
        let params: &[&(dyn ToSql + Sync)] = &[&instance.as_str(), &i64::from(limit)];
        let read = |row: &Row| {
            let mut columns = Columns::new(READ, row);
            Ok(WaitingMessage {
                seq: columns.take()?,
                visible_at: columns.moment()?,
                payload: columns.take::<Vec<u8>>()?.into(),
            })
        };
        core.general(READ, &core.sql.mailbox, params).await?.iter().map(read).collect()
    }
}
