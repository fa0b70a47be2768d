//! The result as one HTML page that needs nothing else: tables, and plots as SVG within it.

use core::fmt::Write;

use plotters::prelude::*;

use super::Report;
use crate::error::StoneError;

const SIZE: (u32, u32) = (760, 340);
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#1b1f24}\
    h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse}\
    td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left}\
    pre{background:#f6f8fa;padding:1em;overflow:auto;font-size:13px}.void{background:#c62828;color:#fff;padding:.6em 1em}\
    svg{max-width:100%;height:auto}";

/// One curve.
struct Curve<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// What a plot shows.
struct Plot<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    log_x: bool,
    log_y: bool,
    curves: Vec<Curve<'a>>,
}

/// The page for one run, or for several at rising rates.
///
/// # Errors
///
/// [`StoneError::Target`] if a plot cannot be drawn.
pub fn html(reports: &[Report]) -> Result<String, StoneError> {
    let mut page = String::new();
    let title =
        reports.first().map(|r| format!("{} at {}", r.workload, r.targets.join(", "))).unwrap_or_default();
    let title = escape(&title);
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
    );
    for reason in reports.iter().flat_map(|r| &r.void) {
        let _ = write!(page, "<p class=\"void\">VOID: {}</p>", escape(reason));
    }
    if reports.len() > 1 {
        page.push_str(&rates(reports)?);
    }
    if let Some(last) = reports.iter().rev().find(|r| r.stands()).or_else(|| reports.last()) {
        page.push_str(&one(last, reports.len() > 1)?);
    }
    page.push_str("</html>\n");
    Ok(page)
}

fn rates(reports: &[Report]) -> Result<String, StoneError> {
    let curve = |name, value: fn(&Report) -> f64| Curve {
        name,
        points: reports.iter().map(|r| (r.rate, value(r))).collect(),
    };
    let mut text = String::from("<h2>Against the offered rate</h2>");
    text.push_str(&draw(&Plot {
        title: "Success",
        x: "offered attempts a second",
        y: "succeeded, %",
        log_x: false,
        log_y: false,
        curves: vec![curve("success", |r| r.success * 100.0)],
    })?);
    text.push_str(&draw(&Plot {
        title: "Latency of the first request",
        x: "offered attempts a second",
        y: "ms",
        log_x: false,
        log_y: true,
        curves: vec![
            curve("p50", |r| r.first().p50_us / 1e3),
            curve("p99", |r| r.first().p99_us / 1e3),
            curve("p99.99", |r| r.first().p9999_us / 1e3),
        ],
    })?);
    text.push_str("<table><tr><th>offered/s<th>carried/s<th>success %<th>p50 ms<th>p99 ms<th>server us/attempt<th>void</tr>");
    for r in reports {
        let _ = write!(
            text,
            "<tr><td>{:.0}<td>{:.0}<td>{:.3}<td>{:.3}<td>{:.3}<td>{:.1}<td>{}</tr>",
            r.rate,
            r.success_rate,
            r.success * 100.0,
            r.first().p50_us / 1e3,
            r.first().p99_us / 1e3,
            r.server_us_per_attempt,
            if r.stands() { "" } else { "void" }
        );
    }
    text.push_str("</table>");
    Ok(text)
}

fn one(report: &Report, of_several: bool) -> Result<String, StoneError> {
    let mut text = String::new();
    let _ = write!(text, "<h2>{:.0} attempts a second</h2>", report.rate);
    if of_several {
        text.push_str("<p>The last run that stands, in detail.</p>");
    }
    // What comes after the last attempt, or in a broken second, is no rate.
    #[expect(clippy::cast_precision_loss, reason = "seconds of one run fit a double")]
    let whole = |point: &&super::Point| point.second as f64 + 0.9 < report.on_seconds;
    let seconds: Vec<&super::Point> = report.series.iter().filter(whole).collect();
    #[expect(clippy::cast_precision_loss, reason = "seconds of one run fit a double")]
    let series = |name, value: fn(&super::Point) -> f64| Curve {
        name,
        points: seconds.iter().map(|p| (p.second as f64, value(p))).collect(),
    };
    #[expect(clippy::cast_precision_loss, reason = "counts of one second fit a double")]
    let counts = vec![
        series("begun", |p| p.started as f64),
        series("succeeded", |p| p.succeeded as f64),
        series("failed", |p| p.failed as f64),
    ];
    text.push_str(&draw(&Plot {
        title: "Attempts",
        x: "second",
        y: "a second",
        log_x: false,
        log_y: false,
        curves: counts,
    })?);
    text.push_str(&draw(&Plot {
        title: "Latency of the first request",
        x: "second",
        y: "ms",
        log_x: false,
        log_y: true,
        curves: vec![series("p50", |p| p.p50_us / 1e3), series("p99", |p| p.p99_us / 1e3)],
    })?);
    text.push_str(&draw(&Plot {
        title: "Share of first requests answered within",
        x: "ms",
        y: "%",
        log_x: true,
        log_y: false,
        curves: vec![Curve {
            name: "answered",
            points: report.curve.iter().map(|&(quantile, us)| (us / 1e3, quantile * 100.0)).collect(),
        }],
    })?);
    let _ = write!(text, "<h2>In figures</h2><pre>{}</pre>", escape(&report.to_string()));
    for (kind, unexpected) in &report.unexpected.0 {
        let sample = if unexpected.sample.is_empty() { "" } else { &unexpected.sample };
        let _ = write!(text, "<h2>{} x {}</h2><pre>{}</pre>", unexpected.count, escape(kind), escape(sample));
    }
    Ok(text)
}

