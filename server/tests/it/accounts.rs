use serde_json::json;

use crate::support::{Daybook, column};

#[tokio::test]
async fn an_account_is_opened_once_and_found_by_id_and_reference() {
    let daybook = Daybook::start().await;
    let body = json!({"external_ref": "cust/1 ü", "name": "Ada", "email": "ada@example.org", "time_zone": "Europe/Berlin", "metadata": {"plan": "pro"}});
    let opened = daybook.post("/v1/accounts", "k1", body.clone()).await;
    let account = opened.expect(201);
    assert_eq!(opened.header("idempotency-replayed"), "");
    assert_eq!(account["external_ref"], "cust/1 ü");
    assert_eq!(account["state"], "open");
    assert_eq!(account["policy"], "default");
    assert_eq!(account["time_zone"], "Europe/Berlin");
    assert_eq!(account["metadata"], json!({"plan": "pro"}));
    assert_eq!(account["entry"]["seq"], 1);
    assert_eq!(account["entry"]["kind"], "NOTE");
    for (figure, value) in
        [("available", "0"), ("held", "0"), ("balance", "0"), ("debt", "0"), ("breaker", "closed")]
    {
        assert_eq!(account["balance"][figure], value, "{figure}");
    }

    let again = daybook.post("/v1/accounts", "k1", body.clone()).await;
    assert_eq!(again.expect(201), account);
    assert_eq!(again.header("idempotency-replayed"), "true");
    let other_key = daybook.post("/v1/accounts", "k2", body).await;
    assert_eq!(other_key.problem("already_exists")["id"], account["id"]);
    assert_eq!(other_key.status, 409);

    let id = account["id"].as_str().unwrap();
    for path in [format!("/v1/accounts/{id}"), "/v1/accounts/ref:cust%2F1%20%C3%BC".to_owned()] {
        let found = daybook.get(&path).await.expect(200);
        for field in ["id", "external_ref", "name", "email", "state", "policy", "time_zone", "metadata"] {
            assert_eq!(found[field], account[field], "{field}");
        }
    }
    for unknown in ["ref:nobody", "0190d6f2-0000-7000-8000-000000000000", "nonsense", "ref:", "ref:%00"] {
        daybook.get(&format!("/v1/accounts/{unknown}")).await.problem("not_found");
        daybook.get(&format!("/v1/accounts/{unknown}/entries")).await.problem("not_found");
        let charge =
            daybook.post(&format!("/v1/accounts/{unknown}/charges"), "k", json!({"amount": "1"})).await;
        charge.problem("not_found");
    }
}

#[tokio::test]
async fn a_policy_or_zone_that_does_not_exist_is_refused() {
    let daybook = Daybook::start().await;
    for (field, value) in [("policy", "nope"), ("time_zone", "Mars/Olympus")] {
        let mut body = json!({"external_ref": "a"});
        body[field] = json!(value);
        let problem = daybook.post("/v1/accounts", "k", body).await.problem("invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }
    daybook.get("/v1/accounts/ref:a").await.problem("not_found");
}

#[tokio::test]
async fn accounts_are_searched_page_by_page() {
    let daybook = Daybook::start().await;
    for external_ref in ["team-1", "team-2", "team-3", "other"] {
        daybook.account(external_ref, "0").await;
    }
    let first = daybook.get("/v1/accounts?q=team&limit=2").await.expect(200);
    assert_eq!(first["data"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = daybook.get(&format!("/v1/accounts?q=team&limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(second["next_cursor"], json!(null));
    let mut found = column(&first["data"], "external_ref");
    found.extend(column(&second["data"], "external_ref"));
    found.sort();
    assert_eq!(found, ["team-1", "team-2", "team-3"]);
    for bad in ["limit=0", "limit=201", "limit=x", "cursor=nonsense", "nope=1", "limit=1&limit=2", "q=%00"] {
        assert_eq!(daybook.get(&format!("/v1/accounts?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_balance_names_the_next_expiries_and_refuses_the_future() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let grant = json!({"amount": "5.25", "pool": "promo", "expires_at": "2999-01-01T00:00:00+02:00"});
    let promo = daybook.post(&format!("{account}/grants"), "g", grant).await.expect(201);
    let balance = daybook.get(&format!("{account}/balance")).await.expect(200);
    assert_eq!(balance["available"], "105.25");
    assert_eq!(balance["balance"], "105.25");
    let next = &balance["next_expiries"][0];
    assert_eq!(next["grant"], promo["grant"]["id"]);
    assert_eq!(next["remaining"], "5.25");
    assert_eq!(next["expires_at"], "2998-12-31T22:00:00Z");

    let past = daybook.get(&format!("{account}/balance?at=2020-01-01T00:00:00Z")).await.expect(200);
    assert_eq!(past["available"], "0");
    let future = daybook.get(&format!("{account}/balance?at=2999-01-01T00:00:00Z")).await;
    assert_eq!(future.problem("invalid_request")["errors"][0]["pointer"], "at");
    assert_eq!(daybook.get(&format!("{account}/balance?at=yesterday")).await.status, 400);
}
