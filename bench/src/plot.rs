//! Bar charts as SVG, for the documentation.
//!
//! # Invariants
//! * The axis is logarithmic. Values below its floor are drawn at the floor; the text shows their
//!   exact value.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

const WIDTH: f64 = 920.0;
/// Space for the labels on the left, and for the text of the longest bar on the right.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 72.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
const COLOURS: [&str; 3] = ["#2b6cb0", "#dd8a2e", "#5a9e4b"];

/// A chart with a bar for each series in each row.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The unit, which is shown below the axis.
    pub(crate) unit: &'static str,
    /// The lowest value on the axis.
    pub(crate) floor: f64,
    pub(crate) series: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<Bar>)>,
}

/// A measured value, and the prediction.
#[derive(Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) measured: f64,
    /// A higher quantile of the same measurement, which is drawn as a thin line after the bar.
    pub(crate) up_to: Option<f64>,
    pub(crate) predicted: Option<f64>,
}

impl Chart {
    /// Writes the chart into a folder.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let path = folder.join(name);
        std::fs::write(&path, self.svg())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn svg(&self) -> String {
        let bars = |row: &(String, Vec<Bar>)| row.1.len() as f64 * BAR + GAP;
        let plot: f64 = self.rows.iter().map(bars).sum();
        let bottom = TOP + plot;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            height = bottom + 46.0
        );
        text(&mut svg, point(16.0, 24.0), "font-size=\"15\" font-weight=\"bold\"", &self.title);
        self.legend(&mut svg);
        self.axis(&mut svg, bottom);
        let mut y = TOP + GAP / 2.0;
        for (label, bars) in &self.rows {
            let middle = y + bars.len() as f64 * BAR / 2.0 + 4.0;
            text(&mut svg, point(LEFT - 10.0, middle), "text-anchor=\"end\"", label);
            for (series, bar) in bars.iter().enumerate() {
                self.bar(&mut svg, y, series, *bar);
                y += BAR;
            }
            y += GAP;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for (index, name) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            rectangle(svg, point(x, 40.0), size(12.0, 12.0), colour);
            text(svg, point(x + 18.0, 50.0), "", name);
            x += 40.0 + name.chars().count() as f64 * 7.0;
        }
        if self.rows.iter().flat_map(|(_, bars)| bars).any(|bar| bar.predicted.is_some()) {
            rectangle(svg, point(x, 38.0), size(3.0, 16.0), "#111111");
            text(svg, point(x + 10.0, 50.0), "", "predicted by the design");
        }
    }

    fn axis(&self, svg: &mut String, bottom: f64) {
        let mut at = self.floor;
        while at <= self.ceiling() * 1.001 {
            let x = self.x(at);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
                 stroke=\"#dddddd\"/>"
            );
            text(
                svg,
                point(x, bottom + 16.0),
                "text-anchor=\"middle\" fill=\"#555555\"",
                &short(at),
            );
            at *= 10.0;
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(
            svg,
            point(middle, bottom + 36.0),
            "text-anchor=\"middle\" fill=\"#555555\"",
            self.unit,
        );
    }

    fn bar(&self, svg: &mut String, y: f64, series: usize, bar: Bar) {
        let end = self.x(bar.measured).max(LEFT + 2.0);
        let colour = COLOURS[series % COLOURS.len()];
        rectangle(svg, point(LEFT, y + 1.0), size(end - LEFT, BAR - 2.0), colour);
        let up_to = bar.up_to.map(|value| self.x(value).max(end));
        if let Some(x) = up_to {
            rectangle(svg, point(end, y + BAR / 2.0 - 1.0), size(x - end, 2.0), colour);
        }
        let predicted = bar.predicted.map(|value| self.x(value));
        if let Some(x) = predicted {
            rectangle(svg, point(x - 1.5, y), size(3.0, BAR), "#111111");
        }
        let right = [up_to, predicted].into_iter().flatten().fold(end, f64::max) + 6.0;
        text(svg, point(right, y + BAR - 3.0), "font-size=\"10\"", &short(bar.measured));
    }

    /// The upper end of the axis: the floor times the lowest power of ten that exceeds all values.
    fn ceiling(&self) -> f64 {
        let bars = self.rows.iter().flat_map(|(_, bars)| bars);
        let values = bars.flat_map(|bar| [Some(bar.measured), bar.up_to, bar.predicted]);
        let most = values.flatten();
        let most = most.fold(self.floor * 10.0, f64::max);
        self.floor * 10_f64.powf((most / self.floor).log10().ceil())
    }

    fn x(&self, value: f64) -> f64 {
        let part = (value.max(self.floor) / self.floor).log10();
        LEFT + (WIDTH - LEFT - RIGHT) * part / (self.ceiling() / self.floor).log10()
    }
}

/// A position in the image.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

fn point(x: f64, y: f64) -> Point {
    Point { x, y }
}

/// The size of a rectangle.
#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

fn size(width: f64, height: f64) -> Size {
    Size { width, height }
}

fn rectangle(svg: &mut String, at: Point, size: Size, colour: &str) {
    let (Point { x, y }, Size { width, height }) = (at, size);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"{colour}\"/>"
    );
}

fn text(svg: &mut String, at: Point, attributes: &str, content: &str) {
    let Point { x, y } = at;
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{content}</text>");
}

/// Formats a value with a useful number of digits.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 10.0 => crate::table::count(value),
        value => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(measured: f64) -> Chart {
        let bar = Bar { measured, up_to: None, predicted: Some(160.0) };
        Chart {
            title: "a < b".to_owned(),
            unit: "statements",
            floor: 0.01,
            series: vec!["one".to_owned()],
            rows: vec![("row".to_owned(), vec![bar])],
        }
    }

    #[test]
    fn the_axis_spans_whole_powers_of_ten() {
        assert!((chart(1.0).ceiling() - 1_000.0).abs() < 1e-6);
        assert!((chart(0.0).x(0.0) - LEFT).abs() < 1e-9, "the floor is the left end");
        assert!((chart(1.0).x(1_000.0) - (WIDTH - RIGHT)).abs() < 1e-6);
    }

    #[test]
    fn text_is_escaped() {
        let svg = chart(2.5).svg();
        assert!(svg.contains("a &lt; b") && svg.contains(">2.5<") && !svg.contains("a < b"));
    }
}
