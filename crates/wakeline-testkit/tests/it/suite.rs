//! The suite is whole: a rule that is written is a rule that runs.

use std::fs;
use std::path::Path;

#[test]
fn every_rule_is_listed_in_the_suite() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let suite = fs::read_to_string(folder.join("mod.rs")).expect("the suite is there");
    let mut rules = 0;
    for entry in fs::read_dir(&folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let module = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let text = fs::read_to_string(&path).expect("a source file");
        let listed = suite
            .split(&format!("conformance_module!($fixture; {module};"))
            .nth(1)
            .and_then(|rest| rest.split(')').next())
            .unwrap_or_default();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
            let Some((rule, _)) = rest.split_once("(bench: &Bench)") else { continue };
            assert!(listed.contains(&format!(" {rule},")), "{module}::{rule} is not listed");
            rules += 1;
        }
    }
    assert!(rules > 100, "only {rules} rules were found");
}
