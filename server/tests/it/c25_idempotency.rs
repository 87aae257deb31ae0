//! One idempotency key, many uses.

use serde_json::json;

use crate::support::Daybook;

#[tokio::test]
async fn c25_a_key_names_one_intent_of_one_account() {
    let daybook = Daybook::start().await;
    let (_, first) = daybook.account("t1", "100").await;
    let (_, second) = daybook.account("t2", "100").await;
    let charges = format!("{first}/charges");
    let charged = daybook.post(&charges, "K", json!({"amount": "80", "member": "m"})).await;
    let answer = charged.expect(201);
    assert_eq!(charged.header("idempotency-replayed"), "");

    // (a), (d): the first answer again, whatever the order of fields and the way the amount is written.
    for body in ["{\"amount\":\"80\",\"member\":\"m\"}", "{ \"member\" : \"m\",\n \"amount\" : 80.0 }"] {
        let again = daybook.post_text(&charges, "K", body).await;
        assert_eq!(again.expect(201), answer);
        assert_eq!(again.text, charged.text);
        assert_eq!(again.header("idempotency-replayed"), "true");
    }
    let quoted = daybook.post(&charges, "\"K\"", json!({"amount": "80", "member": "m"})).await;
    assert_eq!(quoted.expect(201), answer);
    // (b), (c): other content, other verb.
    let other = daybook.post(&charges, "K", json!({"amount": "81", "member": "m"})).await;
    other.problem("idempotency_key_reused");
    assert_eq!(other.status, 422);
    daybook
        .post(&format!("{first}/holds"), "K", json!({"amount": "80", "member": "m"}))
        .await
        .problem("idempotency_key_reused");
    // (e): another account has keys of its own.
    daybook.post(&format!("{second}/charges"), "K", json!({"amount": "80"})).await.expect(201);
    assert_eq!(
        (daybook.available(&first).await, daybook.available(&second).await),
        ("20".to_owned(), "20".to_owned())
    );
    // (g): a refusal is not remembered.
    daybook.post(&charges, "M", json!({"amount": "50"})).await.problem("insufficient_credits");
    daybook
        .post(&format!("{first}/grants"), "top-up", json!({"amount": "100", "pool": "paid"}))
        .await
        .expect(201);
    daybook.post(&charges, "M", json!({"amount": "50"})).await.expect(201);
    assert_eq!(daybook.available(&first).await, "70");
}

#[tokio::test]
async fn c25_fifty_parallel_first_uses_post_once() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("t1", "100").await;
    let charges = format!("{account}/charges");
    let uses = (0..50).map(|_| daybook.post(&charges, "N", json!({"amount": "1"})));
    let replies = futures_util::future::join_all(uses).await;
    let firsts = replies.iter().filter(|reply| reply.header("idempotency-replayed").is_empty()).count();
    assert_eq!(firsts, 1);
    for reply in &replies {
        assert_eq!(reply.expect(201), replies[0].json());
    }
    assert_eq!(daybook.available(&account).await, "99");

    // (f): with other content the second of two at one instant is a conflict.
    let five = daybook.post(&charges, "L", json!({"amount": "5"}));
    let six = daybook.post(&charges, "L", json!({"amount": "6"}));
    let (five, six) = futures_util::future::join(five, six).await;
    let mut statuses = [five.status.as_u16(), six.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422]);
}

#[tokio::test]
async fn a_write_without_a_good_key_is_refused_before_anything_is_read() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let path = format!("{account}/charges");
    let json = "application/json";
    let without = daybook
        .request("POST", &path)
        .header("content-type", json)
        .body("{\"amount\":\"1\"}".into())
        .unwrap();
    daybook.send(without).await.problem("idempotency_key_missing");
    let twice = daybook
        .request("POST", &path)
        .header("content-type", json)
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    daybook.send(twice.body("{\"amount\":\"1\"}".into()).unwrap()).await.problem("invalid_request");
    for key in ["a b", "schlüssel", &"k".repeat(256)] {
        daybook.post(&path, key, json!({"amount": "1"})).await.problem("invalid_request");
    }
    daybook.post(&path, "", json!({"amount": "1"})).await.problem("idempotency_key_missing");
    daybook.post(&path, &"k".repeat(255), json!({"amount": "1"})).await.expect(201);
    assert_eq!(daybook.available(&account).await, "99");
}
