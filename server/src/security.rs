//! What every response carries and every request must pass: request id, headers, the content policy of
//! pages, and the check that a form was sent by one of our own pages.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use backoffice::access::ClientAddress;

use crate::http::body;
use crate::http::problem::{Name, Problem};
use crate::session::cookie_name;
use crate::state::AppState;

/// Names one request in answers and logs. A request extension.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PERMISSIONS: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What pages and their data say about being kept.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Makes request ids: random for the process, counted within it. No system call per request.
#[derive(Debug)]
pub struct RequestIds {
    process: u64,
    count: AtomicU64,
}

impl RequestIds {
    pub fn new() -> RequestIds {
        // Without random bytes ids of two processes may meet; that spoils a log, not a request.
        RequestIds { process: getrandom::u64().unwrap_or_default(), count: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        format!("{:012x}{count:08x}", self.process >> 16)
    }
}

impl Default for RequestIds {
    fn default() -> RequestIds {
        RequestIds::new()
    }
}

/// The outermost layer: gives the request its id, writes problems out, and puts the headers on that every
/// response has.
pub async fn finish(State(state): State<AppState>, mut request: Request, next: Next) -> Response<Body> {
    let id = state.request_ids.next();
    request.extensions_mut().insert(RequestId(id.clone()));
    // A download for people says in words of its own what went wrong.
    let is_download = request.uri().path().ends_with("/history.csv");
    let mut response = next.run(request).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if is_error && !is_download && response.extensions().get::<Problem>().is_none() {
        put_problem(&mut response);
    }
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        if problem.name == Name::Internal {
            tracing::error!(request.id = %id, "a request was answered with an internal error");
        }
        problem.finish(&mut response, &id);
    }
    state.metrics.count_response(response.status());
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
    response
}

/// For an error that an extractor or the router made: it becomes a problem document like every other. Pages, and what
/// readiness says in JSON of its own, stay.
fn put_problem(response: &mut Response<Body>) {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_none_or(|kind| kind.starts_with(b"text/plain")) {
        let problem = Problem::of_status(response.status());
        *response.status_mut() = problem.name.status();
        response.extensions_mut().insert(problem);
    }
}

/// The nonce of one page, for its scripts and its policy.
#[derive(Clone, Debug)]
pub struct PageNonce(pub String);

fn new_nonce() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The layer around everything that is not the API: the caller's address, the content policy, the headers of
/// pages, and the check of forms.
pub async fn guard_pages(State(state): State<AppState>, mut request: Request, next: Next) -> Response<Body> {
    let is_https = state.config.http.is_https();
    let address = client_address(&request, &state.config.http.trusted_proxies);
    request.extensions_mut().insert(ClientAddress(address));
    if let Err(problem) = sent_by_us(request.method(), request.headers()) {
        return problem.into_response();
    }
    // No page has a use for it, and the database refuses it.
    if request.uri().query().is_some_and(|query| query.contains("%00")) {
        return Problem::new(Name::InvalidRequest, "The address contains a NUL character.").into_response();
    }
    let mut request = match whole(&state, request).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    let Some(nonce) = new_nonce() else { return crate::http::problem::internal().into_response() };
    request.extensions_mut().insert(PageNonce(nonce.clone()));
    let mut response = next.run(request).await;
    mend_removed_cookie(response.headers_mut(), cookie_name(&state.config.http), is_https);
    put_page_headers(response.headers_mut(), &nonce, is_https);
    response
}

