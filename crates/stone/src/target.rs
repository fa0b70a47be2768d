//! What a target tells of itself: how long its balancer took to decide and to forward (Prometheus text, over HTTP).
//!
//! The histograms are read when the judged part begins and when it ends; the difference is that part's. A histogram
//! knows its observations only by bucket, so that percentiles and the maximum are upper bounds and the deviation is an
//! estimate; count and mean are exact. Left out: HTTPS, redirects, authentication.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use crate::error::StoneError;

/// The histograms that are read, by the name that a report gives them.
const WANTED: [(&str, &str); 2] =
    [("decision", "tandem_balancer_decision_seconds"), ("forward", "tandem_balancer_forward_seconds")];
/// Longest answer that is read.
const BYTES_MAX: u64 = 16 << 20;
/// Time to connect, and between two pieces of the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// One histogram over the judged part, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Span {
    /// Observations.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Their standard deviation, as if each lay in the middle of its bucket.
    pub sd_us: f64,
    /// Half are at most this.
    pub p50_us: f64,
    /// 90 % are at most this.
    pub p90_us: f64,
    /// 99 % are at most this.
    pub p99_us: f64,
    /// All are at most this; infinite if one exceeds the last bucket.
    pub max_us: f64,
}

/// Cumulative counts by upper bound in seconds (its bits, which order as positive numbers do), and the sum.
#[derive(Clone, PartialEq, Debug, Default)]
struct Histogram {
    up_to: BTreeMap<u64, f64>,
    sum: f64,
}

/// What one reading found, by metric name.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reading(BTreeMap<&'static str, Histogram>);

/// Reads `url` (`http://HOST:PORT/PATH`).
///
/// # Errors
///
/// [`StoneError::Target`] if nobody answers there with 200.
pub(crate) fn read(url: &str) -> Result<Reading, StoneError> {
    get(url).map(|text| Reading::of(&text)).map_err(|why| StoneError::Target(format!("{url}: {why}")))
}

fn get(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").ok_or("an address begins with http://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/metrics" } else { path };
    let told = |error: std::io::Error| error.to_string();
    let port = if host.rsplit(']').next().is_some_and(|tail| tail.contains(':')) { "" } else { ":80" };
    let addr = format!("{host}{port}").to_socket_addrs().map_err(told)?.next().ok_or("has no address")?;
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(told)?;
    // HTTP/1.0: the answer is not chunked, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut answer = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut answer).map_err(told)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer is no HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") { Ok(body.to_owned()) } else { Err(status.to_owned()) }
}

impl Reading {
    fn of(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let Some((metric, name)) =
                WANTED.iter().find_map(|&(_, metric)| Some((metric, line.strip_prefix(metric)?)))
            else {
                continue;
            };
            let Some(value) = name.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()) else {
                continue;
            };
            let histogram = found.0.entry(metric).or_default();
            if name.starts_with("_sum") {
                histogram.sum += value;
            } else if let Some(labels) = name.strip_prefix("_bucket")
                && let Some(bound) = labels.split("le=\"").nth(1).and_then(|le| le.split('"').next())
                && let Ok(bound) = bound.parse::<f64>()
            {
                // Of several label sets, such as one a shard, the sum.
                *histogram.up_to.entry(bound.to_bits()).or_default() += value;
            }
        }
        found
    }

    /// What was observed since `before`, by the report's names.
    pub(crate) fn since(&self, before: &Self) -> BTreeMap<String, Span> {
        let none = Histogram::default();
        WANTED
            .iter()
            .filter_map(|&(name, metric)| {
                let after = self.0.get(metric)?;
                Some((name.to_owned(), after.since(before.0.get(metric).unwrap_or(&none))))
            })
            .collect()
    }
}

impl Histogram {
    fn since(&self, before: &Self) -> Span {
        let mut buckets = Vec::new();
        let (mut below, mut low) = (0.0, 0.0);
        for (&bound, &up_to) in &self.up_to {
            let up_to = up_to - before.up_to.get(&bound).copied().unwrap_or_default();
            buckets.push((low, f64::from_bits(bound), up_to - below));
            (below, low) = (up_to, f64::from_bits(bound));
        }
        let count: f64 = buckets.iter().map(|(_, _, n)| n).sum();
        if count < 1.0 {
            return Span::default();
        }
        let at = |share: f64| {
            let mut left = count * share;
            let found = buckets.iter().find(|(_, _, n)| {
                left -= n;
                left <= 1e-9 && *n > 0.0
            });
            found.map_or(f64::INFINITY, |(_, high, _)| high * 1e6)
        };
        let mean = (self.sum - before.sum) / count;
        let spread = |&(low, high, n): &(f64, f64, f64)| {
            let middle = if high.is_finite() { f64::midpoint(low, high) } else { low };
            n * (middle - mean).powi(2)
        };
        let variance = buckets.iter().map(spread).sum::<f64>() / count;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count is at least 1")]
        let whole = count.round() as u64;
        Span {
            count: whole,
            mean_us: mean * 1e6,
            sd_us: variance.sqrt() * 1e6,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Two shards; between the readings 8 decisions of at most 1 µs, one of at most 10 µs, one beyond 100 µs.
    #[test]
    fn only_what_was_observed_between_two_readings_counts() {
        let text = |a: [u32; 4], sum: f64| {
            let line = |shard: u32, le: &str, n: u32| {
                format!("tandem_balancer_decision_seconds_bucket{{shard=\"{shard}\",le=\"{le}\"}} {n}\n")
            };
            let bounds = ["0.000001", "0.00001", "0.0001", "+Inf"];
            let mut all: String = bounds.iter().zip(a).map(|(le, n)| line(0, le, n)).collect();
            all += &bounds.iter().map(|le| line(1, le, 5)).collect::<String>();
            all + &format!("# HELP x\ntandem_balancer_decision_seconds_sum{{shard=\"0\"}} {sum}\nother 7\n")
        };
        let before = Reading::of(&text([100, 100, 100, 100], 0.5));
        let after = Reading::of(&text([108, 109, 109, 110], 0.5003));
        let spans = after.since(&before);
        let span = spans["decision"];
        assert_eq!((span.count, span.p50_us, span.p90_us), (10, 1.0, 10.0));
        assert!(span.p99_us.is_infinite() && span.max_us.is_infinite());
        assert!((span.mean_us - 30.0).abs() < 1e-3, "{}", span.mean_us);
        // 8 at 0.5 µs, one at 5.5, one at 100, about a mean of 30.
        assert!((span.sd_us - 35.30).abs() < 0.01, "{}", span.sd_us);
        assert!(!spans.contains_key("forward"));
        assert_eq!(after.since(&after)["decision"], Span::default());
    }

    #[test]
    fn metrics_come_over_http_and_what_is_wrong_is_told_in_one_line() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for status in ["200 OK", "404 Not Found"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 200];
                let length = stream.read(&mut request).unwrap();
                assert!(request[..length].starts_with(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:"));
                write!(stream, "HTTP/1.1 {status}\r\n\r\ntandem_balancer_forward_seconds_sum 3\n").unwrap();
            }
        });
        let url = format!("http://{addr}");
        assert_eq!(read(&url).unwrap().0["tandem_balancer_forward_seconds"].sum, 3.0);
        let told = read(&format!("{url}/metrics")).unwrap_err().to_string();
        assert!(told.ends_with("/metrics: HTTP/1.1 404 Not Found"), "{told}");
        server.join().unwrap();
        assert!(read("https://x/").unwrap_err().to_string().contains("begins with http://"));
    }
}
