//! The keys that secrets are sealed with, and `wakeline encryption-key`.
//!
//! # Invariants
//! * Nothing secret is stored without a key. On SQLite one is made beside the database, so that
//!   nobody has to think of it before a first try; on PostgreSQL all nodes need the same, so it is
//!   the operator's.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use wakeline_seal::KeyRing;

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
    KeyRing::parse(&key).map_err(|error| ConfigMistake(error.to_string()))?;
    say(&key);
    Ok(ExitCode::SUCCESS)
}

/// The key ring of a server; `None` if it has none.
pub(crate) fn ring(settings: &Settings) -> anyhow::Result<Option<KeyRing>> {
    match (&settings.keys, &settings.store) {
        (KeySource::Text(text), _) => {
            let mistake = |error| ConfigMistake(format!("encryption_keys: {error}"));
            Ok(Some(KeyRing::parse(text).map_err(mistake)?))
        }
        (KeySource::File(path), _) => read(path).map(Some),
        (KeySource::Unsaid, StoreChoice::Sqlite { path }) => beside(path).map(Some),
        (KeySource::Unsaid, StoreChoice::Postgres { .. }) => Ok(None),
    }
}

fn read(path: &Path) -> anyhow::Result<KeyRing> {
    let shown = path.display();
    let open_to_others = std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0);
    if open_to_others {
        tracing::warn!(path = %shown, "others can read the file with the encryption keys");
    }
    let mistake = |error| ConfigMistake(format!("encryption_key_file: {shown}: {error}"));
    Ok(KeyRing::read(path).map_err(mistake)?)
}

/// The key beside a database; made if there is none.
fn beside(database: &Path) -> anyhow::Result<KeyRing> {
    let mut name = database.as_os_str().to_owned();
    name.push(".key");
    let path = PathBuf::from(name);
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            let key = KeyRing::generate(&new_id())?;
            let written = writeln!(file, "{key}").and_then(|()| file.sync_all());
            written.with_context(|| format!("cannot write {}", path.display()))?;
            say(&format!("keys    made {}: keep it with the database", path.display()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(error).with_context(|| format!("cannot make {}", path.display()));
        }
    }
    read(&path)
}

fn new_id() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string();
    format!("k{}", &text[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("w.db");
        let made = beside(&database).expect("made");
        let again = beside(&database).expect("read");
        assert_eq!(made.active(), again.active());
        let sealed = made.seal(b"place", b"text").expect("sealed");
        assert_eq!(again.open(b"place", &sealed).expect("opened"), b"text");
        let mode = std::fs::metadata(folder.path().join("w.db.key")).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
