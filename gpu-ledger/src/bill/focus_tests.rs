//! The FOCUS export against the rules of FOCUS 1.0, column by column.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::*;
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, program};
use crate::bill::period::Period;
use crate::bill::report::{Ask, Head, Outside, Tree, report};
use crate::bill::{By, Ledger, SharePolicy};
use crate::journal::Digest;
use crate::journal::entry::OpenKind;
use crate::prices::parse;
use crate::unit::Span;

const HOUR: u64 = 3_600_000;

fn priced(prices: Option<&str>) -> Report {
    let mut journal = Journal::began(0, 1);
    journal.settle(2 * HOUR, Row::of("=cmd|'x'!A0", 1, 0, 2 * HOUR - 1));
    journal.settle(3 * HOUR, Row { account: NAMELESS, ..Row::of("", 2, 2 * HOUR, HOUR / 3) });
    journal.open(3 * HOUR, OpenKind::Row, 0, 3, 3 * HOUR, program("train"));
    journal.mark(4 * HOUR, 1);
    let mut ledger = Ledger::new();
    journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    let period = Period {
        span: Span::new(DAY_MS, DAY_MS + 4 * HOUR).unwrap(),
        begins_with_journal: false,
        is_open_ended: false,
        beyond_now: None,
        zone: TimeZone::UTC,
    };
    let prices = prices.map(|text| parse(text, &TimeZone::UTC).unwrap());
    let (by, share, gpus) = (By::Account, SharePolicy::None, Vec::new());
    let ask = Ask { period, by, share, gpus, accounts: Vec::new(), prices };
    let tree = Tree::Root(Digest([7; 32]));
    let head = Head { seq: journal.end.head.seq, hash: journal.end.head.hash, tree };
    let driver = Some("simulated".to_owned());
    report(&ledger, &ask, head, &Outside { driver, ..Outside::default() }).unwrap()
}

fn list(meters: &[(&str, &str)]) -> String {
    let price = |(meter, per_hour): &(&str, &str)| {
        format!(
            "[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"{meter}\"\nper_hour = \"{per_hour}\"\n"
        )
    };
    format!("currency = \"EUR\"\n{}", meters.iter().map(price).collect::<String>())
}

fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

/// What FOCUS 1.0 allows to be null nowhere, of columns that are not costs.
const NEVER_NULL: [&str; 14] = [
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "InvoiceIssuerName",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
];
/// Not null either where the charge is of usage.
const OF_USAGE: [&str; 4] = ["PricingCategory", "PricingUnit", "ConsumedUnit", "SkuPriceId"];
const COSTS: [&str; 4] = ["BilledCost", "EffectiveCost", "ListCost", "ContractedCost"];