/// A form or a fetch is small; it is read whole before anybody works on it. What has no body to read passes.
async fn whole(state: &AppState, request: Request) -> Result<Request, Problem> {
    if request.method().is_safe() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = body::whole(body, state.config.limits.body_bytes_max, state.config.http.body_wait()).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn put_page_headers(headers: &mut HeaderMap, nonce: &str, is_https: bool) {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src 'self'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; \
         base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let fixed = [
        // Not `no-referrer`: a failed form without script goes back to the page it came from.
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
        (PERMISSIONS, "camera=(), geolocation=(), microphone=(), payment=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_https {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

/// The session layer leaves Secure and HttpOnly out when it removes a cookie, and browsers then refuse the
/// removal of a `__Host-` cookie.
fn mend_removed_cookie(headers: &mut HeaderMap, name: &str, is_https: bool) {
    let cookies: Vec<HeaderValue> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    let is_ours = |cookie: &HeaderValue| {
        cookie.to_str().is_ok_and(|text| text.starts_with(name) && text[name.len()..].starts_with('='))
    };
    if !is_https || !cookies.iter().any(is_ours) {
        return;
    }
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        let mended = match cookie.to_str() {
            Ok(text) if is_ours(&cookie) && !text.contains("; Secure") => {
                HeaderValue::try_from(format!("{text}; HttpOnly; SameSite=Lax; Secure")).ok()
            }
            _ => None,
        };
        headers.append(header::SET_COOKIE, mended.unwrap_or(cookie));
    }
}

/// An unsafe request must come from our own pages: browsers say so in Sec-Fetch-Site, older ones in Origin.
/// A client that is no browser sends neither, and has no cookie that somebody could abuse.
fn sent_by_us(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let refused = || Err(Problem::new(Name::Forbidden, "The request was sent by a page of another site."));
    if let Some(site) = headers.get(FETCH_SITE) {
        return if site == "same-origin" || site == "none" { Ok(()) } else { refused() };
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin_host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if origin_host.is_some() && origin_host == host { Ok(()) } else { refused() }
}

/// Goes back through `X-Forwarded-For` from the right, as long as the addresses are trusted proxies.
fn client_address(request: &Request, trusted: &[IpAddr]) -> Option<IpAddr> {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(peer)| peer.ip().to_canonical())?;
    let forwarded = request.headers().get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    Some(nearest_untrusted(peer, &hops, trusted))
}

fn nearest_untrusted(peer: IpAddr, hops: &[&str], trusted: &[IpAddr]) -> IpAddr {
    let mut nearest = peer;
    for hop in hops.iter().rev() {
        if !trusted.contains(&nearest) {
            break;
        }
        match hop.parse::<IpAddr>() {
            Ok(address) => nearest = address.to_canonical(),
            Err(_) => break,
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn an_unsafe_request_must_come_from_our_own_pages() {
        let check = |method: Method, pairs: &[(&'static str, &'static str)]| {
            sent_by_us(&method, &headers(pairs)).is_ok()
        };
        assert!(check(Method::GET, &[("sec-fetch-site", "cross-site")]));
        for (site, is_taken) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false), ("", false)]
        {
            assert_eq!(check(Method::POST, &[("sec-fetch-site", site)]), is_taken, "{site}");
        }
        assert!(check(Method::POST, &[("origin", "https://a.example"), ("host", "a.example")]));
        assert!(check(Method::POST, &[("origin", "http://127.0.0.1:3000"), ("host", "127.0.0.1:3000")]));
        assert!(!check(Method::POST, &[("origin", "https://b.example"), ("host", "a.example")]));
        assert!(!check(Method::POST, &[("origin", "null"), ("host", "a.example")]));
        assert!(!check(Method::DELETE, &[("origin", "https://a.example:8443"), ("host", "a.example")]));
        assert!(check(Method::POST, &[("host", "a.example")]));
    }

    #[test]
    fn forwarded_addresses_count_only_behind_a_trusted_proxy() {
        let [peer, proxy, client, liar]: [IpAddr; 4] =
            ["198.51.100.1", "10.0.0.1", "192.0.2.7", "203.0.113.9"].map(|text| text.parse().unwrap());
        assert_eq!(nearest_untrusted(peer, &["203.0.113.9"], &[proxy]), peer);
        assert_eq!(nearest_untrusted(proxy, &["203.0.113.9", "192.0.2.7"], &[proxy]), client);
        assert_eq!(nearest_untrusted(proxy, &["192.0.2.7", "10.0.0.1"], &[proxy]), client);
        assert_eq!(nearest_untrusted(proxy, &["not an address"], &[proxy]), proxy);
        assert_ne!(nearest_untrusted(proxy, &["203.0.113.9", "192.0.2.7"], &[proxy]), liar);
    }

    #[test]
    fn a_removed_cookie_gets_back_what_browsers_insist_on() {
        let mut map = headers(&[("set-cookie", "__Host-daybook=; Path=/; Max-Age=0")]);
        mend_removed_cookie(&mut map, "__Host-daybook", true);
        assert_eq!(map["set-cookie"], "__Host-daybook=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure");
    }
}
