//! Tests of code whose decisions differ from its history.

use std::time::Duration;

use wakeline_flow::{
    EventKind, FlowError, History, Mismatch, OrchestrationContext, Registry, ReplayError, replay,
};

use crate::script::{Script, done, fired, raised, registry};

#[derive(Clone, Copy)]
enum Change {
    None,
    OtherInput,
    OtherActivity,
    NoTimer,
    OneMore,
    Returns,
    Waits,
}

async fn code(ctx: OrchestrationContext, change: Change) -> Result<u32, FlowError> {
    use Change as C;
    let input = if matches!(change, C::OtherInput) { 4 } else { 3 };
    let name = if matches!(change, C::OtherActivity) { "refund" } else { "charge" };
    let charged = ctx.activity::<_, u32>(name, input).await?;
    if matches!(change, C::OneMore) {
        ctx.set_status("charged");
    }
    if !matches!(change, C::NoTimer) {
        ctx.sleep(Duration::from_secs(60)).await;
    }
    match change {
        C::Returns => return Ok(charged),
        C::Waits => ctx.event::<u32>("more").await?,
        _ => ctx.activity::<_, u32>("ship", charged).await?,
    };
    ctx.event("end").await
}

fn version(change: Change) -> Registry {
    registry(move |r| r.orchestration("flow", move |ctx, ()| code(ctx, change)))
}

fn recorded() -> Script {
    let mut script = Script::new(&version(Change::None), ());
    script.turn(vec![]);
    script.turn(vec![done(3, 9)]);
    script.turn(vec![fired(6)]);
    script.turn(vec![done(9, 1), raised("end", 5)]);
    script
}

fn mismatch(change: Change) -> Mismatch {
    let code = version(change).newest("flow").expect("registered");
    match recorded().replay_as(&code).err() {
        Some(ReplayError::Mismatch(mismatch)) => *mismatch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_changed_decision_is_reported_at_its_event() {
    let code = version(Change::None).newest("flow").expect("registered");
    assert!(recorded().replay_as(&code).is_ok());
    let found = [
        (Change::OtherInput, 3),
        (Change::OtherActivity, 3),
        (Change::NoTimer, 6),
        (Change::OneMore, 6),
        (Change::Returns, 9),
        (Change::Waits, 9),
    ];
    for (change, event) in found {
        assert_eq!(mismatch(change).event, event);
    }
}

#[test]
fn an_additional_decision_at_the_end_of_a_history_is_reported() {
    let mut script = recorded();
    script.history.truncate(10);
    assert!(matches!(script.history[9].kind, EventKind::Turn { .. }));
    script.history.truncate(8);
    let error = script.replayed().err();
    let Some(ReplayError::Mismatch(mismatch)) = error else { panic!("{error:?}") };
    assert_eq!(mismatch.event, 9);
    assert!(mismatch.to_string().contains("(end)"), "{mismatch}");
}

/// Replaces line numbers, which change with this file, and ignores spaces and line breaks.
fn without_lines(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(".rs:") {
        out.push_str(before);
        out.push_str(".rs:N");
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

#[test]
fn a_difference_is_shown_in_two_columns_with_both_locations() {
    let text = without_lines(&mismatch(Change::Waits).to_string());
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text, without_lines(EXPECTED).split_whitespace().collect::<Vec<_>>().join(" "));
}

const EXPECTED: &str = "
flow@1.0.0 of instance i, execution 1: the decisions of the code do not match its history at event 9

    event  history                                  | code
        4  turn at 3000000                          |
        5  activity of 3 returned 9                 |
        6  timer for 63000000                       | timer for 63000000
             at crates/wakeline-flow/tests/it/mismatching.rs:34
               |   at crates/wakeline-flow/tests/it/mismatching.rs:34
        7  turn at 4000000                          |
        8  timer of 6 fired                         |
>       9  activity ship 9                          | wait for event more
             at crates/wakeline-flow/tests/it/mismatching.rs:39
               |   at crates/wakeline-flow/tests/it/mismatching.rs:38
       10  turn at 5000000                          |
       11  activity of 9 returned 1                 |
       12  wait for event end                       |
             at crates/wakeline-flow/tests/it/mismatching.rs:41 |
       13  event end 5                              |

Either the code was changed while the instance was running, or it is not deterministic. Restore the
code of 1.0.0 and register the change as a new version (`orchestration_versioned`); instances
keep the version that they began with. The clock, random numbers and ids must come from the
context, and nothing may depend on the iteration order of a hash map.
";

#[test]
fn columns_are_aligned() {
    let text = mismatch(Change::OtherActivity).to_string();
    let bars: Vec<usize> = text.lines().filter_map(|line| line.find(" |")).collect();
    assert!(bars.len() > 3 && bars.iter().all(|bar| *bar == bars[0]), "{text}");
}

#[test]
fn wrong_event_numbers_and_results_of_unknown_operations_are_corrupt_histories() {
    let mut gap = recorded();
    gap.history.remove(3);
    assert!(matches!(gap.replayed().err(), Some(ReplayError::Corrupt { event: 5, .. })));
    let mut headless = recorded();
    headless.history.remove(0);
    assert!(matches!(headless.replayed().err(), Some(ReplayError::Corrupt { event: 1, .. })));
    let mut stray = recorded();
    stray.history[4].kind = EventKind::TimerFired { of: 3 };
    assert!(matches!(stray.replayed().err(), Some(ReplayError::Corrupt { event: 5, .. })));
    let mut longer = recorded();
    let mut last = longer.history[12].clone();
    last.id = longer.history.len() as u64 + 1;
    longer.history.push(last);
    assert!(matches!(longer.replayed().err(), Some(ReplayError::Corrupt { event: 15, .. })));
}

#[test]
fn an_exported_history_replays_against_its_version() {
    let script = recorded();
    let history = History {
        instance: script.setup.instance.clone(),
        execution: 1,
        kv: script.setup.kv.clone(),
        events: script.history.clone(),
    };
    let text = serde_json::to_string_pretty(&history).expect("encodes");
    let read: History = serde_json::from_str(&text).expect("decodes");
    assert_eq!(read, history);
    assert_eq!(replay(&version(Change::None), &read), Ok(()));
    let changed = replay(&version(Change::OtherInput), &read);
    assert!(matches!(changed, Err(ReplayError::Mismatch(_))));
    let empty = replay(&registry(|r| r), &read);
    let capability = "flow@1.0.0".to_owned();
    assert_eq!(empty, Err(ReplayError::Unregistered { capability }));
}
