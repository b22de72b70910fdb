//! The known word that somebody may have meant.

/// The known word nearest to one that is not known, if it is near enough to have been meant.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = plain(word);
    let longest = (plain.len() / 3).max(if plain.len() > 3 { 2 } else { 1 });
    let near = known.map(|one| (distance(&plain, &self::plain(one)), one));
    let near = near.min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= longest).map(|(_, one)| one)
}

/// A word without what styles of writing differ in.
fn plain(word: &str) -> Vec<char> {
    // Longer words are nobody's typing mistakes, and would only cost time.
    let letters = word.chars().filter(|c| c.is_alphanumeric()).take(64);
    letters.flat_map(char::to_lowercase).collect()
}

/// How many letters are to be changed, added, removed or swapped with their neighbour.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(a != b);
            let mut least = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_typing_are_near_and_other_words_are_not() {
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
            assert_eq!(nearest(word, known.into_iter()), meant, "{word}");
        }
    }
}
