//! Settings. Flags take precedence over the environment, the environment over the file, and the
//! file over defaults.
//!
//! # Invariants
//! * A setting has one name: `--fallback-poll-interval-ms`, `WAKELINE_FALLBACK_POLL_INTERVAL_MS`,
//!   and `fallback_poll_interval_ms` under `[long_poll]` in the file are the same.
//! * An unknown key in the file, an unknown `WAKELINE_*` variable or a value that cannot work is an
//!   error that names it and the nearest known name.

/// Returns the value of the flag or the environment variable if there is one, and otherwise the
/// value from the file.
macro_rules! pick {
    ($flags:expr, $file:expr, $($field:ident).+) => {
        $flags.$($field).+.clone().or_else(|| $file.$($field).+.clone())
    };
}

mod access;
mod aliases;
mod file;
mod hook;
mod long_poll;
mod names;
mod postgres;
mod retention;
mod store;
mod wake;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use wakeline_http::{HttpSettings, ServerOptions};
use wakeline_postgres::{NotifyMode, PreparedStatements};
use wakeline_store::{Housekeeping, PushGate};
use wakeline_wake::{LongPollConfig, PollGrouping, WakeMode};

pub(crate) use self::access::AccessSettings;
pub(crate) use self::hook::HookSettings;
pub(crate) use self::names::check_environment;
pub(crate) use self::store::{StoreArgs, StoreChoice, StoreLocation};
use self::wake::{poll_grouping, poll_mode, wake_mode};
pub(crate) use self::words::listed;
use crate::keys::KeySource;
use crate::logs::LogFormat;
use crate::retention::Retention;

/// An error in the command line or the configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The settings of `wakeline serve` from flags, environment variables or the configuration file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[command(after_help = names::SETTINGS_WITHOUT_FLAGS)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServeArgs {
    /// TOML file with settings; flags and environment variables take precedence over it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) store: StoreArgs,
    /// How long the server waits at startup until PostgreSQL can be reached; 0: it does not wait
    /// [default: 60000]
    #[arg(long, env = "WAKELINE_STORE_WAIT_MS", value_name = "MS")]
    store_wait_ms: Option<u64>,
    /// Address to listen on [default: 127.0.0.1:7632]
    #[arg(long, env = "WAKELINE_LISTEN", value_name = "ADDRESS",
        value_parser = words::listen_address)]
    listen: Option<SocketAddr>,
    /// API key that clients must send. It is not a flag, because flags show in process lists
    #[arg(skip)]
    #[serde(deserialize_with = "file::secret")]
    api_key: Option<String>,
    /// Keys for encryption at rest, as id:base64; the first one encrypts. They have no flag,
    /// because flags show in process lists
    #[arg(skip)]
    #[serde(deserialize_with = "file::secret")]
    encryption_keys: Option<String>,
    /// File with keys for encryption at rest, one per line [default on SQLite: created beside the
    /// database]
    #[arg(long, env = "WAKELINE_ENCRYPTION_KEY_FILE", value_name = "PATH")]
    encryption_key_file: Option<PathBuf>,
    /// Allow unauthenticated remote access
    #[arg(long, env = "WAKELINE_INSECURE", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL")]
    insecure: Option<bool>,
    /// How waiting consumers are notified of messages: fused (one claim serves all of them),
    /// compete (one of them claims), broadcast (all of them claim) or poll (no notifications;
    /// claims at regular intervals) [default: fused]
    #[arg(long, env = "WAKELINE_WAKE_MODE", value_name = "MODE")]
    wake_mode: Option<WakeMode>,
    /// Time between two claims in poll mode [default: 100]
    #[arg(long, env = "WAKELINE_POLL_INTERVAL_MS", value_name = "MS")]
    poll_interval_ms: Option<u64>,
    /// Number of messages per pop in poll mode if neither the pop nor default_batch_size sets one.
    /// A claim that returns this many messages is followed by another one at once [default: 10]
    #[arg(long, env = "WAKELINE_POLL_BATCH", value_name = "COUNT")]
    poll_batch: Option<u32>,
    /// Whether poll mode adapts its interval to the load [default: false]
    #[arg(long, env = "WAKELINE_POLL_ADAPTIVE", value_name = "BOOL")]
    poll_adaptive: Option<bool>,
    /// Who claims in poll mode: line (one claim for all pops that wait for the same queue,
    /// partition and group) or waiter (each pop claims for itself) [default: line]
    #[arg(long, env = "WAKELINE_POLL_GROUPING", value_name = "WHO", value_parser = poll_grouping)]
    poll_grouping: Option<PollGrouping>,
    /// How other nodes are notified of commits on PostgreSQL: after_commit, trigger or off
    /// [default: after_commit]
    #[arg(long, env = "WAKELINE_NOTIFY", value_name = "MODE", value_parser = postgres::notify)]
    #[serde(deserialize_with = "postgres::notify_in_file")]
    notify: Option<NotifyMode>,
    /// URL for the LISTEN connection, if --store points to a transaction pooler
    #[arg(long, env = "WAKELINE_LISTEN_URL", hide_env_values = true, value_name = "URL")]
    listen_url: Option<String>,
    /// Maximum number of connections to PostgreSQL, in addition to the LISTEN connection
    /// [default: 10]
    #[arg(long, env = "WAKELINE_PG_POOL_MAX", value_name = "COUNT")]
    pg_pool_max: Option<usize>,
    /// Whether to prepare statements on PostgreSQL: auto (not behind a pooler), on or off
    /// [default: auto]
    #[arg(long, env = "WAKELINE_PREPARED_STATEMENTS", value_name = "MODE",
        value_parser = postgres::prepared_statements)]
    #[serde(deserialize_with = "postgres::prepared_statements_in_file")]
    prepared_statements: Option<PreparedStatements>,
    /// Maximum size of a request body [default: 16777216]
    #[arg(long, env = "WAKELINE_BODY_BYTES_MAX", value_name = "BYTES")]
    body_bytes_max: Option<usize>,
    /// Time within which the headers of a request must arrive [default: 60000]
    #[arg(long, env = "WAKELINE_HEADER_TIMEOUT_MS", value_name = "MS")]
    header_timeout_ms: Option<u64>,
    /// Time after which the connection of a client that does not read its response is closed
    /// [default: 30000]
    #[arg(long, env = "WAKELINE_WRITE_TIMEOUT_MS", value_name = "MS")]
    write_timeout_ms: Option<u64>,
    /// Time that requests in flight have to finish after SIGTERM [default: 25000]
    #[arg(long, env = "WAKELINE_DRAIN_TIMEOUT_MS", value_name = "MS")]
    drain_timeout_ms: Option<u64>,
    /// Format of the log: text or json [default: text]
    #[arg(long, env = "WAKELINE_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    long_poll: long_poll::LongPollArgs,
    #[command(flatten)]
    hook: hook::HookArgs,
    #[command(flatten)]
    retention: retention::RetentionArgs,
    #[command(flatten)]
    access: access::AccessArgs,
}

