//! Measures the functions in the SQL files of PostgreSQL.

use super::{Measure, Rule};
use crate::source::Source;

const CREATE: &str = "CREATE OR REPLACE FUNCTION ";

/// The lines and parameters of the functions in a file. Functions of one name count as the largest
/// of them. Migrations cannot be changed, so they are not measured.
pub(crate) fn file(source: &Source) -> Vec<Measure> {
    if source.path.contains("/migrations/") {
        return Vec::new();
    }
    let mut measures: Vec<Measure> = Vec::new();
    for (start, _) in source.text.match_indices(CREATE) {
        let line = source.text[..start].lines().count() + 1;
        let rest = &source.text[start..];
        let (Some(open), Some(end)) = (rest.find('('), rest.find("\n$$")) else { continue };
        let name = rest[CREATE.len()..open].trim().trim_start_matches("@schema@.");
        let sizes = [
            (Rule::SqlFunction, rest[..end].lines().count() + 1),
            (Rule::SqlParams, parameters(&rest[open + 1..])),
        ];
        for (rule, size) in sizes {
            let item = format!("{}::{name}", source.path);
            let place = format!("{}:{line}", source.path);
            match measures.iter_mut().find(|known| known.rule == rule && known.item == item) {
                Some(known) if known.size >= size => {}
                Some(known) => *known = Measure { rule, item, place, size },
                None => measures.push(Measure { rule, item, place, size }),
            }
        }
    }
    measures
}

/// How many parameters a list has that begins behind its parenthesis.
fn parameters(list: &str) -> usize {
    let (mut depth, mut count, mut is_empty) = (0, 1, true);
    for c in list.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => count += 1,
            _ => is_empty &= c.is_whitespace(),
        }
    }
    if is_empty { 0 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<(Rule, usize)> {
        let source = Source { path: "a/f.sql".to_owned(), text: text.to_owned() };
        file(&source).into_iter().map(|measure| (measure.rule, measure.size)).collect()
    }

    #[test]
    fn functions_count_from_create_to_the_end_of_their_body() {
        let text = "-- A comment.\nCREATE OR REPLACE FUNCTION @schema@.f(\n    \
                    p_a numeric(3, 1),\n    p_b text[] DEFAULT ARRAY['x', 'y'])\nRETURNS void\n\
                    LANGUAGE sql AS $$\n    SELECT 1\n$$;\n";
        assert_eq!(sizes(text), [(Rule::SqlFunction, 7), (Rule::SqlParams, 2)]);
        assert_eq!(sizes(&text.replace("CREATE OR REPLACE FUNCTION", "SELECT")), []);
    }

    #[test]
    fn functions_of_one_name_count_as_the_largest() {
        let function = |parameters: &str| {
            format!("CREATE OR REPLACE FUNCTION @schema@.f({parameters}) AS $$\nSELECT 1\n$$;\n")
        };
        let text = function("") + &function("a int, b int") + &function("a int");
        assert_eq!(sizes(&text), [(Rule::SqlFunction, 3), (Rule::SqlParams, 2)]);
    }
}
