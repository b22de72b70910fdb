//! What users can name is documented, and what is documented can be named.
//!
//! # Where it sits
//! `cargo xtask check names`: compares names in the code with names in the documents: settings in
//! the environment, metrics, and the codes of HTTP errors.
//!
//! # Invariants
//! * Both directions count: a name that only the document knows is as wrong as one that it lacks.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::source::{self, Finding, Source};

/// One kind of name and where it is at home.
struct DocumentedKind {
    what: &'static str,
    /// Folder of the code that defines such names.
    code: &'static str,
    /// Finds the names in one line of code.
    defined: fn(&str) -> Vec<&str>,
    document: &'static str,
    /// Whether a name in a code span of the document is of this kind.
    documented: fn(&str) -> bool,
}

const KINDS: [DocumentedKind; 3] = [
    DocumentedKind {
        what: "setting",
        code: "crates/wakeline-cli/src/",
        defined: |line| quoted(line, is_variable),
        document: "docs/guide/operation.md",
        documented: is_variable,
    },
    DocumentedKind {
        what: "metric",
        code: "crates/",
        defined: |line| quoted(line, is_metric),
        document: "docs/guide/operation.md",
        documented: is_metric,
    },
    DocumentedKind {
        what: "error code",
        code: "crates/wakeline-http/src/",
        defined: error_codes,
        document: "docs/reference/errors.md",
        documented: |name| {
            is_lower(name) && name.contains('_') || ERRORS_OF_ONE_WORD.contains(&name)
        },
    },
];

/// Error codes of one word: only this list distinguishes them from other words.
const ERRORS_OF_ONE_WORD: [&str; 6] =
    ["unauthorized", "forbidden", "conflict", "draining", "internal", "maintenance"];

/// Words in the document of errors that are no codes.
const NO_CODES: [&str; 4] = ["body_bytes_max", "waiters_max", "value_error", "expanded_statuses"];

/// Compares code and documents.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let code = source::files(root, "rs")?;
    let documents = source::files(root, "md")?;
    Ok(KINDS.iter().flat_map(|kind| compare(kind, &code, &documents)).collect())
}

fn compare(kind: &DocumentedKind, code: &[Source], documents: &[Source]) -> Vec<Finding> {
    let mut defined = BTreeMap::new();
    for source in code.iter().filter(|s| s.path.starts_with(kind.code) && is_product(&s.path)) {
        for (line, number) in production_lines(&source.text) {
            for name in (kind.defined)(line) {
                defined.entry(name).or_insert_with(|| format!("{}:{number}", source.path));
            }
        }
    }
    let mut documented = BTreeMap::new();
    for source in documents.iter().filter(|source| source.path == kind.document) {
        for (line, number) in source.text.lines().zip(1..) {
            for name in line.split('`').skip(1).step_by(2) {
                if (kind.documented)(name) && !NO_CODES.contains(&name) {
                    documented.entry(name).or_insert_with(|| format!("{}:{number}", source.path));
                }
            }
        }
    }
    let finding = |place: &String, text| Finding { place: place.clone(), rule: "names", text };
    let lacking =
        defined.iter().filter(|(name, _)| !documented.contains_key(*name)).map(|(name, place)| {
            finding(place, format!("{} {name} is not in {}", kind.what, kind.document))
        });
    let stray = documented
        .iter()
        .filter(|(name, _)| !defined.contains_key(*name))
        .map(|(name, place)| finding(place, format!("no code has the {} {name}", kind.what)));
    lacking.chain(stray).collect()
}

fn is_product(path: &str) -> bool {
    path.contains("/src/") && !path.starts_with("crates/wakeline-testkit/")
}

/// The lines before a file's test module.
fn production_lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.lines().zip(1..).take_while(|(line, _)| line.trim() != "#[cfg(test)]")
}

/// String literals of a line that are such names.
fn quoted(line: &str, is_name: fn(&str) -> bool) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).filter(|text| is_name(text)).collect()
}

fn is_variable(name: &str) -> bool {
    name.strip_prefix("WAKELINE_").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

fn is_metric(name: &str) -> bool {
    name.strip_prefix("wakeline_").is_some_and(is_lower)
}

fn is_lower(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Codes follow the status of a new error, or stand in a body written by hand.
fn error_codes(line: &str) -> Vec<&str> {
    let by_hand = line.split_once(r#""code":""#).and_then(|(_, rest)| rest.split('"').next());
    let with_status = line.contains("Self::new(StatusCode::");
    let mut codes = if with_status { quoted(line, is_lower) } else { Vec::new() };
    codes.extend(by_hand.filter(|code| is_lower(code)));
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(kind: usize, code: &str, document: &str) -> Vec<String> {
        let kind = &KINDS[kind];
        let source = |path: String, text: &str| Source { path, text: text.to_owned() };
        let folder = if kind.code == "crates/" { "crates/x/src/" } else { kind.code };
        let code = [source(format!("{folder}a.rs"), code)];
        let documents = [source(kind.document.to_owned(), document)];
        compare(kind, &code, &documents).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn what_is_named_on_both_sides_passes() {
        let none = Vec::<String>::new();
        assert_eq!(findings(0, r#"env = "WAKELINE_STORE""#, "| `WAKELINE_STORE` |"), none);
        assert_eq!(findings(1, r#"counter!("wakeline_x_total")"#, "`wakeline_x_total`"), none);
        assert_eq!(
            findings(2, r#"Self::new(StatusCode::OK, "not_found", m)"#, "`not_found`"),
            none
        );
        assert_eq!(findings(2, r##"r#"{"error":"e","code":"too_many"}"#"##, "`too_many`"), none);
    }

    #[test]
    fn what_the_document_lacks_fails_at_the_code() {
        let lacking = findings(0, "\n env = \"WAKELINE_NEW\"", "");
        assert_eq!(lacking.len(), 1);
        assert!(lacking[0].starts_with("crates/wakeline-cli/src/a.rs:2: [names] setting"));
        assert_eq!(findings(1, r#"gauge!("wakeline_new")"#, "").len(), 1);
        assert_eq!(findings(2, r#"Self::new(StatusCode::CONFLICT, "new_code", m)"#, "").len(), 1);
    }

    #[test]
    fn what_only_the_document_knows_fails_at_the_document() {
        let stray = findings(0, "", "x\n`WAKELINE_OLD`");
        assert_eq!(
            stray,
            ["docs/guide/operation.md:2: [names] no code has the setting WAKELINE_OLD"]
        );
        assert_eq!(findings(1, "", "`wakeline_old_total`").len(), 1);
        assert_eq!(findings(2, "", "`forbidden` `gone_code` `body_bytes_max`").len(), 2);
    }

    #[test]
    fn tests_may_name_what_they_like() {
        assert_eq!(findings(0, "#[cfg(test)]\n\"WAKELINE_X\"", ""), Vec::<String>::new());
    }
}