/// Settings that are read from environment variables and have no flags, because flags show in
/// process lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    pub(crate) api_key: Option<String>,
    pub(crate) encryption_keys: Option<String>,
    pub(crate) jwt_secret: Option<String>,
}

impl Secrets {
    /// Reads them from the environment of this process.
    pub(crate) fn from_env() -> Self {
        let read = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            api_key: read("WAKELINE_API_KEY"),
            encryption_keys: read("WAKELINE_ENCRYPTION_KEYS"),
            jwt_secret: read("WAKELINE_JWT_SECRET"),
        }
    }
}

/// What happens to pushes during maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MaintenancePushes {
    /// Pushes are stored, and delivered when maintenance ends
    Hold,
    /// Pushes are refused
    Refuse,
}

/// Defaults and limits of the routes of queues; the table `[queue]` of the file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct QueueArgs {
    /// Timeout of a waiting pop that sets none [default: 30000]
    #[arg(long, env = "WAKELINE_DEFAULT_TIMEOUT_MS", value_name = "MS")]
    default_timeout_ms: Option<u64>,
    /// Number of messages per pop if the pop sets none [default: 1; in poll mode poll_batch]
    #[arg(long, env = "WAKELINE_DEFAULT_BATCH_SIZE", value_name = "COUNT")]
    default_batch_size: Option<u32>,
    /// Maximum timeout that a pop may set [default: 300000]
    #[arg(long, env = "WAKELINE_WAIT_MS_MAX", value_name = "MS")]
    wait_ms_max: Option<u64>,
    /// Maximum number of messages in one request [default: 10000]
    #[arg(long, env = "WAKELINE_BATCH_LEN_MAX", value_name = "COUNT")]
    batch_len_max: Option<u32>,
    /// Payload size after which a pop gets no further message [default: 33554432]
    #[arg(long, env = "WAKELINE_POP_BYTES_MAX", value_name = "BYTES")]
    pop_bytes_max: Option<u64>,
    /// Minimum time between two scans of a queue for expired messages [default: 60000]
    #[arg(long, env = "WAKELINE_HOUSEKEEPING_INTERVAL_MS", value_name = "MS")]
    housekeeping_interval_ms: Option<u64>,
    /// Maximum number of rows that housekeeping removes in one transaction [default: 1000]
    #[arg(long, env = "WAKELINE_HOUSEKEEPING_ROWS_MAX", value_name = "COUNT")]
    housekeeping_rows_max: Option<u32>,
    /// Number of days for which statistics are kept; 0: none are stored [default: 7]
    #[arg(long, env = "WAKELINE_STATS_RETENTION_DAYS", value_name = "DAYS")]
    stats_retention_days: Option<u64>,
    /// How pushes are treated during maintenance, unless the request that starts it specifies this:
    /// hold (store them for later delivery) or refuse [default: hold]
    #[arg(long, env = "WAKELINE_MAINTENANCE_PUSHES", value_name = "MODE")]
    maintenance_pushes: Option<MaintenancePushes>,
}

