//! Texts and names are in plain words, and log lines have the causes of their errors.
//!
//! # Where it sits
//! `cargo xtask check wording`: reads the identifiers, comments and texts of all Rust files, the
//! comments of SQL files, all Markdown documents, the examples, and the descriptions of the OpenAPI
//! document. Migrations are not read, because they cannot be changed.
//!
//! # Invariants
//! * No identifier, comment or text has a word that readers stumbled over, unless it is listed in
//!   [`ALLOWED`] with the reason.
//! * An entry of that list that allows nothing is an error.
//! * A log line that has an error has its causes: a driver's own text is often just "db error".

mod words;

use std::cell::Cell;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

use crate::source::{self, Finding, Source};
use words::{ALLOWED, Allowed, INSTEAD_IN_NAMES, INSTEAD_IN_TEXTS};

const RULE: &str = "wording";
const OPENAPI: &str = "crates/wakeline-http/openapi.json";
/// This check and its list of words name what they forbid.
const OWN_FILES: [&str; 2] = ["xtask/src/wording.rs", "xtask/src/wording/words.rs"];

const LOG_LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Checks all files of the tree.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut checker = Checker::new(ALLOWED);
    for source in source::files(root, "rs")? {
        if !OWN_FILES.contains(&source.path.as_str()) {
            checker.rust(&source)?;
        }
    }
    for source in source::files(root, "sql")? {
        if !source.path.contains("/migrations/") {
            checker.comments(&source, "--");
        }
    }
    for source in source::files(root, "md")? {
        checker.all_lines(&source);
    }
    for extension in ["sh", "py"] {
        let sources = source::files(root, extension)?;
        sources.iter().for_each(|source| checker.comments(source, "#"));
    }
    let sources = source::files(root, "json")?;
    let openapi = sources.into_iter().find(|source| source.path == OPENAPI);
    checker.all_lines(&openapi.with_context(|| format!("{OPENAPI} is missing"))?);
    Ok(checker.finish())
}

struct Checker<'a> {
    allowed: Vec<(&'a Allowed, Cell<bool>)>,
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn new(allowed: &'a [Allowed]) -> Self {
        let allowed = allowed.iter().map(|entry| (entry, Cell::new(false))).collect();
        Self { allowed, findings: Vec::new() }
    }

    /// The findings, and an error for each entry of the list of exceptions that was not needed.
    fn finish(mut self) -> Vec<Finding> {
        for (entry, is_used) in &self.allowed {
            if !is_used.get() {
                self.findings.push(Finding {
                    place: OWN_FILES[1].to_owned(),
                    rule: RULE,
                    text: format!(
                        "{:?} is not used in {}: remove the entry",
                        entry.word, entry.path
                    ),
                });
            }
        }
        self.findings
    }

    fn is_allowed(&self, path: &str, word: &str) -> bool {
        let matches = |entry: &Allowed| entry.word == word && path.starts_with(entry.path);
        let found = self.allowed.iter().find(|(entry, _)| matches(entry));
        found.inspect(|(_, is_used)| is_used.set(true)).is_some()
    }

    fn find(&mut self, path: &str, line: usize, text: String) {
        self.findings.push(Finding { place: format!("{path}:{line}"), rule: RULE, text });
    }

    fn text(&mut self, path: &str, line: usize, text: &str) {
        // "tell\napart" in a text of several lines is still a word and a word.
        let lower = text.to_lowercase().replace("foreign key", "");
        for (word, instead) in INSTEAD_IN_TEXTS {
            if has_word(&lower, word) && !self.is_allowed(path, word) {
                let shown = text.trim();
                self.find(path, line, format!("{word:?} in {shown:?}: write {instead}"));
            }
        }
    }

    fn all_lines(&mut self, source: &Source) {
        for (line, number) in source.text.lines().zip(1..) {
            self.text(&source.path, number, line);
        }
    }

    fn comments(&mut self, source: &Source, mark: &str) {
        for (line, number) in source.text.lines().zip(1..) {
            if line.trim_start().starts_with(mark) {
                self.text(&source.path, number, line);
            }
        }
    }

    fn rust(&mut self, source: &Source) -> Result<()> {
        let tokens: TokenStream = source
            .text
            .parse()
            .ok()
            .with_context(|| format!("{} cannot be parsed", source.path))?;
        self.comments(source, "//");
        self.tokens(&source.path, tokens);
        Ok(())
    }

    fn tokens(&mut self, path: &str, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut next = 0;
        while next < tokens.len() {
            let rest = &tokens[next..];
            if is_doc(rest) {
                next += 2;
                continue;
            }
            if is_log_macro(rest) {
                self.log_line(path, rest);
            }
            match &tokens[next] {
                TokenTree::Group(group) => self.tokens(path, group.stream()),
                TokenTree::Literal(literal) => self.literal(path, literal),
                TokenTree::Ident(name) => {
                    self.name(path, name.span().start().line, &name.to_string());
                }
                TokenTree::Punct(_) => {}
            }
            next += 1;
        }
    }

    fn name(&mut self, path: &str, line: usize, name: &str) {
        let words = format!(" {} ", words_of(name).join(" "));
        for (word, instead) in INSTEAD_IN_NAMES {
            if words.contains(&format!(" {word} ")) && !self.is_allowed(path, word) {
                self.find(path, line, format!("{word:?} in the name {name}: write {instead}"));
            }
        }
    }

    fn literal(&mut self, path: &str, literal: &proc_macro2::Literal) {
        let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else { return };
        let text = text.value();
        // A single word may be a name in SQL or on the wire.
        if text.split_whitespace().count() > 1 {
            self.text(path, literal.span().start().line, &text);
        }
    }

    /// `%error` prints the outermost error only, and so does an error as such in JSON.
    fn log_line(&mut self, path: &str, tokens: &[TokenTree]) {
        let Some(TokenTree::Group(group)) = tokens.get(2) else { return };
        let fields: Vec<String> = group.stream().into_iter().map(|one| one.to_string()).collect();
        let is_cut = |pair: &[String]| {
            matches!(pair[0].as_str(), "%" | "?") && matches!(pair[1].as_str(), "error" | "fault")
        };
        if fields.windows(2).any(is_cut) || fields.iter().any(|token| token == "dyn") {
            let text = "a log line has an error without its causes: write error = \
                        error_chain(&error)";
            self.find(path, group.span_open().start().line, text.to_owned());
        }
    }
}

