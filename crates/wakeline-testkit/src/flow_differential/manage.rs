//! Administration on both sides.

use bytes::Bytes;
use wakeline_core::Timestamp;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, FlowAdmin as _, InstanceFilter, InstanceState, PruneOptions,
    Suspension, TerminateInstance,
};

use super::compare::{Comparison, same};
use super::op::{DispatcherSpec, FlowMail};
use super::world::{FlowStep, FlowWorld, failed};
use crate::flow_conformance::suspend::retry_all;

impl FlowWorld<'_> {
    pub(super) async fn suspend(&mut self, instance: usize, mismatch: bool) -> Comparison {
        let id = self.names.instance(instance);
        let reason = "held".to_owned();
        let suspension = if mismatch {
            Suspension::Mismatch { reason }
        } else {
            Suspension::Operator { reason }
        };
        let oracle = self.oracle.suspend(&id, suspension.clone()).await.map_err(failed)?;
        let store = self.store.suspend(&id, suspension).await.map_err(failed)?;
        same("suspension", oracle, store)
    }

    pub(super) async fn suspend_turn(&mut self, hold: usize) -> Comparison {
        let Some(hold) = self.turn_hold(hold) else { return Ok(()) };
        let suspension = Suspension::Mismatch { reason: "differs".to_owned() };
        let oracle = self.oracle.suspend_turn(hold.oracle, suspension.clone()).await;
        let store = self.store.suspend_turn(hold.store, suspension).await;
        same("suspension by a turn", oracle.map_err(failed)?, store.map_err(failed)?)
    }

    pub(super) async fn resume(&mut self, instance: usize) -> FlowStep {
        let id = self.names.instance(instance);
        let oracle = self.oracle.resume(&id).await.map_err(failed)?;
        let store = self.store.resume(&id).await.map_err(failed)?;
        same("resumption", oracle.0, store.0)?;
        Ok(Some(store.1))
    }

    pub(super) async fn retry_mismatched(&mut self, line: DispatcherSpec) -> FlowStep {
        let capabilities = self.names.capabilities(line);
        let oracle = retry_all(&self.oracle, capabilities.clone()).await.map_err(failed)?;
        let store = retry_all(&*self.store, capabilities).await.map_err(failed)?;
        same("number of retried instances", oracle.0, store.0)?;
        Ok(Some(store.1))
    }

    pub(super) async fn terminate(&mut self, instance: usize, mail: Option<&FlowMail>) -> FlowStep {
        let mail = mail.filter(|mail| mail.to != instance);
        let (oracle, store) = mail.map(|mail| self.envelopes(mail)).unzip();
        let command = |message: &Option<_>, new_instance| TerminateInstance {
            instance: self.names.instance(instance),
            state: InstanceState::Terminated,
            output: Bytes::from_static(b"over"),
            messages: message.iter().cloned().collect(),
            new_instance,
        };
        // Once for a running instance, and once for a pending one.
        for new_instance in [None, Some(crate::flow_conformance::new_instance("main"))] {
            let oracle = self.oracle.terminate(command(&oracle, new_instance.clone())).await;
            let oracle = oracle.map_err(failed)?;
            let store =
                self.store.terminate(command(&store, new_instance)).await.map_err(failed)?;
            same("termination", oracle.0, store.0)?;
            if store.0 {
                return Ok(Some(store.1));
            }
        }
        Ok(Some(Vec::new()))
    }

    pub(super) async fn delete(&mut self, instances: &[usize], force: bool) -> Comparison {
        let instances = instances.iter().map(|n| self.names.instance(*n)).collect();
        let command = DeleteInstances { instances, force };
        let oracle = self.oracle.delete_instances(command.clone()).await.map_err(failed)?;
        let store = self.store.delete_instances(command).await.map_err(failed)?;
        same("deletion", sorted(oracle), sorted(store))
    }

    pub(super) async fn delete_matching(
        &mut self,
        instances: Option<&Vec<usize>>,
        ended_ms_ago: Option<u64>,
    ) -> Comparison {
        let (oracle, store) = self.filters(instances, ended_ms_ago);
        let oracle = self.oracle.delete_matching(oracle).await.map_err(failed)?;
        let store = self.store.delete_matching(store).await.map_err(failed)?;
        same("deletion in bulk", sorted(oracle), sorted(store))
    }

    pub(super) async fn prune(
        &mut self,
        keep_last: Option<u32>,
        ended_ms_ago: Option<u64>,
    ) -> Comparison {
        let (filter, _) = self.filters(None, None);
        let before = ended_ms_ago.map(|ms| self.ago(ms));
        let options = PruneOptions { keep_last, ended_before: before };
        let oracle = self.oracle.prune(filter.clone(), options).await.map_err(failed)?;
        let ended_before = before.map(|at| self.skew.to_store(at));
        let options = PruneOptions { keep_last, ended_before };
        let store = self.store.prune(filter, options).await.map_err(failed)?;
        same("pruning", oracle, store)
    }

    fn ago(&self, ms: u64) -> Timestamp {
        Timestamp(self.oracle.now().0 - i64::try_from(ms * 1_000).expect("a short time"))
    }

    fn filters(
        &self,
        instances: Option<&Vec<usize>>,
        ended_ms_ago: Option<u64>,
    ) -> (InstanceFilter, InstanceFilter) {
        let named = |all: &Vec<usize>| all.iter().map(|n| self.names.instance(*n)).collect();
        let before = ended_ms_ago.map(|ms| self.ago(ms));
        let filter =
            InstanceFilter { instances: instances.map(named), ended_before: before, limit: 1_000 };
        let ended_before = before.map(|at| self.skew.to_store(at));
        (filter.clone(), InstanceFilter { ended_before, ..filter })
    }
}

fn sorted(mut report: DeleteReport) -> DeleteReport {
    report.running.sort();
    report.running.dedup();
    report.orphans.sort();
    report.orphans.dedup();
    // Instances that other processes watch are not compared.
    report.watched.clear();
    report
}
