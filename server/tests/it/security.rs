use axum::body::Body;
use axum::http::Request;
use server::config::Flags;

use crate::support::Daybook;

fn nonce_of(policy: &str) -> &str {
    policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_default()
}

#[tokio::test]
async fn pages_carry_a_policy_with_a_nonce_of_their_own() {
    let daybook = Daybook::start().await;
    let mut nonces = Vec::new();
    for path in ["/login", "/login", "/docs/api", "/problems", "/nowhere"] {
        let page = daybook.send(Request::get(path).body(Body::empty()).unwrap()).await;
        let policy = page.header("content-security-policy").to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{path} {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("style-src 'self'"));
        assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(page.header(name), value, "{path} {name}");
        }
        assert!(!page.text.contains(" style="), "{path}");
        let nonce = nonce_of(&policy).to_owned();
        assert_eq!(nonce.len(), 32);
        let script_nonces = page.text.matches("nonce=\"").count();
        assert_eq!(page.text.matches(&format!("nonce=\"{nonce}\"")).count(), script_nonces, "{path}");
        assert_eq!(page.text.matches(&nonce).count(), script_nonces, "{path}: the nonce stands nowhere else");
        nonces.push(nonce);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 5);
}

#[tokio::test]
async fn the_reader_page_loads_nothing_from_elsewhere_and_names_every_route() {
    let daybook = Daybook::start().await;
    let page = daybook.get("/docs/api").await;
    assert_eq!(page.status, 200);
    assert!(
        !page.text.contains("<script")
            && !page.text.contains("src=")
            && !page.text.contains("http://")
            && !page.text.contains("https://")
    );
    let description = daybook.get("/v1/openapi.json").await.expect(200);
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in description["paths"].as_object().unwrap().keys() {
        assert!(page.text.contains(path.as_str()), "{path}");
    }
}

#[tokio::test]
async fn a_form_of_another_site_is_refused_and_the_api_does_not_care() {
    let daybook = Daybook::start().await;
    let form = |pairs: &[(&str, &str)]| {
        let mut request = Request::post("/api/sign_in")
            .header("host", "a.example")
            .header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(Body::from("email=x%40example.org&password=x")).unwrap()
    };
    for pairs in [
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
        [("origin", "https://evil.example")],
        [("origin", "null")],
    ] {
        let reply = daybook.send(form(&pairs)).await;
        reply.problem("forbidden");
        assert_eq!(reply.status, 403);
    }
    for pairs in [[("sec-fetch-site", "same-origin")], [("origin", "http://a.example")]] {
        assert_ne!(daybook.send(form(&pairs)).await.status, 403);
    }
    let api = daybook
        .request("POST", "/v1/accounts")
        .header("origin", "https://evil.example")
        .header("sec-fetch-site", "cross-site");
    let api = api.header("idempotency-key", "k").header("content-type", "application/json");
    daybook.send(api.body("{\"external_ref\":\"a\"}".into()).unwrap()).await.expect(201);
}

#[tokio::test]
async fn behind_https_pages_and_cookies_insist_on_it() {
    let daybook =
        Daybook::with(Flags::default(), &[("DAYBOOK_HTTP_BASE_URL", "https://credits.example.org")]).await;
    let page = daybook.get("/login").await;
    assert_eq!(page.header("strict-transport-security"), "max-age=31536000");
    let plain = Daybook::start().await;
    assert_eq!(plain.get("/login").await.header("strict-transport-security"), "");
}

#[tokio::test]
async fn the_test_clock_is_there_only_on_a_rehearsal_instance() {
    let set = |daybook: &Daybook, now: &str| {
        let request = daybook.request("PUT", "/v1/test-clock").header("content-type", "application/json");
        request.body(Body::from(format!("{{\"now\":\"{now}\"}}"))).unwrap()
    };
    let ordinary = Daybook::start().await;
    ordinary.send(set(&ordinary, "2026-01-01T00:00:00Z")).await.problem("not_found");

    let rehearsal = Daybook::with(Flags { test_clock: true, ..Flags::default() }, &[]).await;
    let answer = rehearsal.send(set(&rehearsal, "2026-01-01T00:00:00Z")).await.expect(200);
    assert_eq!(answer["now"], "2026-01-01T00:00:00Z");
    let (_, account) = rehearsal.account("a", "5").await;
    assert_eq!(
        rehearsal.get(&format!("{account}/balance")).await.expect(200)["as_of"],
        "2026-01-01T00:00:00Z"
    );
    rehearsal.send(set(&rehearsal, "2025-12-31T23:59:59Z")).await.problem("invalid_request");
    rehearsal.send(set(&rehearsal, "2026-02-01T00:00:00Z")).await.expect(200);
    rehearsal.send(set(&rehearsal, "soon")).await.problem("invalid_request");
}
