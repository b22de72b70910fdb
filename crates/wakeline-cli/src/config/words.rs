//! Parses settings whose value is one of a few words, and explains invalid values.

use std::net::SocketAddr;

use wakeline_core::nearest;

const LISTEN_FORM: &str = "must be an IP address and a port, like 127.0.0.1:7632 or [::1]:7632";

/// Parses the address to listen on.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{LISTEN_FORM}, not {text:?}"))
}

/// Returns the choice that a word names, or an error that lists the known words.
pub(super) fn choose<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let names = || known.iter().map(|(name, _)| *name);
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
    found.ok_or_else(|| must_be(text, &names().collect::<Vec<_>>()))
}

/// Describes the valid words, and suggests the nearest one.
fn must_be(text: &str, known: &[&str]) -> String {
    let meant = nearest(text, known.iter().copied());
    let hint = meant.map_or_else(String::new, |known| format!(" (did you mean {known}?)"));
    format!("must be {}, not {text:?}{hint}", listed(known))
}

/// Joins words as a sentence lists them: a, b or c.
pub(crate) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Rewrites a TOML decoder's message about a value without the names of Rust types. Returns `None`
/// for other messages.
pub(super) fn explain_value(message: &str) -> Option<String> {
    if message == "invalid socket address syntax" {
        return Some(LISTEN_FORM.to_owned());
    }
    if let Some(rest) = message.strip_prefix("unknown variant `") {
        let mut quoted = rest.split('`').step_by(2);
        let found = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.filter(|name| !name.is_empty()).collect();
        return Some(must_be(found, &known));
    }
    let rest = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let must = match expected {
        "u16" | "u32" | "u64" | "usize" => "must be a whole number, 0 or more",
        "a boolean" => "must be true or false",
        "a string" | "path string" => "must be a string in quotes",
        "a sequence" => "must be a list in brackets, like [\"a\", \"b\"]",
        table if table.starts_with("struct ") => "must be a table",
        _ => return None,
    };
    Some(format!("{must}, not {}", found.replace('`', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_an_error_that_names_the_nearest_one() {
        let known = [("after_commit", 1), ("trigger", 2), ("off", 3)];
        assert_eq!(choose("off", &known), Ok(3));
        let far = choose("maybe", &known).expect_err("unknown");
        assert_eq!(far, "must be after_commit, trigger or off, not \"maybe\"");
        let near = choose("triger", &known).expect_err("unknown");
        assert!(near.ends_with("(did you mean trigger?)"), "{near}");
    }

    #[test]
    fn values_are_explained_without_rust_types() {
        for (message, words) in [
            ("invalid type: string \"x\", expected usize", "a whole number, 0 or more, not string"),
            ("invalid value: integer `-1`, expected u32", "not integer -1"),
            ("invalid type: integer `1`, expected a boolean", "true or false, not integer 1"),
            ("unknown variant `jsn`, expected `text` or `json`", "text or json, not \"jsn\" (did"),
        ] {
            let text = explain_value(message).expect(message);
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(explain_value("duplicate key"), None);
    }
}
