//! What a run will do, worked out before the first request: prices, holds, what goes wrong with which call, and the
//! sum that the ledger must arrive at. Pure, and without the ledger's help: sums here are plain decimals.

use backoffice::metering::{ModelPrice, PriceError, Rate, Tokens};
use chrono::{DateTime, Utc};
use ledger::Credits;
use rust_decimal::Decimal;

use super::generator::Generator;
use super::trace::TraceCall;

/// Of 100 calls, how many break off, time out, and are sent again with the same key.
const BROKEN_OFF_PERCENT: u64 = 5;
const TIMED_OUT_PERCENT: u64 = 3;
const SENT_AGAIN_PERCENT: u64 = 10;

const MEMBERS: [&str; 6] = ["m-ash", "m-birch", "m-cedar", "m-elm", "m-fir", "m-oak"];

/// Whether calls go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Faults {
    /// Some break off, some time out, some are sent again with the same key.
    Some,
    /// Every call is answered in full, and asked for once.
    None,
}

/// What prices calls and how many accounts they are spread over.
#[derive(Clone, Debug)]
pub struct Terms {
    pub price: ModelPrice,
    pub rate: Rate,
    /// A hold is the expected price times this.
    pub estimate_factor: Decimal,
    /// The most tokens a call may answer with, for the estimate.
    pub tokens_max: u64,
    pub accounts: usize,
    pub seed: u64,
    pub faults: Faults,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Settled on all its tokens.
    Completed { settle: Credits },
    /// The answer broke off: settled on half the output tokens, rounded down.
    BrokeOff { settle: Credits },
    /// Nothing was heard of it: reversed, outcome unknown.
    TimedOut,
}

impl Ending {
    /// What the call costs in the end.
    pub fn settle(self) -> Credits {
        match self {
            Ending::Completed { settle } | Ending::BrokeOff { settle } => settle,
            Ending::TimedOut => Credits::ZERO,
        }
    }
}

/// Which of a call's requests are sent a second time, as by a client that missed the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentAgain {
    pub hold: bool,
    pub end: bool,
}

/// One call, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// From 1, in the trace's order.
    pub number: u64,
    /// Place in the run's accounts.
    pub account: usize,
    pub member: &'static str,
    pub occurred_at: DateTime<Utc>,
    pub hold: Credits,
    pub ending: Ending,
    pub sent_again: SentAgain,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub calls: Vec<PlannedCall>,
    /// The sum of all endings: what the ledger must say was used.
    pub expected: Decimal,
}

/// Counts for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub above_hold: usize,
    pub broken_off: usize,
    pub timed_out: usize,
    pub sent_again: usize,
}

impl Plan {
    pub fn make(trace: &[TraceCall], terms: &Terms) -> Result<Plan, PriceError> {
        let calls = trace.iter().enumerate().map(|(index, call)| plan_call(index, call, terms));
        let calls = calls.collect::<Result<Vec<PlannedCall>, PriceError>>()?;
        let mut settled = calls.iter().map(|call| call.ending.settle().decimal());
        let expected = settled.try_fold(Decimal::ZERO, Decimal::checked_add);
        Ok(Plan { calls, expected: expected.ok_or(PriceError::TooLong)? })
    }

    pub fn tally(&self) -> Tally {
        self.calls.iter().fold(Tally::default(), |tally, call| Tally {
            above_hold: tally.above_hold + usize::from(call.ending.settle() > call.hold),
            broken_off: tally.broken_off + usize::from(matches!(call.ending, Ending::BrokeOff { .. })),
            timed_out: tally.timed_out + usize::from(call.ending == Ending::TimedOut),
            sent_again: tally.sent_again + usize::from(call.sent_again != SentAgain::default()),
        })
    }

    /// What an account needs so that no call of it is refused, in whatever order they come: each call may take its
    /// hold or its price, whichever is more.
    pub fn funds(&self, account: usize) -> Result<Credits, ledger::credits::Overflow> {
        let calls = self.calls.iter().filter(|call| call.account == account);
        Credits::sum(calls.map(|call| call.hold.max(call.ending.settle())))
    }
}

