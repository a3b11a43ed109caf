#![expect(clippy::float_arithmetic, reason = "a distribution function has no exact form")]
//! The normal distribution, with the same bits on every machine.
//!
//! `exp`, `log` and `erfc` of the system's library differ in their last bit between systems, and so would
//! whatever stands on them (the standard library and statrs 0.19 call them). The `libm` crate is one body
//! of Rust; the four operations and the square root are exact by IEEE 754.

use std::f64::consts::FRAC_1_SQRT_2;

/// Φ: the share below `z`.
#[must_use]
pub fn cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// Φ⁻¹ of a share strictly between 0 and 1; `None` of any other.
///
/// A bisection on Φ: slower than a rational approximation, and nothing in it can be mistyped.
#[must_use]
pub fn quantile(share: f64) -> Option<f64> {
    if !(share > 0.0 && share < 1.0) {
        return None;
    }
    // Beyond ±39 the share is 0 or 1 in an f64.
    let (mut low, mut high) = (-39.0_f64, 39.0_f64);
    // 78 / 2⁶² is below the distance of two neighbours anywhere but next to 0.
    for _ in 0..62 {
        let middle = low.midpoint(high);
        if cumulative(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low.midpoint(high))
}

/// The nearest f64, or one next to it.
#[must_use]
pub fn float(integer: i128) -> f64 {
    let mut rest = integer.unsigned_abs();
    let mut magnitude = 0.0_f64;
    let mut scale = 1.0_f64;
    while rest > 0 {
        let limb = u32::try_from(rest & u128::from(u32::MAX)).unwrap_or(u32::MAX);
        magnitude += f64::from(limb) * scale;
        scale *= 4_294_967_296.0;
        rest >>= 32;
    }
    if integer < 0 { -magnitude } else { magnitude }
}

/// A number of up to so many digits as text, `0.0391`; one that is smaller than its last digit says so.
/// Never NaN: `None` of what is no number.
#[must_use]
pub fn decimal(number: f64, digits: usize) -> Option<String> {
    number.is_finite().then(|| format!("{number:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::{cumulative, decimal, float, quantile};

    /// Table values: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), tables 26.1 and
    /// 26.5; the far one from scipy 1.17.1, `norm.ppf(1e-10)`.
    #[test]
    fn it_has_the_values_of_the_tables() {
        let is = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-12, "{got} {wanted}");
        is(cumulative(0.0), 0.5);
        is(cumulative(1.0), 0.841_344_746_068_542_9);
        is(cumulative(-2.0), 0.022_750_131_948_179_2);
        is(quantile(0.975).unwrap(), 1.959_963_984_540_054);
        is(quantile(0.025).unwrap(), -1.959_963_984_540_054);
        is(quantile(0.5).unwrap(), 0.0);
        is(quantile(1e-10).unwrap(), -6.361_340_902_404_056);
        assert_eq!([0.0, 1.0, -1.0, f64::NAN].map(quantile), [None; 4]);
    }

    #[test]
    fn it_has_the_same_bits_everywhere() {
        let bits = [quantile(0.975), quantile(0.1)].map(|z| z.unwrap().to_bits());
        assert_eq!(bits, [BITS_975, BITS_100]);
        assert_eq!(cumulative(-1.3).to_bits(), BITS_CUMULATIVE);
    }

    const BITS_975: u64 = 4_611_505_712_243_081_086;
    const BITS_100: u64 = 13_831_822_451_180_465_458;
    const BITS_CUMULATIVE: u64 = 4_591_639_630_684_109_537;

    #[test]
    #[expect(clippy::float_cmp, reason = "these integers are exact")]
    fn integers_become_floats() {
        assert_eq!(float(0), 0.0);
        assert_eq!(float(-5), -5.0);
        assert_eq!(float(1 << 100), 2.0_f64.powi(100));
        assert_eq!(float((1 << 53) - 1), 9_007_199_254_740_991.0);
    }

    #[test]
    fn what_is_no_number_is_no_text() {
        assert_eq!(decimal(0.039_06, 4).as_deref(), Some("0.0391"));
        assert_eq!(decimal(f64::NAN, 4), None);
    }
}