/// All settings of the server, complete and checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) store: StoreChoice,
    /// How long the server waits at startup until the database can be reached.
    pub(crate) store_wait: Duration,
    pub(crate) listen: SocketAddr,
    pub(crate) insecure: bool,
    pub(crate) mode: WakeMode,
    pub(crate) long_poll: LongPollConfig,
    pub(crate) notify: NotifyMode,
    pub(crate) listen_url: Option<String>,
    pub(crate) pg_pool_max: usize,
    pub(crate) prepared_statements: PreparedStatements,
    pub(crate) http: HttpSettings,
    pub(crate) server: ServerOptions,
    pub(crate) log_format: LogFormat,
    pub(crate) hook: HookSettings,
    pub(crate) keys: KeySource,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) retention: Retention,
    /// How long statistics are kept; with `None`, none are stored.
    pub(crate) statistics_kept: Option<Duration>,
    pub(crate) access: AccessSettings,
    /// Notes about the settings for the log.
    pub(crate) alias_notes: Vec<String>,
}

impl ServeArgs {
    /// The settings of a command that only needs a store and its keys.
    pub(crate) fn for_store(
        config: Option<PathBuf>,
        store: StoreArgs,
        encryption_key_file: Option<PathBuf>,
    ) -> Self {
        Self { config, store, encryption_key_file, ..Self::default() }
    }

