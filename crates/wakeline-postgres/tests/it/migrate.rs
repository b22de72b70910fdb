//! Tests migrations, the checksums of functions, and the committed dump of the schema.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use sha2::{Digest, Sha256};
use wakeline_postgres::{PostgresOptions, PostgresStore, dump_schema, migrate_status, migrate_up};
use wakeline_store::{StoreAdmin, StoreError};
use wakeline_testkit::conformance::ClaimSpec;
use wakeline_testkit::database::APP_ROLE;

use crate::claims::{ids, push, queue, take};
use crate::support::{Node, TestSchema};

fn reason(error: StoreError) -> String {
    assert!(matches!(error, StoreError::Invalid { field: "schema", .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn many_nodes_may_start_at_once_on_an_empty_database() {
    let schema = TestSchema::missing().await;
    let stores = join_all((0..8).map(|_| PostgresStore::connect(schema.options()))).await;
    for store in stores {
        store.expect("connected").close().await;
    }
    assert!(migrate_status(&schema.options()).await.expect("read").is_current());
    let report = migrate_up(&schema.options()).await.expect("nothing to do");
    assert_eq!((report.migrations.len(), report.functions.len()), (0, 0));
}

#[tokio::test]
async fn an_ordinary_role_installs_and_uses_everything() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let client = schema.client().await;
    let rights = "SELECT rolsuper OR rolcreaterole OR rolcreatedb
            OR EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid)
            OR EXISTS (SELECT FROM pg_database d WHERE d.datdba = r.oid)
        FROM pg_roles r WHERE rolname = current_user";
    let special: bool = client.query_one(rights, &[]).await.expect("read").get(0);
    assert!(!special, "the tests connect as a role that may do more than a user's");
    let store = PostgresStore::connect(schema.options()).await.expect("a store");
    push(&store, "p", "1").await;
    let pop_and_ack = "SELECT wakeline.ack(partition_id, transaction_id, lease_token)
        FROM wakeline.pop('q')";
    assert_eq!(client.query(pop_and_ack, &[]).await.expect("taken").len(), 1);
    store.close().await;
}

/// Sets up the roles as the operation guide describes.
#[tokio::test]
async fn a_server_needs_no_right_to_change_the_schema() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    // Only a superuser may create a role.
    let (superuser, owner) = (schema.database.superuser().await, schema.client().await);
    let role = format!("server_{}", schema.database.name());
    superuser.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.expect("created");
    let grants = format!(
        "GRANT USAGE ON SCHEMA wakeline TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA wakeline TO {role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA wakeline TO {role}"
    );
    owner.batch_execute(&grants).await.expect("executed");
    let url = schema.database.url().replace(APP_ROLE, &role);
    let options = PostgresOptions { url, ..schema.options() };
    let node = Node::start(options).await;
    push(&node.store, "p", "1").await;
    assert_eq!(ids(&take(&node.store, &ClaimSpec::queue(&queue())).await), ["1"]);
    node.stop().await;
    let remove = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    superuser.batch_execute(&remove).await.expect("removed");
}

#[tokio::test]
async fn status_names_what_is_pending_and_changes_nothing() {
    let schema = TestSchema::missing().await;
    let before = migrate_status(&schema.options()).await.expect("read");
    assert!(before.applied.is_empty());
    assert!(before.pending.contains(&"0002_nodes".to_owned()));
    let report = migrate_up(&schema.options()).await.expect("migrated");
    assert_eq!(report.migrations, before.pending);
    assert_eq!(migrate_status(&schema.options()).await.expect("read").applied, before.pending);
}

#[tokio::test]
async fn a_node_that_may_not_migrate_refuses_an_old_schema() {
    let schema = TestSchema::missing().await;
    let options = PostgresOptions { migrate: false, ..schema.options() };
    let error = PostgresStore::connect(options.clone()).await.err().expect("refused");
    assert!(reason(error).contains("wakeline migrate up"));
    migrate_up(&options).await.expect("migrated");
    PostgresStore::connect(options).await.expect("current now").close().await;
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let sql = format!(
        "UPDATE {}.migrations SET checksum = 'other' WHERE name = '0002_nodes'",
        schema.name
    );
    schema.client().await.execute(&sql, &[]).await.expect("tampered");
    let error = PostgresStore::connect(schema.options()).await.err().expect("refused");
    assert!(reason(error).contains("0002_nodes"));
    assert!(migrate_up(&schema.options()).await.is_err());
}

#[tokio::test]
async fn a_schema_newer_than_the_binary_is_refused() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let sql = format!("INSERT INTO {}.migrations VALUES ('9999_future', 'x')", schema.name);
    schema.client().await.execute(&sql, &[]).await.expect("from the future");
    let error = PostgresStore::connect(schema.options()).await.err().expect("refused");
    assert!(reason(error).contains("9999_future"));
}

