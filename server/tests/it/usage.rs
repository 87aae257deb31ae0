use serde_json::{Value, json};

use crate::support::{Daybook, column};

/// The fields that `api.md` names, sorted.
fn assert_fields(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "{field} is missing in {value}");
    }
}

const ENTRY: [&str; 23] = [
    "seq",
    "kind",
    "amount",
    "moved",
    "available_after",
    "held_after",
    "occurred_at",
    "recorded_at",
    "effective_at",
    "actor",
    "reason",
    "member",
    "job_id",
    "model",
    "key_ref",
    "request_ref",
    "hold",
    "reverses",
    "metadata",
    "hash",
    "lines",
    "kind",
    "seq",
];
const BALANCE: [&str; 6] = ["available", "held", "balance", "debt", "breaker", "as_of"];
const HOLD: [&str; 13] = [
    "id",
    "amount",
    "status",
    "expires_at",
    "settled",
    "released",
    "reversed",
    "needs_review",
    "seq",
    "member",
    "job_id",
    "request_ref",
    "model",
];

#[tokio::test]
async fn a_charge_answers_with_entry_what_was_drawn_and_balance() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let body = json!({"amount": 12.5, "member": "m", "job_id": "j", "request_ref": "r", "model": "gpt", "key_ref": "k",
        "source_address": "192.0.2.1", "occurred_at": "2026-01-01T01:00:00+01:00", "metadata": {"a": {"b": 1}}});
    let charged = daybook.post(&format!("{account}/charges"), "c1", body).await.expect(201);
    let entry = &charged["entry"];
    assert_fields(entry, &ENTRY);
    assert_eq!(entry["kind"], "CONSUME");
    assert_eq!(entry["amount"], "-12.5");
    assert_eq!(entry["moved"], "0");
    assert_eq!(entry["occurred_at"], "2026-01-01T00:00:00Z");
    assert_eq!(entry["metadata"], json!({"a": {"b": 1}}));
    assert_eq!(entry["hash"].as_str().unwrap().len(), 64);
    assert_eq!(entry["actor"]["kind"], "api_key");
    assert_eq!(column(&entry["lines"], "ledger_account"), ["available", "revenue"]);
    assert_eq!(column(&entry["lines"], "direction"), ["debit", "credit"]);
    assert_eq!(column(&entry["lines"], "amount"), ["12.5", "12.5"]);
    assert_eq!(entry["lines"][0]["balance_after"], "87.5");
    assert_eq!(entry["lines"][1]["balance_after"], json!(null));
    assert_eq!(charged["drawn"], json!([{"grant": entry["lines"][0]["grant"], "amount": "12.5"}]));
    assert_fields(&charged["balance"], &BALANCE);
    assert_eq!(charged["balance"]["available"], "87.5");

    let shown = daybook.get(&format!("{account}/entries/{}", entry["seq"])).await.expect(200);
    assert_eq!(&shown, entry);
    let nothing = daybook.post(&format!("{account}/charges"), "c2", json!({"amount": "0"})).await.expect(201);
    assert_eq!(nothing["entry"]["lines"], json!([]));
    assert_eq!(nothing["drawn"], json!([]));
}

#[tokio::test]
async fn too_few_credits_are_refused_with_what_is_short() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    daybook.post(&format!("{account}/holds"), "h", json!({"amount": "60"})).await.expect(201);
    let refused = daybook.post(&format!("{account}/charges"), "c", json!({"amount": "50"})).await;
    let problem = refused.problem("insufficient_credits");
    assert_eq!(refused.status, 402);
    for (field, value) in
        [("short_by", "10"), ("available", "40"), ("held_elsewhere", "60"), ("breaker", "closed")]
    {
        assert_eq!(problem[field], value, "{field}");
    }
    assert_eq!(daybook.available(&account).await, "40");
}

