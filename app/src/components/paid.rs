//! Which grants an entry drew on or filled, and what they are called.

use std::collections::{BTreeMap, BTreeSet};

use ledger::entry::{DebtMark, Entry, Line};
use ledger::grant::Pool;
use ledger::ids::{AccountId, GrantId, Seq};
use ledger::service::PageRequest;
use ledger::{Credits, Ledger};

use crate::error::AppError;
use crate::words;

/// Pages of 200 grants that are read to find names; beyond them a grant goes by the end of its id.
const NAME_PAGES: usize = 10;

/// The parts of an entry by grant, in the order of its lines; `None` is debt. What left the customer's accounts
/// where something did, else what came in.
pub fn paid_from(entry: &Entry) -> Vec<(Option<GrantId>, Credits)> {
    let is_named = |line: &&Line| {
        line.ledger_account.is_customers() && (line.grant.is_some() || line.debt != DebtMark::None)
    };
    let out: Vec<&Line> = entry.debit_lines().filter(is_named).collect();
    let lines = if out.is_empty() { entry.credit_lines().filter(is_named).collect() } else { out };
    let mut parts: Vec<(Option<GrantId>, Credits)> = Vec::new();
    for line in lines {
        let grant = if line.debt == DebtMark::Makes { None } else { line.grant };
        match parts.iter_mut().find(|(known, _)| *known == grant) {
            // A sum that no balance can hold cannot have been posted.
            Some((_, sum)) => *sum = sum.plus(line.amount).unwrap_or(*sum),
            None => parts.push((grant, line.amount)),
        }
    }
    parts
}

/// What grants are called: their pool and the entry that made them.
#[derive(Default)]
pub struct GrantNames {
    known: BTreeMap<GrantId, (Pool, Seq)>,
}

impl GrantNames {
    /// Finds the names of the grants that these entries touch.
    pub async fn of(
        ledger: &Ledger,
        account: AccountId,
        entries: impl IntoIterator<Item = &Entry>,
    ) -> Result<GrantNames, AppError> {
        let mut wanted: BTreeSet<GrantId> =
            entries.into_iter().flat_map(paid_from).filter_map(|(grant, _)| grant).collect();
        let mut names = GrantNames::default();
        let mut request = PageRequest { cursor: None, limit: 200 };
        for _ in 0..NAME_PAGES {
            if wanted.is_empty() {
                break;
            }
            let page = ledger.grants(account, None, &request).await?;
            for grant in page.rows {
                if wanted.remove(&grant.id) {
                    names.known.insert(grant.id, (grant.pool, grant.seq));
                }
            }
            let Some(next) = page.next else { break };
            request.cursor = Some(next);
        }
        Ok(names)
    }

    /// `paid #12` and the entry to look at, or the end of the id.
    pub fn name(&self, grant: GrantId) -> (String, Option<Seq>) {
        match self.known.get(&grant) {
            Some((pool, seq)) => (format!("{} #{seq}", words::pool(*pool)), Some(*seq)),
            None => {
                let id = grant.0.simple().to_string();
                (format!("grant …{}", &id[id.len() - 6..]), None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::samples::{credits, entry};
    use ledger::entry::{Direction, LedgerAccount};

    #[test]
    fn parts_of_one_grant_are_added_and_debt_stands_apart() {
        let mut charge = entry(4, "-6");
        let mut second = charge.lines[0].clone();
        second.amount = credits("1.5");
        charge.lines.insert(1, second.clone());
        second.grant = None;
        second.debt = DebtMark::Makes;
        charge.lines.insert(2, second);
        let grant = charge.lines[0].grant;
        assert_eq!(paid_from(&charge), [(grant, credits("7.5")), (None, credits("1.5"))]);
    }

    #[test]
    fn what_comes_in_names_the_grant_it_fills() {
        let mut topup = entry(2, "5");
        topup.lines[0].direction = Direction::Credit;
        topup.lines[1].direction = Direction::Debit;
        topup.lines[1].ledger_account = LedgerAccount::PrepaidLiability;
        assert_eq!(paid_from(&topup), [(topup.lines[0].grant, credits("5"))]);
    }
}
