//! Limits the nesting depth of payloads.

use thiserror::Error;

/// The maximum number of nested lists and objects.
const DEPTH_MAX: usize = 128;

/// The JSON is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the JSON nests lists and objects deeper than {DEPTH_MAX} levels")]
pub struct JsonTooDeep;

/// Refuses JSON that is nested too deeply. Code that reads it later, in SQL or in a client, may
/// have no limit of its own and would fail on the stored message every time.
pub fn check_json_depth(json: &[u8]) -> Result<(), JsonTooDeep> {
    let (mut depth, mut rest) = (0_usize, json);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(rest),
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(JsonTooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Returns what follows a string, given what follows its opening quotation mark. Strings are most
/// of a body: examining each of their bytes would cost more than parsing them.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_and_objects_outside_of_texts_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check_json_depth(nested(DEPTH_MAX).as_bytes()), Ok(()));
        assert_eq!(check_json_depth(nested(DEPTH_MAX + 1).as_bytes()), Err(JsonTooDeep));
        let text = format!("[\"\\\"{}\"]", "{".repeat(1_000));
        assert_eq!(check_json_depth(text.as_bytes()), Ok(()));
        let after_text = format!("[\"\\\\\", {}]", nested(DEPTH_MAX));
        assert_eq!(check_json_depth(after_text.as_bytes()), Err(JsonTooDeep));
        for unfinished in ["\"", "\"\\", "\"\\\"[", ""] {
            assert_eq!(check_json_depth(unfinished.as_bytes()), Ok(()));
        }
    }
}