    /// Combines these settings, which come from flags and environment, with the file and defaults.
    pub(crate) fn into_settings(mut self, secrets: Secrets) -> Result<Settings, UsageError> {
        self.api_key = secrets.api_key;
        self.encryption_keys = secrets.encryption_keys;
        self.access.jwt_secret = secrets.jwt_secret;
        let alias_notes = aliases::apply(&mut self, |name| std::env::var(name).ok());
        let file = match &self.config {
            Some(path) => file::read(path)?,
            None => Self::default(),
        };
        let store = StoreArgs {
            store: pick!(self, file, store.store),
            schema: pick!(self, file, store.schema),
        };
        let mode = wake_mode(&self, &file);
        let settings = Settings {
            store: store.choice()?,
            store_wait: millis(pick!(self, file, store_wait_ms), Duration::from_secs(60)),
            listen: pick!(self, file, listen).unwrap_or_else(|| ([127, 0, 0, 1], 7632).into()),
            insecure: pick!(self, file, insecure).unwrap_or_default(),
            mode,
            long_poll: self.long_poll.resolve(&file.long_poll),
            notify: pick!(self, file, notify).unwrap_or_default(),
            listen_url: pick!(self, file, listen_url),
            pg_pool_max: pick!(self, file, pg_pool_max).unwrap_or(10),
            prepared_statements: pick!(self, file, prepared_statements).unwrap_or_default(),
            http: http_settings(&self, &file, mode),
            server: server_options(&self, &file),
            log_format: pick!(self, file, log_format).unwrap_or_default(),
            hook: self.hook.resolve(&file.hook, mode, poll_mode(&self, &file)),
            keys: key_source(&self, &file),
            housekeeping: housekeeping(&self, &file),
            retention: self.retention.resolve(&file.retention),
            statistics_kept: retention::kept(pick!(self, file, queue.stats_retention_days), 7),
            access: self.access.resolve(&file.access, pick!(self, file, api_key))?,
            alias_notes,
        };
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    fn check(&self) -> Result<(), UsageError> {
        let mistake = |error: wakeline_wake::ConfigError| UsageError(error.to_string());
        let refuse = |text: String| Err(UsageError(text));
        self.mode.validate().map_err(mistake)?;
        self.long_poll.validate().map_err(mistake)?;
        self.hook.check()?;
        let http = &self.http;
        if http.batch_len_max == 0 || !(1..=http.batch_len_max).contains(&http.default_batch_len) {
            return refuse(format!(
                "default_batch_size must be from 1 to batch_len_max, which is {}, not {}",
                http.batch_len_max, http.default_batch_len
            ));
        }
        if http.default_timeout > http.wait_max {
            return refuse(format!(
                "default_timeout_ms must not be more than wait_ms_max, which is {}, but is {}",
                http.wait_max.as_millis(),
                http.default_timeout.as_millis()
            ));
        }
        if self.housekeeping.rows_max == 0 {
            return refuse("housekeeping_rows_max must be at least 1, not 0".to_owned());
        }
        Ok(())
    }

    /// Refuses to serve other machines without authentication, unless `insecure` is set.
    /// `allows_anonymous`: there is no key, neither in the settings nor in the store, and no way to
    /// verify tokens.
    pub(crate) fn check_exposure(&self, allows_anonymous: bool) -> Result<(), UsageError> {
        if allows_anonymous && !self.insecure && !self.listen.ip().is_loopback() {
            return Err(UsageError(format!(
                "listen: {} can be reached from other machines, and requests need no credentials: \
                 create a key with `wakeline key create`, or set WAKELINE_API_KEY, or pass \
                 --insecure to allow unauthenticated access",
                self.listen
            )));
        }
        Ok(())
    }
}

/// Flags and environment take precedence over the file, and keys over a key file.
fn key_source(flags: &ServeArgs, file: &ServeArgs) -> KeySource {
    for args in [flags, file] {
        if let Some(text) = &args.encryption_keys {
            return KeySource::Text(text.clone());
        }
        if let Some(path) = &args.encryption_key_file {
            return KeySource::File(path.clone());
        }
    }
    KeySource::NotConfigured
}

fn http_settings(flags: &ServeArgs, file: &ServeArgs, mode: WakeMode) -> HttpSettings {
    let preset = HttpSettings::default();
    let default_timeout = pick!(flags, file, queue.default_timeout_ms);
    let batch_len_max = pick!(flags, file, queue.batch_len_max).unwrap_or(preset.batch_len_max);
    // A value that is set for all modes takes precedence over the batch of poll mode.
    let default_batch_len = match mode {
        WakeMode::Poll(poll) => poll.batch.min(batch_len_max),
        _ => preset.default_batch_len,
    };
    HttpSettings {
        default_timeout: millis(default_timeout, preset.default_timeout),
        default_batch_len: pick!(flags, file, queue.default_batch_size)
            .unwrap_or(default_batch_len),
        wait_max: millis(pick!(flags, file, queue.wait_ms_max), preset.wait_max),
        batch_len_max,
        pop_bytes_max: pick!(flags, file, queue.pop_bytes_max).unwrap_or(preset.pop_bytes_max),
        body_bytes_max: pick!(flags, file, body_bytes_max).unwrap_or(preset.body_bytes_max),
        maintenance_pushes: match pick!(flags, file, queue.maintenance_pushes) {
            Some(MaintenancePushes::Refuse) => PushGate::Refuse,
            Some(MaintenancePushes::Hold) | None => PushGate::Hold,
        },
        ..preset
    }
}

fn server_options(flags: &ServeArgs, file: &ServeArgs) -> ServerOptions {
    let preset = ServerOptions::default();
    ServerOptions {
        header_timeout: millis(pick!(flags, file, header_timeout_ms), preset.header_timeout),
        write_timeout: millis(pick!(flags, file, write_timeout_ms), preset.write_timeout),
        drain_timeout: millis(pick!(flags, file, drain_timeout_ms), preset.drain_timeout),
        ..preset
    }
}

fn housekeeping(flags: &ServeArgs, file: &ServeArgs) -> Housekeeping {
    let preset = Housekeeping::default();
    Housekeeping {
        interval: millis(pick!(flags, file, queue.housekeeping_interval_ms), preset.interval),
        rows_max: pick!(flags, file, queue.housekeeping_rows_max).unwrap_or(preset.rows_max),
        ..preset
    }
}

fn millis(given: Option<u64>, preset: Duration) -> Duration {
    given.map_or(preset, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parse(flags: &[&str], file: Option<&str>) -> Result<Settings, UsageError> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut line = vec!["serve".to_owned()];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if let Some(text) = file {
            let path = folder.path().join("wakeline.toml");
            std::fs::write(&path, text).expect("written");
            line.extend(["--config".to_owned(), path.display().to_string()]);
        }
        TestCommandLine::parse_from(line).args.into_settings(Secrets::default())
    }

    #[test]
    fn defaults_are_a_sqlite_file_and_loopback() {
        let settings = parse(&[], None).expect("valid");
        assert_eq!(settings.store, StoreChoice::Sqlite { path: "wakeline.db".into() });
        assert_eq!(settings.listen.to_string(), "127.0.0.1:7632");
        assert_eq!(settings.mode, WakeMode::Fused);
        assert_eq!(settings.long_poll, LongPollConfig::default());
        assert_eq!(settings.http.default_timeout, Duration::from_secs(30));
    }

    #[test]
    fn flags_take_precedence_over_the_file() {
        let file = "store = \"postgres://db/x\"\nschema = \"team\"\nwake_mode = \"poll\"\n\
                    poll_interval_ms = 7\nnotify = \"trigger\"\n\
                    prepared_statements = \"off\"\n\
                    [long_poll]\nwaiters_max = 5\nmax_wait_time_ms = 9\n\
                    [queue]\nbatch_len_max = 3\n";
        let settings = parse(&["--waiters-max", "6"], Some(file)).expect("valid");
        let url = "postgres://db/x".to_owned();
        assert_eq!(settings.store, StoreChoice::Postgres { url, schema: "team".into() });
        assert_eq!(settings.long_poll.waiters_max, 6);
        assert_eq!(settings.long_poll.max_wait_time, Duration::from_millis(9));
        assert_eq!(settings.http.batch_len_max, 3);
        assert_eq!(settings.notify, NotifyMode::Trigger);
        assert_eq!(settings.prepared_statements, PreparedStatements::Off);
        let WakeMode::Poll(poll) = settings.mode else { panic!("{:?}", settings.mode) };
        assert_eq!(poll.interval, Duration::from_millis(7));
    }

    #[test]
    fn poll_batch_is_the_default_batch_in_poll_mode_only() {
        for (flags, len) in [
            (&["--wake-mode", "fused", "--poll-batch", "7"][..], 1),
            (&["--wake-mode", "poll"], 10),
            (&["--wake-mode", "poll", "--poll-batch", "7"], 7),
            (&["--wake-mode", "poll", "--default-batch-size", "2"], 2),
            (&["--wake-mode", "poll", "--batch-len-max", "4"], 4),
        ] {
            assert_eq!(parse(flags, None).expect("valid").http.default_batch_len, len, "{flags:?}");
        }
    }

    #[test]
    fn errors_name_the_setting() {
        for (flags, file, named) in [
            (&["--store", "redis://x"][..], None, "store"),
            (&["--store", "sqlite:"], None, "names no file"),
            (&[], Some("colour = 1"), "colour"),
            (&[], Some("lissten = \"127.0.0.1:1\""), "did you mean listen?"),
            (&[], Some("waiters_max = 1"), "[long_poll]"),
            (&[], Some("[long_poll]\nwaiter_max = 1"), "did you mean waiters_max?"),
            (&[], Some("[qeue]\nbatch_len_max = 1"), "did you mean queue?"),
            (&[], Some("[long_poll]\nwaiters_max = \"x\""), "waiters_max"),
            (&[], Some("notify = \"maybe\""), "notify"),
            (&[], Some("prepared_statements = \"yes\""), "auto, on or off"),
            (&["--claims-in-flight-max", "0"], None, "claims_in_flight_max"),
            (&["--default-batch-size", "0"], None, "default_batch_size"),
            (&["--wait-ms-max", "10"], None, "default_timeout_ms"),
            (&[], Some("[hook]\nallow = [\"10.0.0.0/33\"]"), "allow"),
            (&["--hook-poll-workers", "0"], None, "poll_workers"),
        ] {
            let mistake = parse(flags, file).expect_err(named).to_string();
            assert!(mistake.contains(named), "{named}: {mistake}");
        }
    }

    #[test]
    fn errors_in_the_file_show_no_secrets() {
        for (file, named) in [
            ("listen = \"127.0.0.1:1\"\nencryption_keys = k1:U0VDUkVU\n", "line 2"),
            ("api_key = \"U0VDUkVU\nlisten = 1\n", "line 1"),
            ("api_key = [\"U0VDUkVU\"]", "api_key"),
            ("encryption_keys = [\"k1:U0VDUkVU\"]", "encryption_keys"),
            ("api_key = \"U0VDUkVU\"\napi_key = \"U0VDUkVU\"", "line 2"),
            ("api_kee = \"U0VDUkVU\"", "api_kee"),
        ] {
            let mistake = parse(&[], Some(file)).expect_err(named).to_string();
            assert!(mistake.contains(named) && !mistake.contains("U0VD"), "{file}: {mistake}");
        }
        let mistake = parse(&[], Some("api_key = 7242")).expect_err("a number").to_string();
        assert!(!mistake.contains("7242"), "{mistake}");
    }

    #[test]
    fn other_machines_are_served_only_with_a_key_or_insecure() {
        let open = parse(&["--listen", "0.0.0.0:1"], None).expect("valid");
        let mistake = open.check_exposure(true).expect_err("refused").to_string();
        assert!(mistake.contains("WAKELINE_API_KEY") && mistake.contains("--insecure"));
        assert!(open.check_exposure(false).is_ok());
        for flags in [&["--listen", "0.0.0.0:1", "--insecure"][..], &["--listen", "[::1]:1"]] {
            let settings = parse(flags, None).expect("valid");
            assert!(settings.check_exposure(true).is_ok(), "{flags:?}");
        }
    }

    #[test]
    fn flags_take_precedence_over_keys_in_the_file() {
        let keys = |flags: &[&str], file| parse(flags, file).expect("valid").keys;
        assert_eq!(keys(&[], None), KeySource::NotConfigured);
        let file = "encryption_keys = \"a:b\"";
        assert_eq!(keys(&[], Some(file)), KeySource::Text("a:b".into()));
        let flag = &["--encryption-key-file", "/k"][..];
        assert_eq!(keys(flag, Some(file)), KeySource::File("/k".into()));
    }

    #[test]
    fn webhooks_have_their_own_wake_mode_and_batch() {
        let plain = parse(&["--wake-mode", "compete"], None).expect("valid").hook;
        assert_eq!((plain.mode, plain.poll_workers, plain.slots), (WakeMode::Compete, 10, 1000));
        assert!(plain.guard.allow.is_empty() && !plain.guard.https_only);
        let file = "[hook]\nallow = [\"10.0.0.0/8\"]\nwake_mode = \"poll\"\npoll_batch = 3\n";
        let flags = ["--hook-allow", "127.0.0.0/8,::1", "--hook-https-only"];
        let hook = parse(&flags, Some(file)).expect("valid").hook;
        assert_eq!(hook.guard.allow.len(), 2);
        assert!(hook.guard.https_only);
        let WakeMode::Poll(poll) = hook.mode else { panic!("{:?}", hook.mode) };
        assert_eq!((poll.batch, poll.interval), (3, Duration::from_millis(100)));
    }

    #[test]
    fn webhooks_inherit_the_poll_settings_of_the_server() {
        let server = ["--poll-interval-ms", "20", "--poll-batch", "4", "--poll-adaptive", "false"];
        for (modes, interval) in [
            (&["--wake-mode", "poll"][..], 20),
            (&["--wake-mode", "poll", "--hook-wake-mode", "poll"], 20),
            (&["--wake-mode", "fused", "--hook-wake-mode", "poll"], 20),
            (&["--hook-wake-mode", "poll", "--hook-poll-interval-ms", "7"], 7),
        ] {
            let hook = parse(&[&server[..], modes].concat(), None).expect("valid").hook;
            let WakeMode::Poll(poll) = hook.mode else { panic!("{modes:?}: {:?}", hook.mode) };
            let interval = Duration::from_millis(interval);
            assert_eq!((poll.interval, poll.batch, poll.adaptive), (interval, 4, false));
        }
    }
}
