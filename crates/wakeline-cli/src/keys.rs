//! The encryption keys of a server, and `wakeline encryption-key`.
//!
//! # Invariants
//! * Nothing secret is stored without a key. On SQLite a key is created beside the database, so
//!   that a first try needs no set-up. On PostgreSQL all nodes need the same key, so that the
//!   operator has to provide it.
//! * A key is created only for a store without endpoints and encrypted queues. Other stores had a
//!   key before, and a new one cannot decrypt their data.
//! * A node without keys does not serve a store with encrypted queues: it would claim messages that
//!   it cannot decrypt.
//! * A key file is complete or does not exist.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use wakeline_encryption::EncryptionKeys;
use wakeline_store::Backend;

use crate::config::{Settings, StoreChoice, UsageError};
use crate::print_line;

/// Where the encryption keys come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// No setting names keys.
    #[default]
    NotConfigured,
    /// The text of all keys.
    Text(String),
    /// A file that contains all keys.
    File(PathBuf),
}

/// Runs `wakeline encryption-key`: prints a new key.
pub(crate) fn print_new(id: Option<String>) -> anyhow::Result<ExitCode> {
    let key = EncryptionKeys::generate(&id.unwrap_or_else(new_id))?;
    // `generate` does not check the id: parse the key, which refuses an invalid one.
    EncryptionKeys::parse(&key).map_err(|error| UsageError(format!("--id: {error}")))?;
    print_line(&key);
    Ok(ExitCode::SUCCESS)
}

/// The encryption keys of a server; `None` if it has none and needs none.
pub(crate) async fn load(
    settings: &Settings,
    store: &dyn Backend,
) -> anyhow::Result<Option<EncryptionKeys>> {
    match (&settings.keys, &settings.store) {
        (KeySource::Text(text), _) => {
            let mistake = |error| UsageError(format!("encryption_keys: {error}"));
            Ok(Some(EncryptionKeys::parse(text).map_err(mistake)?))
        }
        (KeySource::File(path), _) => read_file(path).map(Some),
        (KeySource::NotConfigured, StoreChoice::Sqlite { path }) => {
            load_or_create_beside(path, store).await.map(Some)
        }
        (KeySource::NotConfigured, StoreChoice::Postgres { .. })
            if store.keys_needed().await?.queues =>
        {
            let text = "encryption_keys: this store has encrypted queues: set \
                        WAKELINE_ENCRYPTION_KEYS or --encryption-key-file to the keys of its \
                        other nodes";
            Err(UsageError(text.to_owned()).into())
        }
        (KeySource::NotConfigured, StoreChoice::Postgres { .. }) => Ok(None),
    }
}

fn read_file(path: &Path) -> anyhow::Result<EncryptionKeys> {
    let shown = path.display();
    let open_to_others = std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0);
    if open_to_others {
        let text = "other users can access the file with the encryption keys: run chmod 600 on it";
        tracing::warn!(path = %shown, "{text}");
    }
    let mistake = |error| UsageError(format!("encryption_key_file: {shown}: {error}"));
    Ok(EncryptionKeys::read(path).map_err(mistake)?)
}

/// Reads the key file beside a SQLite database. Creates it if no data needs an earlier key.
async fn load_or_create_beside(
    database: &Path,
    store: &dyn Backend,
) -> anyhow::Result<EncryptionKeys> {
    let path = with_suffix(database, ".key");
    if !path
        .try_exists()
        .with_context(|| format!("cannot check whether {} exists", path.display()))?
    {
        let needed = store.keys_needed().await?;
        if needed.endpoints || needed.queues {
            let what = if needed.queues {
                "read from the encrypted queues of this store"
            } else {
                "sent to the endpoints of this store"
            };
            let text = format!(
                "encryption_key_file: {} does not exist, and without it nothing can be {what}: \
                 restore it beside the database, or name the file with --encryption-key-file",
                path.display()
            );
            return Err(UsageError(text).into());
        }
        create_file(&path)
            .with_context(|| format!("cannot create the encryption key file {}", path.display()))?;
    }
    read_file(&path)
}

/// Creates a file with a new key, unless another process created it at the same time.
fn create_file(path: &Path) -> anyhow::Result<()> {
    let temporary = with_suffix(path, &format!(".{}", uuid::Uuid::new_v4().simple()));
    let made = write_key(&temporary).map(|()| std::fs::hard_link(&temporary, path));
    std::fs::remove_file(&temporary).or_else(|error| match error.kind() {
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
    // Sync the folder: data must not be encrypted with a key that a crash could lose.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

fn write_key(path: &Path) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", EncryptionKeys::generate(&new_id())?)?;
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
    async fn a_key_file_is_created_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("w.db");
        let store = SqliteStore::open(SqliteOptions::new(&database)).await.expect("opened");
        let made = load_or_create_beside(&database, &store).await.expect("made");
        create_file(&folder.path().join("w.db.key")).expect("it is there");
        let again = load_or_create_beside(&database, &store).await.expect("read");
        let leftovers = std::fs::read_dir(folder.path()).expect("a folder").filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with("w.db.key.")
        });
        assert_eq!(leftovers.count(), 0, "no temporary file is left");
        assert_eq!(made.active(), again.active());
        let encrypted = made.encrypt(b"place", b"text").expect("encrypted");
        assert_eq!(again.decrypt(b"place", &encrypted).expect("decrypted"), b"text");
        let mode = std::fs::metadata(folder.path().join("w.db.key")).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
