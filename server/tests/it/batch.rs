use backoffice::access::{Role, Scope};
use serde_json::{Value, json};

use crate::support::{Daybook, column};

#[tokio::test]
async fn every_command_has_its_own_result_in_the_order_sent() {
    let daybook = Daybook::start().await;
    let (id, account) = daybook.account("a", "100").await;
    let command = |key: &str, rest: Value| {
        let mut command = json!({"idempotency_key": key, "account": id});
        command.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        command
    };
    let commands = json!([
        command("1", json!({"do": "charge", "amount": "10", "job_id": "j"})),
        command("2", json!({"do": "charge", "amount": "-1"})),
        command("3", json!({"do": "grant", "amount": "5", "pool": "promo", "expires_at": null})),
        json!({"idempotency_key": "4", "account": "ref:a", "do": "hold", "amount": "20"}),
        command("5", json!({"do": "charge", "amount": "500"})),
        command("6", json!({"do": "started", "job_id": "j"})),
        command("7", json!({"do": "refund", "seq": 3, "amount": "4", "reason": "r"})),
        command("8", json!({"do": "adjust", "amount": "1", "reason_code": "other", "reason": "r"})),
        command("9", json!({"do": "nope"})),
        json!({"account": id, "do": "charge", "amount": "1"}),
        json!({"idempotency_key": "11", "account": "ref:nobody", "do": "charge", "amount": "1"}),
        command("1", json!({"do": "charge", "amount": "10", "job_id": "j"})),
        json!("nonsense"),
    ]);
    let reply = daybook.send(batch(&daybook, &json!({"commands": commands}).to_string())).await;
    let results = reply.expect(200)["results"].clone();
    assert_eq!(
        column(&results, "status"),
        ["201", "400", "201", "201", "402", "200", "201", "201", "400", "400", "404", "201", "400"]
    );
    assert_eq!(results[0]["body"]["entry"]["amount"], "-10");
    assert_eq!(results[0]["replayed"], false);
    assert_eq!(results[1]["body"]["errors"][0]["pointer"], "/amount");
    assert_eq!(results[3]["body"]["hold"]["status"], "open");
    assert_eq!(results[4]["body"]["type"], "/problems/insufficient_credits");
    assert_eq!(results[9]["body"]["type"], "/problems/idempotency_key_missing");
    assert_eq!(results[11]["replayed"], true);
    assert_eq!(results[11]["body"], results[0]["body"]);
    assert_eq!(results[4]["body"]["request_id"], reply.header("x-request-id"));
    let seqs: Vec<i64> = [0, 2, 3, 5, 6, 7]
        .iter()
        .map(|place| results[*place]["body"]["entry"]["seq"].as_i64().unwrap())
        .collect();
    assert_eq!(seqs, [3, 4, 5, 6, 7, 8], "one account's commands keep their order");
    // 100 − 10 + 5 − 20 + 4 + 1
    assert_eq!(daybook.available(&account).await, "80");

    let hold = results[3]["body"]["hold"]["id"].clone();
    let ends = json!([
        command("s", json!({"do": "settle", "hold": hold, "amount": "5"})),
        command("r", json!({"do": "release", "hold": hold})),
        command("v", json!({"do": "settle", "amount": "5"})),
    ]);
    let results =
        daybook.send(batch(&daybook, &json!({"commands": ends}).to_string())).await.expect(200)["results"]
            .clone();
    assert_eq!(column(&results, "status"), ["200", "409", "400"]);
    assert_eq!(results[2]["body"]["errors"][0]["pointer"], "/hold");
}

