//! Connections: accepted, served, and drained at the end.
//!
//! A client that sends half a request and then nothing would hold its connection for ever. So the head of a request has
//! a time limit from its first byte on (the first head from the connection's beginning on). A connection that rests between
//! requests is another matter: it may do so for a long while.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tower::Service;

/// How long a connection may rest between two requests.
const REST_MAX: Duration = Duration::from_secs(600);
/// How long to wait when no connection can be accepted, as when all file descriptors are in use.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);

/// Serves until `shutdown`, then answers what is running.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    head_wait: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    tokio::pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = &mut shutdown => break,
        };
        tokio::spawn(serve_one(stream, peer, router.clone(), head_wait, graceful.watcher()));
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client thought better of it.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => {
                tracing::error!(error.message = %error, "no connection can be accepted; trying again");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve_one(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    head_wait: Duration,
    watcher: Watcher,
) {
    // An answer is one small packet; waiting for more only delays it. A socket that is gone is noticed later.
    let _ = stream.set_nodelay(true);
    let reads = Reads::default();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        answer(router.clone(), request)
    });
    let timer = HeadTimer::new(reads.clone(), head_wait);
    let connection = http1::Builder::new()
        .timer(timer)
        .header_read_timeout(head_wait)
        .serve_connection(TokioIo::new(Counted { stream, reads }), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::trace!(error.message = %error, "a connection ended early");
    }
}

async fn answer(mut router: Router, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    router.call(request.map(Body::new)).await
}

/// How often something was read from a connection.
#[derive(Clone, Default)]
struct Reads(Arc<AtomicU64>);

impl Reads {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that counts its reads.
struct Counted {
    stream: TcpStream,
    reads: Reads,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.reads.count();
        }
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The clock that the HTTP library is given. It asks for one wait when it begins to look for the next head; whether that
/// head has begun, the reads tell. A connection has one timer for all its waits: to make and register one for each request would cost
/// more than most of what else a request does here.
struct HeadTimer {
    reads: Reads,
    head_wait: Duration,
    timer: SharedTimer,
}

type SharedTimer = Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>;

fn set(timer: &SharedTimer, wait: Duration) {
    let deadline = tokio::time::Instant::now() + wait;
    timer.lock().unwrap_or_else(PoisonError::into_inner).as_mut().reset(deadline);
}

impl HeadTimer {
    fn new(reads: Reads, head_wait: Duration) -> HeadTimer {
        let timer = Arc::new(Mutex::new(Box::pin(tokio::time::sleep(REST_MAX))));
        HeadTimer { reads, head_wait, timer }
    }

    fn wait(&self) -> Pin<Box<dyn hyper::rt::Sleep>> {
        let reads_before = self.reads.so_far();
        // Who connects and says nothing at all is not resting.
        let has_begun = reads_before == 0;
        set(&self.timer, if has_begun { self.head_wait } else { REST_MAX });
        Box::pin(HeadWait {
            reads: self.reads.clone(),
            reads_before,
            has_begun,
            head_wait: self.head_wait,
            timer: Arc::clone(&self.timer),
        })
    }
}

impl hyper::rt::Timer for HeadTimer {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.wait()
    }

    fn sleep_until(&self, _deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.wait()
    }
}

struct HeadWait {
    reads: Reads,
    reads_before: u64,
    has_begun: bool,
    head_wait: Duration,
    timer: SharedTimer,
}

impl hyper::rt::Sleep for HeadWait {}

impl Future for HeadWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun && self.reads.so_far() != self.reads_before {
            self.has_begun = true;
            set(&self.timer, self.head_wait);
        }
        self.timer.lock().unwrap_or_else(PoisonError::into_inner).as_mut().poll(cx)
    }
}