#[tokio::test]
async fn a_hold_is_settled_below_and_above_and_ends_once() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let placed = daybook
        .post(&format!("{account}/holds"), "h1", json!({"amount": "30", "expires_in_s": 60, "model": "gpt"}))
        .await
        .expect(201);
    assert_fields(&placed["hold"], &HOLD);
    assert_eq!(placed["hold"]["status"], "open");
    assert_eq!(placed["entry"]["kind"], "AUTH_HOLD");
    assert_eq!(placed["entry"]["amount"], "0");
    assert_eq!(placed["entry"]["moved"], "30");
    assert_eq!((&placed["balance"]["available"], &placed["balance"]["held"]), (&json!("70"), &json!("30")));
    let hold = format!("{account}/holds/{}", placed["hold"]["id"].as_str().unwrap());

    let renewed =
        daybook.post(&format!("{hold}/renew"), "r1", json!({"expires_in_s": 600})).await.expect(200);
    assert!(renewed["hold"]["expires_at"].as_str().unwrap() > placed["hold"]["expires_at"].as_str().unwrap());
    let settled = daybook
        .post(&format!("{hold}/settle"), "s1", json!({"amount": "20", "request_ref": "done"}))
        .await
        .expect(200);
    for (field, value) in
        [("settled", json!("20")), ("released", json!("10")), ("overrun", json!("0")), ("late", json!(false))]
    {
        assert_eq!(settled[field], value, "{field}");
    }
    assert_eq!(column(&settled["entries"], "kind"), ["SETTLE", "AUTH_RELEASE"]);
    assert_eq!(settled["hold"]["status"], "settled");
    assert_eq!(settled["balance"]["available"], "80");

    for (verb, body) in [
        ("settle", json!({"amount": "1"})),
        ("release", json!({})),
        ("reverse", json!({"outcome": "failed"})),
        ("renew", json!({"expires_in_s": 5})),
    ] {
        let problem = daybook
            .post(&format!("{hold}/{verb}"), &format!("again-{verb}"), body)
            .await
            .problem("hold_ended");
        assert_eq!(problem["final_state"], "settled", "{verb}");
    }
    let over = daybook.post(&format!("{account}/holds"), "h2", json!({"amount": "10"})).await.expect(201);
    let over = format!("{account}/holds/{}", over["hold"]["id"].as_str().unwrap());
    let settled = daybook.post(&format!("{over}/settle"), "s2", json!({"amount": "90"})).await.expect(200);
    assert_eq!(settled["overrun"], "80");
    let (available, debt, breaker) =
        (&settled["balance"]["available"], &settled["balance"]["debt"], &settled["balance"]["breaker"]);
    assert_eq!((available, debt, breaker), (&json!("-10"), &json!("10"), &json!("open")));
    assert_eq!(daybook.get(&over).await.expect(200)["status"], "settled");
}

#[tokio::test]
async fn a_hold_is_released_or_reversed_without_a_body_where_none_is_needed() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let place = async |key: &str| {
        let placed =
            daybook.post(&format!("{account}/holds"), key, json!({"amount": "10"})).await.expect(201);
        format!("{account}/holds/{}", placed["hold"]["id"].as_str().unwrap())
    };
    let request =
        daybook.request("POST", &format!("{}/release", place("h1").await)).header("idempotency-key", "r");
    let released = daybook.send(request.body(axum::body::Body::empty()).unwrap()).await.expect(200);
    assert_eq!(
        (&released["hold"]["status"], &released["entry"]["kind"]),
        (&json!("released"), &json!("AUTH_RELEASE"))
    );

    let reverse = format!("{}/reverse", place("h2").await);
    daybook.post(&reverse, "v0", json!({})).await.problem("invalid_request");
    let reversed =
        daybook.post(&reverse, "v", json!({"outcome": "unknown", "reason": "timed out"})).await.expect(200);
    assert_eq!(
        (&reversed["hold"]["status"], &reversed["hold"]["needs_review"]),
        (&json!("reversed"), &json!(true))
    );
    assert_eq!(reversed["entry"]["reason"], "timed out");
    assert_eq!(daybook.available(&account).await, "100");

    place("h3").await;
    let open = daybook.get(&format!("{account}/holds?status=open")).await.expect(200);
    assert_eq!(column(&open["data"], "status"), ["open"]);
    assert_eq!(
        daybook.get(&format!("{account}/holds")).await.expect(200)["data"].as_array().unwrap().len(),
        3
    );
    assert_eq!(daybook.get(&format!("{account}/holds?status=nope")).await.status, 400);
    for unknown in ["nonsense", "0190d6f2-0000-7000-8000-000000000000"] {
        daybook.get(&format!("{account}/holds/{unknown}")).await.problem("not_found");
        daybook
            .post(&format!("{account}/holds/{unknown}/settle"), unknown, json!({"amount": "1"}))
            .await
            .problem("not_found");
    }
}

