//! What commands print: words for people, or JSON for scripts, on standard output; progress and notes on standard
//! error, so that a redirect holds the result alone.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rust_decimal::Decimal;
use serde::Serialize;

use super::failure::Failure;

/// Whom a command prints for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Words,
    Json,
}

impl Form {
    pub fn of(json: bool) -> Form {
        if json { Form::Json } else { Form::Words }
    }

    /// Prints the one result of a command.
    pub fn print(self, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<(), Failure> {
        match self {
            Form::Words => line(&words()),
            Form::Json => line(&json(value)?),
        }
    }
}

/// One line of JSON.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| {
        Failure::new(format!("the result cannot be written: {error}"), "report this as a bug")
    })
}

/// Prints a line to standard output; `println!` would panic when its reader has gone.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| Failure::of_output(&error))
}

/// A remark for the person at the terminal; nobody waits for it, so a closed standard error is no failure.
pub fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A bar on standard error; nothing where that is no terminal.
pub fn bar(what: &'static str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template(
        "{msg:<26} [{bar:32}] {human_pos}/{human_len} {per_sec:>12} {eta:>5} left",
    );
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// An amount with its thousands set apart and all six places, as in `2,856.533700`.
pub fn grouped(amount: Decimal) -> String {
    let text = format!("{:.6}", amount.abs());
    let (whole, places) = text.split_once('.').unwrap_or((&text, "000000"));
    let sign = if amount < Decimal::ZERO { "-" } else { "" };
    format!("{sign}{}.{places}", grouped_digits(whole))
}

/// A count with its thousands set apart.
pub fn grouped_count<T: TryInto<u64>>(count: T) -> String {
    grouped_digits(&count.try_into().unwrap_or(u64::MAX).to_string())
}

fn grouped_digits(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_show_thousands_and_all_six_places() {
        for (text, shown) in [
            ("2856.5337", "2,856.533700"),
            ("0", "0.000000"),
            ("-1234567.5", "-1,234,567.500000"),
            ("999.000001", "999.000001"),
        ] {
            assert_eq!(grouped(text.parse().unwrap()), shown);
        }
        assert_eq!(grouped_count(8819_u64), "8,819");
        assert_eq!(grouped_count(40_usize), "40");
    }
}
