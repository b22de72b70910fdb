//! Tests with nodes whose clocks are two hours apart: timers are on time, and leases are respected.

use std::process::{Child, Command, Stdio};

use wakeline::{Event, EventKind};
use wakeline_testkit::skew::Skew;

use crate::crash::Example;
use crate::support::{Store, long};

fn spawn(example: &Example, skew: &Skew, instance: &str, secs: i64) -> Child {
    let mut program: Command = example.command(instance);
    program.envs(skew.environment(secs)).stdout(Stdio::piped()).stderr(Stdio::null());
    program.spawn().expect("it runs")
}

/// Returns the lateness of every timer in microseconds by the database's clock.
fn lateness(history: &[Event]) -> Vec<i64> {
    let mut found = Vec::new();
    let (mut now, mut made) = (0, std::collections::HashMap::new());
    for event in history {
        match &event.kind {
            EventKind::Turn { now: at } => now = *at,
            EventKind::TimerCreated { fire_at } => {
                made.insert(event.id, *fire_at);
            }
            EventKind::TimerFired { of } => found.push(now - made[of]),
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn nodes_with_clocks_hours_apart_run_each_activity_once_and_no_timer_early() {
    let folder = tempfile::tempdir().expect("a folder");
    let skew = Skew::compile(folder.path());
    // The lease is longer than the test, unless a wrong clock ends it.
    let example = Example::with_lease("eternal_loop", Store::postgres().await, "60000");
    let rounds = if long() { 20 } else { 3 };
    for round in 0..rounds {
        let fast = spawn(&example, &skew, &format!("fast-{round}"), 3600);
        let slow = spawn(&example, &skew, &format!("slow-{round}"), -3600);
        for node in [fast, slow] {
            let output = node.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{}", output.status);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "21");
        }
    }
    let again: Vec<_> =
        example.logged().into_iter().filter(|line| !line.ends_with("try 1")).collect();
    assert!(again.is_empty(), "taken from a live holder: {again:?}");
    let client = example.store().client().await;
    let mut late = Vec::new();
    for round in 0..rounds {
        for node in ["fast", "slow"] {
            for execution in 1..=4 {
                let instance = format!("{node}-{round}");
                let history = client.history(&instance, Some(execution)).await.expect("read");
                late.extend(lateness(&history));
            }
        }
    }
    assert_eq!(late.len(), rounds * 2 * 3, "each instance sleeps three times");
    assert!(late.iter().all(|late| *late >= 0), "a timer was early: {late:?}");
    let worst = late.iter().max().expect("some");
    eprintln!("{} timers, the latest by {} ms", late.len(), worst / 1000);
    assert!(*worst < 60_000_000, "late by a clock's difference: {late:?}");
}
