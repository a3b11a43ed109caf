//! Numbers for people.

/// A whole number with a comma every three digits.
pub(crate) fn grouped(value: u64) -> String {
    grouped_wide(u128::from(value))
}

/// The same, for sums.
pub(crate) fn grouped_wide(value: u128) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_before_every_three_digits() {
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(grouped(999), "999");
    }
}
