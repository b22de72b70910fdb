//! Tests of code that waits for something that is not durable.

use std::time::Duration;

use wakeline_flow::{FlowError, Nondeterminism, OrchestrationContext, ReplayError, join, join_all};

use crate::script::{Script, completed, raised, registry};

fn reported<F, R>(flow: F) -> Nondeterminism
where
    F: Fn(OrchestrationContext, ()) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), FlowError>> + Send + 'static,
{
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.try_turn(vec![]).expect_err("nondeterminism")
}

#[tokio::test]
async fn a_tokio_timer_is_reported() {
    let nondeterminism = reported(|_ctx, ()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    });
    assert_eq!(nondeterminism, Nondeterminism::Wait);
    assert!(nondeterminism.to_string().contains("not durable"));
}

#[tokio::test]
async fn a_spawned_task_is_reported() {
    let nondeterminism = reported(|_ctx, ()| async {
        let task = tokio::spawn(tokio::time::sleep(Duration::from_secs(1)));
        task.await.map_err(|error| FlowError::application(error.to_string()))
    });
    assert_eq!(nondeterminism, Nondeterminism::Wait);
}

#[tokio::test]
async fn yielding_to_the_runtime_is_reported() {
    let nondeterminism = reported(|_ctx, ()| async {
        tokio::task::yield_now().await;
        Ok(())
    });
    assert_eq!(nondeterminism, Nondeterminism::Wait);
}

#[test]
fn waiting_forever_is_reported() {
    assert_eq!(reported(|_ctx, ()| std::future::pending()), Nondeterminism::Wait);
}

#[test]
fn polling_in_a_loop_is_reported() {
    let nondeterminism = reported(|_ctx, ()| {
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
    });
    assert_eq!(nondeterminism, Nondeterminism::Busy);
}

#[test]
fn polling_in_a_loop_within_a_join_is_reported() {
    let nondeterminism = reported(|ctx, ()| async move {
        let busy = std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        });
        let wait: Wait = Box::pin(ctx.event::<()>("go").into_future());
        join_all([wait, Box::pin(busy)]).await.into_iter().collect()
    });
    assert_eq!(nondeterminism, Nondeterminism::Busy);
}

type Wait = std::pin::Pin<Box<dyn Future<Output = Result<(), FlowError>> + Send>>;

#[tokio::test(start_paused = true)]
async fn a_tokio_timer_beside_a_durable_wait_is_reported_when_it_wakes() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        join(ctx.event::<()>("go"), tokio::time::sleep(Duration::from_secs(1))).await.0
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    assert_eq!(script.execution.nondeterminism(), None);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(script.execution.nondeterminism(), Some(Nondeterminism::Wake));
    assert_eq!(script.try_turn(vec![raised("go", ())]).expect_err("woken"), Nondeterminism::Wake);
}

#[test]
fn a_channel_fed_by_another_thread_is_reported_when_it_wakes() {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<()>();
    let receive = std::sync::Arc::new(tokio::sync::Mutex::new(receive));
    let flow = move |ctx: OrchestrationContext, (): ()| {
        let receive = std::sync::Arc::clone(&receive);
        async move {
            let fed = async { receive.lock().await.recv().await };
            join(ctx.event::<()>("go"), fed).await.0
        }
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    script.turn(vec![]);
    std::thread::spawn(move || send.send(())).join().expect("joins").expect("sends");
    assert_eq!(script.try_turn(vec![raised("go", ())]).expect_err("woken"), Nondeterminism::Wake);
}

#[test]
fn a_wake_by_another_thread_while_the_code_runs_is_reported() {
    let nondeterminism = reported(|_ctx, ()| {
        let mut waited = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut waited, true) {
                return std::task::Poll::Ready(Ok(()));
            }
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake()).join().expect("joins");
            std::task::Poll::Pending
        })
    });
    assert_eq!(nondeterminism, Nondeterminism::Wake);
}

#[test]
fn a_context_used_by_another_thread_is_reported_with_its_location() {
    let nondeterminism = reported(|ctx, ()| async move {
        let other = ctx.clone();
        std::thread::spawn(move || other.set_status("from afar")).join().expect("joins");
        ctx.event::<()>("go").await
    });
    let Nondeterminism::Outside { at } = nondeterminism else { panic!("{nondeterminism:?}") };
    assert!(at.contains("nondeterminism.rs:"), "{at}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_context_used_by_a_spawned_task_is_reported() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let other = ctx.clone();
        let call = async move { other.activity::<_, ()>("a", ()).await };
        join(ctx.event::<()>("go"), tokio::spawn(call)).await.0
    };
    let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
    let first = script.try_turn(vec![]);
    while script.execution.nondeterminism().is_none() {
        tokio::task::yield_now().await;
    }
    assert!(first.is_err() || script.try_turn(vec![raised("go", ())]).is_err());
}

#[test]
fn channels_within_one_orchestration_are_allowed() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        let (send, mut receive) = tokio::sync::mpsc::channel::<u32>(1);
        let feed = async {
            for _ in 0..300 {
                send.send(1).await.expect("the other half is there");
            }
            drop(send);
            ctx.event::<()>("go").await
        };
        let eat = async {
            let mut sum = 0;
            while let Some(n) = receive.recv().await {
                sum += n;
            }
            sum
        };
        let (fed, sum) = join(feed, eat).await;
        fed.map(|()| sum)
    };
    for forgetful in [false, true] {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = forgetful;
        script.turn(vec![]);
        assert_eq!(script.turn(vec![raised("go", ())]).end, completed(300));
    }
}

#[tokio::test]
async fn replay_reports_nondeterminism_too() {
    let durable = registry(|r| {
        r.orchestration("flow", |ctx: OrchestrationContext, ()| async move {
            ctx.event::<()>("go").await
        })
    });
    let mut script = Script::new(&durable, ());
    script.turn(vec![]);
    let nondeterminism = registry(|r| {
        r.orchestration("flow", |_: OrchestrationContext, ()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, FlowError>(())
        })
    });
    let error = script.replay_as(&nondeterminism.newest("flow").expect("registered")).err();
    assert_eq!(error, Some(ReplayError::Nondeterminism(Nondeterminism::Wait)));
}
