//! `daybook policy`: named sets of rules that accounts point at.

use std::str::FromStr;

use ledger::Credits;
use ledger::policy::{ExpiryRule, Overrun, Policy};
use rust_decimal::Decimal;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::Form;

const SECONDS_MAX: u32 = ledger::limits::HOLD_AGE_MAX_S;
const NAME_BYTES_MAX: usize = 64;
/// Places and size of a factor: enough for any mark-up, and small enough that prices stay exact.
const FACTOR_PLACES_MAX: u32 = 6;
const FACTOR_MAX: Decimal = Decimal::from_parts(1_000_000, 0, 0, false, 0);
/// A hundred years.
const DAYS_MAX: u32 = 36_500;
const MONTHS_MAX: u32 = 1_200;

#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Change a policy, or make one from the default rules
    #[command(after_help = "Keys and values:
  hold_default_s=600         how long a hold lasts that names no end, in seconds
  hold_lifetime_s=3600       the longest a hold may last without a renewal, in seconds
  overrun=full|cap           a settle above its hold is posted in full, or capped
  trial=30d promo=90d        when grants end: never, 30d, 12mo, or rolling-12mo (later
  paid=rolling-12mo          top-ups move earlier ones)
  multiplier=1               vendor dollars are multiplied by this
  estimate_factor=1.2        a hold's estimate is the expected price times this
  low_balance=none|100       where available falls below this, a signal says so once

A change holds for what happens from now on; grants that exist keep their ends.

Examples:
  daybook policy set default promo=60d
  daybook policy set generous trial=never overrun=cap hold_lifetime_s=7200")]
    Set(Set),
    /// Show one policy, or all
    Show(Show),
}

#[derive(clap::Args, Debug)]
pub struct Set {
    /// Lower-case letters, digits, _ and -
    name: String,
    #[arg(required = true, value_name = "KEY=VALUE")]
    rules: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct Show {
    name: Option<String>,
    /// Print one JSON object a policy
    #[arg(long)]
    json: bool,
}

pub async fn run(command: Command, common: &Common) -> Result<Exit, Failure> {
    match command {
        Command::Set(args) => set(args, common).await?,
        Command::Show(args) => show(args, common).await?,
    }
    Ok(Exit::Ok)
}

async fn set(args: Set, common: &Common) -> Result<(), Failure> {
    check_name(&args.name)?;
    let instance = Instance::open(common, Schema::Check).await?;
    let current = instance.ledger.policy(&args.name).await?;
    let start = current.unwrap_or_else(|| Policy { name: args.name.clone(), ..Policy::default() });
    let policy = args.rules.iter().try_fold(start, |policy, rule| with_rule(policy, rule))?;
    let policy = checked(policy)?;
    instance.ledger.set_policy_rules(&policy).await?;
    print(&policy, args.json)?;
    instance.close().await;
    Ok(())
}

async fn show(args: Show, common: &Common) -> Result<(), Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    let policies = instance.ledger.policies().await?;
    let shown: Vec<&Policy> =
        policies.iter().filter(|policy| args.name.as_ref().is_none_or(|name| *name == policy.name)).collect();
    if let (Some(name), true) = (&args.name, shown.is_empty()) {
        return Err(Failure::new(
            format!("there is no policy {name}"),
            "see `daybook policy show`, or make it with `daybook policy set`",
        ));
    }
    shown.into_iter().try_for_each(|policy| print(policy, args.json))?;
    instance.close().await;
    Ok(())
}

fn print(policy: &Policy, json: bool) -> Result<(), Failure> {
    Form::of(json).print(policy, || {
        let overrun = match policy.overrun {
            Overrun::Full => "full",
            Overrun::Cap => "cap",
        };
        format!(
            "{}: hold_default_s={} hold_lifetime_s={} overrun={overrun} trial={} promo={} paid={} multiplier={} estimate_factor={} low_balance={}",
            policy.name,
            policy.hold_default_s,
            policy.hold_lifetime_s,
            written(policy.trial),
            written(policy.promo),
            written(policy.paid),
            policy.multiplier.normalize(),
            policy.estimate_factor.normalize(),
            policy.low_balance.map_or_else(|| "none".to_owned(), |threshold| threshold.to_string()),
        )
    })
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_taken =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_taken) {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{name:?} cannot name a policy"),
        "use 1 to 64 lower-case letters, digits, _ and -",
    ))
}

