//! Input that means harm or makes no sense: a documented 4xx, nothing posted, never a 5xx.

use serde_json::json;

use crate::support::Daybook;

#[tokio::test]
async fn hostile_bodies_are_refused_and_post_nothing() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let before = daybook.entries(&account).await;
    let amounts = [
        "-1",
        "\"-1\"",
        "-0.000001",
        "\"1e3\"",
        "1e13",
        "1e-400",
        "1e99999999999999999999",
        "\"-0\"",
        "\"1.0000000\"",
        "1E400",
        "1e-7",
        "NaN",
        "\"NaN\"",
        "Infinity",
        "\"Infinity\"",
        "\"\"",
        "\" 1\"",
        "\"1 \"",
        "\"+1\"",
        "\"0x10\"",
        "\"1,5\"",
        "\"１\"",
        "0.0000001",
        "\"0.0000001\"",
        "1000000000000.000001",
        "1000000000001",
        "\"999999999999999999999999999999\"",
        "99999999999999999999999999999999999999999999999999",
        "null",
        "true",
        "[]",
        "{}",
        "[1]",
        "{\"a\":1}",
        "\"1\\u0000\"",
        "\"\\ud800\"",
        "01",
        "1.",
        ".5",
        "--1",
    ];
    let bodies = amounts.iter().map(|amount| format!("{{\"amount\":{amount}}}"));
    let others = [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "1",
        "{\"amount\":1}x",
        "{\"amount\":1}{\"amount\":1}",
        "{\"amount\":1,}",
        "{\"amount\":1,\"amount\":1}",
        "{\"amount\":1,\"nope\":1}",
        "{\"amount\":1,\"member\":1}",
        "{\"amount\":1,\"member\":\"\"}",
        "{\"amount\":1,\"member\":\"a\\u0000b\"}",
        "{\"amount\":1,\"member\":\"\\ud800\"}",
        "{\"amount\":1,\"member\":\"\\udc00\"}",
        "{\"amount\":1,\"job_id\":{}}",
        "{\"amount\":1,\"occurred_at\":\"yesterday\"}",
        "{\"amount\":1,\"occurred_at\":1}",
        "{\"amount\":1,\"occurred_at\":\"2026-01-01T00:00:00\"}",
        "{\"amount\":1,\"occurred_at\":\"99999-01-01T00:00:00Z\"}",
        "{\"amount\":1,\"metadata\":[]}",
        "{\"amount\":1,\"metadata\":{\"a\":1,\"a\":2}}",
        "{\"amount\":1,\"metadata\":{\"a\":{\"b\":{\"c\":1}}}}",
        "{\"amount\":1,\"metadata\":{\"\\u0000\":1}}",
        "{\"amount\":1,\"metadata\":{\"a\":\"\\u0000\"}}",
        "{\"amount\":1,\"metadata\":{\"a\":null}}",
        "{\"amount\":1,\"metadata\":{\"a\":1e999}}",
        "{\"amount\":1,\"metadata\":{\"a\":\"\\ud834\"}}",
        "{\"amount\":1,\"__proto__\":{}}",
        "{'amount':1}",
        "{\"amount\":1 /* */}",
    ];
    let long = format!("{{\"amount\":1,\"member\":\"{}\"}}", "x".repeat(256));
    let metadata = format!("{{\"amount\":1,\"metadata\":{{\"a\":\"{}\"}}}}", "x".repeat(8_192));
    let deep = format!("{{\"amount\":{}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let deep_metadata =
        format!("{{\"amount\":1,\"metadata\":{}1{}}}", "{\"a\":".repeat(9_000), "}".repeat(9_000));
    let all = bodies.chain(others.map(str::to_owned)).chain([long, metadata, deep, deep_metadata]);
    for (number, body) in all.enumerate() {
        let shown: String = body.chars().take(80).collect();
        for verb in ["charges", "holds"] {
            let reply = daybook
                .post_text(&format!("{account}/{verb}"), &format!("hostile-{number}"), body.clone())
                .await;
            assert_eq!(reply.status, 400, "{shown}: {}", reply.text);
            reply.problem("invalid_request");
        }
    }
    let bytes: [&[u8]; 3] = [
        b"{\"amount\":1,\"member\":\"\xff\"}",
        b"\xef\xbb\xbf{\"amount\":1}",
        b"{\"amount\":1,\"member\":\"\xed\xa0\x80\"}",
    ];
    for body in bytes {
        daybook
            .post_text(&format!("{account}/charges"), "bytes", body.to_vec())
            .await
            .problem("invalid_request");
    }
    assert_eq!(daybook.entries(&account).await, before);
    assert_eq!(daybook.available(&account).await, "100");
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let path = format!("{account}/charges");
    for bytes in [64 * 1024 + 1, 10 * 1024 * 1024] {
        let reply =
            daybook.post_text(&path, "k", format!("{{\"amount\":1}}{}", " ".repeat(bytes - 12))).await;
        reply.problem("too_large");
        assert_eq!(reply.status, 413);
    }
    // Without a length the body is counted as it comes.
    let chunks = (0..1_000).map(|_| Ok::<_, std::io::Error>("x".repeat(1_024)));
    let stream = axum::body::Body::from_stream(futures_util::stream::iter(chunks));
    daybook.post_text(&path, "k", stream).await.problem("too_large");
    let whole = format!("{{\"amount\":1}}{}", " ".repeat(64 * 1024 - 12));
    daybook.post_text(&path, "fits", whole).await.expect(201);

    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=utf-16",
        "application/xml",
    ] {
        let request =
            daybook.request("POST", &path).header("idempotency-key", "k").header("content-type", kind);
        let reply = daybook.send(request.body("{\"amount\":1}".into()).unwrap()).await;
        reply.problem("unsupported_media_type");
        assert_eq!(reply.status, 415);
    }
    let request = daybook.request("POST", &path).header("idempotency-key", "k");
    daybook.send(request.body("{\"amount\":1}".into()).unwrap()).await.problem("unsupported_media_type");
    let packed = daybook
        .request("POST", &path)
        .header("idempotency-key", "k")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    daybook.send(packed.body("{\"amount\":1}".into()).unwrap()).await.problem("unsupported_media_type");
}

