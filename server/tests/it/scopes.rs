//! Who may call what: every route with every scope and role.

use axum::body::Body;
use axum::http::Request;
use backoffice::access::rights::{PAGES, PageAccess, ROUTES, Right, RouteAccess};
use backoffice::access::{Role, Scope};
use serde_json::Value;

use crate::support::Daybook;

/// From `api.md`, not from the table.
fn scope_of(right: Right) -> Scope {
    match right {
        Right::OpenAccount => Scope::AccountsWrite,
        Right::ListAccounts | Right::ReadAccount => Scope::Read,
        Right::PostUsage => Scope::UsageWrite,
        Right::MoveGrants => Scope::GrantsWrite,
        Right::Refund => Scope::RefundsWrite,
        Right::Adjust => Scope::Adjust,
    }
}

fn request(method: &str, path: &str, key: &str) -> Request<Body> {
    let body = if method == "GET" { Body::empty() } else { Body::from("{\"nope\":1}") };
    Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", "k")
        .body(body)
        .unwrap()
}

fn filled(path: &str, account: &str) -> String {
    let other = "0190d6f2-0000-7000-8000-000000000000";
    path.replace("{account}", account)
        .replace("{grant}", other)
        .replace("{hold}", other)
        .replace("{seq}", "1")
        .replace("{job_id}", "j")
}

#[tokio::test]
async fn every_route_asks_for_its_scope_and_no_other_will_do() {
    let daybook = Daybook::start().await;
    let (id, _) = daybook.account("a", "0").await;
    let admin = daybook.state.access.user_by_email("admin@example.org").await.unwrap().unwrap();
    for scope in Scope::ALL {
        let key = daybook.new_key(&admin, &[scope]).await;
        for (method, path, access) in ROUTES {
            let RouteAccess::Needs(right) = access else { continue };
            let reply = daybook.send(request(method, &filled(path, &id.to_string()), &key)).await;
            let is_forbidden = reply.status == 403;
            assert_eq!(
                is_forbidden,
                scope != scope_of(*right),
                "{method} {path} with {}: {}",
                scope.as_str(),
                reply.text
            );
            if is_forbidden {
                reply.problem("forbidden");
            }
        }
    }
}

#[tokio::test]
async fn a_customers_key_sees_own_accounts_only_and_moves_no_grants() {
    let daybook = Daybook::start().await;
    let (own, _) = daybook.account("own", "0").await;
    let (other, _) = daybook.account("other", "0").await;
    let customer = daybook.user("customer@example.org", Role::Customer, &[own]).await;
    let key = daybook.new_key(&customer, &Scope::ALL).await;
    for (method, path, access) in ROUTES {
        let RouteAccess::Needs(right) = access else { continue };
        let status = async |account: String| {
            daybook.send(request(method, &filled(path, &account), &key)).await.status.as_u16()
        };
        match right {
            Right::ReadAccount | Right::PostUsage => {
                assert_ne!(status(own.to_string()).await, 403, "{method} {path}");
                assert_eq!(status(other.to_string()).await, 404, "{method} {path}");
                assert_eq!(status("ref:other".to_owned()).await, 404, "{method} {path}");
            }
            _ => assert_eq!(status(own.to_string()).await, 403, "{method} {path}"),
        }
    }
}

#[tokio::test]
async fn every_described_route_has_a_row_and_every_row_is_described() {
    let daybook = Daybook::start().await;
    let description: Value = daybook.get("/v1/openapi.json").await.expect(200);
    let mut described: Vec<(String, String)> = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        described.extend(
            item.as_object().unwrap().keys().map(|method| (method.to_ascii_uppercase(), path.clone())),
        );
    }
    let mut rows: Vec<(String, String)> = ROUTES
        .iter()
        .filter(|(_, path, _)| path.starts_with("/v1/"))
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    described.sort();
    rows.sort();
    assert_eq!(described, rows);
    for (method, path, access) in ROUTES {
        if *path == "/v1/test-clock" {
            continue;
        }
        let reply = daybook
            .send(Request::builder().method(*method).uri(filled(path, "a")).body(Body::empty()).unwrap())
            .await;
        let expected = if *access == RouteAccess::Open { 200 } else { 401 };
        assert_eq!(reply.status, expected, "{method} {path} without a key");
    }
}

#[tokio::test]
async fn every_page_and_server_function_has_a_row_and_asks_who_is_there() {
    let daybook = Daybook::start().await;
    let pages = leptos_axum::generate_route_list(app::App).into_iter().map(|route| route.path().to_owned());
    let functions = leptos::server_fn::axum::server_fn_paths().map(|(path, _)| path.to_owned());
    for path in pages.chain(functions) {
        assert!(PAGES.iter().any(|(page, _)| *page == path), "{path} has no row in the rights table");
    }
    let (id, _) = daybook.account("a", "5").await;
    for (path, access) in PAGES {
        let method = if path.starts_with("/api/") { "POST" } else { "GET" };
        let path = path.replace("{id}", &id.to_string()).replace("{seq}", "1");
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header("content-type", "application/x-www-form-urlencoded");
        let reply = daybook.send(request.body(Body::empty()).unwrap()).await;
        let is_turned_away =
            matches!(reply.status.as_u16(), 302 | 303 | 400 | 401 | 403) && !reply.text.contains("TOPUP");
        assert!(
            is_turned_away || *access == PageAccess::Anyone,
            "{method} {path}: {} {}",
            reply.status,
            reply.text
        );
    }
}
