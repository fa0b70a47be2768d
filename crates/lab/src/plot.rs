//! Curves and bars as SVG that needs nothing else.

use core::fmt::Write as _;

use serde::Serialize;

/// One curve.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// What a plot shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x: String,
    /// Beside it.
    pub y: String,
    /// Whether y is logarithmic; what is not above 0 is left out then.
    pub log_y: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
/// Okabe and Ito's colours, which people tell apart who see few.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d00"];
const DASHES: [&str; 3] = ["", "7 3", "2 3"];

/// One axis: from data to a place between 0 and 1.
struct Axis {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_log { value.log10() } else { value };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }

    /// Where the lines of the grid are.
    fn marks(&self) -> Vec<f64> {
        if self.is_log {
            let mut mark = 10_f64.powf(self.low.log10().floor());
            let mut marks = Vec::new();
            while mark <= self.high * 1.0001 {
                if mark >= self.low * 0.9999 {
                    marks.push(mark);
                }
                mark *= 10.0;
            }
            return marks;
        }
        let rough = (self.high - self.low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|by| by * power).find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let mut mark = (self.low / step).ceil() * step;
        let mut marks = Vec::new();
        while mark <= self.high + step * 1e-6 {
            marks.push(mark);
            mark += step;
        }
        marks
    }
}

impl Plot {
    /// Draws it.
    #[must_use]
    pub fn svg(&self) -> String {
        let is_shown = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!self.log_y || y > 0.0);
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().copied().filter(is_shown));
        let least = |value: fn((f64, f64)) -> f64| points().map(value).fold(f64::INFINITY, f64::min);
        let most = |value: fn((f64, f64)) -> f64| points().map(value).fold(f64::NEG_INFINITY, f64::max);
        let (x_low, x_high, y_low, y_high) = (least(|p| p.0), most(|p| p.0), least(|p| p.1), most(|p| p.1));
        if !x_low.is_finite() {
            return String::new();
        }
        let x = Axis { low: x_low.min(x_high - 1e-9), high: x_high.max(x_low + 1e-9), is_log: false };
        let y = if self.log_y {
            let low = 10_f64.powf(y_low.log10().floor());
            Axis { low, high: 10_f64.powf(y_high.log10().ceil()).max(low * 10.0), is_log: true }
        } else {
            Axis { low: 0.0, high: (y_high * 1.05).max(1e-9), is_log: false }
        };
        let at_x = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
        let at_y = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\"><text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{}</text>",
            escape(&self.title)
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in x.marks() {
            let at = at_x(mark);
            let _ = write!(
                svg,
                "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e5e5e5\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                number(mark)
            );
        }
        for mark in y.marks() {
            let at = at_y(mark);
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e5e5e5\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                number(mark)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(14 {:.1}) \
             rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            escape(&self.x),
            f64::midpoint(TOP, bottom),
            escape(&self.y)
        );
        for (place, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS.get(place % COLOURS.len()).copied().unwrap_or("#000");
            let dash = DASHES.get(place / COLOURS.len() % DASHES.len()).copied().unwrap_or("");
            let style =
                format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"");
            let mut path = String::new();
            for (nth, &(px, py)) in curve.points.iter().filter(|point| is_shown(point)).enumerate() {
                let _ = write!(path, "{}{:.1} {:.1}", if nth == 0 { 'M' } else { 'L' }, at_x(px), at_y(py));
            }
            #[expect(clippy::cast_precision_loss, reason = "a handful of curves")]
            let line = TOP + 8.0 + place as f64 * 18.0;
            let _ = write!(
                svg,
                "<path d=\"{path}\" {style}/><path d=\"M{:.1} {line:.1}h22\" {style}/><text x=\"{:.1}\" \
                 y=\"{:.1}\">{}</text>",
                right + 10.0,
                right + 38.0,
                line + 4.0,
                escape(&curve.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

/// A number as it stands at an axis.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text within HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_from_corner_to_corner_and_names_stay_text() {
        let curve = Curve { name: "a<b".to_owned(), points: vec![(0.0, 0.0), (10.0, 100.0)] };
        let plot =
            Plot { title: "t".into(), x: "x".into(), y: "y".into(), log_y: false, curves: vec![curve] };
        let svg = plot.svg();
        assert!(svg.contains("M70.0 314.0L610.0"), "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    }

    #[test]
    fn a_logarithmic_axis_has_a_mark_per_decade_and_leaves_zero_out() {
        let curve = Curve { name: "c".to_owned(), points: vec![(0.0, 0.0), (1.0, 0.2), (2.0, 300.0)] };
        let plot = Plot { title: "t".into(), x: "x".into(), y: "y".into(), log_y: true, curves: vec![curve] };
        let svg = plot.svg();
        for mark in [">0.1<", ">1<", ">10<", ">100<", ">1000<"] {
            assert!(svg.contains(mark), "{mark} {svg}");
        }
        assert_eq!(svg.matches("NaN").count() + svg.matches("inf").count(), 0);
    }
}
