use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::sleep;
use wakeline_wake::{AggressiveOn, LongPollConfig, PollMode, TakeOutcome, WakeMode};

use crate::store::*;

#[tokio::test(start_paused = true)]
async fn metrics_report_waiters_wakes_and_claim_outcomes() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let store = Store::new();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let hub = hub(&store, WakeMode::Fused);
    let waiter = poll(&hub, 1, LONG);
    sleep(S).await;
    assert!(handle.render().contains("wakeline_wake_waiters{api=\"toy\"} 1"));
    push(&store, &hub, 1);
    assert!(matches!(waiter.await, Ok(TakeOutcome::Claimed(_))));
    let text = handle.render();
    for line in [
        "wakeline_wake_waiters{api=\"toy\"} 0",
        "wakeline_wake_degraded{api=\"toy\"} 0",
        "wakeline_wake_listener_up{api=\"toy\"} 1",
        "wakeline_wake_waiters_by_label{api=\"toy\",label=\"queue-1\"} 0",
        "wakeline_wake_claims_in_flight{api=\"toy\"} 0",
        "wakeline_wake_hints_total{api=\"toy\",source=\"in_process\"} 1",
        "wakeline_wake_wakes_total{api=\"toy\",reason=\"in_process\"} 1",
        "wakeline_wake_claims_total{api=\"toy\",outcome=\"empty\"} 1",
        "wakeline_wake_claims_total{api=\"toy\",outcome=\"found\"} 1",
        "wakeline_wake_pickup_seconds_count{api=\"toy\"} 1",
        "wakeline_wake_items_per_poll_sum{api=\"toy\"} 1",
        "wakeline_wake_waiters_served_per_claim_sum{api=\"toy\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n---\n{text}");
    }
}

#[test]
fn settings_are_read_by_their_documented_names() {
    let config: LongPollConfig = toml::from_str(
        "enabled = false
         fallback_poll_interval_ms = 300000
         max_wait_time_ms = 1
         timer_grace_period_ms = 100
         aggressive_poll_duration_ms = 2
         aggressive_exit_threshold = 3
         notify_delivery_timeout_ms = 4
         degraded_poll_interval_ms = 5
         aggressive_on = \"any_wake\"
         waiters_max = 6
         claims_in_flight_max = 7",
    )
    .expect("every field");
    assert_eq!(config.fallback_poll_interval, 300 * S);
    assert_eq!(config.timer_grace_period, 100 * MS);
    assert_eq!(config.aggressive_on, AggressiveOn::AnyWake);
    assert_eq!((config.waiters_max, config.claims_in_flight_max), (6, 7));
    assert_eq!(toml::from_str(""), Ok(LongPollConfig::default()));
    assert!(toml::from_str::<LongPollConfig>("max_wait = 1").is_err(), "a misspelt name");
}

#[test]
fn modes_are_read_by_name_or_as_a_table() {
    #[derive(serde::Deserialize)]
    struct File {
        mode: WakeMode,
    }
    let read = |text: &str| toml::from_str::<File>(text).map(|file| file.mode);
    assert_eq!(read("mode = \"compete\""), Ok(WakeMode::Compete));
    assert_eq!(read("mode = \"poll\""), Ok(WakeMode::Poll(PollMode::default())));
    let slow = PollMode { interval: S, ..PollMode::default() };
    assert_eq!(read("mode = { poll = { interval_ms = 1000 } }"), Ok(WakeMode::Poll(slow)));
    assert!(read("mode = \"push\"").is_err());
}
