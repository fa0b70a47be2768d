//! The admin endpoint: `/metrics`, `/healthz` and `/readyz` over HTTP/1.1, on the control thread.
//!
//! Read-only and without a password, so it belongs on loopback or behind a filter. Connections are few and short by
//! construction, so that whoever holds them open cannot take the node's descriptors.

use crate::health::Health;
use crate::metrics::Registry;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Connections at a time; a further one waits in the listen queue.
const CONNECTIONS_MAX: usize = 64;
/// A connection's life. Scrapers come every few seconds and connect anew without harm.
const CONNECTION_LIFE: Duration = Duration::from_secs(120);

/// Serves until `stop` resolves, then lets answers in progress finish.
///
/// # Errors
///
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    registry: Arc<Registry>,
    health: Arc<Health>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let bounded = Bounded { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)) };
    axum::serve(bounded, router(registry, health)).with_graceful_shutdown(stop).await
}

fn router(registry: Arc<Registry>, health: Arc<Health>) -> Router {
    let alive = Arc::clone(&health);
    let metrics =
        move || async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], registry.expose()) };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(move || async move { verdict("alive", &alive.dead()) }))
        .route("/readyz", get(move || async move { verdict("ready", &health.unready()) }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "known here: /metrics /healthz /readyz\n") })
}

/// 200 and the word, or 503 and a reason a line.
fn verdict(word: &'static str, reasons: &[String]) -> impl IntoResponse + use<> {
    match reasons {
        [] => (StatusCode::OK, format!("{word}\n")),
        reasons => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    }
}

/// A listener that hands out a bounded number of connections, each for a bounded time.
struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // The semaphore is never closed; without a permit the connection would only be unbounded.
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let life = Box::pin(sleep(CONNECTION_LIFE));
                    return (Connection { stream, life, _permit: permit }, peer);
                }
                // Out of descriptors, mostly: they come back when others close.
                Err(error) => {
                    tracing::warn!(%error, "the admin listener could not accept");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

struct Connection {
    stream: TcpStream,
    life: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.life.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.life.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    async fn ask(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A refused request may be reset after its answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn fetch(address: std::net::SocketAddr, path: &str) -> String {
        ask(address, format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").as_bytes()).await
    }

    #[tokio::test]
    async fn metrics_and_health_are_served_with_the_reasons_of_bad_health() {
        let registry = Arc::new(Registry::new(&[("node", "p1")]));
        registry.counter("tandem_x_total", "X.", &[]).add(3);
        let health = Arc::new(Health::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(listener, registry, Arc::clone(&health), async {
            let _ = stopped.await;
        }));

        let metrics = fetch(address, "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
        assert!(metrics.contains("content-type: text/plain; version=0.0.4\r\n"), "{metrics}");
        assert!(metrics.ends_with("tandem_x_total{node=\"p1\"} 3\n"), "{metrics}");

        assert!(fetch(address, "/readyz").await.ends_with("\r\n\r\nready\n"));
        health.set_ready("store", Err("loading bindings".to_owned()));
        let unready = fetch(address, "/readyz").await;
        assert!(
            unready.starts_with("HTTP/1.1 503 ") && unready.ends_with("\r\n\r\nstore: loading bindings\n"),
            "{unready}"
        );
        assert!(fetch(address, "/healthz").await.ends_with("\r\n\r\nalive\n"));
        health.set_alive("shard", Err("shard 1 stands".to_owned()));
        assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 503 "));
        health.set_alive("shard", Ok(()));
        health.set_ready("store", Ok(()));
        assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200 "));

        assert!(fetch(address, "/../etc/passwd").await.starts_with("HTTP/1.1 404 "));
        assert!(ask(address, b"\x16\x03\x01\x02\x00\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'a'; 1 << 20]].concat();
        assert!(!ask(address, &long).await.contains("200 OK"));
        assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200 "));

        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
