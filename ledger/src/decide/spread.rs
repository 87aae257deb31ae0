//! Rule 9's arithmetic: an amount over parts, in proportion, by largest remainder.

use crate::credits::{Credits, Overflow};

/// Spreads `amount` over parts in proportion to `left`, in millionths. What rounding down leaves over goes, one
/// millionth each, to the largest remainders, ties to the first. No part gets more than it has left, as long as
/// `amount` is at most their sum.
pub(super) fn spread(amount: Credits, left: &[Credits]) -> Result<Vec<Credits>, Overflow> {
    let weights: Vec<i128> = left.iter().map(|part| part.micros().max(0)).collect();
    let total: i128 = weights.iter().sum();
    if total == 0 {
        return Ok(vec![Credits::ZERO; left.len()]);
    }
    let micros = amount.micros();
    let mut shares = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    for (index, weight) in weights.iter().enumerate() {
        let product = micros.checked_mul(*weight).ok_or(Overflow)?;
        shares.push(product / total);
        remainders.push((product % total, index));
    }
    let over = usize::try_from(micros - shares.iter().sum::<i128>()).map_err(|_| Overflow)?;
    // The sort is stable, so equal remainders stay in the order of their parts.
    remainders.sort_by_key(|(remainder, _)| std::cmp::Reverse(*remainder));
    for (_, index) in remainders.into_iter().take(over) {
        shares[index] += 1;
    }
    shares.into_iter().map(Credits::from_micros).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(texts: &[&str]) -> Vec<Credits> {
        texts.iter().map(|text| Credits::parse(text).unwrap()).collect()
    }

    fn spread_of(amount: &str, left: &[&str]) -> Vec<String> {
        spread(Credits::parse(amount).unwrap(), &credits(left))
            .unwrap()
            .iter()
            .map(Credits::to_string)
            .collect()
    }

    #[test]
    fn parts_get_their_proportion() {
        assert_eq!(spread_of("250", &["300", "200"]), ["150", "100"]);
        assert_eq!(spread_of("500", &["300", "200"]), ["300", "200"]);
        assert_eq!(spread_of("1", &["0", "5"]), ["0", "1"]);
    }

    #[test]
    fn ties_go_to_the_first() {
        assert_eq!(spread_of("1", &["1", "1", "1"]), ["0.333334", "0.333333", "0.333333"]);
        assert_eq!(spread_of("0.000001", &["7", "7"]), ["0.000001", "0"]);
        assert_eq!(spread_of("0.000002", &["1", "1", "1"]), ["0.000001", "0.000001", "0"]);
    }

    #[test]
    fn the_largest_remainder_comes_before_the_first() {
        // 0.00001 over 1 : 2 is 3 1/3 : 6 2/3 millionths.
        assert_eq!(spread_of("0.00001", &["1", "2"]), ["0.000003", "0.000007"]);
    }

    #[test]
    fn nothing_is_lost_and_no_part_gets_more_than_it_has_left() {
        let left = credits(&["0.000001", "0.000002", "1000000000000", "0.333333"]);
        let all = Credits::sum(left.clone()).unwrap();
        for micros in [1, 2, 3, 333_335, 999_999_999_999, all.micros() - 1, all.micros()] {
            let amount = Credits::from_micros(micros).unwrap();
            let shares = spread(amount, &left).unwrap();
            assert_eq!(Credits::sum(shares.clone()).unwrap(), amount);
            assert!(shares.iter().zip(&left).all(|(share, left)| share <= left), "{micros}: {shares:?}");
        }
    }

    #[test]
    fn nothing_left_gives_nothing() {
        assert_eq!(spread_of("1", &["0", "0"]), ["0", "0"]);
    }
}