#[test]
fn every_row_keeps_the_rules_of_the_specification() {
    let said = priced(Some(&list(&[("held", "1.25"), ("busy", "3.1")])));
    let text = csv(&said, false).unwrap();
    let rows = rows(&text);
    assert_eq!(rows.len(), said.priced.as_ref().unwrap().lines.len());
    assert_eq!(COLUMNS.iter().collect::<BTreeSet<_>>().len(), COLUMNS.len());
    let states: BTreeSet<&str> = rows.iter().map(|row| &*row["x_State"]).collect();
    assert_eq!(states, ["settled", "unattributed", "open", "free"].into());
    for row in &rows {
        for column in NEVER_NULL.iter().chain(&OF_USAGE) {
            assert!(!row[*column].is_empty(), "{column}: {row:?}");
        }
        let moment = |column: &str| {
            assert!(row[column].ends_with('Z'), "{column}");
            row[column].parse::<Timestamp>().unwrap()
        };
        let period = moment("BillingPeriodStart")..=moment("BillingPeriodEnd");
        assert!(moment("ChargePeriodStart") < moment("ChargePeriodEnd"));
        assert!(period.contains(&moment("ChargePeriodStart")));
        assert!(period.contains(&moment("ChargePeriodEnd")));
        assert_eq!(row["ChargeCategory"], "Usage");
        assert_eq!(row["BillingCurrency"], "EUR");
        // A cost is its unit price times its quantity, to the digit that is written.
        let number = |column: &str| row[column].parse::<Decimal>().unwrap();
        let product = number("ListUnitPrice").checked_mul(number("PricingQuantity")).unwrap();
        assert_eq!(product.round_dp(4), number("ListCost").normalize(), "{row:?}");
        assert_eq!(number("ContractedCost"), number("ListCost"));
        assert_eq!(number("EffectiveCost"), number("BilledCost"));
        let is_booked = row["x_Booked"] == "true";
        assert_eq!(
            number("BilledCost"),
            if is_booked { number("ListCost") } else { Decimal::ZERO }
        );
        assert_eq!(is_booked, row["x_MeterBasis"] == "exact" && row["BilledCost"] != "0.0000");
        assert_eq!(row["x_Driver"], "simulated");
        for (now, before) in [
            ("ChargeCategory", "ChargeType"),
            ("InvoiceIssuerName", "InvoiceIssuer"),
            ("ProviderName", "Provider"),
            ("PublisherName", "Publisher"),
            ("ResourceId", "ResourceID"),
        ] {
            assert_eq!(row[now], row[before], "{now}");
        }
    }
    let sum = |column: &str| {
        rows.iter().map(|row| row[column].parse::<Decimal>().unwrap()).sum::<Decimal>().to_string()
    };
    let booked = said.priced.unwrap().booked.amount.unwrap();
    assert_eq!(sum("BilledCost"), booked.to_string());
}

#[test]
fn a_sampled_row_says_so_and_a_name_that_a_spreadsheet_would_run_is_guarded() {
    let said = priced(Some(&list(&[("held", "1.25"), ("busy", "3.1")])));
    let guarded = rows(&csv(&said, false).unwrap());
    let busy = guarded.iter().find(|row| row["x_Meter"] == "busy").unwrap();
    assert_eq!((&*busy["x_MeterBasis"], &*busy["BilledCost"]), ("sampled", "0.0000"));
    assert!(busy["ListCost"] != "0.0000" && busy["x_CostHigh"] > busy["ListCost"]);
    assert_eq!(guarded[0]["SubAccountName"], "'=cmd|'x'!A0");
    assert_eq!(rows(&csv(&said, true).unwrap())[0]["SubAccountName"], "=cmd|'x'!A0");
    assert_eq!(guarded[0]["SubAccountId"], "program =cmd|'x'!A0");
    assert_eq!(guarded[0]["x_NamedBy"], "program");
    assert_eq!(guarded[0]["ConsumedQuantity"], "7199.999");
    assert_eq!(guarded[0]["ConsumedUnit"], "Seconds");
    assert_eq!(guarded[0]["PricingQuantity"], "1.999999722222");
}

#[test]
fn what_is_unknown_is_null_and_never_0_and_is_told() {
    let said = priced(Some(&list(&[("memory", "0.01")])));
    let rows = rows(&csv(&said, false).unwrap());
    assert!(rows.iter().any(|row| row["x_Reason"] == "no-price"));
    assert!(rows.iter().any(|row| row["x_Reason"] == "no-samples"));
    for row in &rows {
        for cost in COSTS {
            assert_eq!(row[cost], "", "{row:?}");
        }
    }
    let memory = rows.iter().find(|row| row["x_Meter"] == "memory").unwrap();
    assert_eq!((&*memory["PricingUnit"], &*memory["PricingQuantity"]), ("GiB-Hours", ""));
    assert_eq!(memory["ListUnitPrice"], "0.01");
    let told = note(&said).unwrap();
    assert!(
        told.starts_with(&format!("{0} of {0} rows have an UNKNOWN cost", rows.len())),
        "{told}"
    );
    assert_eq!(note(&priced(Some(&list(&[("held", "1")])))), None);
    assert_eq!(csv(&priced(None), false).unwrap().lines().count(), 1);
}
