//! A type name stands for one thing in the workspace.
//!
//! # Where it sits
//! `cargo xtask check types`: collects the structs, enums, traits, unions and type aliases that the
//! packages define outside tests and examples. Associated types of traits are not names of their
//! own.
//!
//! # Invariants
//! * A name that is defined twice is listed in [`ALLOWED`] with the reason, or is an error.
//! * An entry of that list that is not needed is an error.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use syn::visit::{self, Visit};

use crate::source::{self, Finding, Source};

const RULE: &str = "types";

/// Names that several packages have for a reason.
const ALLOWED: &[(&str, &str)] = &[
    ("PostgresProvider", "users of the facade and of the adapter for duroxide name the same thing"),
    ("SqliteProvider", "users of the facade and of the adapter for duroxide name the same thing"),
];

/// Where a type is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Definition {
    name: String,
    place: String,
}

/// Checks all packages of the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut definitions = Vec::new();
    for source in source::files(root, "rs")? {
        if !is_test(&source.path) {
            definitions.extend(definitions_of(&source)?);
        }
    }
    Ok(judge(&definitions, ALLOWED))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("examples/")
}

fn definitions_of(source: &Source) -> Result<Vec<Definition>> {
    let file = syn::parse_file(&source.text)
        .map_err(|error| anyhow::anyhow!("{} cannot be parsed: {error}", source.path))?;
    let mut visitor = TypeVisitor { path: &source.path, found: Vec::new() };
    visitor.visit_file(&file);
    Ok(visitor.found)
}

fn judge(definitions: &[Definition], allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for definition in definitions {
        places.entry(&definition.name).or_default().push(&definition.place);
    }
    places.retain(|_, places| places.len() > 1);
    let mut findings = Vec::new();
    for (name, places) in &places {
        if !allowed.iter().any(|(known, _)| known == name) {
            let text = format!(
                "{name} is also defined in {}: give it a prefix that says whose it is",
                places[1..].join(", ")
            );
            findings.push(Finding { place: places[0].to_owned(), rule: RULE, text });
        }
    }
    for (name, _) in allowed {
        if !places.contains_key(name) {
            let text = format!("{name} is defined once: remove it from the list of exceptions");
            findings.push(Finding { place: "xtask/src/types.rs".to_owned(), rule: RULE, text });
        }
    }
    findings
}

struct TypeVisitor<'a> {
    path: &'a str,
    found: Vec<Definition>,
}

impl TypeVisitor<'_> {
    fn define(&mut self, name: &syn::Ident) {
        let place = format!("{}:{}", self.path, name.span().start().line);
        self.found.push(Definition { name: name.to_string(), place });
    }
}

impl<'ast> Visit<'ast> for TypeVisitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Mod(module) if module.attrs.iter().any(is_for_tests) => return,
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    attribute.path().is_ident("cfg") && list.tokens.to_string() == "test"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(texts: &[&str], allowed: &[(&str, &str)]) -> Vec<String> {
        let mut definitions = Vec::new();
        for (text, number) in texts.iter().zip(1..) {
            let source = Source { path: format!("{number}.rs"), text: (*text).to_owned() };
            definitions.extend(definitions_of(&source).expect("parses"));
        }
        let findings = judge(&definitions, allowed);
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_name_that_is_defined_twice_is_found() {
        let found = findings(&["struct State;", "mod a {\n    enum State {}\n}"], &[]);
        let expected = "1.rs:1: [types] State is also defined in 2.rs:2: give it a prefix that \
                        says whose it is";
        assert_eq!(found, [expected]);
        assert_eq!(findings(&["struct State;", "trait Other { type State; }"], &[]).len(), 0);
        assert_eq!(findings(&["struct A;", "#[cfg(test)]\nmod tests { struct A; }"], &[]).len(), 0);
        assert_eq!(findings(&["fn f() { struct A; }", "type A = u8;"], &[]).len(), 1);
    }

    #[test]
    fn exceptions_are_needed_or_removed() {
        let allowed = [("State", "two programs")];
        assert_eq!(findings(&["struct State;", "struct State;"], &allowed).len(), 0);
        assert_eq!(findings(&["struct State;"], &allowed).len(), 1);
    }
}
