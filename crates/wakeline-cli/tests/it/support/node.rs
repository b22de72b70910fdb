//! All APIs on a store in this process, behind a port. The node runs no background work, so that
//! only requests change the store.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use wakeline_access::{Access, AccessOptions};
use wakeline_encryption::EncryptionKeys;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_hook::{Guard, HookService, HookServiceOptions, SendOptions};
use wakeline_http::{Apis, AppState, HttpSettings, ServerOptions};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::Backend;

use super::client::Client;
use super::hook::KEYS;
use super::server::Store;

/// A server in this process with all APIs on a store.
pub(crate) struct Node {
    pub(crate) client: Client,
    _serving: DropGuard,
}

impl Node {
    pub(crate) async fn start(store: Arc<dyn Backend>, access: AccessOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let keys = Some(Arc::new(EncryptionKeys::parse(KEYS).expect("a key")));
        let allow = vec!["127.0.0.0/8".parse().expect("a range")];
        let send = SendOptions { guard: Guard { allow, https_only: false }, ..Default::default() };
        let hook = HookServiceOptions { keys, send, ..HookServiceOptions::default() };
        let apis = Apis {
            queue: QueueService::start(store.clone(), QueueServiceOptions::default()),
            flow: StoreProvider::new(store.clone(), StoreProviderOptions::default()),
            hook: HookService::start(store.clone(), hook),
            access: Access::start(store, access).await.expect("the store answers"),
        };
        let state = AppState::new(apis, HttpSettings::default(), None);
        let stop = CancellationToken::new();
        let server = wakeline_http::Server::new(listener, state, ServerOptions::default());
        tokio::spawn(server.run(stop.clone()));
        Self { client: Client::new(address), _serving: stop.drop_guard() }
    }
}

impl Store {
    /// Opens the store in this process.
    pub(crate) async fn open(&self) -> Arc<dyn Backend> {
        match self {
            Self::Sqlite(folder) => {
                let path: &Path = &folder.path().join("w.db");
                Arc::new(SqliteStore::open(SqliteOptions::new(path)).await.expect("opened"))
            }
            Self::Postgres(database) => {
                let options = PostgresOptions::new(database.url());
                Arc::new(PostgresStore::connect(options).await.expect("connected"))
            }
        }
    }
}
