//! Jobs on a real database: charged once, refunded once, and made whole where they were charged twice.

use ledger::command::{Command, JobMarker, Verb};
use ledger::entry::{Kind, NoteKind};
use ledger::ids::{AccountId, HoldId};
use ledger::refusal::Refusal;
use uuid::Uuid;

use crate::cases::refusal;
use crate::support::{Bench, command, credits};

fn job_command(account: AccountId, key: &str, verb: Verb) -> Command {
    let mut command = command(account, key, verb);
    command.call.job_id = Some("job-1".to_owned());
    command
}

#[tokio::test]
async fn an_orphaned_job_is_refunded_once_and_does_not_start_afterwards() {
    let bench = Bench::start().await;
    let account = bench.funded("100").await;
    let job = |key: &str, verb: Verb| job_command(account, key, verb);
    let first = bench.ledger.submit(job("a", Verb::Charge { amount: credits("10") })).await.unwrap();
    let second = bench.ledger.submit(job("b", Verb::Charge { amount: credits("10") })).await.unwrap();
    assert!(
        second.replayed && second.set == first.set,
        "a second charge of the job is the first one's entry, whatever its key"
    );
    let refund = bench.ledger.submit(job("r1", Verb::RefundJob)).await.unwrap();
    let again = bench.ledger.submit(job("r2", Verb::RefundJob)).await.unwrap();
    assert!(again.replayed && again.set == refund.set);
    assert_eq!(bench.figures(account).await.0, "100");
    let start = job("s", Verb::Mark { marker: JobMarker::Started });
    assert_eq!(refusal(bench.ledger.submit(start).await), Refusal::JobRefunded);
    bench.verify().await;
}

#[tokio::test]
async fn a_job_that_was_charged_twice_is_made_whole_by_one_refund() {
    let bench = Bench::start().await;
    bench.clock("2026-05-01T10:00:00Z").await;
    let account = bench.funded("100").await;
    let job = |key: &str, verb: Verb| job_command(account, key, verb);
    let [first, second] = [HoldId(Uuid::new_v4()), HoldId(Uuid::new_v4())];
    let place = |id, amount| Verb::Hold { id, amount: credits(amount), expires_in_s: Some(60) };
    bench.ledger.submit(job("h1", place(first, "10"))).await.unwrap();
    bench.clock("2026-05-01T10:01:00Z").await;
    bench.ledger.submit(job("h2", place(second, "20"))).await.unwrap();
    bench.settle(account, "late", first, "10").await.unwrap();
    bench.settle(account, "in time", second, "15").await.unwrap();
    assert_eq!(bench.figures(account).await.0, "75");
    let refund = bench.ledger.submit(job("r1", Verb::RefundJob)).await.unwrap();
    let amounts: Vec<_> =
        refund.set.entries.iter().map(|entry| (entry.kind, entry.amount.to_string())).collect();
    assert_eq!(amounts, [(Kind::Refund, "10".to_owned()), (Kind::Refund, "15".to_owned())]);
    assert_eq!(bench.figures(account).await.0, "100");
    let again = bench.ledger.submit(job("r2", Verb::RefundJob)).await.unwrap();
    assert!(again.replayed && again.set == refund.set);
    bench.verify().await;
}

#[tokio::test]
async fn a_job_whose_charge_was_given_back_can_be_marked_refunded() {
    let bench = Bench::start().await;
    let account = bench.funded("100").await;
    let job = |key: &str, verb: Verb| job_command(account, key, verb);
    let charge = bench.ledger.submit(job("a", Verb::Charge { amount: credits("10") })).await.unwrap();
    let by_hand = Verb::Refund { seq: charge.set.main().unwrap().seq, amount: None };
    bench.ledger.submit(command(account, "by hand", by_hand)).await.unwrap();
    let marked = bench.ledger.submit(job("r1", Verb::RefundJob)).await.unwrap();
    assert_eq!(marked.set.main().unwrap().note, Some(NoteKind::JobRefunded));
    let again = bench.ledger.submit(job("r2", Verb::RefundJob)).await.unwrap();
    assert!(again.replayed && again.set == marked.set);
    let start = job("s", Verb::Mark { marker: JobMarker::Started });
    assert_eq!(refusal(bench.ledger.submit(start).await), Refusal::JobRefunded);
    bench.verify().await;
}
