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
        log_y: false,
        curves: vec![curve("success", |r| r.success * 100.0)],
    })?);
    text.push_str(&draw(&Plot {
        title: "Latency of the first request",
        x: "offered attempts a second",
        y: "ms",
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
    let _ = write!(text, "<h2>{} attempts a second</h2>", report.rate);
    if of_several {
        text.push_str("<p>The last run that stands, in detail.</p>");
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds of one run fit a double")]
    let series = |name, value: fn(&super::Point) -> f64| Curve {
        name,
        points: report.series.iter().map(|p| (p.second as f64, value(p))).collect(),
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
        log_y: false,
        curves: counts,
    })?);
    text.push_str(&draw(&Plot {
        title: "Latency of the first request",
        x: "second",
        y: "ms",
        log_y: true,
        curves: vec![series("p50", |p| p.p50_us / 1e3), series("p99", |p| p.p99_us / 1e3)],
    })?);
    text.push_str(&draw(&Plot {
        title: "Share of first requests answered within",
        x: "ms",
        y: "%",
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

fn draw(plot: &Plot<'_>) -> Result<String, StoneError> {
    let failed =
        |error: String| StoneError::Target(format!("the plot `{}` cannot be drawn: {error}", plot.title));
    let points =
        || plot.curves.iter().flat_map(|curve| &curve.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let x_max = points().map(|p| p.0).fold(f64::MIN_POSITIVE, f64::max);
    let x_min = points().map(|p| p.0).fold(x_max, f64::min).min(x_max * 0.999);
    let y_max = points().map(|p| p.1).fold(1e-3, f64::max) * 1.05;
    let y_low = points().map(|p| p.1).filter(|y| *y > 0.0).fold(y_max, f64::min).max(1e-3).min(y_max / 2.0);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area);
        chart.caption(plot.title, ("sans-serif", 17)).margin(8).x_label_area_size(38).y_label_area_size(62);
        let drawn = if plot.log_y {
            let range = (y_low..y_max).log_scale();
            chart.build_cartesian_2d(x_min..x_max, range).map_err(|e| e.to_string()).and_then(|mut chart| {
                chart
                    .configure_mesh()
                    .light_line_style(TRANSPARENT)
                    .x_desc(plot.x)
                    .y_desc(plot.y)
                    .draw()
                    .map_err(|e| e.to_string())?;
                for (place, curve) in plot.curves.iter().enumerate() {
                    let colour = Palette99::pick(place).to_rgba();
                    let line = curve.points.iter().map(|&(x, y)| (x, y.max(y_low)));
                    let drawn = chart
                        .draw_series(LineSeries::new(line, colour.stroke_width(2)))
                        .map_err(|e| e.to_string())?;
                    drawn.label(curve.name).legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                    });
                }
                chart
                    .configure_series_labels()
                    .background_style(WHITE.mix(0.8))
                    .border_style(BLACK.mix(0.2))
                    .draw()
                    .map_err(|e| e.to_string())
            })
        } else {
            chart.build_cartesian_2d(x_min..x_max, 0.0..y_max).map_err(|e| e.to_string()).and_then(
                |mut chart| {
                    chart
                        .configure_mesh()
                        .light_line_style(TRANSPARENT)
                        .x_desc(plot.x)
                        .y_desc(plot.y)
                        .draw()
                        .map_err(|e| e.to_string())?;
                    for (place, curve) in plot.curves.iter().enumerate() {
                        let colour = Palette99::pick(place).to_rgba();
                        let line = curve.points.iter().copied();
                        let drawn = chart
                            .draw_series(LineSeries::new(line, colour.stroke_width(2)))
                            .map_err(|e| e.to_string())?;
                        drawn.label(curve.name).legend(move |(x, y)| {
                            PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                        });
                    }
                    chart
                        .configure_series_labels()
                        .background_style(WHITE.mix(0.8))
                        .border_style(BLACK.mix(0.2))
                        .draw()
                        .map_err(|e| e.to_string())
                },
            )
        };
        drawn.map_err(failed)?;
        area.present().map_err(|error| failed(error.to_string()))?;
    }
    Ok(svg)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
