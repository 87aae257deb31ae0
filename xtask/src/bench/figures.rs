//! Arithmetic on measurements: rates, ratios, medians.

#![expect(clippy::float_arithmetic, reason = "these are measurements; no credits are counted here")]
#![expect(clippy::cast_precision_loss, reason = "counts of a few minutes are far below 2^52")]

use std::time::Duration;

/// 0 where there is nothing to divide by.
pub fn divided(what: u64, by: u64) -> f64 {
    ratio(what as f64, by as f64)
}

/// 0 where there is nothing to divide by.
pub fn ratio(what: f64, by: f64) -> f64 {
    if by > 0.0 { what / by } else { 0.0 }
}

pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    ratio(count as f64, elapsed.as_secs_f64())
}

/// A rate of transactions as one of rows.
pub fn scaled(transactions_per_s: f64, rows: u64, transactions: f64) -> f64 {
    ratio(transactions_per_s * rows as f64, transactions)
}

pub fn mean(first: f64, second: f64) -> f64 {
    f64::midpoint(first, second)
}

pub fn less(what: f64, others: &[f64]) -> f64 {
    (what - others.iter().sum::<f64>()).max(0.0)
}

/// The middle one, or the mean of the middle two; 0 for none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match (figures.get(middle.wrapping_sub(1)), figures.get(middle)) {
        (Some(low), Some(high)) if figures.len().is_multiple_of(2) => mean(*low, *high),
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

/// How far apart two figures are, as a part of the smaller.
pub fn apart(first: f64, second: f64) -> f64 {
    ratio((first - second).abs(), first.min(second))
}

/// The figure that so many hundredths of a sorted list do not exceed, in milliseconds.
pub fn percentile_ms(sorted_us: &[u32], hundredths: usize) -> f64 {
    let place = (sorted_us.len() * hundredths).div_ceil(100).max(1) - 1;
    sorted_us.get(place).map_or(0.0, |us| f64::from(*us) / 1_000.0)
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::{apart, divided, median, percentile_ms};

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
        let hundred: Vec<u32> = (1..=100).map(|ms| ms * 1_000).collect();
        assert_eq!((percentile_ms(&hundred, 50), percentile_ms(&hundred, 99)), (50.0, 99.0));
        assert_eq!(percentile_ms(&[], 50), 0.0);
    }

    #[test]
    fn nothing_divides_by_zero() {
        assert_eq!(divided(1, 0), 0.0);
        assert_eq!(apart(5.0, 4.0), 0.25);
    }
}
