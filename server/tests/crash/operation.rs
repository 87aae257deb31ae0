//! What clients ask for, and what it must do to an account by the request alone.

use serde_json::{Map, Value, json};

/// Millionths of a credit.
pub type Micros = i128;

const UNIT: Micros = 1_000_000;

/// A decimal string with up to 6 places, read without the ledger's own code.
pub fn micros(text: &str) -> Micros {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    assert!(places.len() <= 6, "{text} has more than 6 places");
    let whole: Micros = whole.parse().expect("an amount has digits");
    let places: Micros = format!("{places:0<6}").parse().expect("an amount has digits");
    sign * (whole * UNIT + places)
}

pub fn text(amount: Micros) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let amount = amount.abs();
    format!("{sign}{}.{:06}", amount / UNIT, amount % UNIT)
}

/// An account of the workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountRef(pub String);

impl AccountRef {
    pub fn path(&self) -> String {
        format!("ref:{}", self.0)
    }
}

/// How long a hold lasts: longer than any test, or so short that it ends by itself within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Long,
    Short,
}

impl Span {
    fn seconds(self) -> u32 {
        match self {
            Span::Long => 3_600,
            Span::Short => 1,
        }
    }
}

/// A hold that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedHold {
    pub account: AccountRef,
    pub id: String,
    pub amount: Micros,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Act {
    Open,
    Grant { amount: Micros, pool: &'static str },
    Charge { amount: Micros },
    Hold { amount: Micros, span: Span },
    Settle { hold: PlacedHold, amount: Micros },
    Release { hold: PlacedHold },
    Reverse { hold: PlacedHold, outcome: &'static str },
    Refund { seq: i64, amount: Micros },
}

#[derive(Clone, Debug)]
pub struct Operation {
    /// The idempotency key; also the request's own name in what it leaves.
    pub key: String,
    pub account: AccountRef,
    pub act: Act,
    /// The refusal that it must meet, whatever happens around it.
    pub must_be_refused: Option<&'static str>,
}

impl Operation {
    pub fn path(&self) -> String {
        let account = self.account.path();
        let rest = match &self.act {
            Act::Open => return "/v1/accounts".to_owned(),
            Act::Grant { .. } => "grants".to_owned(),
            Act::Charge { .. } => "charges".to_owned(),
            Act::Hold { .. } => "holds".to_owned(),
            Act::Settle { hold, .. } => format!("holds/{}/settle", hold.id),
            Act::Release { hold } => format!("holds/{}/release", hold.id),
            Act::Reverse { hold, .. } => format!("holds/{}/reverse", hold.id),
            Act::Refund { seq, .. } => format!("entries/{seq}/refunds"),
        };
        format!("/v1/accounts/{account}/{rest}")
    }

    pub fn body(&self) -> Value {
        let key = &self.key;
        match &self.act {
            Act::Open => {
                json!({"external_ref": self.account.0, "name": format!("Name of {key}"), "metadata": {"opened_as": key}})
            }
            Act::Grant { amount, pool } => json!({"amount": text(*amount), "pool": pool, "source": key}),
            Act::Charge { amount } => json!({"amount": text(*amount), "request_ref": key, "model": "small"}),
            Act::Hold { amount, span } => {
                json!({"amount": text(*amount), "request_ref": key, "expires_in_s": span.seconds()})
            }
            Act::Settle { amount, .. } => json!({"amount": text(*amount), "request_ref": key}),
            Act::Release { .. } => json!({}),
            Act::Reverse { outcome, .. } => json!({"outcome": outcome}),
            Act::Refund { amount, .. } => json!({"amount": text(*amount), "reason": key}),
        }
    }

    /// The same as one command of a batch; accounts cannot be opened in one.
    pub fn command(&self) -> Value {
        let (verb, of) = match &self.act {
            Act::Open => panic!("a batch opens no accounts"),
            Act::Grant { .. } => ("grant", None),
            Act::Charge { .. } => ("charge", None),
            Act::Hold { .. } => ("hold", None),
            Act::Settle { hold, .. } => ("settle", Some(("hold", json!(hold.id)))),
            Act::Release { hold } => ("release", Some(("hold", json!(hold.id)))),
            Act::Reverse { hold, .. } => ("reverse", Some(("hold", json!(hold.id)))),
            Act::Refund { seq, .. } => ("refund", Some(("seq", json!(seq)))),
        };
        let head = json!({"idempotency_key": self.key, "account": self.account.path(), "do": verb});
        let mut command: Map<String, Value> = Map::new();
        for part in [head, self.body()] {
            if let Value::Object(fields) = part {
                command.extend(fields);
            }
        }
        command.extend(of.map(|(field, value)| (field.to_owned(), value)));
        Value::Object(command)
    }

    /// The kind of the main entry.
    pub fn kind(&self) -> &'static str {
        match self.act {
            Act::Open => "NOTE",
            Act::Grant { .. } => "TOPUP",
            Act::Charge { .. } => "CONSUME",
            Act::Hold { .. } => "AUTH_HOLD",
            Act::Settle { .. } => "SETTLE",
            Act::Release { .. } => "AUTH_RELEASE",
            Act::Reverse { .. } => "AUTH_REVERSAL",
            Act::Refund { .. } => "REFUND",
        }
    }

    /// What it does to available and held together. Nothing in the workload lapses but holds, which change neither.
    pub fn effect(&self) -> Micros {
        match self.act {
            Act::Grant { amount, .. } | Act::Refund { amount, .. } => amount,
            Act::Charge { amount } | Act::Settle { amount, .. } => -amount,
            Act::Open | Act::Hold { .. } | Act::Release { .. } | Act::Reverse { .. } => 0,
        }
    }

    /// Whether its entry carries the key as `request_ref`.
    pub fn is_named(&self) -> bool {
        matches!(self.act, Act::Charge { .. } | Act::Hold { .. } | Act::Settle { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_exactly() {
        for (written, millionths) in
            [("12.5", 12_500_000), ("0", 0), ("-0.000001", -1), ("3.000000", 3_000_000)]
        {
            assert_eq!(micros(written), millionths);
        }
        assert_eq!(text(-12_500_001), "-12.500001");
    }
}
