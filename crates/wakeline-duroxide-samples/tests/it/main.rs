//! Runs the samples that duroxide publishes with its crate on both stores.
//!
//! The build script extracts them from the published crate. They open their stores and wait through
//! a module `common`, which is defined here for each store.

mod waiting;

#[allow(
    clippy::all,
    missing_docs,
    unused,
    reason = "the text is duroxide's, and lints of another project hold for it"
)]
mod postgres {
    mod common {
        use std::sync::Arc;

        use duroxide::providers::Provider;
        use wakeline_duroxide::{PostgresOptions, PostgresProvider, PostgresProviderOptions};
        use wakeline_postgres::migrate_up;
        use wakeline_testkit::database::TestDatabase;

        pub(super) use crate::waiting::{wait_for_history, wait_for_subscription};

        /// Returns a provider, and the database, which is dropped with the second value.
        pub(super) async fn create_sqlite_store_disk() -> (Arc<dyn Provider>, TestDatabase) {
            let database = TestDatabase::copy_of("wl_migrated", async |url| {
                migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
            })
            .await;
            let mut options = PostgresProviderOptions::new(database.url());
            options.store.pool_max = PostgresOptions::POOL_MIN;
            let provider = PostgresProvider::connect(options).await.expect("connected");
            (Arc::new(provider), database)
        }
    }

    include!(concat!(env!("OUT_DIR"), "/e2e_samples.rs"));
}

#[allow(
    clippy::all,
    missing_docs,
    unused,
    reason = "the text is duroxide's, and lints of another project hold for it"
)]
mod sqlite {
    mod common {
        use std::sync::Arc;

        use duroxide::providers::Provider;
        use tempfile::TempDir;
        use wakeline_duroxide::{SqliteProvider, SqliteProviderOptions};

        pub(super) use crate::waiting::{wait_for_history, wait_for_subscription};

        /// Returns a provider, and the folder, which is removed with the second value.
        pub(super) async fn create_sqlite_store_disk() -> (Arc<dyn Provider>, TempDir) {
            let folder = tempfile::tempdir().expect("a folder for the test");
            let mut options = SqliteProviderOptions::new(folder.path().join("dx.db"));
            options.store.ballast_bytes = 0;
            let provider = SqliteProvider::open(options).await.expect("opened");
            (Arc::new(provider), folder)
        }
    }

    include!(concat!(env!("OUT_DIR"), "/e2e_samples.rs"));
}
