//! Tests of commits that take longer than PostgreSQL allows. SQLite has no such limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::{
    FlowError, LongPollConfig, OrchestrationContext, PostgresOptions, PostgresProvider, Registry,
    Runtime,
};

use crate::support::Database;

const WAIT_MAX: Duration = Duration::from_secs(30);

/// Makes writing the history of one instance too slow.
const SLOW: &str = "
    CREATE FUNCTION wakeline.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.lane_id = (SELECT lane_id FROM wakeline.flow_lanes WHERE instance = 'slow') THEN
            PERFORM pg_sleep(60);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER sleep BEFORE INSERT ON wakeline.flow_history
    FOR EACH ROW EXECUTE FUNCTION wakeline.sleep()";

async fn nothing(_: OrchestrationContext, (): ()) -> Result<(), FlowError> {
    Ok(())
}

#[tokio::test]
async fn a_commit_that_always_takes_too_long_suspends_only_its_instance() {
    let database = Database::create().await;
    let user = database.0.client().await;
    user.batch_execute(SLOW).await.expect("made");
    let statement_timeout = Duration::from_millis(500);
    let options = PostgresOptions { statement_timeout, ..database.options() };
    let provider = PostgresProvider::connect(options, LongPollConfig::default()).await;
    let provider = Arc::new(provider.expect("connected"));
    let registry = Registry::builder().orchestration("nothing", nothing).build();
    let runtime = Runtime::start(provider, registry.expect("a registry")).await.expect("started");
    let client = runtime.client();
    client.start("slow", "nothing", &()).await.expect("started");
    let suspended = async || {
        let status = client.status("slow").await.expect("a status");
        status.instance().and_then(|instance| instance.suspended.clone())
    };
    let (began, mut others) = (Instant::now(), 0);
    while suspended().await.is_none() {
        let id = format!("other-{others}");
        client.start(&id, "nothing", &()).await.expect("started");
        client.wait::<()>(&id, WAIT_MAX).await.expect("completed");
        others += 1;
        assert!(began.elapsed() < Duration::from_secs(120), "it is never held back");
    }
    assert!(others > 1, "nothing else ran meanwhile");
    let reason = suspended().await.expect("held back");
    assert!(reason.contains("cannot be committed") && reason.contains("too long"), "{reason}");
    user.batch_execute("DROP TRIGGER sleep ON wakeline.flow_history").await.expect("dropped");
    assert!(client.resume("slow").await.expect("answered"));
    client.wait::<()>("slow", WAIT_MAX).await.expect("completed");
    runtime.shutdown(WAIT_MAX).await;
}