fn plan_call(index: usize, call: &TraceCall, terms: &Terms) -> Result<PlannedCall, PriceError> {
    let number = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
    let mut stream = Generator::for_call(terms.seed, number);
    let most = tokens(call, terms.tokens_max);
    Ok(PlannedCall {
        number,
        account: index.checked_rem(terms.accounts).unwrap_or(0),
        member: MEMBERS[usize::try_from(stream.below(MEMBERS.len() as u64)).unwrap_or(0)],
        occurred_at: call.occurred_at,
        hold: terms.rate.estimate(&terms.price, most, terms.estimate_factor)?,
        ending: ending(call, terms, &mut stream)?,
        sent_again: sent_again(terms.faults, &mut stream),
    })
}

fn ending(call: &TraceCall, terms: &Terms, stream: &mut Generator) -> Result<Ending, PriceError> {
    let draw = stream.below(100);
    let price = |output| terms.rate.price(&terms.price, tokens(call, output));
    match terms.faults {
        Faults::Some if draw < BROKEN_OFF_PERCENT => {
            Ok(Ending::BrokeOff { settle: price(call.generated_tokens / 2)? })
        }
        Faults::Some if draw < BROKEN_OFF_PERCENT + TIMED_OUT_PERCENT => Ok(Ending::TimedOut),
        Faults::Some | Faults::None => Ok(Ending::Completed { settle: price(call.generated_tokens)? }),
    }
}

fn sent_again(faults: Faults, stream: &mut Generator) -> SentAgain {
    if faults == Faults::None || !stream.chance(SENT_AGAIN_PERCENT) {
        return SentAgain::default();
    }
    match stream.below(3) {
        0 => SentAgain { hold: true, end: false },
        1 => SentAgain { hold: false, end: true },
        _ => SentAgain { hold: true, end: true },
    }
}