/// Whether an attribute begins here that is a comment. Comments are read line by line instead.
fn is_doc(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = tokens else { return false };
    hash.as_char() == '#' && attribute.stream().to_string().starts_with("doc =")
}

fn is_log_macro(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Ident(level), TokenTree::Punct(mark), TokenTree::Group(_), ..] = tokens else {
        return false;
    };
    mark.as_char() == '!' && LOG_LEVELS.iter().any(|known| level == known)
}

/// The words of an identifier in snake case or in camel case, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let mut word = String::new();
        let mut after_lower = false;
        for c in part.chars() {
            if c.is_uppercase() && after_lower {
                words.push(std::mem::take(&mut word));
            }
            after_lower = c.is_lowercase();
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// Whether a text has these words, not only within others.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_letter) && !text[at + word.len()..].starts_with(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_with(allowed: &[Allowed], text: &str) -> usize {
        let source = Source { path: "crates/x/src/lib.rs".to_owned(), text: text.to_owned() };
        let mut checker = Checker::new(allowed);
        checker.rust(&source).expect("Rust");
        checker.finish().len()
    }

    fn findings(text: &str) -> usize {
        findings_with(&[], text)
    }

    #[test]
    fn words_that_readers_stumbled_over_are_found_in_texts() {
        assert_eq!(findings(r#"fn f() { bail!("no room for {x}") }"#), 1);
        assert_eq!(findings(r#"enum E { #[error("no key ring is set")] A }"#), 1);
        assert_eq!(findings(r#"fn f() { bail!("mushrooms are {x}") }"#), 0);
        assert_eq!(findings(r#"fn f() { counter("room") }"#), 0);
        assert_eq!(findings(r#"#[cfg(test)] mod tests { const A: &str = "no room"; }"#), 1);
        assert_eq!(findings(r#"fn f() { bail!("the foreign key of {x}") }"#), 0);
    }

    #[test]
    fn they_are_found_in_comments() {
        assert_eq!(findings("/// There is room for it.\nfn f() {}"), 1);
        assert_eq!(findings("fn f() {\n    // Told again.\n}"), 1);
        assert_eq!(findings("//! A module of mushrooms.\n"), 0);
    }

    #[test]
    fn they_are_found_in_names() {
        assert_eq!(findings("struct QueueTally;"), 1);
        assert_eq!(findings("fn set_aside() {}"), 1);
        assert_eq!(findings("fn beside() { mushroom(); }"), 0);
        assert_eq!(words_of("HTTPServer_do2Chores"), ["httpserver", "do2chores"]);
        assert_eq!(words_of("bornLeased_TURN"), ["born", "leased", "turn"]);
    }

    #[test]
    fn exceptions_are_needed_or_removed() {
        let entry = Allowed { word: "room", path: "crates/x/", why: "the word of the standard" };
        assert_eq!(findings_with(std::slice::from_ref(&entry), "fn room() {}"), 0);
        assert_eq!(findings_with(&[entry], "fn capacity() {}"), 1);
    }

    #[test]
    fn a_log_line_without_the_causes_of_its_error_is_found() {
        assert_eq!(findings(r#"fn f() { tracing::warn!(%error, "it failed") }"#), 1);
        assert_eq!(findings(r#"fn f() { warn!(x, error = %error, "it failed") }"#), 1);
        let dynamic = r#"fn f() { tracing::warn!(error = &error as &dyn Error, "it failed") }"#;
        assert_eq!(findings(dynamic), 1);
        let chained = r#"fn f() { tracing::warn!(error = error_chain(&error), "it failed") }"#;
        assert_eq!(findings(chained), 0);
    }
}
