//! The keys that secrets are sealed with, and `wakeline encryption-key`.
//!
//! # Invariants
//! * Nothing secret is stored without a key. On SQLite one is made beside the database, so that
//!   nobody has to think of it before a first try; on PostgreSQL all nodes need the same, so it is
//!   the operator's.
//! * A key is made only for a store without endpoints and encrypted queues: for others there was
//!   one, and a new one opens nothing of theirs.
//! * A node without keys does not serve a store with encrypted queues: it would take messages that
//!   it cannot open.
//! * A key file is there as a whole or not at all.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use wakeline_seal::KeyRing;
use wakeline_store::WholeStore;

use crate::config::{ConfigMistake, Settings, StoreChoice};
use crate::say;

/// Where keys come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// A text with all keys.
    Text(String),
    /// A file with all keys.
    File(PathBuf),
}

/// Prints a new key.
pub(crate) fn print_new(id: Option<String>) -> anyhow::Result<ExitCode> {
    let key = KeyRing::generate(&id.unwrap_or_else(new_id))?;
    // A name that cannot be an id is found by reading the key back.
    KeyRing::parse(&key).map_err(|error| ConfigMistake(format!("--id: {error}")))?;
    say(&key);
    Ok(ExitCode::SUCCESS)
}

/// The key ring of a server; `None` if it has none.
pub(crate) async fn ring(
    settings: &Settings,
    store: &dyn WholeStore,
) -> anyhow::Result<Option<KeyRing>> {
    match (&settings.keys, &settings.store) {
        (KeySource::Text(text), _) => {
            let mistake = |error| ConfigMistake(format!("encryption_keys: {error}"));
            Ok(Some(KeyRing::parse(text).map_err(mistake)?))
        }
        (KeySource::File(path), _) => read(path).map(Some),
        (KeySource::Unsaid, StoreChoice::Sqlite { path }) => beside(path, store).await.map(Some),
        (KeySource::Unsaid, StoreChoice::Postgres { .. }) if store.keys_needed().await?.queues => {
            let text = "encryption_keys: this store has encrypted queues: set \
                        WAKELINE_ENCRYPTION_KEYS or --encryption-key-file to the keys of its \
                        other nodes";
            Err(ConfigMistake(text.to_owned()).into())
        }
        (KeySource::Unsaid, StoreChoice::Postgres { .. }) => Ok(None),
    }
}

fn read(path: &Path) -> anyhow::Result<KeyRing> {
    let shown = path.display();
    let open_to_others = std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0);
    if open_to_others {
        let text = "other users can read the file with the encryption keys: run chmod 600 on it";
        tracing::warn!(path = %shown, "{text}");
    }
    let mistake = |error| ConfigMistake(format!("encryption_key_file: {shown}: {error}"));
    Ok(KeyRing::read(path).map_err(mistake)?)
}

/// The key beside a database; made if there is none and none was needed so far.
async fn beside(database: &Path, store: &dyn WholeStore) -> anyhow::Result<KeyRing> {
    let path = with_suffix(database, ".key");
    if !path.try_exists().with_context(|| format!("cannot look for {}", path.display()))? {
        let needed = store.keys_needed().await?;
        if needed.endpoints || needed.queues {
            let what = match needed.queues {
                true => "read from its encrypted queues",
                false => "sent to the endpoints of this store",
            };
            let text = format!(
                "encryption_key_file: {} does not exist, and without it nothing can be {what}: \
                 restore it beside the database, or name the file with --encryption-key-file",
                path.display()
            );
            return Err(ConfigMistake(text).into());
        }
        make(&path)
            .with_context(|| format!("cannot create the encryption key file {}", path.display()))?;
    }
    read(&path)
}

/// Makes a file with a new key, unless somebody else just did.
fn make(path: &Path) -> anyhow::Result<()> {
    let half = with_suffix(path, &format!(".{}", uuid::Uuid::new_v4().simple()));
    let made = write_key(&half).map(|()| std::fs::hard_link(&half, path));
    std::fs::remove_file(&half).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    match made? {
        Ok(()) => tracing::warn!(
            path = %path.display(),
            "created a new encryption key: keep a copy of it with your backups of the database"
        ),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    // Its name must last as long as what it will seal.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

fn write_key(path: &Path) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", KeyRing::generate(&new_id())?)?;
    file.sync_all()?;
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn new_id() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string();
    format!("k{}", &text[..8])
}

#[cfg(test)]
mod tests {
    use wakeline_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn a_key_is_made_once_whole_and_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("w.db");
        let store = SqliteStore::open(SqliteOptions::new(&database)).await.expect("opened");
        let made = beside(&database, &store).await.expect("made");
        make(&folder.path().join("w.db.key")).expect("it is there");
        let again = beside(&database, &store).await.expect("read");
        let halves = std::fs::read_dir(folder.path()).expect("a folder").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with("w.db.key.")
        });
        assert_eq!(halves.count(), 0, "nothing half is left");
        assert_eq!(made.active(), again.active());
        let sealed = made.seal(b"place", b"text").expect("sealed");
        assert_eq!(again.open(b"place", &sealed).expect("opened"), b"text");
        let mode = std::fs::metadata(folder.path().join("w.db.key")).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