fn tokens(call: &TraceCall, output: u64) -> Tokens {
    Tokens { input: call.context_tokens, output, ..Tokens::default() }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use backoffice::metering::RateCard;

    use super::*;
    use crate::drive::trace;

    fn terms(price: ModelPrice, credits_per_dollar: i64, faults: Faults) -> Terms {
        Terms {
            price,
            rate: Rate { credits_per_dollar: Decimal::from(credits_per_dollar), multiplier: Decimal::ONE },
            estimate_factor: Decimal::new(12, 1),
            tokens_max: 100,
            accounts: 50,
            seed: 1,
            faults,
        }
    }

    fn load(
        folder: &Path,
        trace_file: &str,
        prices_file: &str,
        model: &str,
    ) -> Option<(Vec<TraceCall>, ModelPrice)> {
        let calls = trace::read(std::fs::File::open(folder.join(trace_file)).ok()?).unwrap();
        let card = RateCard::parse(&std::fs::read_to_string(folder.join(prices_file)).ok()?).unwrap();
        Some((calls, card.models[model]))
    }

    fn whole_files() -> Option<(Vec<TraceCall>, ModelPrice)> {
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
        let folder = std::env::var_os("DAYBOOK_SHARED_DATA").map_or_else(beside, PathBuf::from);
        let loaded = load(
            &folder,
            "azure-llm-inference-trace-2023-code.csv",
            "litellm-model-prices.json",
            "gpt-4o-mini",
        );
        if loaded.is_none() {
            eprintln!(
                "skipped: the whole trace and price map are not here (set DAYBOOK_SHARED_DATA to their folder)"
            );
        }
        loaded
    }

    fn samples() -> (Vec<TraceCall>, ModelPrice) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
        load(&folder, "trace.csv", "model-prices.json", "sample-small").unwrap()
    }

    fn dec(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn the_published_trace_costs_what_was_worked_out_elsewhere() {
        let Some((calls, price)) = whole_files() else { return };
        let plan = Plan::make(&calls, &terms(price, 1000, Faults::None)).unwrap();
        assert_eq!(plan.calls.len(), 8_819);
        assert_eq!(plan.expected, dec("2856.533700"));
        assert_eq!(plan.tally(), Tally { above_hold: 142, ..Tally::default() });
        let coarse = Plan::make(&calls, &terms(price, 1, Faults::None)).unwrap();
        assert_eq!(coarse.expected, dec("2.856692"));
    }

    // Worked out by another program that draws the same stream.
    #[test]
    fn with_faults_the_sums_are_those_worked_out_elsewhere() {
        let (calls, price) = samples();
        let plan = Plan::make(&calls, &terms(price, 1000, Faults::Some)).unwrap();
        assert_eq!(plan.expected, dec("2.051596"));
        assert_eq!(plan.tally(), Tally { above_hold: 3, broken_off: 2, timed_out: 3, sent_again: 2 });
        let Some((calls, price)) = whole_files() else { return };
        let plan = Plan::make(&calls, &terms(price, 1000, Faults::Some)).unwrap();
        assert_eq!(plan.expected, dec("2774.698200"));
        assert_eq!(plan.tally(), Tally { above_hold: 133, broken_off: 432, timed_out: 251, sent_again: 882 });
        let coarse = Plan::make(&calls, &terms(price, 1, Faults::Some)).unwrap();
        assert_eq!(coarse.expected, dec("2.774866"));
    }

    #[test]
    fn the_sample_trace_costs_what_was_worked_out_elsewhere() {
        let (calls, price) = samples();
        let plan = Plan::make(&calls, &terms(price, 1000, Faults::None)).unwrap();
        assert_eq!((plan.calls.len(), plan.expected), (40, dec("2.117649")));
        assert_eq!(plan.tally(), Tally { above_hold: 3, ..Tally::default() });
        assert_eq!(Plan::make(&calls, &terms(price, 1, Faults::None)).unwrap().expected, dec("0.002116"));
    }

    #[test]
    fn faults_follow_from_the_seed_and_the_sum_with_them() {
        let (calls, price) = samples();
        let of_seed = |seed| Plan::make(&calls, &Terms { seed, ..terms(price, 1000, Faults::Some) }).unwrap();
        assert_eq!(of_seed(1).calls, of_seed(1).calls);
        assert_ne!(of_seed(1).calls, of_seed(2).calls);
        let seeds = (1..200).map(of_seed).collect::<Vec<_>>();
        assert!(seeds.iter().any(|plan| plan.tally().timed_out > 0
            && plan.tally().broken_off > 0
            && plan.tally().sent_again > 0));
        for plan in seeds {
            let sum: Decimal = plan.calls.iter().map(|call| call.ending.settle().decimal()).sum();
            assert_eq!(plan.expected, sum);
        }
    }

    // Half of 9 output tokens is 4: 1,000 × 0.00000015 + 4 × 0.0000006 = 0.0001524 dollars.
    #[test]
    fn a_call_that_breaks_off_pays_for_half_its_output_rounded_down() {
        let (_, price) = samples();
        let call =
            TraceCall { occurred_at: DateTime::UNIX_EPOCH, context_tokens: 1_000, generated_tokens: 9 };
        let price = ModelPrice {
            input: Some(backoffice::metering::Dollars::parse_price("1.5e-7").unwrap()),
            output: Some(backoffice::metering::Dollars::parse_price("6e-7").unwrap()),
            ..price
        };
        let terms = terms(price, 1000, Faults::Some);
        let endings =
            (0..2_000).map(|index| plan_call(index, &call, &terms).unwrap().ending).collect::<Vec<_>>();
        assert!(endings.contains(&Ending::BrokeOff { settle: Credits::parse("0.1524").unwrap() }));
        assert!(endings.contains(&Ending::Completed { settle: Credits::parse("0.1554").unwrap() }));
        assert!(endings.contains(&Ending::TimedOut));
    }
}
