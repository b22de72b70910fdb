//! Compares sizes with the limits and with the listed exceptions.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{EXCEPTIONS, Measure, Rule};
use crate::source::Finding;

/// A thing that is known to be too large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exception {
    rule: Rule,
    item: String,
    size: usize,
}

/// Reads the list: objects with `rule`, `item`, `size` and `why`.
pub(crate) fn parse(text: &str) -> Result<Vec<Exception>> {
    let list: Vec<BTreeMap<String, Value>> = serde_json::from_str(text)?;
    let mut exceptions: Vec<Exception> = Vec::new();
    for (number, entry) in list.iter().enumerate() {
        let exception = parse_one(entry).with_context(|| format!("entry {number}"))?;
        let (rule, item) = (exception.rule, &exception.item);
        if exceptions.iter().any(|known| known.rule == rule && known.item == *item) {
            bail!("entry {number} lists {item} a second time");
        }
        exceptions.push(exception);
    }
    Ok(exceptions)
}

fn parse_one(entry: &BTreeMap<String, Value>) -> Result<Exception> {
    const FIELDS: [&str; 4] = ["rule", "item", "size", "why"];
    if let Some(stray) = entry.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        bail!("unknown field {stray:?}");
    }
    let text = |key: &str| {
        entry.get(key).and_then(Value::as_str).with_context(|| format!("{key} is missing"))
    };
    let rule = Rule::from_name(text("rule")?).context("unknown rule")?;
    let size = entry.get("size").and_then(Value::as_u64).context("size is missing")?;
    if text("why")?.trim().is_empty() {
        bail!("why is empty");
    }
    Ok(Exception { rule, item: text("item")?.to_owned(), size: usize::try_from(size)? })
}

/// What breaks the rules: sizes over the limit that are not listed or have grown, and listed
/// exceptions that are stale.
pub(crate) fn judge(measures: &[Measure], exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        measures.iter().filter_map(|measure| judge_one(measure, exceptions)).collect();
    for exception in exceptions {
        let known = measures.iter().any(|m| m.rule == exception.rule && m.item == exception.item);
        if !known {
            findings.push(Finding {
                place: EXCEPTIONS.to_owned(),
                rule: exception.rule.name(),
                text: format!("{} does not exist; remove its entry", exception.item),
            });
        }
    }
    findings
}

fn judge_one(measure: &Measure, exceptions: &[Exception]) -> Option<Finding> {
    let Measure { rule, item, place, size } = measure;
    let listed = exceptions.iter().find(|e| e.rule == *rule && e.item == *item);
    let text = match listed.map(|exception| exception.size) {
        None if *size <= rule.limit() => return None,
        None => rule.complaint(*size),
        Some(_) if *size <= rule.limit() => {
            format!("{item} is within the limit now; remove its entry in {EXCEPTIONS}")
        }
        Some(known) if *size > known => {
            format!("{}; it was {known} and may not grow", rule.complaint(*size))
        }
        Some(known) if *size < known => {
            format!("{item} shrank from {known}; write {size} in {EXCEPTIONS}")
        }
        Some(_) => return None,
    };
    Some(Finding { place: place.clone(), rule: rule.name(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(size: usize) -> Vec<Measure> {
        vec![Measure {
            rule: Rule::Function,
            item: "a.rs::f".to_owned(),
            place: "a.rs:1".to_owned(),
            size,
        }]
    }

    fn listed(size: usize) -> Vec<Exception> {
        vec![Exception { rule: Rule::Function, item: "a.rs::f".to_owned(), size }]
    }

    #[test]
    fn what_is_within_the_limit_passes_and_one_more_line_does_not() {
        assert!(judge(&measured(70), &[]).is_empty());
        let findings = judge(&measured(71), &[]);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].to_string(),
            "a.rs:1: [function] the function has 71 lines, 70 at most"
        );
    }

    #[test]
    fn an_exception_may_not_grow() {
        assert!(judge(&measured(80), &listed(80)).is_empty());
        assert!(judge(&measured(81), &listed(80))[0].text.contains("may not grow"));
    }

    #[test]
    fn an_exception_that_shrank_is_written_down() {
        assert!(judge(&measured(79), &listed(80))[0].text.contains("write 79"));
    }

    #[test]
    fn an_exception_that_is_not_needed_goes() {
        assert!(judge(&measured(70), &listed(80))[0].text.contains("remove its entry"));
    }

    #[test]
    fn an_exception_for_nothing_is_an_error() {
        let findings = judge(&[], &listed(80));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.contains("does not exist"));
    }

    #[test]
    fn the_list_is_read_strictly() {
        let good = r#"[{"rule":"function","item":"a.rs::f","size":80,"why":"one table"}]"#;
        assert_eq!(parse(good).expect("valid"), listed(80));
        for (bad, reason) in [
            (good.replace("function", "fonction"), "unknown rule"),
            (good.replace("one table", " "), "why is empty"),
            (good.replace("size", "sise"), "unknown field"),
            (good.replace(r#""item":"a.rs::f","#, ""), "item is missing"),
            (
                good.replace(
                    "[{",
                    "[{\"rule\":\"function\",\"item\":\"a.rs::f\",\"size\":1,\"why\":\"x\"},{",
                ),
                "second time",
            ),
        ] {
            let error = format!("{:#}", parse(&bad).expect_err(&bad));
            assert!(error.contains(reason), "{error}");
        }
    }
}
