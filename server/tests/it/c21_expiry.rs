//! C21: the exact instant of expiry, before any sweep has run. All views say the same.

use backoffice::access::Role;
use serde_json::json;
use server::config::Flags;

use crate::support::{Daybook, Reply, column};

const EXPIRY: &str = "2026-07-01T00:00:00Z";

fn lines(csv: &Reply) -> Vec<&str> {
    assert_eq!(csv.status, 200, "{}", csv.text);
    csv.text.lines().collect()
}

#[tokio::test]
async fn c21_every_view_lapses_at_the_instant_and_the_sweep_changes_none() {
    let daybook = Daybook::with(Flags { test_clock: true, ..Flags::default() }, &[]).await;
    daybook.set_clock("2026-06-01T00:00:00Z").await;
    let (id, account) = daybook.account("a", "0").await;
    let grant = json!({"amount": "1000", "pool": "promo", "expires_at": EXPIRY});
    daybook.post(&format!("{account}/grants"), "g", grant).await.expect(201);
    daybook.user("ada@example.org", Role::Customer, &[id]).await;
    let ada = daybook.signed_in("ada@example.org").await;

    daybook.set_clock("2026-06-30T23:59:59.999999Z").await;
    daybook.post(&format!("{account}/charges"), "1", json!({"amount": "500"})).await.expect(201);
    assert_eq!(lines(&daybook.visit(&ada, "/history.csv").await).len(), 5, "head, three entries, foot");

    daybook.set_clock(EXPIRY).await;
    for verb in ["charges", "holds"] {
        let refused = daybook.post(&format!("{account}/{verb}"), "2", json!({"amount": "1"})).await;
        refused.problem("insufficient_credits");
    }
    assert_eq!(daybook.available(&account).await, "0");
    assert_eq!(daybook.entries(&account).await, 3, "a refusal writes nothing");
    let due = daybook.visit(&ada, "/history.csv").await;
    // seq and recorded_at are empty: it is not written yet.
    let lapse = ",EXPIRE,2026-07-01T00:00:00.000000+00:00,2026-07-01T00:00:00.000000+00:00,,-500,0,0,0,0,";
    assert!(lines(&due)[1].starts_with(lapse), "{}", due.text);
    assert_eq!(lines(&due)[5].split(',').take(7).collect::<Vec<_>>().join(","), "total,4 rows,,,,0,0");
    for path in ["/", "/history", "/history?kind=EXPIRE"] {
        let page = daybook.visit(&ada, path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.text.matches("data-testid=\"pending\"").count(), 1, "{path}");
        assert!(page.text.contains("-500</td>"), "{path}: {}", page.text);
    }
    let totals = daybook.visit(&ada, "/history?kind=EXPIRE").await.text;
    assert!(totals.contains("Total of ") && totals.contains("1 entry"), "{totals}");
    for other in ["/history?kind=CONSUME", "/history?to=2026-06-30", "/history?max=499", "/history?model=x"] {
        assert!(!daybook.visit(&ada, other).await.text.contains("data-testid=\"pending\""), "{other}");
    }

    daybook.set_clock("2026-07-01T06:23:00Z").await;
    assert_eq!(daybook.state.ledger.sweep(10).await.unwrap(), 1);
    assert_eq!(daybook.state.ledger.sweep(10).await.unwrap(), 0, "the second sweep posts nothing");
    let list = daybook.get(&format!("{account}/entries")).await.expect(200)["data"].clone();
    assert_eq!(column(&list, "kind"), ["EXPIRE", "CONSUME", "TOPUP", "NOTE"]);
    assert_eq!(list[0]["effective_at"], EXPIRY);
    let swept = daybook.visit(&ada, "/history.csv").await;
    let cells = |reply: &Reply| {
        let mut cells: Vec<String> = lines(reply)[1].split(',').map(str::to_owned).collect();
        (cells.remove(0), cells.remove(3), cells)
    };
    let ((seq, recorded_at, written), (_, _, shown)) = (cells(&swept), cells(&due));
    assert_eq!((seq.as_str(), recorded_at.as_str()), ("4", "2026-07-01T06:23:00.000000+00:00"));
    assert_eq!(written, shown, "what was shown is what was written");
    assert!(!daybook.visit(&ada, "/history").await.text.contains("data-testid=\"pending\""));
}

#[tokio::test]
async fn c21_a_due_hold_is_shown_as_given_back_and_what_it_held_as_lapsed() {
    let daybook = Daybook::with(Flags { test_clock: true, ..Flags::default() }, &[]).await;
    daybook.set_clock("2026-06-30T23:00:00Z").await;
    let (id, account) = daybook.account("a", "0").await;
    let grant = json!({"amount": "10", "pool": "promo", "expires_at": EXPIRY});
    daybook.post(&format!("{account}/grants"), "g", grant).await.expect(201);
    let hold = json!({"amount": "4", "expires_in_s": 3_600, "member": "m-ana"});
    daybook.post(&format!("{account}/holds"), "h", hold).await.expect(201);
    daybook.user("ada@example.org", Role::Customer, &[id]).await;
    let ada = daybook.signed_in("ada@example.org").await;
    daybook.set_clock(EXPIRY).await;
    let csv = daybook.visit(&ada, "/history.csv").await;
    // Of one instant: the hold first, then the grant with all that came back. Newest first.
    let start = |line: &str| line.split(',').take(10).map(str::to_owned).collect::<Vec<_>>();
    let lapse = start(lines(&csv)[1]);
    let reversal = start(lines(&csv)[2]);
    assert_eq!((lapse[1].as_str(), lapse[5].as_str(), lapse[9].as_str()), ("EXPIRE", "-10", "0"));
    assert_eq!(
        (reversal[1].as_str(), reversal[6].as_str(), reversal[9].as_str()),
        ("AUTH_REVERSAL", "-4", "10")
    );
    // The earlier pages, when one comes back from them, begin with the same rows.
    let small = daybook.state.ledger.history(id, &Default::default(), &Default::default()).await.unwrap();
    assert_eq!(small.pending.len(), 2);
    assert_eq!(daybook.available(&account).await, "0");
}