#[tokio::test]
async fn a_batch_has_at_most_500_commands_and_8_mib() {
    let daybook = Daybook::start().await;
    let (id, account) = daybook.account("a", "1000").await;
    let charges = |count: usize| {
        let commands: Vec<Value> = (0..count)
            .map(|n| json!({"idempotency_key": n.to_string(), "account": id, "do": "charge", "amount": "1"}))
            .collect();
        json!({"commands": commands}).to_string()
    };
    let over = daybook.send(batch(&daybook, &charges(501))).await;
    over.problem("invalid_request");
    assert_eq!(over.status, 400);
    let full = daybook.send(batch(&daybook, &charges(500))).await.expect(200);
    assert!(column(&full["results"], "status").iter().all(|status| status == "201"));
    assert_eq!(daybook.available(&account).await, "500");
    let huge = format!("{{\"commands\":[\"{}\"]}}", "x".repeat(8 * 1024 * 1024));
    assert_eq!(daybook.send(batch(&daybook, &huge)).await.status, 413);
    for bad in
        ["{}", "{\"commands\":1}", "{\"commands\":[],\"x\":1}", "{\"commands\":[],\"commands\":[]}", "[", ""]
    {
        daybook.send(batch(&daybook, bad)).await.problem("invalid_request");
    }
    assert_eq!(daybook.send(batch(&daybook, "{\"commands\":[]}")).await.expect(200)["results"], json!([]));
}

#[tokio::test]
async fn a_right_is_asked_for_each_command() {
    let daybook = Daybook::start().await;
    let (id, _) = daybook.account("a", "100").await;
    let admin = daybook.state.access.user_by_email("admin@example.org").await.unwrap().unwrap();
    let key = daybook.new_key(&admin, &[Scope::UsageWrite]).await;
    let (other, _) = daybook.account("b", "100").await;
    let customer = daybook.user("customer@example.org", Role::Customer, &[id]).await;
    let customers = daybook.new_key(&customer, &[Scope::UsageWrite, Scope::GrantsWrite]).await;
    let body = json!({"commands": [
        {"idempotency_key": "1", "account": id, "do": "charge", "amount": "1"},
        {"idempotency_key": "2", "account": id, "do": "grant", "amount": "1", "pool": "paid"},
        {"idempotency_key": "3", "account": other, "do": "charge", "amount": "1"},
    ]});
    let statuses = async |key: &str| {
        let mut request = batch(&daybook, &body.to_string());
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        column(&daybook.send(request).await.expect(200)["results"], "status")
    };
    assert_eq!(statuses(&key).await, ["201", "403", "201"]);
    assert_eq!(statuses(&customers).await, ["201", "403", "404"]);
}

#[tokio::test]
async fn a_field_of_another_type_is_refused_and_posts_nothing() {
    let daybook = Daybook::start().await;
    let (id, account) = daybook.account("a", "100").await;
    daybook.post(&format!("{account}/charges"), "c", json!({"amount": "5"})).await.expect(201);
    let commands = json!({"commands": [
        {"idempotency_key": 5, "account": id, "do": "charge", "amount": "1"},
        {"idempotency_key": "k", "account": 5, "do": "charge", "amount": "1"},
        {"idempotency_key": "k", "account": id, "do": "refund", "seq": "3", "reason": "r"},
        {"idempotency_key": "k", "account": id, "do": "refund", "seq": 3.5, "reason": "r"},
        {"idempotency_key": "k", "account": id, "do": "release", "hold": 5},
        {"idempotency_key": "k", "account": id, "do": "started", "job_id": 5},
        {"idempotency_key": "k", "account": id, "do": 5},
        {"idempotency_key": "k", "account": id, "do": "refund", "seq": 3, "reason": "r"},
    ]});
    let results = daybook.send(batch(&daybook, &commands.to_string())).await.expect(200)["results"].clone();
    assert_eq!(column(&results, "status"), ["400", "400", "400", "400", "400", "400", "400", "201"]);
    let pointers: Vec<&str> =
        (0..7).map(|place| results[place]["body"]["errors"][0]["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/idempotency_key", "/account", "/seq", "/seq", "/hold", "/job_id", "/do"]);
    assert_eq!(daybook.available(&account).await, "100");
}

fn batch(daybook: &Daybook, body: &str) -> axum::http::Request<axum::body::Body> {
    daybook
        .request("POST", "/v1/batch")
        .header("content-type", "application/json")
        .body(body.to_owned().into())
        .unwrap()
}