#[tokio::test]
async fn usage_is_refunded_in_parts_and_never_above_itself() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let charged = daybook.post(&format!("{account}/charges"), "c", json!({"amount": "40"})).await.expect(201);
    let refunds = format!("{account}/entries/{}/refunds", charged["entry"]["seq"]);
    let first =
        daybook.post(&refunds, "r1", json!({"amount": "15", "reason": "half an answer"})).await.expect(201);
    assert_eq!(first["entry"]["kind"], "REFUND");
    assert_eq!(first["entry"]["reverses"], charged["entry"]["seq"]);
    assert_eq!(first["refundable"], "25");
    assert_eq!(
        first["returned"],
        json!([{"grant": charged["drawn"][0]["grant"], "amount": "15", "lapsed": false}])
    );
    let above = daybook.post(&refunds, "r2", json!({"amount": "26", "reason": "x"})).await;
    assert_eq!(above.problem("refund_exceeds_charge")["refundable"], "25");
    let rest = daybook.post(&refunds, "r3", json!({"reason": "the rest"})).await.expect(201);
    assert_eq!((&rest["entry"]["amount"], &rest["refundable"]), (&json!("25"), &json!("0")));
    daybook
        .post(&format!("{account}/entries/1/refunds"), "r4", json!({"reason": "x"}))
        .await
        .problem("not_refundable");
    daybook
        .post(&format!("{account}/entries/999/refunds"), "r5", json!({"reason": "x"}))
        .await
        .problem("not_found");
    daybook
        .post(&format!("{account}/entries/x/refunds"), "r6", json!({"reason": "x"}))
        .await
        .problem("not_found");
    assert_eq!(daybook.available(&account).await, "100");
}

#[tokio::test]
async fn a_job_is_charged_once_and_its_markers_are_recorded_once() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let charge = json!({"amount": "10", "job_id": "job 1"});
    let first = daybook.post(&format!("{account}/charges"), "c1", charge.clone()).await.expect(201);
    let second = daybook.post(&format!("{account}/charges"), "c2", charge).await;
    assert_eq!(second.expect(201)["entry"], first["entry"]);
    assert_eq!(second.header("idempotency-replayed"), "true");
    for marker in ["started", "completed", "failed"] {
        let path = format!("{account}/jobs/job%201/{marker}");
        let first = daybook.post(&path, &format!("{marker}-1"), json!({"reason": "r"})).await.expect(200);
        assert_eq!((&first["entry"]["kind"], &first["entry"]["job_id"]), (&json!("NOTE"), &json!("job 1")));
        let second = daybook.post(&path, &format!("{marker}-2"), json!({})).await.expect(200);
        assert_eq!(second["entry"]["seq"], first["entry"]["seq"]);
    }
    assert_eq!(daybook.available(&account).await, "90");
}

#[tokio::test]
async fn entries_are_filtered_and_paged_newest_first() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    for (key, amount, model) in
        [("1", "1", "small"), ("2", "2", "large"), ("3", "3", "small"), ("4", "4", "large")]
    {
        let body = json!({"amount": amount, "model": model, "member": format!("m{key}"), "request_ref": format!("r{key}")});
        daybook.post(&format!("{account}/charges"), key, body).await.expect(201);
    }
    let amounts = async |query: &str| {
        let list = daybook.get(&format!("{account}/entries?{query}")).await.expect(200);
        column(&list["data"], "amount")
    };
    assert_eq!(amounts("kind=CONSUME").await, ["-4", "-3", "-2", "-1"]);
    assert_eq!(amounts("kind=CONSUME,TOPUP&limit=200").await, ["-4", "-3", "-2", "-1", "100"]);
    assert_eq!(amounts("model=small").await, ["-3", "-1"]);
    assert_eq!(amounts("member=m2").await, ["-2"]);
    assert_eq!(amounts("request_ref=r4").await, ["-4"]);
    assert_eq!(amounts("kind=CONSUME&min=2&max=3").await, ["-3", "-2"]);
    assert!(amounts("to=2020-01-01T00:00:00Z").await.is_empty());
    assert_eq!(amounts("kind=CONSUME&from=2020-01-01T00:00:00%2B01:00").await.len(), 4);

    let page = daybook.get(&format!("{account}/entries?limit=3")).await.expect(200);
    let next = page["next_cursor"].as_str().unwrap();
    let rest = daybook.get(&format!("{account}/entries?limit=3&cursor={next}")).await.expect(200);
    let mut seqs = column(&page["data"], "seq");
    seqs.extend(column(&rest["data"], "seq"));
    assert_eq!(seqs, ["6", "5", "4", "3", "2", "1"]);
    for bad in
        ["kind=NOPE", "from=x", "min=-1", "min=1e3", "max=x", "cursor=x", "member=", "member=%00", "what=1"]
    {
        assert_eq!(daybook.get(&format!("{account}/entries?{bad}")).await.status, 400, "{bad}");
    }
}
