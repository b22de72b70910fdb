//! Formats errors with their causes in one line.

use std::error::Error;

/// Formats an error with all its causes, for a log or a person. Drivers report what is wrong in a
/// cause and print the error itself as "db error". A cause that the text before it already ends
/// with is not repeated.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        #[source]
        below: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let below =
            texts.iter().rev().fold(None, |below, text| Some(Box::new(Layer { text, below })));
        *below.expect("at least one")
    }

    #[test]
    fn every_cause_is_named_once() {
        for (texts, line) in [
            (
                &["push failed", "db error", "out of memory"][..],
                "push failed: db error: out of memory",
            ),
            (&["cannot connect: refused", "refused"], "cannot connect: refused"),
            (&["alone"], "alone"),
        ] {
            assert_eq!(error_chain(&layers(texts)), line);
        }
    }
}
