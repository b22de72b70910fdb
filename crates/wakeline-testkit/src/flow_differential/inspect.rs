//! Comparing everything that can be read.

use wakeline_core::InstanceId;
use wakeline_store::flow::{
    EarlyMailbox, FlowReader as _, ListInstances, ListMailboxes, MailboxReader as _,
};

use super::compare::{Comparison, same};
use super::side::FlowSkew;
use super::world::{FlowWorld, failed};

impl FlowWorld<'_> {
    pub(super) async fn inspect(&mut self) -> Comparison {
        for id in self.names.instances() {
            self.inspect_instance(&id).await?;
        }
        let names = self.names.instances();
        let oracle = self.oracle.watch(names.clone()).await.map_err(failed)?;
        let store = self.store.watch(names).await.map_err(failed)?;
        let plain = |skew: FlowSkew, all: Vec<_>| -> Vec<_> {
            all.into_iter().map(|watched| skew.watched(watched)).collect()
        };
        same("watched instances", plain(FlowSkew(0), oracle), plain(self.skew, store))?;
        let oracle = self.oracle.depths().await.map_err(failed)?;
        let store = self.store.depths().await.map_err(failed)?;
        same("depths", oracle, store)?;
        self.inspect_emits().await?;
        self.inspect_mailboxes().await?;
        self.inspect_lists().await
    }

    async fn inspect_mailboxes(&mut self) -> Comparison {
        let list = ListMailboxes {
            id_prefix: Some(self.names.prefix().into()),
            ..ListMailboxes::default()
        };
        let oracle = self.oracle.early_mailboxes(list.clone()).await.map_err(failed)?;
        let store = self.store.early_mailboxes(list).await.map_err(failed)?;
        let plain = |skew: FlowSkew, all: Vec<EarlyMailbox>| -> Vec<_> {
            all.into_iter()
                .map(|one| (one.instance, one.messages, skew.to_oracle(one.oldest_at)))
                .collect()
        };
        same("mailboxes", plain(FlowSkew(0), oracle), plain(self.skew, store))
    }

    async fn inspect_instance(&mut self, id: &InstanceId) -> Comparison {
        let oracle = self.oracle.instance(id).await.map_err(failed)?;
        let store = self.store.instance(id).await.map_err(failed)?;
        same("instance", FlowSkew(0).watched(oracle), self.skew.watched(store))?;
        let oracle = self.oracle.kv(id, None).await.map_err(failed)?;
        let store = self.store.kv(id, None).await.map_err(failed)?;
        same("key-value state", oracle, self.skew.kv(&store))?;
        let oracle = self.oracle.stats(id).await.map_err(failed)?;
        let store = self.store.stats(id).await.map_err(failed)?;
        same(&format!("stats of {id}"), oracle, store)?;
        let oracle = self.oracle.tree(id).await.map_err(failed)?;
        let store = self.store.tree(id).await.map_err(failed)?;
        same("root of the tree", oracle.first(), store.first())?;
        let sorted = |mut tree: Vec<InstanceId>| {
            tree.sort();
            tree
        };
        same("tree", sorted(oracle), sorted(store))?;
        let oracle = self.oracle.executions(id).await.map_err(failed)?;
        let store = self.store.executions(id).await.map_err(failed)?;
        let store: Vec<_> = store.iter().map(|one| self.skew.execution(one)).collect();
        same("executions", &oracle, &store)?;
        let numbers = oracle.iter().map(|one| Some(one.execution));
        for execution in numbers.chain([None]) {
            let oracle = self.oracle.history(id, execution, 2, 1 << 20).await.map_err(failed)?;
            let store = self.store.history(id, execution, 2, 1 << 20).await.map_err(failed)?;
            same("history", oracle, store)?;
        }
        Ok(())
    }

    async fn inspect_lists(&mut self) -> Comparison {
        let all = ListInstances { limit: 100, ..ListInstances::default() };
        let filters = [
            ListInstances { limit: 2, ..all.clone() },
            ListInstances { suspended: Some(true), ..all.clone() },
            ListInstances { parent: Some(self.names.instance(0)), ..all.clone() },
            ListInstances {
                states: vec![wakeline_store::flow::InstanceState::Running],
                ..all.clone()
            },
            ListInstances {
                states: vec![wakeline_store::flow::InstanceState::Pending],
                ..all.clone()
            },
            all,
        ];
        for filter in filters {
            let filter = ListInstances { id_prefix: Some(self.names.prefix().into()), ..filter };
            let oracle = self.oracle.list_instances(filter.clone()).await.map_err(failed)?;
            let store = self.store.list_instances(filter).await.map_err(failed)?;
            let plain = |skew: FlowSkew, list: &wakeline_store::flow::ListedInstances| -> Vec<_> {
                list.instances.iter().map(|detail| skew.detail(detail)).collect()
            };
            same("list", plain(FlowSkew(0), &oracle), plain(self.skew, &store))?;
            let next = |next: Option<(_, InstanceId)>| next.map(|(_, id)| id);
            same("next page", next(oracle.next), next(store.next))?;
        }
        Ok(())
    }
}
