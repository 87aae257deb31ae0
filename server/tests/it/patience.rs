//! Half-sent requests over a real socket: they end, and nobody else's do.

use std::time::{Duration, Instant};

use server::config::Flags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::Daybook;

/// What a request may take here; in earnest it is 30 s and more.
const WAIT: [(&str, &str); 2] = [("DAYBOOK_HTTP_HEAD_WAIT_S", "1"), ("DAYBOOK_HTTP_BODY_WAIT_S", "1")];
const PATIENCE: Duration = Duration::from_secs(4);

struct Served {
    daybook: Daybook,
    address: std::net::SocketAddr,
    _stop: oneshot::Sender<()>,
}

async fn served() -> Served {
    let daybook = Daybook::with(Flags::default(), &WAIT).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let state = daybook.state.clone();
    tokio::spawn(server::serve::run(state, listener, async { drop(stopped.await) }));
    Served { daybook, address, _stop: stop }
}

/// Everything that comes until the server closes the connection, within the patience.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A connection that is reset is closed, too.
    drop(read.expect("the server closes the connection"));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_head_that_never_ends_loses_its_connection() {
    let served = served().await;
    let silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(until_closed(silent).await, "", "nothing was asked, nothing is answered");
    let mut half = TcpStream::connect(served.address).await.unwrap();
    half.write_all(b"GET /live HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
    until_closed(half).await;

    let (mut read, mut write) = TcpStream::connect(served.address).await.unwrap().into_split();
    let begun = Instant::now();
    let drip = async {
        write.write_all(b"GET /live HTTP/1.1\r\nX-Slow: ").await.unwrap();
        while begun.elapsed() < PATIENCE && write.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut rest = Vec::new();
    tokio::select! {
        () = drip => {}
        _ = read.read_to_end(&mut rest) => {}
    }
    assert!(begun.elapsed() < PATIENCE, "a byte now and then buys no more time");
}

#[tokio::test]
async fn a_body_that_never_ends_is_answered_and_its_connection_closed() {
    let served = served().await;
    let key = &served.daybook.key;
    let head = "Host: a\r\nContent-Type: application/json\r\nContent-Length: 60\r\n";
    let mut api = TcpStream::connect(served.address).await.unwrap();
    let request = format!(
        "POST /v1/accounts HTTP/1.1\r\n{head}Authorization: Bearer {key}\r\nIdempotency-Key: k\r\n\r\n{{\"external"
    );
    api.write_all(request.as_bytes()).await.unwrap();
    let answer = until_closed(api).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("did not arrive within 1 seconds"), "{answer}");

    let mut form = TcpStream::connect(served.address).await.unwrap();
    let request = "POST /api/sign_in HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nemail\r\n";
    form.write_all(request.as_bytes()).await.unwrap();
    assert!(until_closed(form).await.starts_with("HTTP/1.1 400 "));
}

#[tokio::test]
async fn a_connection_may_rest_between_requests() {
    let served = served().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    for rest_ms in [0, 2_500, 50] {
        tokio::time::sleep(Duration::from_millis(rest_ms)).await;
        // In two pieces, as it may come over a network.
        stream.write_all(b"GET /live HTTP/1.1\r\nHo").await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        stream.write_all(b"st: a\r\n\r\n").await.unwrap();
        let mut bytes = [0; 2_048];
        let count = tokio::time::timeout(PATIENCE, stream.read(&mut bytes)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&bytes[..count]);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "after {rest_ms} ms: {answer}");
    }
    // Rested once more, it gets no longer for its next head than any other.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    stream.write_all(b"GET /live HT").await.unwrap();
    until_closed(stream).await;
}