fn with_rule(policy: Policy, rule: &str) -> Result<Policy, Failure> {
    let (key, value) = rule.split_once('=').ok_or_else(|| {
        Failure::usage(format!("{rule:?} is no rule"), "write KEY=VALUE, as in promo=60d; see --help")
    })?;
    let bad =
        |expected: &str| Failure::usage(format!("{key} cannot be {value:?}"), format!("give {expected}"));
    let seconds = || {
        u32::from_str(value)
            .ok()
            .filter(|s| (1..=SECONDS_MAX).contains(s))
            .ok_or_else(|| bad("whole seconds, 1 to 86400"))
    };
    let expiry =
        || parse_expiry(value).ok_or_else(|| bad("never, or days as 30d, months as 12mo, or rolling-12mo"));
    let factor =
        || parse_factor(value).ok_or_else(|| bad("a decimal from 0 to 1000000 with at most 6 places"));
    Ok(match key {
        "hold_default_s" => Policy { hold_default_s: seconds()?, ..policy },
        "hold_lifetime_s" => Policy { hold_lifetime_s: seconds()?, ..policy },
        "overrun" if value == "full" => Policy { overrun: Overrun::Full, ..policy },
        "overrun" if value == "cap" => Policy { overrun: Overrun::Cap, ..policy },
        "overrun" => return Err(bad("full or cap")),
        "trial" => Policy { trial: expiry()?, ..policy },
        "promo" => Policy { promo: expiry()?, ..policy },
        "paid" => Policy { paid: expiry()?, ..policy },
        "multiplier" => Policy { multiplier: factor()?, ..policy },
        "estimate_factor" => Policy { estimate_factor: factor()?, ..policy },
        "low_balance" if value == "none" => Policy { low_balance: None, ..policy },
        "low_balance" => {
            let threshold =
                parse_threshold(value).ok_or_else(|| bad("none, or credits from 0 with at most 6 places"))?;
            Policy { low_balance: Some(threshold), ..policy }
        }
        _ => {
            return Err(Failure::usage(
                format!("there is no rule {key:?}"),
                "see `daybook policy set --help` for the rules there are",
            ));
        }
    })
}

/// What one rule alone cannot say.
fn checked(policy: Policy) -> Result<Policy, Failure> {
    if policy.hold_default_s > policy.hold_lifetime_s {
        return Err(Failure::usage(
            format!(
                "holds would last {} s by default and {} s at most",
                policy.hold_default_s, policy.hold_lifetime_s
            ),
            "set hold_lifetime_s to at least hold_default_s",
        ));
    }
    Ok(policy)
}

fn parse_factor(text: &str) -> Option<Decimal> {
    let factor = Credits::parse(text).ok()?.decimal();
    (factor.scale() <= FACTOR_PLACES_MAX && factor >= Decimal::ZERO && factor <= FACTOR_MAX).then_some(factor)
}

/// At most what a balance may come to: beyond it every account would be low for ever.
fn parse_threshold(text: &str) -> Option<Credits> {
    let threshold = Credits::parse(text).ok()?;
    (!threshold.is_negative() && threshold <= ledger::limits::balance_max()).then_some(threshold)
}

fn parse_expiry(text: &str) -> Option<ExpiryRule> {
    if text == "never" {
        return Some(ExpiryRule::Never);
    }
    let number =
        |text: &str, most: u32| u32::from_str(text).ok().filter(|number| (1..=most).contains(number));
    if let Some(months) = text.strip_prefix("rolling-").and_then(|rest| rest.strip_suffix("mo")) {
        return number(months, MONTHS_MAX).map(ExpiryRule::RollingMonths);
    }
    if let Some(months) = text.strip_suffix("mo") {
        return number(months, MONTHS_MAX).map(ExpiryRule::Months);
    }
    number(text.strip_suffix('d')?, DAYS_MAX).map(ExpiryRule::Days)
}

fn written(rule: ExpiryRule) -> String {
    match rule {
        ExpiryRule::Never => "never".to_owned(),
        ExpiryRule::Days(days) => format!("{days}d"),
        ExpiryRule::Months(months) => format!("{months}mo"),
        ExpiryRule::RollingMonths(months) => format!("rolling-{months}mo"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rules: &[&str]) -> Result<Policy, Failure> {
        rules.iter().try_fold(Policy::default(), |policy, rule| with_rule(policy, rule)).and_then(checked)
    }

    #[test]
    fn rules_are_read_and_the_others_stay() {
        let policy = with(&[
            "promo=60d",
            "paid=12mo",
            "trial=never",
            "overrun=cap",
            "multiplier=1.35",
            "hold_lifetime_s=7200",
        ])
        .unwrap();
        let expected = Policy {
            promo: ExpiryRule::Days(60),
            paid: ExpiryRule::Months(12),
            trial: ExpiryRule::Never,
            overrun: Overrun::Cap,
            multiplier: "1.35".parse().unwrap(),
            hold_lifetime_s: 7_200,
            ..Policy::default()
        };
        assert_eq!(policy, expected);
    }

    #[test]
    fn a_threshold_is_set_and_taken_away() {
        let policy = with(&["low_balance=12.5"]).unwrap();
        assert_eq!(policy.low_balance, Some(Credits::parse("12.5").unwrap()));
        assert_eq!(with_rule(policy, "low_balance=none").unwrap(), Policy::default());
        assert_eq!(with(&["low_balance=0"]).unwrap().low_balance, Some(Credits::ZERO));
    }

    #[test]
    fn every_expiry_is_read_back_as_written() {
        for text in ["never", "30d", "12mo", "rolling-12mo"] {
            assert_eq!(written(parse_expiry(text).unwrap()), text);
        }
    }

    #[test]
    fn a_bad_rule_is_a_usage_failure() {
        for rule in [
            "promo",
            "promo=",
            "promo=0d",
            "promo=60",
            "promo=-1d",
            "overrun=half",
            "multiplier=1e3",
            "multiplier=-1",
            "hold_default_s=86401",
            "hold_default_s=7200",
            "name=x",
            "low_balance=",
            "low_balance=-1",
            "low_balance=0.0000001",
            "low_balance=10000000000001",
        ] {
            assert_eq!(with(&[rule]).unwrap_err().exit, Exit::Usage, "{rule}");
        }
    }
}
