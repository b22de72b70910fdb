//! Messages are in plain words, and log lines say why.
//!
//! # Where it sits
//! `cargo xtask check wording`: reads the texts in the product's code (error messages, log lines,
//! refusals of the command line). Comments, tests and the test kit are not read.
//!
//! # Invariants
//! * A text of several words has none of the words that readers stumbled over.
//! * A log line that has an error has its causes: a driver's own text is often just "db error".

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::source::{self, Finding, Source};

const RULE: &str = "wording";

/// Words that messages do not use, and those that they use instead.
const INSTEAD: &[(&str, &str)] = &[
    ("anew", "again"),
    ("at hand", "in flight"),
    ("cannot be understood", "is corrupt, or is invalid"),
    ("broke off", "ended early"),
    ("chores", "maintenance tasks"),
    ("deed", "audit event"),
    ("figures", "statistics"),
    ("foreign", "nondeterministic"),
    ("heard", "received"),
    ("hears", "receives"),
    ("house", "maintenance task"),
    ("in vain", "without effect"),
    ("key ring", "encryption keys"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("no such thing", "the name of what was not found"),
    ("nobody", "no consumer, no worker, no node"),
    ("room", "capacity, space"),
    ("sealed", "encrypted"),
    ("set aside", "quarantined"),
    ("somebody", "another client, another node"),
    ("spoilt", "corrupt"),
    ("tally", "counts"),
    ("tell", "report, return"),
    ("tells", "reports, returns"),
    ("told", "notified, reported"),
    ("tries", "attempts"),
    ("unsaid", "not set"),
];

const LOG_LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Reads all texts of the product.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for source in source::files(root, "rs")? {
        if is_product(&source.path) {
            findings.extend(of_file(&source)?);
        }
    }
    Ok(findings)
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.starts_with("crates/wakeline-testkit/")
        && !path.contains("/tests/")
        && !path.ends_with("/tests.rs")
}

fn of_file(source: &Source) -> Result<Vec<Finding>> {
    let tokens: TokenStream =
        source.text.parse().ok().with_context(|| format!("{} cannot be parsed", source.path))?;
    let mut reader = Reader { path: &source.path, findings: Vec::new() };
    reader.read(tokens);
    Ok(reader.findings)
}

struct Reader<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut next = 0;
        while next < tokens.len() {
            let rest = &tokens[next..];
            if let Some(len) = skipped(rest) {
                next += len;
                continue;
            }
            if is_log_macro(rest) {
                self.read_log_line(rest);
            }
            match &tokens[next] {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => self.read_literal(literal),
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
            next += 1;
        }
    }

    fn read_literal(&mut self, literal: &proc_macro2::Literal) {
        let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else { return };
        let text = text.value();
        if text.split_whitespace().count() < 2 {
            return;
        }
        for (word, instead) in INSTEAD.iter().filter(|(word, _)| has_word(&text, word)) {
            let text = format!("{word:?} in {text:?}: write {instead}");
            self.find(literal.span().start().line, text);
        }
    }

    /// `%error` prints the outermost error only, and so does an error as such in JSON.
    fn read_log_line(&mut self, tokens: &[TokenTree]) {
        let Some(TokenTree::Group(group)) = tokens.get(2) else { return };
        let fields: Vec<String> = group.stream().into_iter().map(|one| one.to_string()).collect();
        let is_cut = |pair: &[String]| {
            matches!(pair[0].as_str(), "%" | "?") && matches!(pair[1].as_str(), "error" | "fault")
        };
        if fields.windows(2).any(is_cut) || fields.iter().any(|token| token == "dyn") {
            let text = "a log line has an error without its causes: write error = \
                        error_chain(&error)";
            self.find(group.span_open().start().line, text.to_owned());
        }
    }

    fn find(&mut self, line: usize, text: String) {
        self.findings.push(Finding { place: format!("{}:{line}", self.path), rule: RULE, text });
    }
}

/// How many tokens are not read from here on: an attribute that is a comment, or a test.
fn skipped(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(hash), rest @ ..] = tokens else { return None };
    if hash.as_char() != '#' {
        return None;
    }
    let inner = matches!(rest.first(), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
    let TokenTree::Group(attribute) = rest.get(usize::from(inner))? else { return None };
    let text = attribute.stream().to_string();
    let len = 2 + usize::from(inner);
    if text.starts_with("doc") || text.contains("reason =") {
        return Some(len);
    }
    if text.replace(' ', "") != "cfg(test)" {
        return None;
    }
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    };
    let end = tokens[len..].iter().position(is_end)?;
    Some(len + end + 1)
}

fn is_log_macro(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Ident(level), TokenTree::Punct(mark), TokenTree::Group(_), ..] = tokens else {
        return false;
    };
    mark.as_char() == '!' && LOG_LEVELS.iter().any(|known| level == known)
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

    fn findings(text: &str) -> usize {
        let source = Source { path: "crates/x/src/lib.rs".to_owned(), text: text.to_owned() };
        of_file(&source).expect("Rust").len()
    }

    #[test]
    fn words_that_readers_stumbled_over_are_found_in_texts_only() {
        assert_eq!(findings(r#"fn f() { bail!("no room for {x}") }"#), 1);
        assert_eq!(findings("enum E { #[error(\"the key\\\n ring\")] A }"), 0);
        assert_eq!(findings(r#"enum E { #[error("no key ring is set")] A }"#), 1);
        assert_eq!(findings(r#"fn f() { bail!("mushrooms are {x}") }"#), 0);
        assert_eq!(findings(r#"fn f() { counter("room") }"#), 0);
        assert_eq!(findings("/// There is room for it.\nfn f() {}"), 0);
        assert_eq!(findings(r#"#[cfg(test)] mod tests { const A: &str = "no room"; }"#), 0);
        let after = r#"#[cfg(test)] mod tests; const A: &str = "no room";"#;
        assert_eq!(findings(after), 1);
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
