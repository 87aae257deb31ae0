//! A hold says in every answer what its caller said when it was placed.

use serde_json::{Value, json};
use server::serve::router;
use server::state::AppState;

use crate::support::Daybook;

const OCCURRED: &str = "2026-01-02T03:04:05Z";

fn said(hold: &Value) -> (Value, Value, Value) {
    (hold["occurred_at"].clone(), hold["metadata"].clone(), hold["member"].clone())
}

/// As another instance would answer, which has not seen the hold placed.
fn elsewhere(daybook: &Daybook) -> AppState {
    AppState::new(daybook.state.config.clone(), daybook.state.pool.clone(), daybook.state.ledger.clone())
}

#[tokio::test]
async fn a_hold_keeps_its_call_fields_through_its_life() {
    let mut daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let body =
        json!({"amount": "5", "member": "m-ana", "occurred_at": OCCURRED, "metadata": {"b": {"c": 1}}});
    let expected = (json!(OCCURRED), json!({"b": {"c": 1}}), json!("m-ana"));
    let mut holds = Vec::new();
    for key in ["settle", "release", "reverse"] {
        let placed = daybook.post(&format!("{account}/holds"), key, body.clone()).await.expect(201);
        assert_eq!(said(&placed["hold"]), expected);
        holds.push(format!("{account}/holds/{}", placed["hold"]["id"].as_str().unwrap()));
    }
    let listed = daybook.get(&format!("{account}/holds")).await.expect(200);
    assert!(listed["data"].as_array().unwrap().iter().all(|hold| said(hold) == expected));
    assert_eq!(said(&daybook.get(&holds[0]).await.expect(200)), expected);
    for (path, body) in [
        (format!("{}/renew", holds[0]), json!({"expires_in_s": 60})),
        (format!("{}/settle", holds[0]), json!({"amount": "6", "metadata": {"own": true}})),
        (format!("{}/release", holds[1]), json!({})),
        (format!("{}/reverse", holds[2]), json!({"outcome": "unknown"})),
    ] {
        let first = daybook.post(&path, &path, body.clone()).await.expect(200);
        assert_eq!(said(&first["hold"]), expected, "{path}");
        let again = daybook.post(&path, &path, body.clone()).await;
        assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", first), "{path}");
    }

    let plain = daybook.post(&format!("{account}/holds"), "plain", json!({"amount": "1"})).await.expect(201);
    let placed_at = plain["entry"]["recorded_at"].clone();
    assert_eq!(said(&plain["hold"]), (placed_at, Value::Null, Value::Null));
    let settle = format!("{account}/holds/{}/settle", plain["hold"]["id"].as_str().unwrap());
    let settled = daybook.post(&settle, "plain-end", json!({"amount": "1"})).await.expect(200);
    assert_eq!(said(&settled["hold"]), said(&plain["hold"]));
    daybook.router = router(elsewhere(&daybook));
    let there = daybook.post(&settle, "plain-end", json!({"amount": "1"})).await.expect(200);
    assert_eq!(there, settled);
}

#[tokio::test]
async fn a_batch_says_the_same_of_a_hold_as_its_route() {
    let daybook = Daybook::start().await;
    let (id, account) = daybook.account("a", "100").await;
    let body = json!({"amount": "5", "occurred_at": OCCURRED, "metadata": {"a": "b"}});
    let placed = daybook.post(&format!("{account}/holds"), "h", body).await.expect(201);
    let hold = placed["hold"]["id"].clone();
    let commands = json!({"commands": [
        {"idempotency_key": "r", "account": id, "do": "renew", "hold": hold, "expires_in_s": 60},
        {"idempotency_key": "s", "account": id, "do": "settle", "hold": hold, "amount": "5"},
    ]});
    let request = daybook.request("POST", "/v1/batch").header("content-type", "application/json");
    let results = daybook.send(request.body(commands.to_string().into()).unwrap()).await.expect(200);
    for result in results["results"].as_array().unwrap() {
        assert_eq!(said(&result["body"]["hold"]), said(&placed["hold"]), "{result}");
    }
}
