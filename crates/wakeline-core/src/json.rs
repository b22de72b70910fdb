//! How deeply a payload may nest.

use thiserror::Error;

/// Most lists and objects within each other.
const DEPTH_MAX: usize = 128;

/// JSON that nests too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the JSON nests lists and objects deeper than {DEPTH_MAX} levels")]
pub struct JsonTooDeep;

/// Refuses JSON that nests too deeply: what reads it later, in SQL or in a client, may have no
/// bound of its own and fail for ever on the stored message.
pub fn check_json_depth(json: &[u8]) -> Result<(), JsonTooDeep> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(JsonTooDeep);
                }
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
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
    }
}
