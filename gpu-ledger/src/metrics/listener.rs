//! `/metrics` and `/healthz` over HTTP, on the loopback and for one scraper.
//!
//! Purpose: two pages and nothing else. May touch: its socket. May not: listen where another host could
//! ask (there is no password), or let a slow client cost more than a few connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::health::Health;

/// Connections at one time; more wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 8;
/// A client that has not asked and read within this time is dropped.
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// A request's head in bytes: ours are some hundred.
const HEAD_MAX: usize = 8 << 10;
/// How long to wait after accepting failed, where no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is served at one moment.
#[derive(Clone, Debug)]
pub struct Published {
    /// [`super::Meters::text`]; `None` where it could not be made.
    pub metrics: Option<String>,
    /// Whether all is well.
    pub health: Health,
}

/// Gives what is to be served; called for every request.
pub type Publisher = Arc<dyn Fn() -> Published + Send + Sync>;

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Other hosts could ask.
    #[error("metrics.listen: {0} is no loopback address; give 127.0.0.1 or [::1] with a port")]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error(
        "metrics.listen: {address}: {source}; give another port, or install the drop-in listener.conf"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds. Port 0 takes any.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenerError> {
        if !address.ip().is_loopback() {
            return Err(ListenerError::NotLoopback(address));
        }
        let failed = |source| ListenerError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for ever; ends when it is dropped.
    pub async fn serve(self, publisher: Publisher) -> Infallible {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // Nobody closes the semaphore.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { continue };
            match self.socket.accept().await {
                Ok((stream, _)) => {
                    let publisher = Arc::clone(&publisher);
                    tokio::spawn(async move {
                        let served =
                            tokio::time::timeout(CONNECTION_TIMEOUT, one(stream, publisher));
                        if served.await.is_err() {
                            tracing::debug!("a client of the listener was too slow");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the listener cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn one(stream: TcpStream, publisher: Publisher) {
    let service = service_fn(move |request| {
        let response = answer(&request, &publisher);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a client of the listener");
    }
}

fn answer(request: &Request<Incoming>, publisher: &Publisher) -> Response<Full<Bytes>> {
    let is_known = ["/metrics", "/healthz"].contains(&request.uri().path());
    if !is_known {
        return page(StatusCode::NOT_FOUND, "/metrics or /healthz\n".to_owned());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = page(StatusCode::METHOD_NOT_ALLOWED, "GET\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let now = publisher();
    if request.uri().path() == "/healthz" {
        let well = now.health.is_well();
        let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        return page(status, now.health.to_string());
    }
    match now.metrics {
        Some(metrics) => {
            let mut response = page(StatusCode::OK, metrics);
            let kind = HeaderValue::from_static(super::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        None => page(StatusCode::INTERNAL_SERVER_ERROR, "no meters\n".to_owned()),
    }
}

fn page(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::super::health::HealthReason;
    use super::*;

    /// What a client that says this is told.
    async fn told(address: SocketAddr, said: &str) -> String {
        let said = said.to_owned();
        let client = move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            // Whoever is refused may be so before all is said.
            let _ = stream.write_all(said.as_bytes());
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text);
            String::from_utf8(text).unwrap()
        };
        tokio::task::spawn_blocking(client).await.unwrap()
    }

    fn publisher(health: Health) -> Publisher {
        Arc::new(move || Published { metrics: Some("a 1\n".to_owned()), health: health.clone() })
    }

    async fn served(health: Health) -> SocketAddr {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        tokio::spawn(listener.serve(publisher(health)));
        address
    }

    #[tokio::test]
    async fn two_pages_are_served_and_nothing_else() {
        let address = served(Health::default()).await;
        let metrics = told(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
        assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        assert!(metrics.ends_with("\r\n\r\na 1\n"), "{metrics}");
        let health = told(address, "GET /healthz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("healthy\n"), "{health}");
        for (said, status) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
            ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405),
            ("nonsense\r\n\r\n", 400),
        ] {
            let answer = told(address, said).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{said}: {answer}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(HEAD_MAX * 2));
        assert!(!told(address, &long).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn ill_health_is_503_with_its_reasons() {
        let reasons = vec![(HealthReason::DiskFull, "0 bytes free".to_owned())];
        let address = served(Health { reasons }).await;
        let health = told(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
        assert!(health.ends_with("\r\n\r\ndisk-full: 0 bytes free\n"), "{health}");
    }

    #[tokio::test]
    async fn clients_that_say_nothing_hold_their_places_and_no_more() {
        let address = served(Health::default()).await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX - 1 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let metrics = told(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK"), "{metrics}");
    }

    #[tokio::test]
    async fn other_hosts_cannot_ask() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9838"] {
            let error = Listener::bind(address.parse().unwrap()).await.unwrap_err();
            assert!(matches!(error, ListenerError::NotLoopback(_)), "{error}");
        }
        let taken = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = Listener::bind(taken.address()).await.unwrap_err().to_string();
        assert!(error.contains("another port"), "{error}");
    }
}
