//! Documents and comments name only what exists in the tree.
//!
//! # Where it sits
//! `cargo xtask check links`: relative links and their anchors in all Markdown files, the files
//! and crates that ARCHITECTURE names, documents named in comments and strings, and what the map of
//! other designs names.
//!
//! # Invariants
//! * What is quoted as code is not a link.
//! * A link may not leave the tree: it would work on one machine only.
//! * A comment says a reason itself: it does not number the traps, models or rules of a document.

mod designs;
mod markdown;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::layers;
use crate::source::{self, Finding, Source};
use markdown::MarkdownDocument;

/// Checks the documents of the tree.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let sources = source::files(root, "md")?;
    let mut findings = broken_links(&sources, &|path| root.join(path).exists());
    let folders: Vec<String> = layers::members(root)?.into_iter().map(|c| c.folder).collect();
    match sources.iter().find(|source| source.path == "ARCHITECTURE.md") {
        Some(source) => {
            findings.extend(code_map(source, &folders, &|path| root.join(path).exists()));
        }
        None => findings.push(finding("ARCHITECTURE.md", 1, "is missing".to_owned())),
    }
    match sources.iter().find(|source| source.path == designs::PAGE) {
        Some(source) => {
            let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
            findings.extend(designs::check(source, &read));
        }
        None => findings.push(finding(designs::PAGE, 1, "is missing".to_owned())),
    }
    for extension in ["rs", "sql", "sh", "py", "toml", "yml"] {
        for source in source::files(root, extension)? {
            if !source.path.starts_with("xtask/src/links") {
                findings.extend(documents_in_code(&source, &|path| root.join(path).exists()));
            }
        }
    }
    Ok(findings)
}

type Exists<'a> = &'a dyn Fn(&Path) -> bool;

fn finding(path: &str, line: usize, text: String) -> Finding {
    Finding { place: format!("{path}:{line}"), rule: "links", text }
}

fn broken_links(sources: &[Source], exists: Exists<'_>) -> Vec<Finding> {
    let documents: BTreeMap<PathBuf, MarkdownDocument> = sources
        .iter()
        .map(|source| (PathBuf::from(&source.path), MarkdownDocument::parse(&source.text)))
        .collect();
    let mut findings = Vec::new();
    for source in sources {
        let document = &documents[Path::new(&source.path)];
        for link in &document.links {
            if let Some(problem) = problem(&source.path, &link.target, &documents, exists) {
                findings.push(finding(&source.path, link.line, problem));
            }
        }
    }
    findings
}

/// What is wrong with a link, if anything.
fn problem(
    from: &str,
    target: &str,
    documents: &BTreeMap<PathBuf, MarkdownDocument>,
    exists: Exists<'_>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let Some(path) = resolve(from, path) else {
        return Some(format!("{target} leaves the tree"));
    };
    if !exists(&path) {
        return Some(format!("{target} does not exist"));
    }
    let anchor = anchor?;
    match documents.get(&path) {
        Some(document) if document.anchors.contains(anchor) => None,
        Some(_) => Some(format!("{target}: there is no heading #{anchor}")),
        None => Some(format!("{target}: only documents have anchors")),
    }
}

/// The path from the root, or `None` if it lies outside.
fn resolve(from: &str, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(PathBuf::from(from));
    }
    let mut resolved = Path::new(from).parent()?.to_path_buf();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => (),
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// The document names only what exists, and its section "Code map" names every crate.
fn code_map(source: &Source, folders: &[String], exists: Exists<'_>) -> Vec<Finding> {
    let document = MarkdownDocument::parse(&source.text);
    let mut findings: Vec<Finding> = document
        .code
        .iter()
        .filter(|code| is_path(&code.target))
        .filter(|code| !exists(Path::new(code.target.trim_end_matches('/'))))
        .map(|code| finding(&source.path, code.line, format!("{} does not exist", code.target)))
        .collect();
    let Some(section) = document.section("Code map") else {
        findings.push(finding(&source.path, 1, "has no section \"Code map\"".to_owned()));
        return findings;
    };
    let map: Vec<_> = document.code.iter().filter(|code| section.contains(&code.line)).collect();
    for folder in folders {
        if !map.iter().any(|code| code.target.trim_end_matches('/') == folder) {
            let text = format!("the code map leaves out {folder}");
            findings.push(finding(&source.path, section.start, text));
        }
    }
    findings
}

fn is_path(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let file = [".md", ".rs", ".sql", ".toml", ".json", ".txt"].iter().any(|e| text.ends_with(e));
    plain && !text.starts_with('/') && (text.contains('/') || file)
}

/// Documents that a file sends its reader to, by their path from the root, and references to
/// numbered parts of documents that are not in the tree.
fn documents_in_code(source: &Source, exists: Exists<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in source.text.lines().zip(1..) {
        let comment = ["//", "--", "#"].iter().any(|mark| line.trim_start().starts_with(mark));
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || "`()[]<>\",;=".contains(c))
            .filter(|word| !word.is_empty())
            .map(|word| word.trim_end_matches(['.', ':']))
            .collect();
        for word in &words {
            let path = word.split('#').next().unwrap_or(word);
            let document = path.starts_with("docs/") || comment && !path.contains('/');
            let is_named = document && path.len() > ".md".len() && path.ends_with(".md");
            if is_named && !exists(Path::new(path)) {
                findings.push(finding(&source.path, number, format!("{path} does not exist")));
            }
        }
        for pair in words.windows(2).filter(|pair| comment && is_reference(pair[0], pair[1])) {
            let text = format!("{} {}: write the reason out", pair[0], pair[1]);
            findings.push(finding(&source.path, number, text));
        }
    }
    findings
}