#[tokio::test]
async fn a_function_for_users_is_put_back_when_its_text_differs() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let client = schema.client().await;
    // The state that another build of the same release would have left.
    let script = "CREATE OR REPLACE FUNCTION wakeline.clock() RETURNS timestamptz
            LANGUAGE sql AS $$ SELECT timestamptz 'epoch' $$;
         UPDATE wakeline.releases SET api_checksum = 'other'";
    client.batch_execute(script).await.expect("another build");
    let status = migrate_status(&schema.options()).await.expect("read");
    assert!(status.functions_pending.contains(&"clock".to_owned()));
    assert!(!status.functions_pending.contains(&"claim".to_owned()));
    let report = migrate_up(&schema.options()).await.expect("migrated");
    assert_eq!(report.functions, status.functions_pending);
    let clock = "SELECT wakeline.clock() > timestamptz '2020-01-01'";
    assert!(client.query_one(clock, &[]).await.expect("read").get::<_, bool>(0));
}

/// Creates an earlier version of a schema by running only the first `count` migrations.
async fn migrate_to(schema: &TestSchema, count: usize) {
    let client = schema.client().await;
    let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let read = |path: &Path| std::fs::read_to_string(path).expect("readable");
    let script = |text: &str| text.replace("@schema@", &schema.name);
    let bootstrap = script(&read(&sql.join("queries/migrate_bootstrap.sql")));
    let create = format!("CREATE SCHEMA {}; {bootstrap}", schema.name);
    client.batch_execute(&create).await.expect("created");
    let files = std::fs::read_dir(sql.join("migrations")).expect("a folder");
    let mut files: Vec<_> = files.map(|file| file.expect("readable").path()).collect();
    files.sort();
    let record = format!("INSERT INTO {}.migrations (name, checksum) VALUES ($1, $2)", schema.name);
    for file in &files[..count] {
        let text = read(file);
        client.batch_execute(&script(&text)).await.expect("migrated");
        let digest = Sha256::digest(text.as_bytes());
        let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
        client.execute(&record, &[&name, &checksum]).await.expect("recorded");
    }
}

