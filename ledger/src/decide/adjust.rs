//! ADJUST: a correction by a person, with a reason. A plus makes a grant, a minus is forced, a write-off ends debt.

use super::bounds;
use super::draft::Draft;
use super::grant::{NewGrant, fund};
use crate::command::{Expiry, ReasonCode};
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount};
use crate::grant::Pool;
use crate::ids::GrantId;
use crate::refusal::Refusal;

/// An adjustment as a command asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adjustment {
    pub id: GrantId,
    pub amount: Credits,
    pub code: ReasonCode,
    pub pool: Option<Pool>,
    pub expires: Expiry,
}

pub(super) fn adjust(draft: &mut Draft, asked: Adjustment) -> Result<(), Refusal> {
    let Adjustment { id, amount, code, pool, expires } = asked;
    bounds::not_zero(amount)?;
    if code == ReasonCode::WriteOff {
        return write_off(draft, amount);
    }
    let mut pen = draft.pen(Kind::Adjust);
    pen.answer.reason_code = Some(code);
    if amount.is_positive() {
        let new = NewGrant { id, amount, pool: pool.unwrap_or(Pool::Promo), expires, source: None };
        return fund(draft, pen, LedgerAccount::Adjustment, new);
    }
    pen.call = draft.call();
    draft.force(&mut pen, amount.abs())?;
    pen.house(LedgerAccount::Adjustment, Direction::Credit, amount.abs(), None);
    draft.write(pen)?;
    Ok(())
}

/// At most the debt; rule 9 goes back to what was written off.
fn write_off(draft: &mut Draft, amount: Credits) -> Result<(), Refusal> {
    let invalid = |reason| Err(Refusal::Invalid { field: "amount", reason });
    if amount.is_negative() {
        return invalid("a write-off must be above 0");
    }
    if amount > draft.head.debt {
        return invalid("a write-off is at most the debt");
    }
    let mut pen = draft.pen(Kind::Adjust);
    pen.answer.reason_code = Some(ReasonCode::WriteOff);
    pen.call = draft.call();
    pen.house(LedgerAccount::BadDebt, Direction::Debit, amount, None);
    draft.pay_debt(&mut pen, None, amount)?;
    draft.head.written_off = draft.head.written_off.plus(amount)?;
    draft.write(pen)?;
    Ok(())
}
