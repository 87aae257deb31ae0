use backoffice::access::{Role, Scope};
use serde_json::json;
use server::config::Flags;

use crate::support::{Daybook, column};

#[tokio::test]
async fn a_grant_is_made_extended_and_voided_once() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "0").await;
    let body = json!({"amount": "50", "pool": "promo", "expires_at": "2999-01-01T00:00:00Z", "source": "campaign", "reason": "hello", "metadata": {"x": true}});
    let made = daybook.post(&format!("{account}/grants"), "g", body).await.expect(201);
    let grant = &made["grant"];
    for (field, value) in [
        ("pool", "promo"),
        ("amount", "50"),
        ("remaining", "50"),
        ("reserved", "0"),
        ("expires_at", "2999-01-01T00:00:00Z"),
        ("state", "live"),
        ("source", "campaign"),
    ] {
        assert_eq!(grant[field], value, "{field}");
    }
    assert_eq!(grant["seq"], made["entry"]["seq"]);
    assert_eq!(column(&made["entry"]["lines"], "ledger_account"), ["promotion_expense", "available"]);
    let path = format!("{account}/grants/{}", grant["id"].as_str().unwrap());

    let extended = daybook
        .post(
            &format!("{path}/extend"),
            "e",
            json!({"expires_at": "2999-06-01T00:00:00Z", "reason": "sorry"}),
        )
        .await
        .expect(200);
    assert_eq!(extended["grant"]["expires_at"], "2999-06-01T00:00:00Z");
    let voided = daybook.post(&format!("{path}/void"), "v1", json!({"reason": "mistake"})).await.expect(200);
    assert_eq!(
        (&voided["entry"]["kind"], &voided["entry"]["amount"], &voided["grant"]["state"]),
        (&json!("VOID"), &json!("-50"), &json!("ended"))
    );
    let again = daybook.post(&format!("{path}/void"), "v2", json!({"reason": "mistake"})).await.expect(200);
    assert_eq!(again["entry"]["seq"], voided["entry"]["seq"]);
    daybook
        .post(&format!("{path}/extend"), "e2", json!({"expires_at": "2999-07-01T00:00:00Z", "reason": "x"}))
        .await
        .problem("grant_ended");
    daybook.post(&format!("{path}/void"), "v3", json!({})).await.problem("invalid_request");

    let live = |value: &str| format!("{account}/grants?live={value}");
    assert_eq!(daybook.get(&live("true")).await.expect(200)["data"], json!([]));
    assert_eq!(daybook.get(&live("false")).await.expect(200)["data"][0]["id"], grant["id"]);
    assert_eq!(daybook.get(&live("maybe")).await.status, 400);
}

#[tokio::test]
async fn money_that_goes_back_and_comes_again_moves_the_grant() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let grants = daybook.get(&format!("{account}/grants")).await.expect(200);
    let path = format!("{account}/grants/{}", grants["data"][0]["id"].as_str().unwrap());
    daybook.post(&format!("{account}/charges"), "c", json!({"amount": "80"})).await.expect(201);

    let taken = daybook
        .post(
            &format!("{path}/clawbacks"),
            "b1",
            json!({"amount": "50", "reason": "dispute", "payment_ref": "p"}),
        )
        .await
        .expect(201);
    assert_eq!(column(&taken["entries"], "kind"), ["CLAWBACK"]);
    assert_eq!((&taken["balance"]["available"], &taken["balance"]["debt"]), (&json!("-30"), &json!("30")));
    let above = json!({"amount": "51", "reason": "dispute"});
    daybook.post(&format!("{path}/clawbacks"), "b2", above.clone()).await.problem("clawback_exceeds_grant");
    daybook.post(&format!("{path}/restores"), "r1", above).await.problem("restore_exceeds_clawbacks");
    let back = daybook
        .post(&format!("{path}/restores"), "r2", json!({"amount": "50", "reason": "won", "payment_ref": "p"}))
        .await
        .expect(201);
    assert_eq!(column(&back["entries"], "kind"), ["RESTORE"]);
    assert_eq!((&back["balance"]["available"], &back["balance"]["debt"]), (&json!("20"), &json!("0")));
}

