//! Formats errors with their causes in one line.

use std::error::Error;

/// Formats an error with all its causes, separated by colons. The causes are necessary, because the
/// message of a database driver's error may only be "db error", with the details in its source. The
/// message of a cause is left out if the text already ends with it.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
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
        cause: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let cause =
            texts.iter().rev().fold(None, |cause, text| Some(Box::new(Layer { text, cause })));
        *cause.expect("at least one")
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
