use axum::body::Body;
use axum::http::Request;
use server::http::problem::Name;

use crate::support::Daybook;

#[tokio::test]
async fn every_error_is_a_problem_document_with_a_page() {
    let daybook = Daybook::start().await;
    for path in ["/v1", "/v1/", "/v1/nope", "/v1/accounts/a/b/c/d/e", "/v1/accounts/"] {
        let reply = daybook.get(path).await;
        reply.problem("not_found");
        assert_eq!(reply.status, 404, "{path}");
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/accounts", ["POST", "GET"].as_slice()),
        ("GET", "/v1/batch", &["POST"]),
        ("PATCH", "/v1/accounts/a", &["GET"]),
        ("POST", "/v1/openapi.json", &["GET"]),
    ] {
        let reply = daybook.send(daybook.request(method, path).body(Body::empty()).unwrap()).await;
        reply.problem("method_not_allowed");
        assert_eq!(reply.status, 405);
        for method in allowed {
            assert!(reply.header("allow").contains(method), "{path} {}", reply.header("allow"));
        }
    }
    for name in Name::ALL {
        let page = daybook.get(&format!("/problems/{}", name.word())).await;
        assert_eq!(page.status, 200, "{}", name.word());
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(page.text.contains(&format!("<code>{}</code>", name.word())));
    }
    assert_eq!(daybook.get("/problems/nope").await.status, 404);
    assert_eq!(daybook.get("/problems").await.status, 200);
}

#[tokio::test]
async fn a_key_that_is_no_key_is_not_taken() {
    let daybook = Daybook::start().await;
    let key = daybook.key.clone();
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{last}", &key[..key.len() - 1]);
    let cut = &key[..key.len() - 1];
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        &key,
        "Bearer dbk_00000000_x",
        &format!("Bearer {mistyped}"),
        &format!("Bearer {cut}"),
        &format!("Bearer {key} x"),
    ] {
        let request =
            Request::get("/v1/accounts").header("authorization", value).body(Body::empty()).unwrap();
        let reply = daybook.send(request).await;
        reply.problem("unauthenticated");
        assert_eq!((reply.status.as_u16(), reply.header("www-authenticate")), (401, "Bearer"), "{value}");
    }
    let none = daybook.send(Request::get("/v1/accounts").body(Body::empty()).unwrap()).await;
    none.problem("unauthenticated");
    let twice = daybook
        .request("GET", "/v1/accounts")
        .header("authorization", "Bearer x")
        .body(Body::empty())
        .unwrap();
    daybook.send(twice).await.problem("unauthenticated");
}

#[tokio::test]
async fn health_is_answered_without_a_key() {
    let daybook = Daybook::start().await;
    for path in ["/live", "/ready"] {
        let reply = daybook.send(Request::get(path).body(Body::empty()).unwrap()).await;
        reply.expect(200);
    }
    assert_eq!(daybook.get("/metrics").await.status, 404);
    daybook.state.pool.close().await;
    assert_eq!(daybook.get("/live").await.status, 200);
    assert_eq!(daybook.get("/ready").await.status, 503);
    let reply = daybook.get("/v1/accounts").await;
    assert_eq!(reply.status, 503);
    reply.problem("database_unavailable");
    assert_eq!(reply.header("retry-after"), "2");
}

#[tokio::test]
async fn a_panic_is_a_problem_document_too() {
    let mut daybook = Daybook::start().await;
    let routes = axum::Router::new().route(
        "/v1/boom",
        axum::routing::get(async || {
            if true {
                panic!("on purpose")
            }
        }),
    );
    daybook.router = server::serve::outermost(routes, daybook.state.clone());
    let reply = daybook.get("/v1/boom").await;
    reply.problem("internal");
    assert_eq!(reply.status, 500);
    assert!(!reply.text.contains("on purpose"));
}

#[tokio::test]
async fn what_the_framework_refuses_by_itself_is_a_problem_document_too() {
    let daybook = Daybook::start().await;
    let paths = [
        ("GET", "/v1/accounts/%ff"),
        ("GET", "/v1/accounts/%ff/balance"),
        ("GET", "/v1/accounts/a/holds/%c3%28"),
        ("POST", "/v1/accounts/%ff/charges"),
        ("POST", "/v1/accounts/a/jobs/%ff/started"),
        ("GET", "/v1/accounts/a/entries/%ff"),
        ("GET", "/problems/%ff"),
    ];
    for (method, path) in paths {
        let reply = daybook.send(daybook.request(method, path).body(Body::empty()).unwrap()).await;
        reply.problem("invalid_request");
        assert_eq!(reply.status, 400, "{path}");
    }
    for (method, path) in
        [("POST", "/live"), ("DELETE", "/ready"), ("POST", "/problems"), ("PUT", "/docs/api")]
    {
        let reply = daybook.send(daybook.request(method, path).body(Body::empty()).unwrap()).await;
        reply.problem("method_not_allowed");
        assert_eq!(reply.status, 405, "{path}");
        assert!(reply.header("allow").contains("GET"), "{path}");
    }
}

#[tokio::test]
async fn a_page_says_that_the_database_is_away_and_offers_neither_way_in_nor_out() {
    let daybook = Daybook::start().await;
    daybook.user("ada@example.org", backoffice::access::Role::Customer, &[]).await;
    let ada = daybook.signed_in("ada@example.org").await;
    daybook.state.pool.close().await;
    for path in ["/", "/history", "/history?kind=CONSUME"] {
        let page = daybook.visit(&ada, path).await;
        assert_eq!((page.status.as_u16(), page.header("retry-after")), (503, "5"), "{path}");
        assert!(page.text.contains("The ledger cannot be read right now"), "{path}");
        assert!(page.text.contains("Try again"), "{path}");
        assert!(!page.text.contains("Sign in") && !page.text.contains("Sign out"), "{path}: {}", page.text);
    }
    let login = daybook.visit(&ada, "/login").await;
    assert!(login.status == 200 && login.text.contains("Nothing is lost"), "{}", login.text);

    // What went wrong cannot be kept in a session now; the person is told all the same.
    let form = Request::post("/api/sign_in")
        .header("accept", "text/html")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("email=ada%40example.org&password=seven+blue+kettles&next=%2Fhistory"));
    let reply = daybook.send(form.unwrap()).await;
    assert_eq!(reply.status, 302, "{}", reply.text);
    let back = reply.header("location");
    assert_eq!(back, "/login?next=%2Fhistory&unavailable=1");
    let told = daybook.send(Request::get(back).body(Body::empty()).unwrap()).await;
    assert!(told.text.contains("The ledger cannot be read right now. Nothing is lost."), "{}", told.text);
    assert!(told.text.contains("value=\"/history\""), "the way on is kept: {}", told.text);
}