#[tokio::test]
async fn a_correction_acts_for_the_keys_owner_within_the_roles_limits() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "0").await;
    let support = daybook.user("support@example.org", Role::Support, &[]).await;
    let finance = daybook.user("finance@example.org", Role::Finance, &[]).await;
    let support_key = daybook.new_key(&support, &[Scope::Adjust]).await;
    let finance_key = daybook.new_key(&finance, &[Scope::Adjust]).await;
    let path = format!("{account}/adjustments");
    let adjust = async |bearer: &str, key: &str, amount: &str| {
        let body = json!({"amount": amount, "reason_code": "goodwill", "reason": "an outage"}).to_string();
        let request = axum::http::Request::post(&path)
            .header("authorization", format!("Bearer {bearer}"))
            .header("content-type", "application/json");
        daybook.send(request.header("idempotency-key", key).body(body.into()).unwrap()).await
    };

    let made = adjust(&support_key, "1", "1000").await.expect(201);
    let entry = &made["entry"];
    assert_eq!((&entry["kind"], &entry["amount"]), (&json!("ADJUST"), &json!("1000")));
    assert_eq!(entry["actor"], json!({"kind": "user", "id": support.id.to_string(), "role": "support"}));
    assert_eq!(made["grant"]["pool"], "promo");
    assert_eq!(adjust(&support_key, "2", "1000.000001").await.problem("forbidden")["limit"], "1000");
    for key in ["3", "4", "5", "6"] {
        adjust(&support_key, key, "-1000").await.expect(201);
    }
    let problem = adjust(&support_key, "7", "0.000001").await.problem("forbidden");
    assert_eq!((&problem["limit"], &problem["used"]), (&json!("5000"), &json!("5000")));
    let replay = adjust(&support_key, "6", "-1000").await;
    assert_eq!(
        (replay.expect(201)["entry"]["kind"].as_str(), replay.header("idempotency-replayed")),
        (Some("ADJUST"), "true")
    );

    adjust(&finance_key, "f1", "10000").await.expect(201);
    assert_eq!(adjust(&finance_key, "f2", "10000.000001").await.problem("forbidden")["limit"], "10000");
    for (field, value) in [("amount", json!("0")), ("reason_code", json!("whim")), ("reason", json!(""))] {
        let mut body = json!({"amount": "1", "reason_code": "goodwill", "reason": "an outage"});
        body[field] = value;
        let problem = daybook.post(&path, "bad", body).await.problem("invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }
}

#[tokio::test]
async fn the_days_sum_of_corrections_goes_by_the_ledgers_clock() {
    let daybook = Daybook::with(Flags { test_clock: true, ..Flags::default() }, &[]).await;
    daybook.set_clock("2026-01-01T12:00:00Z").await;
    let (_, account) = daybook.account("a", "0").await;
    let support = daybook.user("support@example.org", Role::Support, &[]).await;
    let key = daybook.new_key(&support, &[Scope::Adjust]).await;
    let adjust = async |n: usize| {
        let body = json!({"amount": "1000", "reason_code": "goodwill", "reason": "r"}).to_string();
        let request = axum::http::Request::post(format!("{account}/adjustments"))
            .header("authorization", format!("Bearer {key}"))
            .header("idempotency-key", n.to_string())
            .header("content-type", "application/json");
        daybook.send(request.body(body.into()).unwrap()).await
    };
    for n in 0..5 {
        adjust(n).await.expect(201);
    }
    daybook.set_clock("2026-01-01T23:59:59.999999Z").await;
    assert_eq!(adjust(5).await.problem("forbidden")["used"], "5000");
    daybook.set_clock("2026-01-02T00:00:00Z").await;
    adjust(5).await.expect(201);
}