/// Whether two words name a numbered part of a document, such as "trap 24" or "MODELS A2".
fn is_reference(name: &str, number: &str) -> bool {
    let numbered = match name {
        "trap" | "traps" => number.parse::<u32>().is_ok(),
        "MODELS" | "TRAPS" | "DESIGN" => number.chars().any(|c| c.is_ascii_digit()),
        _ => false,
    };
    numbered && number.len() <= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 4] = ["README.md", "docs/a.md", "docs/b.md", "crates/x"];

    fn exists(path: &Path) -> bool {
        FILES.iter().any(|file| Path::new(file) == path)
    }

    fn check_link(link: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("docs/a.md", &format!("# Top\n\n{link}\n")),
            source("docs/b.md", "# One two\n\n## It's `code`, too!\n\n## One two\n"),
        ];
        broken_links(&sources, &exists).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for link in [
            "[x](b.md)",
            "[x](../README.md)",
            "[x](#top)",
            "[x](b.md#its-code-too)",
            "[x](b.md#one-two-1)",
            "[x](<b.md> \"title\")",
            "![x](../crates/x)",
            "[x](https://example.org/gone.md)",
            "`[x](gone.md)`",
            "```\n[x](gone.md)\n```",
            "[x]: b.md",
        ] {
            assert_eq!(check_link(link), Vec::<String>::new(), "{link}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_fail_with_file_and_line() {
        for (link, problem) in [
            ("[x](gone.md)", "gone.md does not exist"),
            ("[a](b.md) and [x](gone.md)", "gone.md does not exist"),
            ("![x](gone.png)", "gone.png does not exist"),
            ("[x]: gone.md", "gone.md does not exist"),
            ("[x](#bottom)", "#bottom: there is no heading #bottom"),
            ("[x](b.md#one-two-2)", "b.md#one-two-2: there is no heading #one-two-2"),
            ("[x](../../b.md)", "../../b.md leaves the tree"),
            ("[x](/README.md)", "/README.md leaves the tree"),
            ("[x](../crates/x#y)", "../crates/x#y: only documents have anchors"),
            ("| a | [x](gone.md) |", "gone.md does not exist"),
        ] {
            assert_eq!(check_link(link), [format!("docs/a.md:3: [links] {problem}")], "{link}");
        }
    }

    fn check_map(map: &str) -> Vec<String> {
        let text = format!("# A\n\n## Code map\n{map}\n\n## After\n`crates/x`\n");
        let source = Source { path: "ARCHITECTURE.md".into(), text };
        let findings = code_map(&source, &["crates/x".to_owned()], &exists);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn the_code_map_names_all_crates_and_nothing_else() {
        assert_eq!(check_map("* `crates/x`: a crate, `docs/a.md`"), Vec::<String>::new());
        assert_eq!(check_map("* `crates/x/`: `Hub::wait`"), Vec::<String>::new());
        assert_eq!(check_map("* `crates/x`, `docs/gone.md`"), ["docs/gone.md does not exist"]);
        assert_eq!(check_map("* `docs/a.md`"), ["the code map leaves out crates/x"]);
        assert_eq!(check_map("`crates/x`\n## B\n`crates/gone`"), ["crates/gone does not exist"]);
    }

    #[test]
    fn a_missing_code_map_fails() {
        let source = Source { path: "ARCHITECTURE.md".into(), text: "# A\n".into() };
        assert_eq!(code_map(&source, &[], &exists).len(), 1);
    }

    #[test]
    fn documents_named_in_comments_exist() {
        let check = |text: &str| {
            let source = Source { path: "a.rs".into(), text: text.into() };
            documents_in_code(&source, &exists).len()
        };
        assert_eq!(check("//! See `docs/a.md`."), 0);
        assert_eq!(check("/// See docs/gone.md, please."), 1);
        assert_eq!(check("let path = \"docs/gone.md\";"), 1);
        assert_eq!(check("// See GONE.md"), 1);
        assert_eq!(check("// See README.md, and a.rs"), 0);
    }

    #[test]
    fn numbered_parts_of_other_documents_are_found() {
        let check = |path: &str, text: &str| {
            let source = Source { path: path.into(), text: text.into() };
            documents_in_code(&source, &exists).len()
        };
        assert_eq!(check("a.rs", "//! Never a lost row (trap 46)."), 1);
        assert_eq!(check("a.sql", "-- Due early, never late: MODELS A2."), 1);
        assert_eq!(check("a.rs", "/// A trap for 46 readers, drawn with seed 7632."), 0);
        assert_eq!(check("a.rs", "let trap = f(trap, 46);"), 0);
    }
}
