//! The suites are complete: every written rule is run.

use std::fs;
use std::path::Path;

/// Counts the rules of a folder, each of which must be listed in one of the files of its suite.
fn count_listed(folder: &str, suite: &[&str], bench: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let part = |name: &&str| fs::read_to_string(folder.join(name)).expect("the suite is there");
    let suite: String = suite.iter().map(part).collect();
    let mut rules = 0;
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let module = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(&path).expect("a source file");
        let listed = suite
            .split(&format!("conformance_module!([$($fixture)*]; {module};"))
            .nth(1)
            .and_then(|rest| rest.split(')').next())
            .unwrap_or_default();
        for rest in text.split("\npub async fn ").skip(1) {
            let Some((rule, arguments)) = rest.split_once('(') else { continue };
            if arguments.trim_start().starts_with(&format!("bench: &{bench}")) {
                assert!(listed.contains(&format!(" {rule},")), "{module}::{rule} is not listed");
                rules += 1;
            }
        }
    }
    rules
}

#[test]
fn every_rule_of_access_is_listed_in_its_suite() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/access_conformance");
    let suite = fs::read_to_string(source.with_extension("rs")).expect("the suite is there");
    let mut rules = 0;
    for module in ["audit.rs", "keys.rs"] {
        let text = fs::read_to_string(source.join(module)).expect("a source file");
        for rest in text.split("\npub async fn ").skip(1) {
            let rule = rest.split('(').next().expect("a name");
            assert!(suite.contains(&format!(" {rule},")), "{rule} is not listed");
            rules += 1;
        }
    }
    assert!(rules > 10, "only {rules} rules of access were found");
}

#[test]
fn every_rule_is_listed_in_its_suite() {
    let queue = count_listed("src/conformance", &["suite.rs", "records.rs"], "Bench");
    assert!(queue > 100, "only {queue} rules of the queue were found");
    let flow = count_listed("src/flow_conformance", &["suite.rs"], "FlowBench");
    assert!(flow > 200, "only {flow} rules of orchestrations were found");
    let hook = count_listed("src/hook_conformance", &["suite.rs", "suite_of_many.rs"], "HookBench");
    assert!(hook > 200, "only {hook} rules of webhooks were found");
}
