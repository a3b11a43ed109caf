//! Two prices for one thing at one time: nobody could say which is meant.

use super::Price;
use super::fault::Fault;

/// A fault for every price that is in force together with an earlier one of the same GPU and meter.
/// `places` are line and column of each.
pub(super) fn overlaps(prices: &[Price], places: &[(usize, usize)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let every = || prices.iter().zip(places);
    for (number, (price, (line, column))) in every().enumerate() {
        let earlier = every().take(number).find(|(earlier, _)| {
            earlier.meter == price.meter
                && earlier.gpu.may_be(&price.gpu)
                && earlier.from_ms < price.until_ms
                && price.from_ms < earlier.until_ms
        });
        if let Some((_, (first_line, first_column))) = earlier {
            faults.push(Fault {
                line: *line,
                column: *column,
                what: format!(
                    "a second {} price of {} at the same time as the one at \
                     {first_line}:{first_column}",
                    price.meter,
                    crate::escape::escape(price.gpu.to_string().as_bytes()),
                ),
                remedy: "let the earlier one end where the later one begins: `until` is the first \
                         day or moment on which a price is no longer in force"
                    .to_owned(),
            });
        }
    }
    faults
}
