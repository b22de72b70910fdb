//! The output of the benchmarks: Markdown tables, so that the output of a run can be kept
//! unchanged.

use std::io::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Prints a line to standard output. A closed pipe is not an error.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A Markdown table with aligned columns.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    /// Whether the table has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Prints the table under a heading.
    pub(crate) fn print(&self, heading: &str) {
        print_line(&format!("\n## {heading}\n"));
        print_line(&self.render());
    }

    fn render(&self) -> String {
        let columns = self.rows[0].len();
        let widest = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} "));
            format!("|{}|", padded.collect::<Vec<_>>().join("|"))
        };
        let mut lines = vec![line(&self.rows[0])];
        let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|");
        lines.push(format!("|{rule}|"));
        lines.extend(self.rows[1..].iter().map(|row| line(row)));
        lines.join("\n")
    }
}

/// Formats a whole number with thousands separators.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 { format!("-{text}") } else { text }
}

/// Formats microseconds as milliseconds.
pub(crate) fn millis(micros: u64) -> String {
    format!("{:.2} ms", micros as f64 / 1000.0)
}

/// Returns the text for whether a target was met.
pub(crate) fn met(yes: bool) -> String {
    if yes { "met" } else { "not met" }.to_owned()
}

/// Returns the text for whether a target was met in all rounds, in none or in some.
pub(crate) fn met_in_rounds(rounds: &[f64], meets: impl Fn(f64) -> bool) -> String {
    let good = rounds.iter().filter(|value| meets(**value)).count();
    match good {
        _ if good == rounds.len() => met(true),
        0 => met(false),
        _ => format!("rounds disagree, {good} of {} meet it", rounds.len()),
    }
}

/// Returns the interquartile range.
pub(crate) fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values.get((values.len().saturating_sub(1)) * quarter / 4);
    at(3).zip(at(1)).map_or(f64::NAN, |(high, low)| high - low)
}

/// A histogram of latencies in microseconds, up to two minutes. It has bounds, because a histogram
/// without bounds cuts off values above its range.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 120_000_000, 3).expect("the bounds are in order")
}

/// A duration in whole microseconds.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the median, which is the lower of the two middle values for an even number of values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["a", "value"]);
        table.row(&["long name".to_owned(), "1".to_owned()]);
        let expected = "| a         | value |\n|-----------|-------|\n| long name | 1     |";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(999.4), "999");
        assert_eq!(count(-1_500.0), "-1,500");
        assert_eq!(millis(1_234), "1.23 ms");
    }

    #[test]
    fn rounds_that_disagree_have_no_result() {
        let verdict = |rounds: &[f64]| met_in_rounds(rounds, |ratio| ratio >= 0.7);
        assert_eq!(verdict(&[0.9, 0.8]), "met");
        assert_eq!(verdict(&[0.6, 0.5]), "not met");
        assert_eq!(verdict(&[0.9, 0.5, 0.8]), "rounds disagree, 2 of 3 meet it");
    }

    #[test]
    fn a_spread_leaves_out_the_extremes() {
        assert!((spread(vec![-100.0, 1.0, 2.0, 4.0, 90.0]) - 3.0).abs() < f64::EPSILON);
        assert!(spread(vec![5.0]).abs() < f64::EPSILON);
    }

    #[test]
    fn latencies_are_not_cut_off() {
        let mut latencies = latencies();
        latencies.saturating_record(60_000_000);
        let off = latencies.value_at_quantile(0.5).abs_diff(60_000_000);
        assert!(off < 60_000, "{off}");
    }

    #[test]
    fn a_median_is_one_of_the_values() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