#[tokio::test]
async fn absurd_fields_of_every_verb_are_refused() {
    let daybook = Daybook::start().await;
    let (_, account) = daybook.account("a", "100").await;
    let held = daybook.post(&format!("{account}/holds"), "h", json!({"amount": "10"})).await.expect(201);
    let hold = format!("{account}/holds/{}", held["hold"]["id"].as_str().unwrap());
    let grant = format!("{account}/grants/{}", held["entry"]["lines"][0]["grant"].as_str().unwrap());
    let before = daybook.entries(&account).await;
    let cases = [
        (format!("{account}/grants"), "{\"amount\":0,\"pool\":\"paid\"}"),
        (format!("{account}/grants"), "{\"amount\":1,\"pool\":\"gold\"}"),
        (format!("{account}/grants"), "{\"amount\":1}"),
        (
            format!("{account}/grants"),
            "{\"amount\":1,\"pool\":\"paid\",\"expires_at\":\"2001-01-01T00:00:00Z\"}",
        ),
        (format!("{account}/holds"), "{\"amount\":1,\"expires_in_s\":0}"),
        (format!("{account}/holds"), "{\"amount\":1,\"expires_in_s\":-5}"),
        (format!("{account}/holds"), "{\"amount\":1,\"expires_in_s\":99999999999}"),
        (format!("{account}/holds"), "{\"amount\":1,\"expires_in_s\":1.5}"),
        (format!("{account}/holds"), "{\"amount\":1,\"expires_in_s\":4000000000}"),
        (format!("{hold}/renew"), "{\"expires_in_s\":0}"),
        (format!("{hold}/renew"), "{}"),
        (format!("{hold}/settle"), "{\"amount\":1000000000001}"),
        (format!("{hold}/settle"), "{}"),
        (format!("{hold}/release"), "{\"x\":1}"),
        (format!("{hold}/reverse"), "{\"outcome\":\"maybe\"}"),
        (format!("{hold}/reverse"), "{\"outcome\":{\"failed\":null}}"),
        (format!("{hold}/reverse"), "[\"failed\"]"),
        (format!("{account}/charges"), "[1]"),
        (format!("{grant}/void"), "{\"reason\":\"\"}"),
        (format!("{grant}/extend"), "{\"expires_at\":\"2001-01-01T00:00:00Z\",\"reason\":\"r\"}"),
        (format!("{grant}/extend"), "{\"expires_at\":null,\"reason\":\"r\"}"),
        (format!("{grant}/clawbacks"), "{\"amount\":0,\"reason\":\"r\"}"),
        (format!("{grant}/clawbacks"), "{\"amount\":1}"),
        (format!("{grant}/restores"), "{\"amount\":-1,\"reason\":\"r\"}"),
        (format!("{account}/entries/2/refunds"), "{\"amount\":0,\"reason\":\"r\"}"),
        (format!("{account}/adjustments"), "{\"amount\":0,\"reason_code\":\"other\",\"reason\":\"r\"}"),
        (format!("{account}/jobs/j/started"), "{\"reason\":5}"),
        (format!("{account}/jobs/%00/started"), "{}"),
        ("/v1/accounts".to_owned(), "{\"external_ref\":\"\"}"),
        ("/v1/accounts".to_owned(), "{\"external_ref\":\"a\\u0000\"}"),
        ("/v1/accounts".to_owned(), "{}"),
    ];
    for (path, body) in cases {
        let reply = daybook.post_text(&path, "k", body).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.text);
        reply.problem("invalid_request");
    }
    assert_eq!(daybook.entries(&account).await, before);
}
