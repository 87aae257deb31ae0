//! The accounts of a run: found or opened, and funded so that no call of the plan is refused.

use ledger::Credits;
use serde_json::json;

use super::client::{Client, ClientError};
use super::plan::Plan;
use super::{DriveError, Run, text_at};

/// The reference of a run's accounts but the first, which is the demo customer's.
fn external_ref(index: usize) -> String {
    match index {
        0 => crate::demo::CUSTOMER_REF.to_owned(),
        _ => format!("drive-{:04}", index + 1),
    }
}

/// The id of the run's account, which is opened if nobody has.
pub fn find_or_open(client: &Client<'_>, index: usize) -> Result<String, DriveError> {
    let reference = external_ref(index);
    let path = format!("/v1/accounts/ref:{reference}");
    let found = match client.get(&path) {
        Err(ClientError::Refused { status: 404, .. }) => {
            let name = if index == 0 {
                crate::demo::CUSTOMER_NAME.to_owned()
            } else {
                format!("Drive account {}", index + 1)
            };
            let body = json!({"external_ref": reference, "name": name});
            match client.post("/v1/accounts", &format!("drive-open-{reference}"), &body) {
                // Somebody else opened it meanwhile, or under another key.
                Err(ClientError::Refused { status: 409, .. }) => client.get(&path),
                opened => opened,
            }
        }
        other => other,
    };
    let account = found.map_err(|error| DriveError::Account { reference: reference.clone(), error })?;
    Ok(text_at(&account.body, "/id")?.to_owned())
}

/// Puts in what the plan needs of this account. The grant's key belongs to the run, so a resumed run funds nothing twice.
pub fn fund(
    client: &Client<'_>,
    run: &Run,
    plan: &Plan,
    index: usize,
    account: &str,
) -> Result<(), DriveError> {
    let named = |error| DriveError::Account { reference: external_ref(index), error };
    let balance = client.get(&format!("/v1/accounts/{account}/balance")).map_err(named)?;
    let debt =
        Credits::parse(text_at(&balance.body, "/debt")?).map_err(|_| DriveError::no_amount("/debt"))?;
    if debt.is_positive() {
        // What comes in pays debt first, so the run's own grant would fall short by as much.
        grant(client, account, &format!("{}-debt-{debt}", run.prefix()), debt).map_err(named)?;
    }
    let funds = plan.funds(index).map_err(|_| DriveError::TooLarge)?;
    if funds.is_positive() {
        grant(client, account, &format!("{}-fund-{index}", run.prefix()), funds).map_err(named)?;
    }
    Ok(())
}

fn grant(client: &Client<'_>, account: &str, key: &str, amount: Credits) -> Result<(), ClientError> {
    let body = json!({"amount": amount, "pool": "paid", "source": "drive"});
    client.post(&format!("/v1/accounts/{account}/grants"), key, &body).map(|_| ())
}
