//! Everything put together: the routes, the layers around them, and the loop that serves them.
//!
//! The API stands beside the pages, not inside their layers: it has no session, no cookie and no form, and
//! pays for none of them.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::State;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, http::header};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;

use crate::http::{self, pages, problem, v1};
use crate::state::{AppState, machine_now};
use crate::{connections, security, session};

/// How often ended sessions and old sign-in counters are deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// How often it is written down which API keys were used.
const KEY_USES_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics { address: SocketAddr, source: std::io::Error },
}

/// All routes with all layers.
pub fn router(state: AppState) -> Router {
    let api =
        v1::routes(state.config.test_clock).route("/live", get(http::live)).route("/ready", get(http::ready));
    outermost(api.merge(site(&state)), state)
}

/// The layers around everything: a panic becomes a problem document, and every answer gets its id and headers.
pub fn outermost(routes: Router<AppState>, state: AppState) -> Router {
    let counted = state.clone();
    let panicked = move |_| {
        counted.metrics.count_panic();
        problem::internal().into_response()
    };
    routes
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(state.clone(), security::finish))
        .with_state(state)
}

/// What people see. The session is outside the status mapping; see there.
fn site(state: &AppState) -> Router<AppState> {
    pages::routes(state)
        .layer(from_fn(pages::server_function_status))
        .layer(session::layer(state.access.clone(), &state.config.http))
        .route("/problems", get(http::problem_index))
        .route("/problems/{name}", get(http::problem_page))
        .route("/docs/api", get(http::reader_page))
        .layer(from_fn_with_state(state.clone(), security::guard_pages))
}

/// Serves until `shutdown`, then answers what is running.
pub async fn run(
    state: AppState,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let (stop, stopped) = watch::channel(false);
    let metrics = match state.config.http.metrics_address {
        Some(address) => {
            Some(tokio::spawn(serve_metrics(bind_metrics(address).await?, state.clone(), stopped.clone())))
        }
        None => None,
    };
    let sweeper = tokio::spawn(sweep(state.clone(), stopped.clone()));
    let key_uses = tokio::spawn(record_key_uses(state.clone(), stopped.clone()));
    let head_wait = state.config.http.head_wait();
    connections::serve(listener, router(state), head_wait, shutdown).await;
    stop.send_replace(true);
    let _ = sweeper.await;
    let _ = key_uses.await;
    if let Some(metrics) = metrics {
        let _ = metrics.await;
    }
    Ok(())
}

async fn bind_metrics(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Metrics { address, source })
}

async fn serve_metrics(listener: TcpListener, state: AppState, stopped: watch::Receiver<bool>) {
    let head_wait = state.config.http.head_wait();
    let router = Router::new().route("/metrics", get(metrics)).with_state(state);
    connections::serve(listener, router, head_wait, until(stopped)).await;
}

async fn metrics(State(state): State<AppState>) -> impl IntoResponse {
    let text = state.metrics.text(state.pool.size(), state.pool.num_idle());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn sweep(state: AppState, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    let end = until(stopped);
    tokio::pin!(end);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut end => return,
        }
        match state.access.sweep(machine_now()).await {
            Ok(0) => {}
            Ok(rows) => {
                tracing::debug!(sweep.rows = rows, "ended sessions and old sign-in counters were deleted");
            }
            Err(error) => {
                tracing::warn!(error.message = %error, "ended sessions could not be deleted; the next sweep tries again");
            }
        }
    }
}

/// Every minute, and once more at the end.
async fn record_key_uses(state: AppState, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(KEY_USES_EVERY);
    let end = until(stopped);
    tokio::pin!(end);
    let mut is_over = false;
    while !is_over {
        is_over = tokio::select! {
            _ = ticks.tick() => false,
            () = &mut end => true,
        };
        if let Err(error) = state.access.record_key_uses().await {
            tracing::warn!(error.message = %error, "when API keys were used could not be written down; the next minute tries again");
        }
    }
}

/// A sender that is gone means the same as its word.
async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