#[tokio::test]
async fn privileges_of_users_survive_migrations_that_create_a_view_again() {
    let schema = TestSchema::missing().await;
    // The next migration drops views and creates them with other columns.
    migrate_to(&schema, 21).await;
    let (superuser, owner) = (schema.database.superuser().await, schema.client().await);
    let reader = format!("reader_{}", schema.database.name());
    // Only a superuser may create a role.
    superuser.batch_execute(&format!("CREATE ROLE {reader}")).await.expect("created");
    let grants = format!(
        "GRANT USAGE ON SCHEMA wakeline TO {reader};
         GRANT SELECT ON wakeline.messages TO {reader} WITH GRANT OPTION;
         GRANT SELECT (queue, payload) ON wakeline.dead_letter_messages TO {reader};
         GRANT SELECT ON wakeline.scheduled_messages TO PUBLIC"
    );
    owner.batch_execute(&grants).await.expect("executed");
    let report = migrate_up(&schema.options()).await.expect("migrated");
    assert_eq!(report.migrations.first().map(String::as_str), Some("0022_sql_json"));
    let reads = format!(
        "SET ROLE {reader};
         SELECT * FROM wakeline.messages;
         SELECT queue, payload FROM wakeline.dead_letter_messages;
         SELECT * FROM wakeline.scheduled_messages"
    );
    superuser.batch_execute(&reads).await.expect("the role can still read");
    let other = superuser.batch_execute("SELECT error FROM wakeline.dead_letter_messages").await;
    assert!(other.is_err(), "and nothing else");
    let option = "SELECT has_table_privilege('wakeline.messages', 'SELECT WITH GRANT OPTION')";
    let may_share: bool = superuser.query_one(option, &[]).await.expect("read").get(0);
    assert!(may_share);
    let drop = format!("RESET ROLE; DROP OWNED BY {reader}; DROP ROLE {reader}");
    superuser.batch_execute(&drop).await.expect("dropped");
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_behind() {
    let schema = TestSchema::missing().await;
    let client = schema.client().await;
    // An object of another kind has the name of a table.
    let script = format!("CREATE SCHEMA {0}; CREATE VIEW {0}.nodes AS SELECT 1", schema.name);
    client.batch_execute(&script).await.expect("in the way");
    assert!(migrate_up(&schema.options()).await.is_err());
    let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = $1::text::regnamespace";
    let count: i64 = client.query_one(sql, &[&schema.name]).await.expect("read").get(0);
    assert_eq!(count, 1, "only the view");
}

#[tokio::test]
async fn only_a_schema_made_for_tests_has_a_clock_that_can_be_advanced() {
    let schema = TestSchema::missing().await;
    let options = PostgresOptions { test_clock: true, ..schema.options() };
    let store = PostgresStore::connect(options.clone()).await.expect("a store");
    store.advance_clock(Duration::from_secs(3600)).await.expect("advanced");
    let sql = format!("SELECT {}.clock() - clock_timestamp() > interval '59 min'", schema.name);
    let advanced: bool = schema.client().await.query_one(&sql, &[]).await.expect("read").get(0);
    assert!(advanced);
    // Another start keeps the clock, whatever its options say.
    PostgresStore::connect(schema.options()).await.expect("a store").close().await;
    let advanced: bool = schema.client().await.query_one(&sql, &[]).await.expect("read").get(0);
    assert!(advanced);
    store.close().await;

    let production = TestSchema::missing().await;
    migrate_up(&production.options()).await.expect("migrated");
    let options = PostgresOptions { test_clock: true, ..production.options() };
    assert!(
        reason(migrate_up(&options).await.expect_err("refused")).contains("without a test clock")
    );
}

#[tokio::test]
async fn the_committed_dump_shows_the_migrated_schema() {
    let schema = TestSchema::missing().await;
    migrate_up(&schema.options()).await.expect("migrated");
    let mut dump = dump_schema(&schema.options()).await.expect("read");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/schema.txt");
    if std::env::var_os("WAKELINE_BLESS").is_some() {
        std::fs::write(&path, &dump).expect("written");
    }
    let mut committed = std::fs::read_to_string(&path).unwrap_or_default();
    let server = Server::spec(&schema).await;
    if !server.lz4 {
        committed = committed.replace(" compression lz4", "");
    }
    if server.major != DUMP_MAJOR {
        // Server versions print the text of a view differently.
        for text in [&mut committed, &mut dump] {
            *text =
                text.lines().filter(|line| !line.starts_with("   ")).collect::<Vec<_>>().join("\n");
        }
    }
    assert!(
        dump == committed,
        "sql/schema.txt is out of date: run `cargo xtask bless postgres`, look at the diff, \
         and commit it\n{}",
        first_difference(&committed, &dump)
    );
}

/// The major version of the server that wrote the committed dump.
const DUMP_MAJOR: i32 = 15;

/// The properties of a server in which its dump may differ from that of another one.
struct Server {
    major: i32,
    /// Whether the server was built with this compression.
    lz4: bool,
}

impl Server {
    async fn spec(schema: &TestSchema) -> Self {
        let sql =
            "SELECT current_setting('server_version_num')::int / 10000, 'lz4' = ANY (enumvals)
                   FROM pg_settings WHERE name = 'default_toast_compression'";
        let row = schema.client().await.query_one(sql, &[]).await.expect("read");
        Self { major: row.get(0), lz4: row.get(1) }
    }
}

fn first_difference(committed: &str, dump: &str) -> String {
    let mut pairs = committed.lines().zip(dump.lines());
    let differing = pairs.find(|(old, new)| old != new);
    differing.map_or_else(
        || "one is longer than the other".to_owned(),
        |(old, new)| format!("- {old}\n+ {new}"),
    )
}
