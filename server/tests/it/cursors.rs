//! A cursor leads back into the list that made it, and nowhere else.

use serde_json::json;

use crate::support::Daybook;

#[tokio::test]
async fn a_cursor_of_another_list_account_or_filter_is_refused() {
    let daybook = Daybook::start().await;
    let (_, one) = daybook.account("one", "100").await;
    let (_, two) = daybook.account("two", "100").await;
    for account in [&one, &two] {
        for key in ["a", "b", "c"] {
            let grant = json!({"amount": "1", "pool": "promo"});
            daybook.post(&format!("{account}/grants"), key, grant).await.expect(201);
            daybook
                .post(&format!("{account}/holds"), &format!("h{key}"), json!({"amount": "1"}))
                .await
                .expect(201);
        }
    }
    let lists = [
        "/v1/accounts?".to_owned(),
        "/v1/accounts?q=o&".to_owned(),
        format!("{one}/grants?"),
        format!("{one}/grants?live=true&"),
        format!("{one}/holds?"),
        format!("{one}/holds?status=open&"),
        format!("{one}/entries?"),
        format!("{one}/entries?kind=TOPUP&"),
        format!("{one}/entries?from=2020-01-01T00:00:00Z&"),
        format!("{one}/entries?max=5&"),
        format!("{two}/grants?"),
        format!("{two}/holds?"),
        format!("{two}/entries?"),
    ];
    let mut cursors = Vec::new();
    for list in &lists {
        let page = daybook.get(&format!("{list}limit=1")).await.expect(200);
        cursors.push(page["next_cursor"].as_str().map(str::to_owned));
    }
    for (made_by, cursor) in lists.iter().zip(&cursors) {
        let Some(cursor) = cursor else {
            assert_eq!(made_by, "/v1/accounts?q=o&", "one account begins with o");
            continue;
        };
        for list in &lists {
            let reply = daybook.get(&format!("{list}limit=2&cursor={cursor}")).await;
            if list == made_by {
                reply.expect(200);
            } else {
                let body = reply.problem("invalid_request");
                assert_eq!(body["errors"][0]["pointer"], "cursor", "{made_by} → {list}");
            }
        }
    }
    // Kinds are a set, and the size of a page is no part of the list.
    let kinds = |order: &str, more: &str| format!("{one}/entries?kind={order}&{more}");
    let page = daybook.get(&kinds("TOPUP,AUTH_HOLD", "limit=1")).await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    daybook.get(&kinds("AUTH_HOLD,TOPUP", &format!("limit=7&cursor={cursor}"))).await.expect(200);
    for nonsense in ["", "n5", "00000000n5", "p"] {
        daybook.get(&format!("{one}/entries?cursor={nonsense}")).await.problem("invalid_request");
    }
}
