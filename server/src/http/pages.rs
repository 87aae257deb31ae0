//! The host of the app's pages and server functions.

use app::error::AppError;
use app::{App, AppContext, MachineClock, shell, ssr};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use backoffice::access::ClientAddress;
use leptos::config::LeptosOptions;
use leptos::context::{provide_context, use_context};
use leptos::nonce::Nonce;
use leptos::server_fn::error::{FromServerFnError, SERVER_FN_ERROR_HEADER};
use leptos_axum::{LeptosRoutes, generate_route_list, render_app_async_with_context};

use super::problem::Problem;
use crate::security::PageNonce;
use crate::state::{AppState, machine_now};

/// A server function's error is a few words.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Pages, server functions, exports, files, and the page for what is not there.
pub fn routes(state: &AppState) -> Router<AppState> {
    let context = AppContext {
        ledger: state.ledger.clone(),
        access: state.access.clone(),
        instance: state.instance(),
        assets: state.site.names().clone(),
        clock: MachineClock(machine_now),
    };
    let shared = ssr::provide(context.clone());
    let provide = move || {
        shared();
        provide_request();
    };
    let document = whole_document(state.leptos_options.clone());
    let not_found = Router::new()
        .fallback(render_app_async_with_context(provide.clone(), document.clone()))
        .with_state(());
    Router::new()
        .leptos_routes_with_context(state, generate_route_list(App), provide, document)
        .route("/history.csv", get(ssr::history_csv))
        .route("/accounts/{id}/history.csv", get(ssr::account_history_csv))
        .fallback(move |state: State<AppState>, request: Request| {
            file_or_nothing(state, request, not_found.clone())
        })
        .layer(Extension(context))
}

fn whole_document(
    options: LeptosOptions,
) -> impl Fn() -> leptos::prelude::AnyView + Clone + Send + Sync + 'static {
    use leptos::prelude::IntoAny;
    move || shell(options.clone()).into_any()
}

/// What changes with each request: the nonce of its content policy, and where it comes from.
fn provide_request() {
    let Some(parts) = use_context::<Parts>() else { return };
    if let Some(PageNonce(nonce)) = parts.extensions.get::<PageNonce>() {
        provide_context(Nonce::from_value(nonce.clone()));
    }
    provide_context(parts.extensions.get::<ClientAddress>().copied().unwrap_or_default());
}

async fn file_or_nothing(
    State(state): State<AppState>,
    request: Request,
    not_found: Router,
) -> Response<Body> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(file) = is_read.then(|| state.site.answer(request.uri().path(), request.headers())).flatten()
    {
        return file;
    }
    if !is_read {
        return Problem::not_found("This path leads nowhere.").into_response();
    }
    let mut page = match tower::ServiceExt::oneshot(not_found, request).await {
        Ok(page) => page,
        Err(never) => match never {},
    };
    // A redirect to the sign-in page stays one.
    if page.status() == StatusCode::OK {
        *page.status_mut() = StatusCode::NOT_FOUND;
    }
    page
}

/// The framework answers every failed server function with 500. A fetch gets the error's own status here; a
/// plain form has been sent back to its page already. Stands inside the session layer, which keeps nothing of
/// a request that ended in 5xx.
pub async fn server_function_status(request: Request, next: Next) -> Response<Body> {
    let response = next.run(request).await;
    let is_failed = response.status() == StatusCode::INTERNAL_SERVER_ERROR
        && response.headers().contains_key(SERVER_FN_ERROR_HEADER);
    if !is_failed {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, ERROR_BYTES_MAX).await else {
        return super::problem::internal().into_response();
    };
    parts.status = AppError::de(bytes.clone()).status();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(bytes))
}
