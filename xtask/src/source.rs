//! The tree under check: its root, its files, and what a check says about them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the workspace, however deep the command was called.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
        .to_path_buf()
}

/// Something that a check objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// File and line, or only the file.
    pub(crate) place: String,
    /// The rule that is broken.
    pub(crate) rule: &'static str,
    /// What is wrong, and what to do.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [{}] {}", self.place, self.rule, self.text)
    }
}

/// A text file of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path from the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All files of the tree with this extension, ordered by path. Build output and hidden folders
/// are not part of the tree.
pub(crate) fn files(root: &Path, extension: &str) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    walk(root, &mut paths)?;
    paths.retain(|path| path.extension().is_some_and(|e| e == extension));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let inner = path.strip_prefix(root).expect("walked from the root");
            Ok(Source { path: inner.to_string_lossy().replace('\\', "/"), text })
        })
        .collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            let output = name == "target" || name.starts_with("target-");
            if !output && name != "node_modules" && !name.starts_with('.') {
                walk(&entry.path(), found)?;
            }
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}
