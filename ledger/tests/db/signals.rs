//! What a decision signals is in the outbox, written with it.

use ledger::command::Expiry;
use ledger::grant::Pool;
use ledger::policy::Policy;
use serde_json::{Value, json};

use crate::support::{Bench, credits};

/// The number of the signal in the outbox.
const THRESHOLD_CROSSED: i16 = 6;

#[tokio::test]
async fn a_balance_that_falls_below_the_policys_threshold_is_in_the_outbox_once() {
    let bench = Bench::start().await;
    let policy = Policy { low_balance: Some(credits("50")), ..Policy::default() };
    bench.ledger.set_policy_rules(&policy).await.unwrap();
    assert_eq!(bench.ledger.policy("default").await.unwrap(), Some(policy));
    let account = bench.funded("100").await;
    bench.charge(account, "to the threshold", "50").await.unwrap();
    bench.charge(account, "below it", "0.000001").await.unwrap();
    bench.charge(account, "still below", "1").await.unwrap();
    bench.grant(account, "1.000001", Pool::Paid, Expiry::Never).await;
    bench.charge(account, "below it again", "10").await.unwrap();
    let rows: Vec<(i64, Value)> =
        sqlx::query_as("select seq, payload from outbox where account_id = $1 and signal = $2 order by seq")
            .bind(account.0)
            .bind(THRESHOLD_CROSSED)
            .fetch_all(&bench.pool)
            .await
            .unwrap();
    let payload = |available: &str| json!({"threshold": "50", "available": available});
    // Opened 1, funded 2, charged 3 to 5, topped up 6, charged 7.
    assert_eq!(rows, [(4, payload("49.999999")), (7, payload("40"))]);
    bench.verify().await;
}
