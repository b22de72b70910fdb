//! Every error of the command line names what is wrong, with the value and its place, and what to
//! do. The exit code is 2 for an error in the settings and 1 for other failures.

use std::path::Path;

use crate::support::{Server, Store, output_of, wakeline};

/// Runs a command. Returns its exit code and standard error.
async fn refused(
    folder: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (Option<i32>, String) {
    let mut command = wakeline();
    command.current_dir(folder).args(arguments);
    command.envs(variables.iter().copied());
    let output = output_of(command).await;
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

/// Checks that an error contains `words`, and neither names of Rust types nor texts that omit the
/// cause.
fn check(error: &str, words: &[&str]) {
    let complete = words.iter().all(|word| error.contains(word));
    assert!(complete, "{error:?} lacks one of {words:?}");
    for forbidden in ["usize", "u32", "u64", "untagged", "invalid digit", "db error\n", "Wire"] {
        assert!(!error.contains(forbidden), "{error:?} contains {forbidden:?}");
    }
}

#[tokio::test]
async fn a_wrong_flag_or_variable_is_named_with_its_value_and_what_it_must_be() {
    let folder = tempfile::tempdir().expect("a folder");
    for (flag, variable, value, words) in [
        ("--pg-pool-max", "WAKELINE_PG_POOL_MAX", "many", &["must be a whole number"][..]),
        ("--log-format", "WAKELINE_LOG_FORMAT", "xml", &["must be text or json"]),
        ("--wake-mode", "WAKELINE_WAKE_MODE", "push", &["fused, compete, broadcast or poll"]),
        ("--notify", "WAKELINE_NOTIFY", "triger", &["or off", "did you mean trigger?"]),
        ("--prepared-statements", "WAKELINE_PREPARED_STATEMENTS", "yes", &["auto, on or off"]),
        ("--aggressive-on", "WAKELINE_AGGRESSIVE_ON", "degrade", &["did you mean degraded?"]),
        ("--maintenance-pushes", "WAKELINE_MAINTENANCE_PUSHES", "drop", &["hold or refuse"]),
        ("--listen", "WAKELINE_LISTEN", "localhost", &["an IP address and a port"]),
        ("--hook-allow", "WAKELINE_HOOK_ALLOW", "10.0.0.0/33", &["like 10.0.0.0/8"]),
        ("--insecure", "WAKELINE_INSECURE", "maybe", &["must be true or false"]),
    ] {
        let quoted = format!("{value:?}");
        let argument = format!("{flag}={value}");
        let (code, error) = refused(folder.path(), &[], &["serve", &argument]).await;
        assert_eq!(code, Some(2), "{error}");
        check(&error, &[words, &[flag, &quoted]].concat());
        let (code, error) = refused(folder.path(), &[(variable, value)], &["serve"]).await;
        assert_eq!(code, Some(2), "{error}");
        check(&error, &[words, &[variable, &quoted]].concat());
    }
    let (code, error) = refused(folder.path(), &[("WAKELINE_LISTEN", "")], &["serve"]).await;
    assert_eq!(code, Some(2), "{error}");
    check(&error, &["WAKELINE_LISTEN is empty", "unset it"]);
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 0, "an invalid setting creates no store");
}

#[tokio::test]
async fn a_wrong_line_of_the_file_is_named_with_its_value_and_what_it_must_be() {
    let folder = tempfile::tempdir().expect("a folder");
    for (line, words) in [
        ("pg_pool_max = \"many\"", &["pg_pool_max", "a whole number", "\"many\""][..]),
        ("body_bytes_max = -1", &["body_bytes_max", "a whole number, 0 or more", "-1"]),
        ("insecure = \"yes\"", &["insecure", "true or false", "\"yes\""]),
        ("log_format = \"jsn\"", &["log_format", "text or json", "did you mean json?"]),
        ("wake_mode = \"push\"", &["wake_mode", "fused, compete, broadcast or poll"]),
        ("wake_mode = 7", &["wake_mode", "fused, compete, broadcast or poll"]),
        ("notify = \"maybe\"", &["notify", "after_commit, trigger or off", "\"maybe\""]),
        ("listen = \"localhost\"", &["listen", "an IP address and a port"]),
        ("listen_url = 5", &["listen_url", "a string in quotes", "5"]),
        ("lissten = \"x\"", &["\"lissten\"", "did you mean listen?"]),
        ("colour = 1", &["\"colour\"", "--help"]),
        ("queue = 1", &["queue", "must be a table"]),
        ("[hook]\nallow = \"10.0.0.0/8\"", &["allow", "a list in brackets"]),
        ("[hook]\npoll_workers = 0", &["[hook] poll_workers", "at least 1", "0"]),
        ("[queue]\ndefault_batch_size = 0", &["default_batch_size", "which is 10000", "not 0"]),
        ("[queue]\nwait_ms_max = 10", &["default_timeout_ms", "which is 10", "is 30000"]),
        ("[access]\ntls_cert_file = \"c\"", &["tls_key_file is not", "set both"]),
    ] {
        let file = folder.path().join("wakeline.toml");
        std::fs::write(&file, line).expect("written");
        let shown = file.display().to_string();
        let (code, error) = refused(folder.path(), &[], &["serve", "--config", &shown]).await;
        assert_eq!(code, Some(2), "{line}: {error}");
        check(&error, words);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_named_with_the_reason_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/w.db").display().to_string();
    let missing = format!("sqlite:{missing}");
    for (store, code, words) in [
        ("redis://x", 2, &["store", "must begin with sqlite: or postgres://", "\"redis\""][..]),
        ("sqlite:", 2, &["store", "like sqlite:wakeline.db"]),
        (&missing, 1, &["missing/w.db", "No such file"]),
        ("postgres://u@127.0.0.1:1/x", 1, &["PostgreSQL", "Connection refused"]),
        ("postgres://u@127.0.0.1:1/x?sslmode=on", 2, &["sslmode \"on\"", "verify-full"]),
        ("postgres://u@127.0.0.1:one/x", 2, &["url", "like postgres://"]),
    ] {
        for command in [&["migrate", "up"][..], &["serve", "--store-wait-ms", "0"]] {
            let (got, error) = refused(folder.path(), &[("WAKELINE_STORE", store)], command).await;
            assert_eq!(got, Some(code), "{store} {command:?}: {error}");
            check(&error, words);
        }
    }
}

#[tokio::test]
async fn a_command_that_finds_nothing_names_it_and_the_command_that_lists() {
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        server.client.push("q", &[("p", "a")]).await;
        let url = store.url();
        let place = [("WAKELINE_STORE", url.as_str())];
        let folder = tempfile::tempdir().expect("a folder");
        for (arguments, words) in [
            (&["queues", "orders"][..], &["no queue orders", "`wakeline queues`"][..]),
            (&["queues", "configure", "orders", "--unordered"], &["orders", "--create"]),
            (&["key", "revoke", "k"], &["\"k\"", "`wakeline key list`"]),
            (&["key", "rotate", "k"], &["\"k\"", "`wakeline key list`"]),
            (&["dlq", "show", "999999"], &["no dead letter", "`wakeline dlq list`"]),
            (&["dlq", "purge", "999999"], &["no dead letter", "`wakeline dlq list`"]),
            (&["dlq", "redrive", "999999"], &["no dead letter", "`wakeline dlq list`"]),
            (&["dlq", "job", id], &["no redrive job", "`wakeline dlq redrive`"]),
        ] {
            let (code, error) = refused(folder.path(), &place, arguments).await;
            assert_ne!(code, Some(0), "{} {arguments:?}", store.name());
            check(&error, words);
        }
        for (arguments, words) in [
            (&["dlq", "purge"][..], &["--queue", "--all"][..]),
            (&["dlq", "redrive"], &["--queue", "--all"]),
            (&["dlq", "list", "--from", "soon"], &["--from", "\"soon\"", "2026-01-31"]),
            (&["dlq", "redrive", "--all", "--rate", "0"], &["--rate", "\"0\"", "1..=1000000"]),
            (&["queues", "configure", "q"], &["--set OPTION=VALUE"]),
            (&["queues", "configure", "q", "--set", "leaseTime"], &["leaseTime=60"]),
            (
                &["key", "create", "--name", "n", "--scope", "queue:fly:*"],
                &["--scope", "\"fly\"", "read, push, pop"],
            ),
            (
                &["key", "create", "--name", "n", "--scope", "*:*:*", "--expires", "90"],
                &["--expires", "\"90\"", "like 90d"],
            ),
            (&["encryption-key", "--id", "a b"], &["--id", "letters, digits"]),
            (&["hook", "listen", "--forward", "localhost"], &["--forward", "http://"]),
        ] {
            let (code, error) = refused(folder.path(), &place, arguments).await;
            assert_eq!(code, Some(2), "{} {arguments:?}: {error}", store.name());
            check(&error, words);
        }
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let (code, error) = refused(folder.path(), &[], &["serve", "--listen", &address]).await;
    assert_eq!(code, Some(1), "{error}");
    check(&error, &[&address, "in use", "--listen"]);
}