/// Colours that keep apart on white, for those too who tell few.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 90, 181), RGBColor(214, 104, 0), RGBColor(120, 20, 90)];

/// A logarithmic axis is a linear one of logarithms whose labels say what they stand for.
fn scaled(log: bool, value: f64) -> f64 {
    if log { value.max(1e-3).log10() } else { value }
}

/// As few digits as tell one label from the next.
fn label(log: bool, place: f64) -> String {
    let value = if log { 10_f64.powf(place) } else { place };
    let digits = match value.abs() {
        size if !(1e-9..9.95).contains(&size) => 0,
        size if size >= 0.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn draw(plot: &Plot<'_>) -> Result<String, StoneError> {
    let mut svg = String::new();
    draw_into(plot, &mut svg)
        .map_err(|error| StoneError::Target(format!("the plot `{}` cannot be drawn: {error}", plot.title)))?;
    Ok(svg)
}

fn draw_into(plot: &Plot<'_>, svg: &mut String) -> Result<(), Box<dyn core::error::Error>> {
    let curves: Vec<Vec<(f64, f64)>> = plot
        .curves
        .iter()
        // Nothing has no logarithm: a second without an answer is a gap.
        .map(|curve| curve.points.iter().filter(|(_, y)| !plot.log_y || *y > 0.0))
        .map(|points| points.map(|&(x, y)| (scaled(plot.log_x, x), scaled(plot.log_y, y))))
        .map(|points| points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect())
        .collect();
    let range = |values: &dyn Fn(&(f64, f64)) -> f64| {
        let all = || curves.iter().flatten().map(values);
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
    };
    let wide = |(low, high): (f64, f64)| if low < high { (low, high) } else { (high - 1.0, high + 1.0) };
    let any = curves.iter().any(|curve| !curve.is_empty());
    let (x_low, x_high) = if any { wide(range(&|p| p.0)) } else { (0.0, 1.0) };
    let (y_low, y_high) = match if any { range(&|p| p.1) } else { (0.0, 1.0) } {
        (low, high) if plot.log_y => (low - 0.1, high + 0.1),
        (_, high) => (0.0, high.max(1e-3) * 1.05),
    };
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(plot.title, ("sans-serif", 17))
        .margin(8)
        .margin_right(30)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(x_low..x_high, y_low..y_high)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .x_desc(plot.x)
        .y_desc(plot.y)
        .x_label_formatter(&|x| label(plot.log_x, *x))
        .y_label_formatter(&|y| label(plot.log_y, *y))
        .draw()?;
    for ((curve, points), colour) in plot.curves.iter().zip(curves).zip(COLOURS.iter().cycle()) {
        let drawn = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        drawn
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    if plot.curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2))
            .label_font(("sans-serif", 13))
            .draw()?;
    }
    drop(chart);
    area.present()?;
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_as_many_digits_as_they_need_and_logarithms_are_undone() {
        let labels = [0.0, 9000.0, 2.5, 0.25].map(|value| label(false, value));
        assert_eq!(labels, ["0", "9000", "2.5", "0.25"]);
        assert_eq!([-1.0, 0.0, 0.5, 2.0].map(|place| label(true, place)), ["0.1", "1", "3.2", "100"]);
    }

    #[test]
    fn a_plot_of_nothing_of_one_point_and_of_what_is_no_number_can_be_drawn() {
        for points in [vec![], vec![(1.0, 0.0)], vec![(f64::NAN, 1.0), (2.0, f64::INFINITY)]] {
            for log in [false, true] {
                let curves = vec![Curve { name: "c", points: points.clone() }];
                let plot = Plot { title: "t", x: "x", y: "y", log_x: log, log_y: log, curves };
                assert!(draw(&plot).unwrap().contains("</svg>"));
            }
        }
    }
}
