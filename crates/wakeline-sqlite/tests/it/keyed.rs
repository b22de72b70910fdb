//! Encrypted queues, checked by the bytes in the file.

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_store::Backend;
use wakeline_testkit::keyed::KeyedUnderTest;

use crate::fixture::Fixture;

#[async_trait]
impl KeyedUnderTest for Fixture {
    async fn open(&self) -> Arc<dyn Backend> {
        Arc::new(self.second().await)
    }

    async fn payloads(&self) -> Vec<Vec<u8>> {
        let conn = self.raw();
        let sql = "SELECT payload FROM messages UNION ALL SELECT payload FROM dead_letters
            UNION ALL SELECT data FROM traces";
        let mut statement = conn.prepare(sql).expect("prepared");
        let rows = statement.query_map([], |row| row.get(0)).expect("read");
        rows.collect::<Result<_, _>>().expect("bytes")
    }
}

wakeline_testkit::keyed_suite!(Fixture::open().await);
