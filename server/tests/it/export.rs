//! The history as CSV over more than one page of the ledger.

use backoffice::access::Role;
use ledger::Credits;
use serde_json::{Value, json};

use crate::support::Daybook;

/// More than two pages of 200, and no multiple of them.
const CHARGES: usize = 450;

#[tokio::test]
async fn an_export_of_several_pages_is_complete_adds_up_and_guards_its_text() {
    let daybook = Daybook::start().await;
    let (id, _) = daybook.account("a", "1000").await;
    let risky = ["=1+1", "+1", "-1", "@SUM(A1)", "'x", "plain", "with, comma", "with \"quotes\""];
    let charge = |n: usize| -> Value {
        json!({
            "idempotency_key": n.to_string(), "account": id, "do": "charge", "amount": "0.000001",
            "model": risky[n % risky.len()], "request_ref": format!("r{n}"), "member": risky[(n + 1) % risky.len()],
        })
    };
    let commands = json!({"commands": (0..CHARGES).map(charge).collect::<Vec<_>>()});
    let request = daybook.request("POST", "/v1/batch").header("content-type", "application/json");
    let results = daybook.send(request.body(commands.to_string().into()).unwrap()).await.expect(200);
    assert!(results["results"].as_array().unwrap().iter().all(|result| result["status"] == 201));
    daybook.user("ada@example.org", Role::Customer, &[id]).await;
    let ada = daybook.signed_in("ada@example.org").await;

    let reply = daybook.visit(&ada, "/history.csv").await;
    assert_eq!(reply.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert_eq!(reply.header("content-length"), "", "it is streamed");
    assert!(reply.text.lines().count() == CHARGES + 4, "{}", reply.text.lines().count());
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(reply.text.as_bytes());
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name: &str| records[0].iter().position(|cell| cell == name).unwrap();
    let (seq, amount, model, member) = (column("seq"), column("amount"), column("model"), column("member"));
    let (rows, foot) = records[1..].split_at(records.len() - 2);
    // Opened, granted, charged.
    let seqs: Vec<usize> = rows.iter().map(|row| row[seq].parse().unwrap()).collect();
    assert_eq!(seqs, (1..=CHARGES + 2).rev().collect::<Vec<_>>(), "every entry once, newest first");
    let sum = Credits::sum(rows.iter().map(|row| Credits::parse(&row[amount]).unwrap())).unwrap();
    // 1000 − 450 millionths
    assert_eq!(sum.to_string(), "999.99955");
    assert_eq!((&foot[0][0], &foot[0][1], &foot[0][amount]), ("total", "452 rows", "999.99955"));
    for row in &rows[..CHARGES] {
        let n = row[seq].parse::<usize>().unwrap() - 3;
        for (cell, sent) in
            [(&row[model], risky[n % risky.len()]), (&row[member], risky[(n + 1) % risky.len()])]
        {
            let is_risky = sent.starts_with(['=', '+', '-', '@', '\'']);
            let expected = if is_risky { format!("'{sent}") } else { sent.to_owned() };
            assert_eq!(cell, expected);
        }
        assert_eq!(&row[amount], "-0.000001", "numbers are never touched");
    }

    let filtered = daybook.visit(&ada, "/history.csv?model=%3D1%2B1").await;
    // 0, 8, … 448
    assert!(filtered.text.contains("\r\ntotal,57 rows,,,,-0.000057,0,"), "{}", filtered.text);
}
