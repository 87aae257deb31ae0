//! The API description is held against real answers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::schema::faults;
use crate::support::{Daybook, Reply};

/// Answers are checked as they come in.
struct Checked<'a> {
    daybook: &'a Daybook,
    description: Value,
    seen: BTreeSet<String>,
    posts: usize,
}

impl Checked<'_> {
    async fn get(&mut self, route: &str, path: &str) -> Value {
        let reply = self.daybook.get(path).await;
        self.check("get", route, &reply)
    }

    async fn post(&mut self, route: &str, path: &str, body: Value) -> Value {
        self.posts += 1;
        let reply = self.daybook.post(path, &format!("k{}", self.posts), body).await;
        self.check("post", route, &reply)
    }

    /// Every field that is answered must be described, too.
    fn check(&mut self, method: &str, route: &str, reply: &Reply) -> Value {
        let responses = &self.description["paths"][route][method]["responses"];
        let status = reply.status.as_u16().to_string();
        let response = match &responses[&status] {
            Value::Null => &responses[format!("{}XX", &status[..1])],
            exact => exact,
        };
        let content = response["content"]
            .as_object()
            .unwrap_or_else(|| panic!("{method} {route} {status} is not described"));
        let (kind, content) = content.iter().next().unwrap();
        assert_eq!(reply.header("content-type"), kind, "{method} {route}");
        let body = reply.json();
        let found = faults(&self.description, &content["schema"], &body, "");
        assert!(found.is_empty(), "{method} {route} {status}: {found:#?}");
        self.seen.insert(format!("{method} {route}"));
        body
    }
}

const ACCOUNT: &str = "/v1/accounts/{account}";

#[tokio::test]
async fn real_answers_are_as_described() {
    let daybook = Daybook::start().await;
    let description = daybook.get("/v1/openapi.json").await.expect(200);
    let mut checked = Checked { daybook: &daybook, description, seen: BTreeSet::new(), posts: 0 };
    let route = |rest: &str| format!("{ACCOUNT}{rest}");

    let opened = checked
        .post("/v1/accounts", "/v1/accounts", json!({"external_ref": "a", "metadata": {"a": 1}}))
        .await;
    checked.post("/v1/accounts", "/v1/accounts", json!({"external_ref": "a"})).await;
    let account = format!("/v1/accounts/{}", opened["id"].as_str().unwrap());
    let at = |rest: &str| format!("{account}{rest}");
    let grant =
        checked.post(&route("/grants"), &at("/grants"), json!({"amount": "100", "pool": "paid"})).await;
    let grant = format!("/grants/{}", grant["grant"]["id"].as_str().unwrap());
    let charged = checked
        .post(&route("/charges"), &at("/charges"), json!({"amount": "10", "metadata": {"b": {"c": "d"}}}))
        .await;
    checked.post(&route("/charges"), &at("/charges"), json!({"amount": "1000"})).await;
    checked.post(&route("/charges"), &at("/charges"), json!({"amount": -1})).await;
    let mut holds = Vec::new();
    for member in ["settled", "released", "reversed", "open"] {
        let held =
            checked.post(&route("/holds"), &at("/holds"), json!({"amount": "5", "member": member})).await;
        holds.push(format!("/holds/{}", held["hold"]["id"].as_str().unwrap()));
    }
    checked
        .post(
            &route("/holds/{hold}/renew"),
            &at(&format!("{}/renew", holds[0])),
            json!({"expires_in_s": 100}),
        )
        .await;
    checked
        .post(&route("/holds/{hold}/settle"), &at(&format!("{}/settle", holds[0])), json!({"amount": "6"}))
        .await;
    checked
        .post(&route("/holds/{hold}/settle"), &at(&format!("{}/settle", holds[0])), json!({"amount": "6"}))
        .await;
    checked.post(&route("/holds/{hold}/release"), &at(&format!("{}/release", holds[1])), json!({})).await;
    checked
        .post(
            &route("/holds/{hold}/reverse"),
            &at(&format!("{}/reverse", holds[2])),
            json!({"outcome": "failed"}),
        )
        .await;
    let refunds = format!("/entries/{}/refunds", charged["entry"]["seq"]);
    checked.post(&route("/entries/{seq}/refunds"), &at(&refunds), json!({"reason": "r"})).await;
    checked
        .post(
            &route("/grants/{grant}/clawbacks"),
            &at(&format!("{grant}/clawbacks")),
            json!({"amount": "5", "reason": "r"}),
        )
        .await;
    checked
        .post(
            &route("/grants/{grant}/restores"),
            &at(&format!("{grant}/restores")),
            json!({"amount": "5", "reason": "r"}),
        )
        .await;
    checked
        .post(
            &route("/grants/{grant}/extend"),
            &at(&format!("{grant}/extend")),
            json!({"expires_at": "2999-01-01T00:00:00Z", "reason": "r"}),
        )
        .await;
    checked.post(&route("/grants/{grant}/void"), &at(&format!("{grant}/void")), json!({"reason": "r"})).await;
    let adjustment = json!({"amount": "3", "reason_code": "other", "reason": "r"});
    checked.post(&route("/adjustments"), &at("/adjustments"), adjustment).await;
    for marker in ["started", "completed", "failed"] {
        checked
            .post(&route(&format!("/jobs/{{job_id}}/{marker}")), &at(&format!("/jobs/j/{marker}")), json!({}))
            .await;
    }
    let batch = json!({"commands": [{"idempotency_key": "b", "account": opened["id"], "do": "charge", "amount": "1"}, {"do": "charge"}]});
    checked.post("/v1/batch", "/v1/batch", batch).await;

    checked.get("/v1/accounts", "/v1/accounts").await;
    checked.get(ACCOUNT, &account).await;
    checked.get(ACCOUNT, "/v1/accounts/ref:nobody").await;
    for (rest, path) in [
        ("/balance", "/balance".to_owned()),
        ("/grants", "/grants".to_owned()),
        ("/holds", "/holds".to_owned()),
        ("/holds/{hold}", holds[3].clone()),
    ] {
        checked.get(&route(rest), &at(&path)).await;
    }
    checked.get(&route("/entries"), &at("/entries?limit=200")).await;
    checked.get(&route("/entries"), &at("/entries?limit=x")).await;
    checked.get(&route("/entries/{seq}"), &at("/entries/2")).await;
    checked.get("/v1/openapi.json", "/v1/openapi.json").await;

    for (path, item) in checked.description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let operation = format!("{method} {path}");
            assert!(
                checked.seen.contains(&operation) || path == "/v1/test-clock",
                "{operation} was not held against an answer"
            );
        }
    }
}
