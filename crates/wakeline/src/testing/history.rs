//! Saves histories as files, and replays them with the current code.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use wakeline_core::KvKey;
use wakeline_flow::{Client, ClientError, Event, EventKind, History, Json, Registry, replay};

/// Returns the histories of an instance, one per execution, with everything that a replay needs.
///
/// Histories of pruned executions are not included; values that those had set are then missing in
/// the later ones.
pub async fn export(client: &Client, instance: &str) -> Result<Vec<History>, ClientError> {
    let mut histories = Vec::new();
    let mut kv = BTreeMap::new();
    for execution in client.executions(instance).await? {
        let number = execution.execution;
        let events = client.history(instance, Some(number)).await?;
        let next = after(kv.clone(), &events);
        histories.push(History {
            instance: wakeline_core::InstanceId::new(instance)?,
            execution: number,
            kv: std::mem::replace(&mut kv, next),
            events,
        });
    }
    Ok(histories)
}

/// Returns the key-value state after an execution.
fn after(mut kv: BTreeMap<KvKey, Json>, events: &[Event]) -> BTreeMap<KvKey, Json> {
    for event in events {
        match &event.kind {
            EventKind::KvSet { key, value: Some(value) } => {
                kv.insert(key.clone(), value.clone());
            }
            EventKind::KvSet { key, value: None } => {
                kv.remove(key);
            }
            EventKind::KvCleared => kv.clear(),
            _ => {}
        }
    }
    kv
}

/// Writes the histories of an instance into a folder, for [`replay_folder`]: one file per
/// execution, named after the instance and the number of the execution. Returns the files.
pub async fn save(
    client: &Client,
    instance: &str,
    folder: impl AsRef<Path>,
) -> Result<Vec<PathBuf>, Box<dyn std::error::Error + Send + Sync>> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = instance.chars().map(plain).collect();
    std::fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for history in export(client, instance).await? {
        let file = folder.as_ref().join(format!("{name}-{}.json", history.execution));
        std::fs::write(&file, serde_json::to_string_pretty(&history)?)?;
        files.push(file);
    }
    Ok(files)
}

/// Replays all histories of a folder (`*.json`, as [`save`] writes them) with the current code.
/// Returns the number of histories; it is an error if there are none.
///
/// ```no_run
/// # fn registry() -> wakeline::Registry { wakeline::Registry::default() }
/// #[test]
/// fn running_instances_survive_the_next_deploy() {
///     wakeline::testing::replay_folder("tests/histories", &registry()).unwrap();
/// }
/// ```
pub fn replay_folder(
    folder: impl AsRef<Path>,
    registry: &Registry,
) -> Result<usize, ReplayFolderError> {
    let folder = folder.as_ref();
    let unreadable =
        |error: std::io::Error| ReplayFolderError::one(folder.to_owned(), error.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let message =
            "this folder has no history: save one with `wakeline::testing::save`".to_owned();
        return Err(ReplayFolderError::one(folder.to_owned(), message));
    }
    let failed =
        |file: &PathBuf| replay_file(file, registry).err().map(|message| (file.clone(), message));
    let failures: Vec<_> = files.iter().filter_map(failed).collect();
    if failures.is_empty() {
        Ok(files.len())
    } else {
        Err(ReplayFolderError { failures, of: files.len() })
    }
}

fn replay_file(file: &Path, registry: &Registry) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let history: History = serde_json::from_str(&text)
        .map_err(|error| format!("the file is not a history: {error}"))?;
    replay(registry, &history).map_err(|error| error.to_string())
}

/// Histories that do not match the code, each with a description of the difference.
///
/// Shown the same way by `{}` and `{:?}`, so that a failed test is readable.
pub struct ReplayFolderError {
    failures: Vec<(PathBuf, String)>,
    of: usize,
}

impl ReplayFolderError {
    fn one(path: PathBuf, message: String) -> Self {
        Self { failures: vec![(path, message)], of: 1 }
    }

    /// The files, each with the reason why it cannot be replayed.
    pub fn failures(&self) -> &[(PathBuf, String)] {
        &self.failures
    }
}

impl fmt::Display for ReplayFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} histories cannot be replayed", self.failures.len(), self.of)?;
        for (file, message) in &self.failures {
            write!(f, "\n\n{}:\n{message}", file.display())?;
        }
        Ok(())
    }
}

impl fmt::Debug for ReplayFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ReplayFolderError {}
