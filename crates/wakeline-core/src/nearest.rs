//! Finds the known name that an unknown one probably stands for.

/// Returns the known name that is nearest to an unknown one, if it is near enough to have been
/// meant. Case and separators are ignored.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = letters(name);
    let len = letters.chars().count();
    let distance_max = (len / 3).max(if len > 3 { 2 } else { 1 });
    let measured = known
        .into_iter()
        .map(|one| (strsim::damerau_levenshtein(&letters, &self::letters(one)), one));
    let nearest = measured.min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, _)| *distance <= distance_max).map(|(_, one)| one)
}

/// Returns a name without case and separators.
fn letters(name: &str) -> String {
    // Longer names are not typing mistakes, and comparing them would only take time.
    let letters = name.chars().filter(|c| c.is_alphanumeric()).take(64);
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_mistakes_are_near_and_other_words_are_not() {
        let known = ["queue", "payload", "delayMs", "status", "wait", "transactionId"];
        for (word, meant) in [
            ("wiat", Some("wait")),
            ("delay_ms", Some("delayMs")),
            ("DELAYMS", Some("delayMs")),
            ("state", Some("status")),
            ("transactionID", Some("transactionId")),
            ("paylod", Some("payload")),
            ("colour", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
