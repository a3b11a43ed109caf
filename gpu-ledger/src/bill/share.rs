//! Dividing shared time between accounts, by a policy that the user names.
//!
//! Shared time belongs to nobody until a policy says so. Each set of accounts that shared the GPU
//! is divided once, over all its time, so that rounding moves less than one millisecond an account
//! and set, and the shares of a set add up to its time exactly.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::BillError;
use crate::unit::Ms;

/// How shared time is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharePolicy {
    /// Not at all: it is shown as shared.
    #[default]
    None,
    /// In equal parts between the accounts present.
    Equal,
    /// By how busy each account kept the GPU.
    Busy,
    /// By the device memory that each account held.
    Memory,
}

impl SharePolicy {
    /// Every policy, in the order of the help text.
    pub const ALL: [Self; 4] = [Self::None, Self::Equal, Self::Busy, Self::Memory];

    /// The word on the command line and in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Equal => "equal",
            Self::Busy => "busy",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for SharePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SharePolicy {
    type Err = BillError;

    fn from_str(word: &str) -> Result<Self, BillError> {
        let known = Self::ALL.into_iter().find(|policy| policy.as_str() == word);
        known.ok_or_else(|| BillError::UnknownSharePolicy(word.to_owned()))
    }
}

/// Shared time, divided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divided<A> {
    /// What each account got.
    pub shares: BTreeMap<A, Ms>,
    /// What could not be divided: the policy is none, an account's weight is unknown, or all
    /// weights of a set are zero.
    pub undivided: Ms,
}

/// Divides [`super::Statement::shared_between`].
///
/// `weights` are the accounts' busy time or memory held, in any one unit; `None` and `Equal`
/// do not look at them. An account without a weight is unknown, not idle: no set that it belongs
/// to is divided. What integer division leaves over goes, one millisecond each, to the accounts whose share
/// was cut most, among equals to the first in ascending order.
///
/// # Errors
/// [`BillError::Overflow`] past 2⁶⁴ − 1 ms.
pub fn divide<A: Ord + Clone>(
    shared_between: &BTreeMap<Vec<A>, Ms>,
    policy: SharePolicy,
    weights: &BTreeMap<A, u64>,
) -> Result<Divided<A>, BillError> {
    let mut divided = Divided { shares: BTreeMap::new(), undivided: Ms::ZERO };
    for (accounts, shared) in shared_between {
        let known: Option<Vec<u64>> = match policy {
            SharePolicy::None => None,
            SharePolicy::Equal => Some(vec![1; accounts.len()]),
            SharePolicy::Busy | SharePolicy::Memory => {
                accounts.iter().map(|account| weights.get(account).copied()).collect()
            }
        };
        let Some(shares) = known.and_then(|weights| apportion(*shared, &weights)) else {
            divided.undivided = sum(divided.undivided, *shared)?;
            continue;
        };
        for (account, share) in accounts.iter().zip(shares) {
            let total = divided.shares.entry(account.clone()).or_insert(Ms::ZERO);
            *total = sum(*total, share)?;
        }
    }
    Ok(divided)
}

fn sum(a: Ms, b: Ms) -> Result<Ms, BillError> {
    a.checked_add(b).ok_or(BillError::Overflow { what: "shared time" })
}

/// Splits `total` by `weights` with largest remainders; `None` where all weights are zero.
fn apportion(total: Ms, weights: &[u64]) -> Option<Vec<Ms>> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut shares = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    let mut given: u64 = 0;
    for (index, weight) in weights.iter().enumerate() {
        // Two 64-bit factors never leave 128 bits.
        let product = u128::from(total.0).saturating_mul(u128::from(*weight));
        let share = u64::try_from(product.checked_div(all)?).ok()?;
        given = given.saturating_add(share);
        shares.push(Ms(share));
        remainders.push((std::cmp::Reverse(product.checked_rem(all)?), index));
    }
    remainders.sort_unstable();
    let left = total.0.saturating_sub(given);
    for (_, index) in remainders.iter().take(usize::try_from(left).ok()?) {
        let share = shares.get_mut(*index)?;
        *share = Ms(share.0.saturating_add(1));
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> BTreeMap<Vec<&'static str>, Ms> {
        BTreeMap::from([(vec!["a", "b"], Ms(7)), (vec!["a", "b", "c"], Ms(5))])
    }

    #[test]
    fn equal_shares_add_up_and_the_odd_millisecond_goes_to_the_first() {
        let divided = divide(&sets(), SharePolicy::Equal, &BTreeMap::new()).unwrap();
        let expected = BTreeMap::from([("a", Ms(4 + 2)), ("b", Ms(3 + 2)), ("c", Ms(1))]);
        assert_eq!(divided, Divided { shares: expected, undivided: Ms::ZERO });
    }

    #[test]
    fn without_a_policy_nothing_is_divided() {
        let divided = divide(&sets(), SharePolicy::None, &BTreeMap::new()).unwrap();
        assert_eq!(divided, Divided { shares: BTreeMap::new(), undivided: Ms(12) });
    }

    #[test]
    fn an_unknown_weight_is_not_an_idle_account() {
        let weights = BTreeMap::from([("a", 1), ("b", 2)]);
        let divided = divide(&sets(), SharePolicy::Busy, &weights).unwrap();
        let expected = BTreeMap::from([("a", Ms(2)), ("b", Ms(5))]);
        assert_eq!(divided, Divided { shares: expected, undivided: Ms(5) });
    }

    #[test]
    fn weights_that_are_all_zero_divide_nothing() {
        let weights = BTreeMap::from([("a", 0), ("b", 0), ("c", 0)]);
        let divided = divide(&sets(), SharePolicy::Memory, &weights).unwrap();
        assert_eq!(divided.undivided, Ms(12));
    }

    #[test]
    fn a_policy_is_known_by_its_word_only() {
        for policy in SharePolicy::ALL {
            assert_eq!(policy.to_string().parse::<SharePolicy>().unwrap(), policy);
        }
        let refused = "fair".parse::<SharePolicy>().unwrap_err().to_string();
        assert!(refused.contains("fair") && refused.contains("equal"), "{refused}");
    }

    proptest::proptest! {
        #[test]
        fn shares_always_add_up_to_what_was_shared(
            total: u64,
            weights in proptest::collection::vec(proptest::prelude::any::<u64>(), 1..8),
        ) {
            match apportion(Ms(total), &weights) {
                Some(shares) => {
                    let sum: u128 = shares.iter().map(|share| u128::from(share.0)).sum();
                    assert_eq!(sum, u128::from(total));
                }
                None => assert!(weights.iter().all(|weight| *weight == 0)),
            }
        }
    }
}
